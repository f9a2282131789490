//! A server on a free port and requests to it over real sockets.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use bugle_http::{ServeConfig, serve};
use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Longest time any awaited event may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// A running server.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) stop: CancellationToken,
    pub(crate) task: JoinHandle<()>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Server {
    pub(crate) async fn start(router: Router, config: ServeConfig) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let task = tokio::spawn(serve(listener, router, config, stop.clone()));
        Self { address, stop, task }
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// One request on a connection of its own.
    pub(crate) async fn send(&self, method: &str, path: &str, body: impl Into<Bytes>) -> Answer {
        self.send_with(method, path, &[], body).await
    }

    /// One request with headers.
    pub(crate) async fn send_with(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        let io = TokioIo::new(self.connect().await);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
        tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path).header("host", "test");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        answer(sender.send_request(request.body(Full::new(body.into())).unwrap()).await.unwrap()).await
    }

    /// One request over cleartext HTTP/2.
    pub(crate) async fn send_h2(&self, method: &str, path: &str) -> Answer {
        let io = TokioIo::new(self.connect().await);
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
        tokio::spawn(connection);
        let request = Request::builder().method(method).uri(format!("http://test{path}"));
        answer(sender.send_request(request.body(Full::<Bytes>::default()).unwrap()).await.unwrap()).await
    }
}

/// One request over HTTP/2 on a connection that is there already.
pub(crate) async fn h2_over(io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, uri: &str) -> Answer {
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(io)).await.unwrap();
    tokio::spawn(connection);
    let request = Request::builder().uri(uri).body(Full::<Bytes>::default()).unwrap();
    answer(sender.send_request(request).await.unwrap()).await
}

async fn answer(response: http::Response<hyper::body::Incoming>) -> Answer {
    let (parts, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    Answer { status: parts.status, headers: parts.headers, body }
}
