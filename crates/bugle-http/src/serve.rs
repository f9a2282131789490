//! The accept loop: HTTP/1.1 and HTTP/2 on one port, in clear or by TLS, every wait and every number bounded.
//!
//! Why not a ready-made server: it has no time limit for a client that connects and says nothing, none for one that
//! dribbles its headers, and no cap on connections.
//!
//! A handler runs inside its connection's task and is dropped with it, so the broker learns that a client is gone
//! while its pop waits. (HTTP/1: half-closed connections count as gone, since hyper looks for an end of stream while
//! a handler is pending.)

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::auth::{Door, Gate};
use crate::tls::{Replayed, Tls};

const H2_PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Bounds of the server, and who gets in.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// Most connections; more wait in the listen queue.
    pub max_connections: usize,
    /// Time for the first bytes of a connection, and for its TLS handshake.
    pub first_byte_timeout: Duration,
    /// Time for the headers of a request, counted from when the connection became idle: also the keep-alive limit.
    pub header_timeout: Duration,
    /// Most requests at a time on one HTTP/2 connection.
    pub max_streams: u32,
    /// Time for requests in flight when the server stops.
    pub shutdown_grace: Duration,
    /// Checks every request.
    pub gate: Gate,
    /// Encrypts every connection.
    pub tls: Option<Tls>,
}

impl Default for ServeConfig {
    fn default() -> Self {
        Self {
            max_connections: 20_000,
            first_byte_timeout: Duration::from_secs(30),
            header_timeout: Duration::from_secs(75),
            max_streams: 1024,
            shutdown_grace: Duration::from_secs(10),
            gate: Gate::default(),
            tls: None,
        }
    }
}

/// Serve until `stop` is cancelled, then finish the requests in flight, within `shutdown_grace`.
pub async fn serve(listener: TcpListener, router: Router, config: ServeConfig, stop: CancellationToken) {
    let permits = Arc::new(Semaphore::new(config.max_connections.min(Semaphore::MAX_PERMITS)));
    let connections = TaskTracker::new();
    let doors = Arc::new(Doors::new(router, &config, stop.clone()));
    while let Some((stream, peer, permit)) = accept(&listener, &permits, &stop).await {
        let doors = doors.clone();
        connections.spawn(async move {
            doors.connection(stream, peer).await;
            drop(permit);
        });
    }
    drop(listener);
    connections.close();
    if timeout(config.shutdown_grace, connections.wait()).await.is_err() {
        tracing::warn!(open = connections.len(), "requests did not end in time; closing their connections");
        doors.abort.cancel();
        connections.wait().await;
    }
}

/// The next connection; `None` when it is time to stop. At the cap nothing is accepted until a connection ends.
async fn accept(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
    stop: &CancellationToken,
) -> Option<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let next = async {
        let permit = permits.clone().acquire_owned().await.ok()?;
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => return Some((stream, peer, permit)),
                Err(error) if client_fault(&error) => {}
                Err(error) => {
                    // Out of descriptors or memory: trying again at once would only burn the processor.
                    tracing::error!(%error, "cannot accept connections");
                    sleep(Duration::from_millis(200)).await;
                }
            }
        }
    };
    tokio::select! {
        biased;
        () = stop.cancelled() => None,
        accepted = next => accepted,
    }
}

fn client_fault(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// What all connections share.
struct Doors {
    router: TowerToHyperService<Router>,
    http1: Builder<TokioExecutor>,
    http2: Builder<TokioExecutor>,
    first_byte_timeout: Duration,
    gate: Gate,
    tls: Option<Tls>,
    stop: CancellationToken,
    abort: CancellationToken,
}

impl Doors {
    fn new(router: Router, config: &ServeConfig, stop: CancellationToken) -> Self {
        let mut http1 = Builder::new(TokioExecutor::new()).http1_only();
        http1.http1().timer(TokioTimer::new()).header_read_timeout(config.header_timeout).half_close(false);
        let mut http2 = Builder::new(TokioExecutor::new()).http2_only();
        http2
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(config.max_streams)
            .initial_stream_window_size(1 << 20)
            .initial_connection_window_size(8 << 20)
            .max_header_list_size(64 << 10)
            .keep_alive_interval(Duration::from_secs(30))
            .keep_alive_timeout(Duration::from_secs(20));
        Self {
            router: TowerToHyperService::new(router),
            http1,
            http2,
            first_byte_timeout: config.first_byte_timeout,
            gate: config.gate.clone(),
            tls: config.tls.clone(),
            stop,
            abort: CancellationToken::new(),
        }
    }

    async fn connection(&self, stream: TcpStream, peer: SocketAddr) {
        // Answers are small and awaited: waiting to fill a segment would only add latency.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY");
        }
        if let Some(tls) = &self.tls {
            // In a box of its own, so that connections in clear do not carry its room.
            return Box::pin(self.encrypted(stream, peer, tls)).await;
        }
        let known = tokio::select! {
            biased;
            () = self.stop.cancelled() => return,
            known = timeout(self.first_byte_timeout, speaks_http2(&stream)) => known,
        };
        let builder = match known {
            Ok(Ok(true)) => &self.http2,
            Ok(Ok(false)) => &self.http1,
            Ok(Err(_)) | Err(_) => return,
        };
        self.requests(stream, builder, Door { peer, tls: false }).await;
    }

    async fn encrypted(&self, stream: TcpStream, peer: SocketAddr, tls: &Tls) {
        let opening = async {
            let mut stream = tls.acceptor().accept(stream).await?;
            let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            if http2 {
                // hyper waits for the preface without limit; so it is read here, within the time.
                let mut seen = [0; H2_PREFACE.len()];
                stream.read_exact(&mut seen).await?;
                if seen != *H2_PREFACE {
                    return Err(io::ErrorKind::InvalidData.into());
                }
            }
            Ok::<_, io::Error>((stream, http2))
        };
        let opened = tokio::select! {
            biased;
            () = self.stop.cancelled() => return,
            opened = timeout(self.first_byte_timeout, opening) => opened,
        };
        let door = Door { peer, tls: true };
        match opened {
            Ok(Ok((stream, true))) => {
                self.requests(Replayed::new(H2_PREFACE, stream), &self.http2, door).await
            }
            Ok(Ok((stream, false))) => self.requests(stream, &self.http1, door).await,
            Ok(Err(error)) => tracing::debug!(%error, %peer, "TLS handshake failed"),
            Err(_) => {}
        }
    }

    async fn requests<I>(&self, io: I, builder: &Builder<TokioExecutor>, door: Door)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let service = service_fn(|request: Request<Incoming>| {
            self.gate.pass(door, request.map(Body::new), &self.router)
        });
        let mut connection = pin!(builder.serve_connection(TokioIo::new(io), service));
        let mut stopping = false;
        loop {
            tokio::select! {
                ended = connection.as_mut() => {
                    if let Err(error) = ended {
                        tracing::debug!(error, "connection ended");
                    }
                    return;
                }
                () = self.stop.cancelled(), if !stopping => {
                    stopping = true;
                    connection.as_mut().graceful_shutdown();
                }
                () = self.abort.cancelled() => return,
            }
        }
    }
}

/// Whether the client opens with HTTP/2's preface. Looks without taking, so that the whole belongs to hyper.
async fn speaks_http2(stream: &TcpStream) -> io::Result<bool> {
    let mut seen = [0; H2_PREFACE.len()];
    loop {
        let len = stream.peek(&mut seen).await?;
        if len == 0 || seen[..len] != H2_PREFACE[..len] {
            return Ok(false);
        }
        if len == H2_PREFACE.len() {
            return Ok(true);
        }
        // A cut preface: peeking returns at once with the same bytes, so there is no event to await.
        sleep(Duration::from_millis(2)).await;
    }
}
