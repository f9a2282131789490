//! The client itself and how it is set up.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use hyper_util::client::legacy::Client as Http;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::sync::Semaphore;

use crate::connector::{self, Connector};
use crate::error::Error;
use crate::retry::RetryPolicy;
use crate::servers::Servers;
use crate::transport::Transport;

/// A client of one or several Bugle servers. Cheap to copy; copies share connections.
#[derive(Clone)]
pub struct Client {
    pub(crate) transport: Arc<Transport>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("server", &self.transport.servers.current().name()).finish()
    }
}

impl Client {
    /// A client of the server at `url`, such as `http://localhost:6632`, with the defaults of [`ClientBuilder`].
    pub fn new(url: impl Into<String>) -> Result<Self, Error> {
        Self::builder(url).build()
    }

    /// A client that is set up step by step.
    pub fn builder(url: impl Into<String>) -> ClientBuilder {
        ClientBuilder {
            urls: vec![url.into()],
            credential: None,
            authorities: Vec::new(),
            retry: RetryPolicy::default(),
            timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(5),
            http2: false,
            max_calls: 256,
            max_waits: 10_000,
            max_answer: 256 << 20,
        }
    }
}

/// Sets up a [`Client`].
#[derive(Clone)]
pub struct ClientBuilder {
    urls: Vec<String>,
    credential: Option<Credential>,
    authorities: Vec<Vec<u8>>,
    retry: RetryPolicy,
    timeout: Duration,
    connect_timeout: Duration,
    http2: bool,
    max_calls: usize,
    max_waits: usize,
    max_answer: usize,
}

#[derive(Clone)]
enum Credential {
    Bearer(String),
    ApiKey(String),
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not derived: it would show the credential.
        f.debug_struct("ClientBuilder").field("urls", &self.urls).finish_non_exhaustive()
    }
}

impl ClientBuilder {
    /// One more server of the same store. The first is used until it fails, then the next, and so on in a circle.
    #[must_use]
    pub fn server(mut self, url: impl Into<String>) -> Self {
        self.urls.push(url.into());
        self
    }

    /// Say who asks by a token, such as a JWT.
    #[must_use]
    pub fn bearer_token(mut self, token: impl Into<String>) -> Self {
        self.credential = Some(Credential::Bearer(token.into()));
        self
    }

    /// Say who asks by an API key.
    #[must_use]
    pub fn api_key(mut self, key: impl Into<String>) -> Self {
        self.credential = Some(Credential::ApiKey(key.into()));
        self
    }

    /// Trust the certificate authorities in this PEM text, and no longer those that the machine trusts.
    #[must_use]
    pub fn certificate_authority(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.authorities.push(pem.into());
        self
    }

    /// How to try again.
    #[must_use]
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = policy;
        self
    }

    /// Longest time for one attempt; 30 s unless set. A pop that waits has its own time on top.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Longest time to open a connection; 5 s unless set.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Speak HTTP/2, without TLS too: any number of waiting consumers then share one connection.
    #[must_use]
    pub fn http2(mut self) -> Self {
        self.http2 = true;
        self
    }

    /// Most calls at a time, 256 unless set; more of them wait for their turn. Pops that wait are not counted.
    #[must_use]
    pub fn max_calls(mut self, calls: usize) -> Self {
        self.max_calls = calls;
        self
    }

    /// Most pops that wait at a time, 10,000 unless set. Without HTTP/2 each has a connection.
    #[must_use]
    pub fn max_waits(mut self, waits: usize) -> Self {
        self.max_waits = waits;
        self
    }

    /// Most bytes of one answer, 256 MiB unless set.
    #[must_use]
    pub fn max_answer_bytes(mut self, bytes: usize) -> Self {
        self.max_answer = bytes;
        self
    }

    /// The client. Nothing is sent yet.
    pub fn build(self) -> Result<Client, Error> {
        let servers = Servers::new(&self.urls)?;
        let tls = servers.any_tls().then(|| connector::tls(&self.authorities, self.http2)).transpose()?;
        let mut http = Http::builder(TokioExecutor::new());
        http.timer(TokioTimer::new()).pool_timer(TokioTimer::new());
        http.pool_idle_timeout(Duration::from_secs(60)).pool_max_idle_per_host(self.max_calls.max(1));
        http.http2_only(self.http2);
        if self.http2 {
            // A server that vanished without a word is found out while consumers wait.
            http.http2_keep_alive_interval(Duration::from_secs(20)).http2_adaptive_window(true);
        }
        let transport = Transport {
            http: http.build(Connector::new(tls, self.connect_timeout)),
            servers,
            headers: headers(self.credential.as_ref())?,
            retry: self.retry,
            timeout: self.timeout,
            max_answer: self.max_answer,
            calls: Semaphore::new(self.max_calls.clamp(1, Semaphore::MAX_PERMITS)),
            waits: Semaphore::new(self.max_waits.clamp(1, Semaphore::MAX_PERMITS)),
        };
        Ok(Client { transport: Arc::new(transport) })
    }
}

/// What every request carries.
fn headers(credential: Option<&Credential>) -> Result<HeaderMap, Error> {
    let mut headers = HeaderMap::new();
    let agent = concat!("bugle-client/", env!("CARGO_PKG_VERSION"));
    headers.insert(USER_AGENT, HeaderValue::from_static(agent));
    let (name, text) = match credential {
        None => return Ok(headers),
        Some(Credential::Bearer(token)) => (AUTHORIZATION, format!("Bearer {token}")),
        Some(Credential::ApiKey(key)) => (HeaderName::from_static("x-api-key"), key.clone()),
    };
    let mut value = HeaderValue::try_from(text)
        .map_err(|_| Error::Setup("the credential has characters that no header can carry".into()))?;
    value.set_sensitive(true);
    headers.insert(name, value);
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_work_is_told_when_the_client_is_built() {
        for builder in [
            Client::builder("localhost"),
            Client::builder("http://a").server("b"),
            Client::builder("http://a").bearer_token("a\nb"),
            Client::builder("https://a").certificate_authority("no certificate"),
        ] {
            assert!(matches!(builder.build(), Err(Error::Setup(_))));
        }
        assert!(Client::builder("http://a").max_calls(0).max_waits(usize::MAX).build().is_ok());
    }

    #[test]
    fn a_credential_is_never_shown() {
        let builder = Client::builder("http://a").api_key("hush");
        assert!(!format!("{builder:?} {:?}", builder.clone().build()).contains("hush"));
        assert!(headers(Some(&Credential::ApiKey("hush".into()))).unwrap()["x-api-key"].is_sensitive());
    }
}
