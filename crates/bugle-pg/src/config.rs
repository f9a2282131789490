//! Where the database is and how the connection to it is protected: a `postgres://` address with libpq's `ssl*` words.
//!
//! The driver knows three of libpq's six modes and none of its certificate files, so those words are taken out here
//! and turned into a rustls configuration. The crypto provider is named explicitly: the process may have another default.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres::config::{Host, TargetSessionAttrs};
use tokio_postgres_rustls::MakeRustlsConnect;

/// How the connection is protected, with libpq's meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SslMode {
    /// Never encrypted.
    Disable,
    /// Encrypted if the server can; not verified.
    Prefer,
    /// Encrypted; not verified.
    Require,
    /// Encrypted, and the certificate comes from a trusted authority.
    VerifyCa,
    /// The same, and it names the host.
    VerifyFull,
}

/// Why an address cannot be used. Never quotes the password.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Not of the form `postgres://…`.
    #[error("database address: must begin with postgres:// or postgresql://")]
    Scheme,
    /// The driver cannot read it.
    #[error("database address: {0}")]
    Syntax(String),
    /// An unknown word for `sslmode`.
    #[error("database address: sslmode {0:?} is not one of disable, prefer, require, verify-ca, verify-full")]
    SslMode(String),
    /// A certificate or key file cannot be used.
    #[error("database address: {field} {path:?}: {reason}")]
    File {
        /// The word that names the file.
        field: &'static str,
        /// The file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The TLS library refuses the combination.
    #[error("database address: TLS: {0}")]
    Tls(String),
}

/// A database address, read and checked.
#[derive(Clone)]
pub struct Config {
    /// One for each host of the address, in its order.
    pub(crate) drivers: Vec<tokio_postgres::Config>,
    pub(crate) tls: MakeRustlsConnect,
    ssl_mode: SslMode,
}

impl Config {
    /// Read an address such as `postgres://user:secret@host:5432/name?sslmode=verify-full&sslrootcert=/etc/ca.pem`. It may
    /// name several hosts, `host1:5432,host2:5432`: connections are made to that one which takes writes.
    pub fn parse(address: &str) -> Result<Self, ConfigError> {
        if !address.starts_with("postgres://") && !address.starts_with("postgresql://") {
            return Err(ConfigError::Scheme);
        }
        let (bare, words) = SslWords::take(address)?;
        let ssl_mode = words.mode.unwrap_or(SslMode::Prefer);
        let mut drivers = Vec::new();
        for one in each_host(&bare) {
            // The driver's message names the word it stumbled on, never a value.
            let mut driver: tokio_postgres::Config =
                one.parse().map_err(|e: tokio_postgres::Error| ConfigError::Syntax(e.to_string()))?;
            if driver.get_target_session_attrs() == TargetSessionAttrs::ReadOnly {
                return Err(ConfigError::Syntax("target_session_attrs must be read-write or any".to_owned()));
            }
            driver.ssl_mode(match ssl_mode {
                SslMode::Disable => tokio_postgres::config::SslMode::Disable,
                SslMode::Prefer => tokio_postgres::config::SslMode::Prefer,
                _ => tokio_postgres::config::SslMode::Require,
            });
            drivers.push(driver);
        }
        let tls = MakeRustlsConnect::new(client_config(ssl_mode, &words)?);
        Ok(Self { drivers, tls, ssl_mode })
    }

    /// How many hosts the address names.
    pub(crate) fn hosts(&self) -> usize {
        self.drivers.len()
    }

    /// Host, port and database of one of them.
    pub(crate) fn place_of(&self, host: usize) -> String {
        let Some(driver) = self.drivers.get(host) else { return String::new() };
        format!("{}/{}", host_and_port(driver), driver.get_dbname().unwrap_or_default())
    }

    /// How the connection is protected.
    pub fn ssl_mode(&self) -> SslMode {
        self.ssl_mode
    }

    fn place(&self) -> String {
        let hosts: Vec<String> = self.drivers.iter().map(host_and_port).collect();
        let name = self.drivers.first().and_then(|d| d.get_dbname()).unwrap_or_default();
        format!("{}/{name}", hosts.join(","))
    }
}

fn host_and_port(driver: &tokio_postgres::Config) -> String {
    let name = |host: &Host| match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(path) => path.display().to_string(),
    };
    let hosts: Vec<String> = driver.get_hosts().iter().map(name).collect();
    format!("{}:{}", hosts.join(","), driver.get_ports().first().copied().unwrap_or(5432))
}

/// The address once for each of the hosts between its `//` and `/`.
fn each_host(address: &str) -> Vec<String> {
    let Some((scheme, rest)) = address.split_once("://") else { return vec![address.to_owned()] };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
    let (user, hosts) = authority.rsplit_once('@').map_or(("", authority), |(user, hosts)| (user, hosts));
    let at = if authority.contains('@') { "@" } else { "" };
    hosts.split(',').map(|host| format!("{scheme}://{user}{at}{host}{tail}")).collect()
}

impl fmt::Display for Config {
    /// Host, port and database: never user or password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.place())
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config").field("place", &self.place()).field("ssl_mode", &self.ssl_mode).finish()
    }
}

#[derive(Default)]
struct SslWords {
    mode: Option<SslMode>,
    root: Option<String>,
    cert: Option<String>,
    key: Option<String>,
}

impl SslWords {
    /// Take the words out of the address that the driver does not know.
    fn take(address: &str) -> Result<(String, Self), ConfigError> {
        let mut words = Self::default();
        let Some((bare, query)) = address.split_once('?') else {
            return Ok((address.to_owned(), words));
        };
        let mut kept = Vec::new();
        for pair in query.split('&').filter(|p| !p.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match name {
                "sslmode" => words.mode = Some(ssl_mode(value)?),
                "sslrootcert" => words.root = Some(unescape(value)),
                "sslcert" => words.cert = Some(unescape(value)),
                "sslkey" => words.key = Some(unescape(value)),
                _ => kept.push(pair),
            }
        }
        let rest = if kept.is_empty() { String::new() } else { format!("?{}", kept.join("&")) };
        Ok((format!("{bare}{rest}"), words))
    }
}

fn ssl_mode(word: &str) -> Result<SslMode, ConfigError> {
    Ok(match word {
        "disable" => SslMode::Disable,
        "prefer" => SslMode::Prefer,
        "require" => SslMode::Require,
        "verify-ca" => SslMode::VerifyCa,
        "verify-full" => SslMode::VerifyFull,
        other => return Err(ConfigError::SslMode(other.to_owned())),
    })
}

/// Undo percent-encoding; what is not valid encoding stays as it is.
fn unescape(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = (*first == b'%').then(|| tail.get(..2)).flatten();
        let byte = hex.and_then(|h| std::str::from_utf8(h).ok()).and_then(|h| u8::from_str_radix(h, 16).ok());
        out.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn client_config(mode: SslMode, words: &SslWords) -> Result<ClientConfig, ConfigError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|e| ConfigError::Tls(e.to_string()))?;
    let verifier: Arc<dyn ServerCertVerifier> = match mode {
        SslMode::Disable | SslMode::Prefer | SslMode::Require => Arc::new(Unverified(provider)),
        SslMode::VerifyCa | SslMode::VerifyFull => {
            let chain = WebPkiServerVerifier::builder_with_provider(Arc::new(roots(words)?), provider)
                .build()
                .map_err(|e| ConfigError::Tls(e.to_string()))?;
            if mode == SslMode::VerifyFull { chain } else { Arc::new(AnyName(chain)) }
        }
    };
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
    match (&words.cert, &words.key) {
        (Some(cert), Some(key)) => {
            let chain = certificates("sslcert", cert)?;
            let key = PrivateKeyDer::from_pem_file(key).map_err(|e| file("sslkey", key, e))?;
            builder.with_client_auth_cert(chain, key).map_err(|e| ConfigError::Tls(e.to_string()))
        }
        (None, None) => Ok(builder.with_no_client_auth()),
        _ => Err(ConfigError::Tls("sslcert and sslkey belong together".to_owned())),
    }
}

fn roots(words: &SslWords) -> Result<RootCertStore, ConfigError> {
    let mut store = RootCertStore::empty();
    match words.root.as_deref() {
        Some(path) if path != "system" => {
            for cert in certificates("sslrootcert", path)? {
                store.add(cert).map_err(|e| file("sslrootcert", path, e))?;
            }
        }
        _ => {
            store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    Ok(store)
}

fn certificates(field: &'static str, path: &str) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let all = CertificateDer::pem_file_iter(Path::new(path)).map_err(|e| file(field, path, e))?;
    let all: Vec<_> = all.collect::<Result<_, _>>().map_err(|e| file(field, path, e))?;
    if all.is_empty() { Err(file(field, path, "holds no certificate")) } else { Ok(all) }
}

fn file(field: &'static str, path: &str, reason: impl fmt::Display) -> ConfigError {
    ConfigError::File { field, path: path.to_owned(), reason: reason.to_string() }
}

/// Accepts every certificate: `prefer` and `require` promise encryption, not identity.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Checks the chain but not the name. rustls checks the name last, so that error means that all else was right.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        cert: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        use rustls::Error::InvalidCertificate;
        match self.0.verify_server_cert(cert, intermediates, name, ocsp, now) {
            Err(InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_the_place_but_never_the_secret() {
        let config =
            Config::parse("postgres://al%20ice:s3cret@db.example:6543/shop?sslmode=require").unwrap();
        let shown = format!("{config} {config:?}");
        assert!(shown.contains("db.example:6543/shop"), "{shown}");
        assert!(!shown.contains("s3cret"), "{shown}");
        assert_eq!(config.ssl_mode(), SslMode::Require);
    }

    #[test]
    fn keeps_the_words_the_driver_knows() {
        let (bare, words) =
            SslWords::take("postgres://h/d?connect_timeout=3&sslmode=verify-ca&sslrootcert=%2Fa%20b.pem")
                .unwrap();
        assert_eq!(bare, "postgres://h/d?connect_timeout=3");
        assert_eq!(words.mode, Some(SslMode::VerifyCa));
        assert_eq!(words.root.as_deref(), Some("/a b.pem"));
    }

    #[test]
    fn an_address_may_name_several_hosts() {
        let address = "postgres://al:s3cret@db1:5432,db2:6543,[::1]:7/shop?target_session_attrs=read-write";
        let config = Config::parse(address).unwrap();
        assert_eq!(config.to_string(), "db1:5432,db2:6543,::1:7/shop");
        assert_eq!((config.hosts(), config.place_of(1).as_str()), (3, "db2:6543/shop"));
        assert!(config.drivers.iter().all(|d| d.get_user() == Some("al") && d.get_hosts().len() == 1));
        let one = Config::parse("postgres://db1").unwrap();
        assert_eq!((one.hosts(), one.to_string().as_str()), (1, "db1:5432/"));
    }

    #[test]
    fn errors_name_the_word_and_not_the_password() {
        for bad in [
            "mysql://u:pw-x@h/d",
            "postgres://u:pw-x@h/d?sslmode=maybe",
            "postgres://u:pw-x@h/d?sslmode=verify-full&sslrootcert=/does/not/exist.pem",
            "postgres://u:pw-x@h/d?sslcert=/a.pem",
            "postgres://u:pw-x@h:notaport/d",
            "postgres://u:pw-x@h,g:notaport/d",
            "postgres://u:pw-x@h/d?target_session_attrs=read-only",
        ] {
            let error = Config::parse(bad).expect_err(bad).to_string();
            assert!(error.starts_with("database address"), "{error}");
            assert!(!error.contains("pw-x"), "{error}");
        }
    }
}
