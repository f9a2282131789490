//! Tokens (JWT): signature first, then every claim that limits them.
//!
//! Which key a token is checked with follows from the settings and the kind of key, never from the token alone: a public
//! key is never taken for a secret, and an algorithm that was not asked for is refused before anything is computed.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, Validation, decode, decode_header};
use serde_json::{Map, Value};

use super::AuthError;
use super::jwks::{Jwks, JwksConfig, family};
use super::pem::public_key;
use super::roles::{Caller, Permissions, Role};

/// Longest token.
const MAX_TOKEN: usize = 16 << 10;
/// Longest subject: it is stored with every message.
const MAX_SUBJECT: usize = 255;

/// Which signatures are accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JwtAlgorithm {
    /// Those for which there is a key.
    #[default]
    Auto,
    /// HMAC with the secret.
    Hs256,
    /// RSA; SHA-384 and SHA-512 as well.
    Rs256,
    /// Ed25519.
    EdDsa,
}

/// What the roles are called in tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleNames {
    /// The claim with one role. A name with dots leads into nested claims.
    pub claim: String,
    /// The claim with a list of roles.
    pub list_claim: String,
    /// Names, each with its role.
    pub names: Vec<(String, Role)>,
}

impl Default for RoleNames {
    fn default() -> Self {
        let names = Role::ALL.map(|(role, name)| (name.to_owned(), role)).to_vec();
        Self { claim: "role".into(), list_claim: "roles".into(), names }
    }
}

/// Settings of tokens.
#[derive(Clone)]
pub struct JwtConfig {
    /// Accepted signatures.
    pub algorithm: JwtAlgorithm,
    /// Secret for HS256.
    pub secret: Option<Vec<u8>>,
    /// A public key as PEM.
    pub public_key: Option<String>,
    /// A key set.
    pub jwks: Option<JwksConfig>,
    /// Who must have issued the token.
    pub issuer: Option<String>,
    /// Whom it must be for.
    pub audience: Option<String>,
    /// How far clocks may be apart.
    pub clock_skew: Duration,
    /// Refuse tokens that never expire.
    pub require_expiry: bool,
    /// What the roles are called.
    pub roles: RoleNames,
}

impl Default for JwtConfig {
    fn default() -> Self {
        Self {
            algorithm: JwtAlgorithm::Auto,
            secret: None,
            public_key: None,
            jwks: None,
            issuer: None,
            audience: None,
            clock_skew: Duration::from_secs(30),
            require_expiry: true,
            roles: RoleNames::default(),
        }
    }
}

impl std::fmt::Debug for JwtConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JwtConfig")
            .field("algorithm", &self.algorithm)
            .field("secret", &self.secret.is_some())
            .field("public_key", &self.public_key.is_some())
            .field("jwks", &self.jwks)
            .field("issuer", &self.issuer)
            .field("audience", &self.audience)
            .field("roles", &self.roles)
            .finish_non_exhaustive()
    }
}

/// Why a token is not good, in words for its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Denied(pub(crate) &'static str);

/// Checks tokens.
pub(crate) struct Tokens {
    config: JwtConfig,
    secret: Option<DecodingKey>,
    public_key: Option<DecodingKey>,
    jwks: Option<Jwks>,
}

impl Tokens {
    /// Prepare the keys. `before` is what was in force.
    pub(crate) fn open(config: JwtConfig, before: Option<&Self>) -> Result<Self, AuthError> {
        let secret = config.secret.as_ref().filter(|secret| !secret.is_empty());
        let public_key = config.public_key.as_deref().map(public_key).transpose()?;
        let of = |kind: AlgorithmFamily| public_key.as_ref().is_some_and(|key| key.family() == kind);
        let some = config.jwks.is_some();
        let (has, missing) = match config.algorithm {
            JwtAlgorithm::Auto => {
                (secret.is_some() || public_key.is_some() || some, "a secret, a public key or a key set")
            }
            JwtAlgorithm::Hs256 => (secret.is_some(), "jwt-secret for HS256"),
            JwtAlgorithm::Rs256 => {
                (some || of(AlgorithmFamily::Rsa), "an RSA jwt-public-key or jwt-jwks for RS256")
            }
            JwtAlgorithm::EdDsa => {
                (some || of(AlgorithmFamily::Ed), "an Ed25519 jwt-public-key or jwt-jwks for EdDSA")
            }
        };
        if !has {
            return Err(AuthError::new(format!("jwt needs {missing}")));
        }
        let secret = secret.map(|secret| DecodingKey::from_secret(secret));
        let old = before.and_then(|before| before.jwks.as_ref());
        let jwks = config.jwks.clone().map(|jwks| Jwks::open(jwks, old)).transpose()?;
        Ok(Self { config, secret, public_key, jwks })
    }

    /// Whose token this is.
    pub(crate) async fn verify(&self, token: &str) -> Result<Caller, Denied> {
        if token.len() > MAX_TOKEN {
            return Err(Denied("Token is too long"));
        }
        // Unknown algorithms, `none` among them, have no header that can be read.
        let header = decode_header(token).map_err(|_| Denied("Invalid token"))?;
        if header.crit.is_some() {
            return Err(Denied("Token needs extensions that are not known here"));
        }
        if !self.accepts(header.alg) {
            return Err(Denied("Token algorithm is not accepted"));
        }
        let key = self.key(header.kid.as_deref(), header.alg).await.ok_or(Denied("Unknown signing key"))?;
        let mut signature_only = Validation::new(header.alg);
        signature_only.required_spec_claims.clear();
        signature_only.validate_exp = false;
        signature_only.validate_aud = false;
        let claims: Map<String, Value> = match decode(token, &key, &signature_only) {
            Ok(decoded) => decoded.claims,
            Err(error) if *error.kind() == jsonwebtoken::errors::ErrorKind::InvalidSignature => {
                return Err(Denied("Invalid token signature"));
            }
            Err(_) => return Err(Denied("Invalid token")),
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.limits(&claims, now.as_secs_f64())?;
        Ok(Caller { subject: subject(&claims)?, permissions: permissions(&claims, &self.config.roles) })
    }

    fn accepts(&self, alg: Algorithm) -> bool {
        match (self.config.algorithm, family(alg)) {
            (JwtAlgorithm::Auto, AlgorithmFamily::Hmac) => self.secret.is_some(),
            (JwtAlgorithm::Auto, AlgorithmFamily::Rsa | AlgorithmFamily::Ed) => true,
            (JwtAlgorithm::Hs256, AlgorithmFamily::Hmac) => true,
            (JwtAlgorithm::Rs256, AlgorithmFamily::Rsa) => true,
            (JwtAlgorithm::EdDsa, AlgorithmFamily::Ed) => true,
            _ => false,
        }
    }

    async fn key(&self, kid: Option<&str>, alg: Algorithm) -> Option<DecodingKey> {
        if family(alg) == AlgorithmFamily::Hmac {
            return self.secret.clone();
        }
        if let Some(jwks) = &self.jwks
            && let Some(key) = Box::pin(jwks.find(kid, alg)).await
        {
            return Some(key.decoding);
        }
        self.public_key.clone().filter(|key| key.family() == family(alg))
    }

    /// Everything that limits a token, at `now` in seconds.
    fn limits(&self, claims: &Map<String, Value>, now: f64) -> Result<(), Denied> {
        let skew = self.config.clock_skew.as_secs_f64();
        match time(claims, "exp")? {
            Some(exp) if exp <= now - skew => return Err(Denied("Token has expired")),
            None if self.config.require_expiry => return Err(Denied("Token has no expiry")),
            _ => {}
        }
        if time(claims, "nbf")?.is_some_and(|nbf| nbf > now + skew) {
            return Err(Denied("Token is not valid yet"));
        }
        if time(claims, "iat")?.is_some_and(|iat| iat > now + skew) {
            return Err(Denied("Token was issued in the future"));
        }
        if self.config.issuer.as_deref().is_some_and(|issuer| !is(claims.get("iss"), issuer)) {
            return Err(Denied("Invalid token issuer"));
        }
        if let Some(wanted) = &self.config.audience {
            let given = claims.get("aud");
            let among = given
                .and_then(Value::as_array)
                .is_some_and(|all| all.iter().any(|one| is(Some(one), wanted)));
            if !among && !is(given, wanted) {
                return Err(Denied("Invalid token audience"));
            }
        }
        Ok(())
    }
}

fn is(value: Option<&Value>, text: &str) -> bool {
    value.and_then(Value::as_str) == Some(text)
}

fn time(claims: &Map<String, Value>, name: &str) -> Result<Option<f64>, Denied> {
    match claims.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value.as_f64().map(Some).ok_or(Denied("Invalid token")),
    }
}

/// It ends up in messages and logs, so it must be fit for both.
fn subject(claims: &Map<String, Value>) -> Result<Option<Bytes>, Denied> {
    match claims.get("sub") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(sub)) if sub.is_empty() => Ok(None),
        Some(Value::String(sub)) if sub.len() <= MAX_SUBJECT && !sub.chars().any(char::is_control) => {
            Ok(Some(Bytes::copy_from_slice(sub.as_bytes())))
        }
        Some(_) => Err(Denied("Invalid token subject")),
    }
}

fn permissions(claims: &Map<String, Value>, roles: &RoleNames) -> Permissions {
    let one = claim(claims, &roles.claim).and_then(Value::as_str);
    let list = claim(claims, &roles.list_claim).and_then(Value::as_array);
    let given = one.into_iter().chain(list.into_iter().flatten().filter_map(Value::as_str));
    let known = given.filter_map(|name| roles.names.iter().find(|(known, _)| known == name));
    known.fold(Permissions::default(), |all, (_, role)| all.with(*role))
}

/// The claim of this name, or, if the name has dots, the one they lead to.
fn claim<'c>(claims: &'c Map<String, Value>, name: &str) -> Option<&'c Value> {
    claims.get(name).or_else(|| {
        let mut parts = name.split('.');
        let first = claims.get(parts.next()?)?;
        parts.try_fold(first, |value, part| value.get(part))
    })
}

#[cfg(test)]
#[path = "token_tests.rs"]
mod tests;
