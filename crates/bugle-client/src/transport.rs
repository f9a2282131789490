//! Requests out, answers in: attempts, pauses between them, and the step to the next server.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, DATE, HeaderMap, HeaderValue, RETRY_AFTER};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client as Http;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use crate::connector::Connector;
use crate::error::{Cause, Error, Verdict};
use crate::retry::RetryPolicy;
use crate::servers::{Server, Servers};
use crate::time;

/// Most of an error's text that is kept.
const MESSAGE_MAX: usize = 4096;
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A name as a part of a path, or a value in a query.
pub(crate) fn encoded(text: &str) -> impl std::fmt::Display {
    utf8_percent_encode(text, UNRESERVED)
}

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    method: Method,
    path: String,
    body: Bytes,
    /// How long the server may hold the request before it answers.
    wait: Option<Duration>,
    /// Doing it twice is not the same as doing it once.
    once: bool,
}

impl Call {
    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self { method: Method::GET, path: path.into(), body: Bytes::new(), wait: None, once: false }
    }

    pub(crate) fn delete(path: impl Into<String>) -> Self {
        Self { method: Method::DELETE, ..Self::get(path) }
    }

    pub(crate) fn post(path: impl Into<String>, body: &impl Serialize) -> Result<Self, Error> {
        let body = serde_json::to_vec(body).map_err(Error::Payload)?;
        Ok(Self { method: Method::POST, body: body.into(), ..Self::get(path) })
    }

    /// Have something done that needs no words.
    pub(crate) fn start(path: impl Into<String>) -> Self {
        Self { method: Method::POST, ..Self::get(path) }
    }

    #[cfg(test)]
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The server may hold the request for so long.
    pub(crate) fn waiting(self, wait: Option<Duration>) -> Self {
        Self { wait, ..self }
    }

    /// Do not repeat it when it may have been carried out.
    pub(crate) fn once(self) -> Self {
        Self { once: true, ..self }
    }
}

/// An answer that is no error.
#[derive(Debug)]
pub(crate) struct Answer {
    body: Bytes,
    /// An earlier attempt may have been carried out too.
    pub(crate) doubt: bool,
    /// The server's clock, to the second.
    pub(crate) date: Option<SystemTime>,
    /// The server could not reach its store and answered all the same.
    pub(crate) store_unavailable: bool,
}

impl Answer {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.body
    }

    /// There is nothing in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.body.is_empty()
    }

    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_slice(&self.body).map_err(|e| Error::Answer(e.into()))
    }
}

/// What all parts of a client share.
pub(crate) struct Transport {
    pub(crate) http: Http<Connector, Full<Bytes>>,
    pub(crate) servers: Servers,
    pub(crate) headers: HeaderMap,
    pub(crate) retry: RetryPolicy,
    /// For an attempt, on top of what the server may hold it.
    pub(crate) timeout: Duration,
    pub(crate) max_answer: usize,
    /// Calls at a time. Those that wait are counted apart, so that they never keep others from getting through.
    pub(crate) calls: Semaphore,
    pub(crate) waits: Semaphore,
}

impl Transport {
    /// Attempts until one is answered, or until there is no point in another.
    pub(crate) async fn call(&self, call: &Call) -> Result<Answer, Error> {
        let (mut attempts, mut doubt) = (0, false);
        loop {
            let server = self.servers.current();
            let cause = match self.attempt(call, server).await {
                Ok(answer) => return Ok(Answer { doubt, ..answer }),
                Err(cause) => cause,
            };
            attempts += 1;
            doubt |= cause.in_doubt();
            let again = cause.verdict() == Verdict::Again && !(doubt && call.once);
            if !again || attempts >= self.retry.attempts() {
                return Err(cause.into_error(attempts, doubt));
            }
            tracing::debug!(attempts, error = %cause, path = call.path, "trying again");
            sleep(self.pause_length(&self.retry, attempts, server, &cause)).await;
        }
    }

    /// The same, read as JSON.
    pub(crate) async fn ask<T: DeserializeOwned>(&self, call: &Call) -> Result<T, Error> {
        self.call(call).await?.json()
    }

    /// How long to wait after so many failures in a row; a server that is to blame is left. Another server is tried at
    /// once: the pause comes when all of them have failed.
    pub(crate) fn pause_length(
        &self,
        policy: &RetryPolicy,
        failures: u32,
        failed: &Server,
        cause: &Cause,
    ) -> Duration {
        let count = u32::try_from(self.servers.count()).unwrap_or(u32::MAX);
        if cause.blames_server() {
            self.servers.leave(failed);
            if !failures.is_multiple_of(count) {
                return Duration::ZERO;
            }
        }
        policy.pause(failures.div_ceil(count), cause.retry_after(), fastrand::f64())
    }

    /// One attempt at one server.
    pub(crate) async fn attempt(&self, call: &Call, server: &Server) -> Result<Answer, Cause> {
        let places = if call.wait.is_some() { &self.waits } else { &self.calls };
        // Never closed, so there is always a place in the end.
        let _place = places.acquire().await;
        let after = self.timeout + call.wait.unwrap_or_default();
        match timeout(after, self.exchange(call, server)).await {
            Ok(answer) => answer,
            Err(_) => Err(Cause::Timeout { server: server.name(), after }),
        }
    }

    async fn exchange(&self, call: &Call, server: &Server) -> Result<Answer, Cause> {
        let (headers, body) = self.open(call, server).await?;
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let date = header(DATE.as_str()).and_then(time::http_date);
        let store_unavailable = header("bugle-store") == Some("unavailable");
        let body = self.read(body, server).await?;
        Ok(Answer { body, doubt: false, date, store_unavailable })
    }

    /// Send a request; an answer that is no error is handed over before its body was read.
    pub(crate) async fn open(&self, call: &Call, server: &Server) -> Result<(HeaderMap, Incoming), Cause> {
        let request = self.request(call, server)?;
        let response = self.http.request(request).await.map_err(|error| {
            let (server, connect) = (server.name(), error.is_connect());
            let source = error.into();
            if connect { Cause::Connect { server, source } } else { Cause::Broken { server, source } }
        })?;
        let (parts, body) = response.into_parts();
        if parts.status.is_success() {
            return Ok((parts.headers, body));
        }
        let pause = parts.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let (message, code) = complaint(&self.read(body, server).await?);
        Err(Cause::Status {
            server: server.name(),
            status: parts.status.as_u16(),
            message,
            code,
            retry_after: pause.map(Duration::from_secs),
        })
    }

    fn request(&self, call: &Call, server: &Server) -> Result<Request<Full<Bytes>>, Cause> {
        // A path that cannot be sent has not been sent.
        let unsent = |source| Cause::Connect { server: server.name(), source };
        let uri = server.uri(&call.path).map_err(|e| unsent(e.into()))?;
        let mut request = Request::new(Full::new(call.body.clone()));
        *request.method_mut() = call.method.clone();
        *request.uri_mut() = uri;
        request.headers_mut().extend(self.headers.clone());
        if !call.body.is_empty() {
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        Ok(request)
    }

    async fn read(&self, body: Incoming, server: &Server) -> Result<Bytes, Cause> {
        let read = Limited::new(body, self.max_answer).collect().await;
        read.map(|whole| whole.to_bytes()).map_err(|source| Cause::Broken { server: server.name(), source })
    }

    /// One attempt, whose answer is read whatever its status.
    pub(crate) async fn look(&self, path: &str) -> Result<(u16, Bytes), Error> {
        let (call, server) = (Call::get(path), self.servers.current());
        let _place = self.calls.acquire().await;
        let asked = async {
            let response: Response<Incoming> = self
                .http
                .request(self.request(&call, server)?)
                .await
                .map_err(|error| Cause::Connect { server: server.name(), source: error.into() })?;
            let status = response.status().as_u16();
            Ok((status, self.read(response.into_body(), server).await?))
        };
        let late = || Cause::Timeout { server: server.name(), after: self.timeout };
        let looked = timeout(self.timeout, asked).await.unwrap_or_else(|_| Err(late()));
        looked.map_err(|cause: Cause| {
            self.servers.leave(server);
            cause.into_error(1, false)
        })
    }
}

/// The text and code of an error's body; whatever it is, some of it is shown.
fn complaint(body: &[u8]) -> (String, Option<String>) {
    #[derive(Deserialize)]
    struct Body {
        error: String,
        code: Option<String>,
    }
    match serde_json::from_slice::<Body>(body) {
        Ok(Body { error, code }) => (error, code),
        Err(_) => (String::from_utf8_lossy(&body[..body.len().min(MESSAGE_MAX)]).into_owned(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_safe_in_paths_and_queries() {
        assert_eq!(encoded("a b/c?&=%ü-_.~").to_string(), "a%20b%2Fc%3F%26%3D%25%C3%BC-_.~");
    }

    #[test]
    fn errors_are_shown_whatever_they_look_like() {
        assert_eq!(complaint(br#"{"error":"no","code":"busy"}"#), ("no".into(), Some("busy".into())));
        assert_eq!(complaint(b"<html>"), ("<html>".into(), None));
        assert_eq!(complaint(&[0xff; 9000]).0.chars().count(), MESSAGE_MAX);
    }
}
