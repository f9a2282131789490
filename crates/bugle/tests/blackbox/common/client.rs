//! Requests and what the tests want to know of the answers.

use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use super::{PATIENCE, contract};

/// Longer than a server lets anybody wait, and shorter than a test may take.
const UNANSWERED: Duration = Duration::from_secs(150);

/// Sends each request on a connection of its own.
#[derive(Clone)]
pub(crate) struct Client {
    address: SocketAddr,
}

/// An answer, read whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e} in {:?}", self.body))
    }

    /// The text of an error.
    pub(crate) fn error(&self) -> String {
        self.json()["error"].as_str().expect("an error text").to_owned()
    }

    /// The body as JSON, after a check of the status.
    pub(crate) fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{:?}", self.body);
        self.json()
    }
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { address }
    }

    /// Any request.
    pub(crate) async fn send(&self, method: &str, path: &str, body: impl Into<Bytes>) -> Answer {
        self.try_send(method, path, body).await.unwrap()
    }

    /// Any request, with headers.
    pub(crate) async fn send_with(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        self.try_send_with(method, path, headers, body).await.unwrap()
    }

    /// Any request, to a server that may end meanwhile.
    pub(crate) async fn try_send(
        &self,
        method: &str,
        path: &str,
        body: impl Into<Bytes>,
    ) -> Result<Answer, Box<dyn Error + Send + Sync>> {
        self.try_send_with(method, path, &[], body).await
    }

    async fn try_send_with(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Result<Answer, Box<dyn Error + Send + Sync>> {
        let io = TokioIo::new(TcpStream::connect(self.address).await?);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await?;
        // Tied to this future: when a test drops the request, the connection goes with it.
        let connection = AbortOnDrop(tokio::spawn(async move {
            let _ = connection.await;
        }));
        let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into())).unwrap();
        let answering = async { read(method, path, sender.send_request(request).await?).await };
        let answer = timeout(UNANSWERED, answering).await;
        let answer = answer.unwrap_or_else(|_| panic!("{method} {path} is never answered"))?;
        drop(connection);
        Ok(answer)
    }

    /// Any request over cleartext HTTP/2.
    pub(crate) async fn send_h2(&self, method: &str, path: &str, body: impl Into<Bytes>) -> Answer {
        self.line().await.send(method, path, body).await
    }

    /// One connection for very many requests at a time.
    pub(crate) async fn line(&self) -> Line {
        let io = TokioIo::new(TcpStream::connect(self.address).await.unwrap());
        let (sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
        tokio::spawn(connection);
        Line { sender }
    }

    /// Where the server listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, "").await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.send("POST", path, body.to_string()).await
    }

    /// Push items; all must be taken.
    pub(crate) async fn push(&self, items: Value) -> Value {
        self.post("/api/v1/push", json!({ "items": items })).await.expect(201)
    }

    /// Push one message per transaction id into one partition; the payload is `{"n": <transaction id>}`.
    pub(crate) async fn push_ids(&self, queue: &str, partition: &str, ids: &[&str]) -> Value {
        let item = |id: &&str| json!({"queue": queue, "partition": partition, "transactionId": id, "payload": {"n": id}});
        self.push(ids.iter().map(item).collect()).await
    }

    /// Pop what stands behind `/api/v1/pop`; `None` if there is nothing.
    pub(crate) async fn pop(&self, rest: &str) -> Option<Value> {
        let answer = self.get(&format!("/api/v1/pop{rest}")).await;
        if answer.status == 204 {
            assert!(answer.body.is_empty(), "a 204 has no body");
            return None;
        }
        Some(answer.expect(200))
    }

    /// Pop something that must be there.
    pub(crate) async fn pop_some(&self, rest: &str) -> Value {
        self.pop(rest).await.unwrap_or_else(|| panic!("nothing at {rest}"))
    }

    /// Acknowledge all messages of a pop answer with one status, in one call.
    pub(crate) async fn ack_all(&self, popped: &Value, status: &str) -> Value {
        let message = |m: &Value| json!({"transactionId": m["transactionId"], "partitionId": m["partitionId"], "leaseId": m["leaseId"], "status": status});
        let acks: Value = popped["messages"].as_array().unwrap().iter().map(message).collect();
        let body = json!({"acknowledgments": acks, "consumerGroup": popped["consumerGroup"]});
        self.post("/api/v1/ack/batch", body).await.expect(200)
    }

    /// Create or change a queue; must succeed.
    pub(crate) async fn configure(&self, body: Value) -> Value {
        self.post("/api/v1/configure", body).await.expect(200)
    }

    /// Wait until this many pops wait. The server has no event for it, so its own count is read until it fits.
    pub(crate) async fn until_waiting(&self, count: u64) {
        let deadline = Instant::now() + PATIENCE;
        while self.get("/health").await.json()["waiting"] != count {
            assert!(Instant::now() < deadline, "never {count} waiting");
            sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Transaction ids of a pop answer, in order.
pub(crate) fn ids(popped: &Value) -> Vec<&str> {
    popped["messages"].as_array().unwrap().iter().map(|m| m["transactionId"].as_str().unwrap()).collect()
}

/// An HTTP/2 connection, closed when all its copies are gone.
#[derive(Clone)]
pub(crate) struct Line {
    sender: SendRequest<Full<Bytes>>,
}

impl Line {
    /// Any request.
    pub(crate) async fn send(&self, method: &str, path: &str, body: impl Into<Bytes>) -> Answer {
        let request = Request::builder().method(method).uri(format!("http://localhost{path}"));
        let request = request.body(Full::new(body.into())).unwrap();
        read(method, path, self.sender.clone().send_request(request).await.unwrap()).await.unwrap()
    }

    /// Pop what stands behind `/api/v1/pop`.
    pub(crate) async fn pop(&self, rest: &str) -> Answer {
        self.send("GET", &format!("/api/v1/pop{rest}"), "").await
    }

    /// The same, and cancel the request when the answer begins.
    pub(crate) async fn pop_and_cancel(&self, rest: &str) {
        let request = Request::builder().uri(format!("http://localhost/api/v1/pop{rest}"));
        let request = request.body(Full::default()).unwrap();
        let answer = self.sender.clone().send_request(request).await.unwrap();
        assert_eq!(answer.status(), 200);
    }
}

/// Read an answer whole, and see that it is one that is described.
async fn read(method: &str, path: &str, response: Response<Incoming>) -> Result<Answer, hyper::Error> {
    let (parts, body) = response.into_parts();
    let body = body.collect().await?.to_bytes();
    contract::check(method, path, parts.status.as_u16(), &parts.headers, &body);
    Ok(Answer { status: parts.status.as_u16(), headers: parts.headers, body })
}

struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
