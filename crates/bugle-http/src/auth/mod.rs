//! Who may do what: credentials, roles, and what a web page may not do.
//!
//! Modules in reading order; each uses only those above it.

mod fetch;
mod origin;
mod rate;

mod callers;
mod roles;

mod keys;

mod jwks;
mod pem;
mod token;

mod layer;

pub(crate) use layer::Door;
pub(crate) use roles::{Asking, Producer, listed, rule};

pub use callers::{CallerLimits, Limits};
pub use jwks::{JwksConfig, JwksSource};
pub use keys::ApiKeys;
pub use layer::{Gate, GateConfig};
pub use rate::Rate;
pub use roles::{PUBLIC_PATHS, Permissions, Role};
pub use token::{JwtAlgorithm, JwtConfig, RoleNames};

/// Settings of the gate that cannot be used. Names the setting, never a secret.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct AuthError(pub(crate) String);

impl AuthError {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}
