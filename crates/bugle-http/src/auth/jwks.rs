//! Key sets (JWKS) from a file or an address, kept fresh.
//!
//! A key that is asked for and not there may be new: the set is fetched again, once for all who ask and not more often
//! than a gap, so that made-up key names cost nothing. A fetch that fails leaves the old keys in force.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use http::Uri;
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey};
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout};

use super::{AuthError, fetch};

/// Where a key set comes from.
#[derive(Clone, PartialEq, Eq)]
pub enum JwksSource {
    /// A file.
    File(PathBuf),
    /// An http:// or https:// address.
    Url(Uri),
}

impl JwksSource {
    /// Read an address, or else the name of a file.
    pub fn parse(text: &str) -> Result<Self, AuthError> {
        if !text.starts_with("http://") && !text.starts_with("https://") {
            return Ok(Self::File(text.into()));
        }
        match text.parse::<Uri>() {
            Ok(uri) if uri.host().is_some() => Ok(Self::Url(uri)),
            _ => Err(AuthError::new("jwt-jwks is no address that can be used")),
        }
    }
}

impl fmt::Debug for JwksSource {
    /// Without user and query, which may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Url(uri) => {
                write!(f, "{}://{}{}", uri.scheme_str().unwrap_or(""), uri.host().unwrap_or(""), uri.path())
            }
        }
    }
}

/// A key set and how it is kept fresh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwksConfig {
    /// Where it comes from.
    pub source: JwksSource,
    /// How often it is read again.
    pub refresh: Duration,
    /// Time for one fetch.
    pub timeout: Duration,
    /// Shortest time between two fetches for the sake of unknown keys.
    pub gap: Duration,
}

impl JwksConfig {
    /// With the usual times.
    pub fn new(source: JwksSource) -> Self {
        let seconds = Duration::from_secs;
        Self { source, refresh: seconds(3600), timeout: seconds(5), gap: seconds(10) }
    }
}

/// One key that verifies.
#[derive(Clone)]
pub(crate) struct Key {
    kid: Option<String>,
    /// The only algorithm it may be used with, if the set says so.
    alg: Option<String>,
    pub(crate) decoding: DecodingKey,
}

impl Key {
    fn fits(&self, alg: Algorithm) -> bool {
        self.decoding.family() == family(alg)
            && self.alg.as_ref().is_none_or(|only| *only == format!("{alg:?}"))
    }
}

/// The family of an algorithm that is served here; EC stands for all others.
pub(crate) fn family(alg: Algorithm) -> AlgorithmFamily {
    match alg {
        Algorithm::HS256 => AlgorithmFamily::Hmac,
        Algorithm::RS256 | Algorithm::RS384 | Algorithm::RS512 => AlgorithmFamily::Rsa,
        Algorithm::EdDSA => AlgorithmFamily::Ed,
        _ => AlgorithmFamily::Ec,
    }
}

/// A key set in force. Reading it again ends when this is dropped.
pub(crate) struct Jwks {
    shared: Arc<Shared>,
    refreshing: tokio::task::AbortHandle,
}

impl Drop for Jwks {
    fn drop(&mut self) {
        self.refreshing.abort();
    }
}

struct Shared {
    config: JwksConfig,
    keys: RwLock<Arc<[Key]>>,
    /// Held while fetching; when it was last done for an unknown key.
    fetching: Mutex<Option<Instant>>,
}

impl Jwks {
    /// Begin. A file is read now, and must be good; an address is fetched soon, and may be away. `before` is the set
    /// that was in force: its keys serve until the first fetch if it came from the same place.
    pub(crate) fn open(config: JwksConfig, before: Option<&Self>) -> Result<Self, AuthError> {
        let same = before.filter(|before| before.shared.config.source == config.source);
        let keys = match &config.source {
            JwksSource::File(path) => {
                let text = std::fs::read(path)
                    .map_err(|error| AuthError::new(format!("jwt-jwks {}: {error}", path.display())))?;
                parse(&text)
                    .map_err(|error| AuthError::new(format!("jwt-jwks {}: {error}", path.display())))?
            }
            JwksSource::Url(_) => same.map(|before| before.keys().to_vec()).unwrap_or_default(),
        };
        let fetch_first = matches!(config.source, JwksSource::Url(_));
        let shared = Arc::new(Shared { config, keys: RwLock::new(keys.into()), fetching: Mutex::new(None) });
        let refreshing = tokio::spawn(refresh(shared.clone(), fetch_first)).abort_handle();
        Ok(Self { shared, refreshing })
    }

    fn keys(&self) -> Arc<[Key]> {
        self.shared.keys()
    }

    /// The key for a token, fetched if it is named and unknown.
    pub(crate) async fn find(&self, kid: Option<&str>, alg: Algorithm) -> Option<Key> {
        if let Some(key) = pick(&self.keys(), kid, alg) {
            return Some(key);
        }
        self.shared.fetch_for(kid, alg).await;
        pick(&self.keys(), kid, alg)
    }
}

/// The key of this name; without a name, the first that fits.
fn pick(keys: &[Key], kid: Option<&str>, alg: Algorithm) -> Option<Key> {
    let mut fitting = keys.iter().filter(|key| key.fits(alg));
    fitting.find(|key| kid.is_none() || key.kid.as_deref() == kid).cloned()
}

impl Shared {
    fn keys(&self) -> Arc<[Key]> {
        self.keys.read().map_or_else(|poisoned| poisoned.into_inner().clone(), |keys| keys.clone())
    }

    async fn fetch_for(&self, kid: Option<&str>, alg: Algorithm) {
        let mut last = self.fetching.lock().await;
        // Somebody may have fetched it while this waited.
        if pick(&self.keys(), kid, alg).is_some() || last.is_some_and(|at| at.elapsed() < self.config.gap) {
            return;
        }
        *last = Some(Instant::now());
        self.load().await;
    }

    async fn load(&self) {
        let reading = async {
            match &self.config.source {
                JwksSource::File(path) => {
                    let path = path.clone();
                    let text = tokio::task::spawn_blocking(move || std::fs::read(path))
                        .await
                        .map_err(|e| e.to_string())?;
                    parse(&text.map_err(|error| error.to_string())?)
                }
                JwksSource::Url(uri) => parse(&fetch::fetch(uri).await.map_err(|error| error.to_string())?),
            }
        };
        let read =
            timeout(self.config.timeout, reading).await.unwrap_or_else(|_| Err("took too long".into()));
        match read {
            Ok(keys) => {
                tracing::debug!(source = ?self.config.source, keys = keys.len(), "key set read");
                *self.keys.write().unwrap_or_else(std::sync::PoisonError::into_inner) = keys.into();
            }
            Err(error) => {
                tracing::error!(source = ?self.config.source, error, "key set cannot be read; the old one stays in force");
            }
        }
    }
}

async fn refresh(shared: Arc<Shared>, mut now: bool) {
    loop {
        if !std::mem::take(&mut now) {
            sleep(shared.config.refresh).await;
        }
        let fetching = shared.fetching.lock().await;
        shared.load().await;
        drop(fetching);
    }
}

/// The keys of a set that can be used here: RSA and Ed25519 keys for signatures.
fn parse(text: &[u8]) -> Result<Vec<Key>, String> {
    if text.len() > fetch::MAX_BYTES {
        return Err("is too large".into());
    }
    let set: Value = serde_json::from_slice(text).map_err(|_| "is no JSON")?;
    let listed = set["keys"].as_array().ok_or("has no list of keys")?;
    let keys: Vec<Key> = listed.iter().filter_map(key).collect();
    if keys.is_empty() { Err("has no RSA or Ed25519 key for signatures".into()) } else { Ok(keys) }
}

fn key(entry: &Value) -> Option<Key> {
    let text = |name: &str| entry[name].as_str();
    if text("use").is_some_and(|purpose| purpose != "sig") {
        return None;
    }
    let decoding = match text("kty")? {
        "RSA" => DecodingKey::from_rsa_components(text("n")?, text("e")?).ok()?,
        "OKP" if text("crv") == Some("Ed25519") => DecodingKey::from_ed_components(text("x")?).ok()?,
        // Secrets ("oct") have no place in a set that is fetched.
        _ => return None,
    };
    Some(Key { kid: text("kid").map(str::to_owned), alg: text("alg").map(str::to_owned), decoding })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ED: &str =
        r#"{"kty":"OKP","crv":"Ed25519","kid":"e","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#;

    fn set(keys: &[&str]) -> Result<Vec<Key>, String> {
        parse(format!(r#"{{"keys":[{}]}}"#, keys.join(",")).as_bytes())
    }

    #[test]
    fn usable_keys_are_kept_and_others_are_left_out() {
        let rsa = r#"{"kty":"RSA","kid":"r","alg":"RS256","use":"sig","n":"AQAB","e":"AQAB"}"#;
        let keys = set(&[
            r#"{"kty":"oct","kid":"s","k":"c2VjcmV0"}"#,
            r#"{"kty":"EC","crv":"P-256","kid":"c","x":"AA","y":"AA"}"#,
            r#"{"kty":"RSA","kid":"enc","use":"enc","n":"AQAB","e":"AQAB"}"#,
            "7",
            rsa,
            ED,
        ])
        .unwrap();
        assert_eq!(keys.iter().map(|k| k.kid.as_deref().unwrap()).collect::<Vec<_>>(), ["r", "e"]);
        assert!(pick(&keys, Some("r"), Algorithm::RS256).is_some());
        assert!(pick(&keys, Some("r"), Algorithm::RS512).is_none(), "the set pins the algorithm");
        assert!(pick(&keys, Some("r"), Algorithm::EdDSA).is_none());
        assert!(pick(&keys, Some("s"), Algorithm::HS256).is_none());
        assert!(pick(&keys, None, Algorithm::EdDSA).is_some_and(|key| key.kid.as_deref() == Some("e")));
        for bad in ["", "{}", r#"{"keys":[]}"#, r#"{"keys":[{"kty":"oct","k":"x"}]}"#] {
            assert!(parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_source_is_an_address_or_a_file_and_shows_no_secrets() {
        let url = JwksSource::parse("https://me:secret@id.example:8443/keys?token=secret").unwrap();
        assert_eq!(format!("{url:?}"), "https://id.example/keys");
        assert_eq!(JwksSource::parse("/etc/keys.json").unwrap(), JwksSource::File("/etc/keys.json".into()));
        assert!(JwksSource::parse("http://").is_err());
    }

    #[tokio::test]
    async fn a_file_must_be_good_at_the_start() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("jwks.json");
        let open = || Jwks::open(JwksConfig::new(JwksSource::File(path.clone())), None);
        assert!(open().is_err());
        std::fs::write(&path, "{}").unwrap();
        assert!(open().is_err());
        std::fs::write(&path, format!(r#"{{"keys":[{ED}]}}"#)).unwrap();
        let jwks = open().unwrap();
        assert!(jwks.find(Some("e"), Algorithm::EdDSA).await.is_some());
        std::fs::write(&path, "{").unwrap();
        assert!(jwks.find(Some("new"), Algorithm::EdDSA).await.is_none());
        assert!(jwks.find(Some("e"), Algorithm::EdDSA).await.is_some(), "a bad file leaves the old keys");
    }
}
