//! Who may use the server, and how connections are protected.

use std::path::PathBuf;

use anyhow::{Result, bail, ensure};
use bugle_http::{ApiKeys, GateConfig, JwksConfig, JwksSource, JwtAlgorithm, JwtConfig, Role, RoleNames};

use super::amount::Span;
use super::checked::{get, lasting, redacted};
use super::limits;
use super::raw::{AuthMode, Raw};

/// Secrets shorter than this can be guessed from one token.
const GOOD_SECRET: usize = 32;

/// See the module.
#[derive(Debug)]
pub(crate) struct AuthSettings {
    /// The gate; whether the listener is on loopback is not known yet.
    pub(crate) gate: GateConfig,
    /// Certificate and key.
    pub(crate) tls: Option<TlsFiles>,
    /// What the operator should know.
    pub(crate) warnings: Vec<&'static str>,
}

/// Where certificate and key are.
#[derive(Clone, Debug)]
pub(crate) struct TlsFiles {
    /// Certificate chain, PEM.
    pub(crate) certificate: PathBuf,
    /// Private key, PEM.
    pub(crate) key: PathBuf,
}

impl AuthSettings {
    /// Check what was said.
    pub(super) fn check(raw: &Raw) -> Result<Self> {
        let mut warnings = Vec::new();
        let mode = get(raw.auth, "auth")?;
        let api_keys = ApiKeys::parse(raw.api_keys.as_deref().unwrap_or_default())?;
        let jwt = jwt(raw, &mut warnings)?;
        let on = jwt.is_some() || !api_keys.is_empty();
        match mode {
            AuthMode::On => {
                ensure!(on, "auth is on, but there is no jwt-secret, jwt-public-key, jwt-jwks or api-keys")
            }
            AuthMode::Off if on => warnings.push("auth is off: the keys and secrets given are not used"),
            AuthMode::Off | AuthMode::Auto => {}
        }
        let off = mode == AuthMode::Off;
        Ok(Self {
            gate: GateConfig {
                jwt: jwt.filter(|_| !off),
                api_keys: if off { ApiKeys::default() } else { api_keys },
                public_paths: list(get(raw.public_paths.as_deref(), "public-paths")?),
                cors_origins: origins(raw.cors_origin.as_deref().unwrap_or_default())?,
                loopback: false,
                allowed_hosts: list(raw.allowed_host.as_deref().unwrap_or_default()),
                access_log: get(raw.access_log, "access-log")?,
                limits: limits::check(raw)?,
            },
            tls: match (&raw.tls_cert, &raw.tls_key) {
                (Some(certificate), Some(key)) => {
                    Some(TlsFiles { certificate: certificate.clone(), key: key.clone() })
                }
                (None, None) => None,
                _ => bail!("tls-cert and tls-key need each other"),
            },
            warnings,
        })
    }

    /// Whether credentials are asked for.
    pub(crate) fn on(&self) -> bool {
        self.gate.jwt.is_some() || !self.gate.api_keys.is_empty()
    }
}

fn jwt(raw: &Raw, warnings: &mut Vec<&'static str>) -> Result<Option<JwtConfig>> {
    let secret = raw.jwt_secret.clone().filter(|text| !text.is_empty());
    let public_key = raw.jwt_public_key.clone().filter(|text| !text.is_empty());
    let jwks = raw.jwt_jwks.as_deref().filter(|text| !text.is_empty());
    if secret.is_none() && public_key.is_none() && jwks.is_none() {
        return Ok(None);
    }
    if secret.as_ref().is_some_and(|secret| secret.len() < GOOD_SECRET) {
        warnings.push("jwt-secret has less than 32 bytes and can be guessed from a token");
    }
    if jwks.is_some_and(|source| source.starts_with("http://")) {
        warnings.push("jwt-jwks is fetched without TLS: whoever is on the way can put in keys of their own");
    }
    let jwks = match jwks {
        Some(source) => Some(JwksConfig {
            refresh: lasting(raw.jwt_jwks_refresh, "jwt-jwks-refresh")?,
            timeout: lasting(raw.jwt_jwks_timeout, "jwt-jwks-timeout")?,
            ..JwksConfig::new(JwksSource::parse(source)?)
        }),
        None => None,
    };
    Ok(Some(JwtConfig {
        algorithm: algorithm(get(raw.jwt_algorithm.as_deref(), "jwt-algorithm")?)?,
        secret: secret.map(String::into_bytes),
        public_key,
        jwks,
        issuer: raw.jwt_issuer.clone().filter(|text| !text.is_empty()),
        audience: raw.jwt_audience.clone().filter(|text| !text.is_empty()),
        clock_skew: get(raw.jwt_clock_skew, "jwt-clock-skew")?.0,
        require_expiry: get(raw.jwt_require_expiry, "jwt-require-expiry")?,
        roles: roles(raw)?,
    }))
}

fn algorithm(name: &str) -> Result<JwtAlgorithm> {
    Ok(match name.to_ascii_lowercase().as_str() {
        "auto" => JwtAlgorithm::Auto,
        "hs256" => JwtAlgorithm::Hs256,
        "rs256" => JwtAlgorithm::Rs256,
        "eddsa" => JwtAlgorithm::EdDsa,
        _ => bail!("jwt-algorithm must be auto, HS256, RS256 or EdDSA"),
    })
}

fn roles(raw: &Raw) -> Result<RoleNames> {
    let mut names = Vec::new();
    for (setting, name, role) in [
        ("jwt-role-admin", &raw.jwt_role_admin, Role::Admin),
        ("jwt-role-read-write", &raw.jwt_role_read_write, Role::ReadWrite),
        ("jwt-role-write-only", &raw.jwt_role_write_only, Role::WriteOnly),
        ("jwt-role-read-only", &raw.jwt_role_read_only, Role::ReadOnly),
    ] {
        let name = get(name.clone(), setting)?;
        ensure!(!name.is_empty(), "{setting} must not be empty");
        ensure!(names.iter().all(|(known, _)| *known != name), "{setting}: two roles have one name");
        names.push((name, role));
    }
    Ok(RoleNames {
        claim: get(raw.jwt_role_claim.clone(), "jwt-role-claim")?,
        list_claim: get(raw.jwt_roles_claim.clone(), "jwt-roles-claim")?,
        names,
    })
}

fn list(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|entry| !entry.is_empty()).map(str::to_owned).collect()
}

fn origins(text: &str) -> Result<Vec<String>> {
    let origins = list(text);
    for origin in &origins {
        let rest = origin.split_once("://").map(|(_, rest)| rest);
        let good = origin == "*" || rest.is_some_and(|rest| !rest.is_empty() && !rest.contains('/'));
        ensure!(good, "cors-origin: {origin:?} is not like https://app.example, nor *");
    }
    Ok(origins)
}

/// What is not for printing.
pub(super) fn redact(raw: &mut Raw) {
    let hide = |value: &mut Option<String>| *value = value.take().map(|_| "<redacted>".into());
    hide(&mut raw.jwt_secret);
    hide(&mut raw.api_keys);
    raw.jwt_jwks = raw.jwt_jwks.take().map(|source| {
        let shown = redacted(&source);
        match shown.split_once('?') {
            Some((place, _)) => format!("{place}?<redacted>"),
            None => shown,
        }
    });
}

pub(super) fn defaults() -> Raw {
    let jwks = JwksConfig::new(JwksSource::File(PathBuf::new()));
    let jwt = JwtConfig::default();
    let name = |wanted: Role| {
        Role::ALL.into_iter().find(|(role, _)| *role == wanted).map(|(_, name)| name.to_owned())
    };
    Raw {
        auth: Some(AuthMode::Auto),
        jwt_algorithm: Some("auto".into()),
        jwt_jwks_refresh: Some(Span(jwks.refresh)),
        jwt_jwks_timeout: Some(Span(jwks.timeout)),
        jwt_clock_skew: Some(Span(jwt.clock_skew)),
        jwt_require_expiry: Some(jwt.require_expiry),
        jwt_role_claim: Some(jwt.roles.claim),
        jwt_roles_claim: Some(jwt.roles.list_claim),
        jwt_role_admin: name(Role::Admin),
        jwt_role_read_write: name(Role::ReadWrite),
        jwt_role_write_only: name(Role::WriteOnly),
        jwt_role_read_only: name(Role::ReadOnly),
        public_paths: Some(bugle_http::PUBLIC_PATHS.join(",")),
        access_log: Some(false),
        ..Raw::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: &str = "a:admin:0123456789abcdef";

    fn check(raw: Raw) -> Result<AuthSettings> {
        AuthSettings::check(&raw.or(defaults()))
    }

    fn text(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn what_is_given_decides_and_a_word_overrules() {
        assert!(!check(Raw::default()).unwrap().on());
        for raw in [
            Raw { api_keys: text(KEYS), ..Raw::default() },
            Raw { jwt_secret: text("s"), ..Raw::default() },
            Raw { jwt_jwks: text("https://id.example/keys"), ..Raw::default() },
        ] {
            assert!(check(raw.clone()).unwrap().on());
            let off = check(Raw { auth: Some(AuthMode::Off), ..raw }).unwrap();
            assert!(!off.on() && off.warnings.iter().any(|warning| warning.starts_with("auth is off")));
        }
        let nothing = Raw { auth: Some(AuthMode::On), ..Raw::default() };
        assert!(check(nothing).unwrap_err().to_string().contains("auth is on"));
    }

    #[test]
    fn weak_spots_are_told() {
        let weak = Raw { jwt_secret: text("short"), jwt_jwks: text("http://id/keys"), ..Raw::default() };
        assert_eq!(check(weak).unwrap().warnings.len(), 2);
        let strong = Raw { jwt_secret: Some("x".repeat(32)), ..Raw::default() };
        assert!(check(strong).unwrap().warnings.is_empty());
    }

    #[test]
    fn nonsense_is_refused_by_name_without_its_value() {
        for (raw, word) in [
            (Raw { api_keys: text("s3cret"), ..Raw::default() }, "api-keys"),
            (
                Raw { jwt_secret: text("s3cret"), jwt_algorithm: text("none"), ..Raw::default() },
                "jwt-algorithm",
            ),
            (
                Raw { jwt_secret: text("s3cret"), jwt_role_admin: text("read-only"), ..Raw::default() },
                "jwt-role",
            ),
            (Raw { tls_cert: Some("x".into()), ..Raw::default() }, "tls-key"),
            (Raw { cors_origin: text("app.example"), ..Raw::default() }, "cors-origin"),
            (Raw { cors_origin: text("https://app.example/"), ..Raw::default() }, "cors-origin"),
        ] {
            let error = check(raw).unwrap_err().to_string();
            assert!(error.contains(word) && !error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let mut raw = Raw {
            jwt_secret: text("s3cret-1"),
            api_keys: text("a:admin:s3cret-s3cret-s3cret"),
            jwt_jwks: text("https://me:s3cret@id.example/keys?token=s3cret"),
            ..Raw::default()
        };
        assert!(!format!("{:?}", check(raw.clone()).unwrap()).contains("s3cret"));
        redact(&mut raw);
        assert!(!format!("{raw:?}").contains("s3cret"), "{raw:?}");
    }
}
