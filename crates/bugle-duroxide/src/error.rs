//! What the runtime is told when something goes wrong.
//!
//! The runtime asks one thing of an error: is the same call worth repeating? The database's conflicts, time-outs and
//! broken connections are; refused data and lost leases are not.

use bugle_pg::{ConfigError, MigrateError, PgError, PgErrorKind, SchemaError};
use duroxide::providers::ProviderError;

/// Why a provider could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// An address of the database cannot be read.
    #[error("{field}: {error}")]
    Address {
        /// The option that holds it.
        field: &'static str,
        /// What is wrong.
        error: ConfigError,
    },
    /// The schema's name cannot be used.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The tables could not be made, or a newer program has been here.
    #[error(transparent)]
    Migrate(#[from] MigrateError),
    /// An option is out of its range.
    #[error("{field}: {problem}")]
    Option {
        /// The option.
        field: &'static str,
        /// What is wrong.
        problem: String,
    },
}

/// A database error in the runtime's words.
pub(crate) fn failed(operation: &str, error: &PgError) -> ProviderError {
    if error.code().is_some_and(|code| code.code() == "23505") {
        return ProviderError::permanent(operation, "an event with this id is already in the history");
    }
    match error.kind() {
        PgErrorKind::Connect
        | PgErrorKind::Broken
        | PgErrorKind::Timeout
        | PgErrorKind::Conflict
        | PgErrorKind::Timeline => ProviderError::retryable(operation, error.to_string()),
        PgErrorKind::Refused | PgErrorKind::Unexpected => {
            ProviderError::permanent(operation, error.to_string())
        }
    }
}

/// A row that does not have the expected shape.
pub(crate) fn unexpected(operation: &str, error: impl std::fmt::Display) -> ProviderError {
    ProviderError::permanent(operation, format!("unexpected answer of the database: {error}"))
}

/// The lease is not, or no longer, the caller's.
pub(crate) fn not_held(operation: &str) -> ProviderError {
    ProviderError::permanent(
        operation,
        "Invalid lock token: the lock is unknown, expired or taken by another",
    )
}

/// Something that cannot be stored.
pub(crate) fn refused(operation: &str, problem: impl Into<String>) -> ProviderError {
    ProviderError::permanent(operation, problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passing_trouble_is_retryable_and_refusals_are_not() {
        let retryable = |kind| failed("x", &PgError::new(kind, "")).is_retryable();
        assert!(retryable(PgErrorKind::Connect) && retryable(PgErrorKind::Broken));
        assert!(retryable(PgErrorKind::Timeout) && retryable(PgErrorKind::Conflict));
        assert!(!retryable(PgErrorKind::Refused) && !retryable(PgErrorKind::Unexpected));
        assert!(not_held("x").message.contains("Invalid lock token") && !not_held("x").is_retryable());
    }
}
