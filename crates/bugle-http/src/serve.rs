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
use futures_util::FutureExt;
use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::auth::{Door, Gate};
use crate::seats::{Seat, Seats, Taken};
use crate::stall::Stalling;
use crate::tls::{Replayed, Tls};

const H2_PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Bounds of the server, and who gets in.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// Most connections. Over it idle ones are closed, and more wait in the listen queue while all are busy.
    pub max_connections: usize,
    /// Time for the first bytes of a connection, and for its TLS handshake.
    pub first_byte_timeout: Duration,
    /// Time for the headers of a request, counted from when the connection became idle: also the keep-alive limit.
    pub header_timeout: Duration,
    /// Most bytes of a request's line and headers; also of what is read at once.
    pub max_header_bytes: usize,
    /// Longest time during which a client takes nothing of an answer.
    pub answer_timeout: Duration,
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
            max_header_bytes: 64 << 10,
            answer_timeout: Duration::from_secs(30),
            max_streams: 1024,
            shutdown_grace: Duration::from_secs(10),
            gate: Gate::default(),
            tls: None,
        }
    }
}

/// Serve until `stop` is cancelled, then finish the requests in flight, within `shutdown_grace`.
pub async fn serve(listener: TcpListener, router: Router, config: ServeConfig, stop: CancellationToken) {
    let seats = Arc::new(Seats::new(config.max_connections, config.gate.edge()));
    let connections = TaskTracker::new();
    let doors = Arc::new(Doors::new(router, &config, stop.clone()));
    while let Some((stream, peer, taken)) = accept(&listener, &seats, &stop).await {
        let doors = doors.clone();
        connections.spawn(async move {
            doors.connection(stream, peer, &taken.seat).await;
            drop(taken);
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

/// The next connection; `None` when it is time to stop. At the cap one is accepted, and no other until it has a seat.
async fn accept(
    listener: &TcpListener,
    seats: &Arc<Seats>,
    stop: &CancellationToken,
) -> Option<(TcpStream, SocketAddr, Taken)> {
    let next = async {
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => return Some((stream, peer, seats.take().await?)),
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
    answer_timeout: Duration,
    /// An HTTP/2 connection without requests for so long ends; those of HTTP/1 are ended by hyper.
    idle_timeout: Duration,
    gate: Gate,
    tls: Option<Tls>,
    stop: CancellationToken,
    abort: CancellationToken,
}

impl Doors {
    fn new(router: Router, config: &ServeConfig, stop: CancellationToken) -> Self {
        let mut http1 = Builder::new(TokioExecutor::new()).http1_only();
        http1
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(config.header_timeout)
            .max_buf_size(config.max_header_bytes)
            .half_close(false);
        let mut http2 = Builder::new(TokioExecutor::new()).http2_only();
        http2
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(config.max_streams)
            .initial_stream_window_size(1 << 20)
            .initial_connection_window_size(8 << 20)
            .max_header_list_size(u32::try_from(config.max_header_bytes).unwrap_or(u32::MAX))
            .keep_alive_interval(Duration::from_secs(30))
            .keep_alive_timeout(Duration::from_secs(20));
        Self {
            router: TowerToHyperService::new(router),
            http1,
            http2,
            first_byte_timeout: config.first_byte_timeout,
            answer_timeout: config.answer_timeout,
            idle_timeout: config.header_timeout,
            gate: config.gate.clone(),
            tls: config.tls.clone(),
            stop,
            abort: CancellationToken::new(),
        }
    }

    async fn connection(&self, stream: TcpStream, peer: SocketAddr, seat: &Arc<Seat>) {
        // Answers are small and awaited: waiting to fill a segment would only add latency.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY");
        }
        if let Some(tls) = &self.tls {
            // In a box of its own, so that connections in clear do not carry its room.
            return Box::pin(self.encrypted(stream, peer, tls, seat)).await;
        }
        let known = tokio::select! {
            biased;
            () = self.stop.cancelled() => return,
            () = seat.asked_to_leave() => return,
            known = timeout(self.first_byte_timeout, speaks_http2(&stream)) => known,
        };
        let builder = match known {
            Ok(Ok(true)) => &self.http2,
            Ok(Ok(false)) => &self.http1,
            Ok(Err(_)) | Err(_) => return,
        };
        self.requests(stream, builder, Door { peer, tls: false }, seat).await;
    }

    async fn encrypted(&self, stream: TcpStream, peer: SocketAddr, tls: &Tls, seat: &Arc<Seat>) {
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
            () = seat.asked_to_leave() => return,
            opened = timeout(self.first_byte_timeout, opening) => opened,
        };
        let door = Door { peer, tls: true };
        match opened {
            Ok(Ok((stream, true))) => {
                self.requests(Replayed::new(H2_PREFACE, stream), &self.http2, door, seat).await
            }
            Ok(Ok((stream, false))) => self.requests(stream, &self.http1, door, seat).await,
            Ok(Err(error)) => tracing::debug!(%error, %peer, "TLS handshake failed"),
            Err(_) => {}
        }
    }

    async fn requests<I>(&self, io: I, builder: &Builder<TokioExecutor>, door: Door, seat: &Arc<Seat>)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let service = service_fn(|request: Request<Incoming>| {
            let busy = seat.busy();
            let answer = self.gate.pass(door, request.map(Body::new), &self.router);
            answer.map(move |answer| {
                drop(busy);
                answer
            })
        });
        let io = TokioIo::new(Stalling::new(io, self.answer_timeout));
        let mut connection = pin!(builder.serve_connection(io, service));
        let mut stopping = false;
        let mut idle = builder.is_http2_available().then(|| Box::pin(unused(seat, self.idle_timeout)));
        loop {
            tokio::select! {
                ended = connection.as_mut() => {
                    if let Err(error) = ended {
                        tracing::debug!(error, "connection ended");
                    }
                    return;
                }
                () = self.stop.cancelled(), if !stopping => {}
                // There is no answer that could be cut.
                () = seat.asked_to_leave(), if !stopping => if seat.unused() { return },
                () = over(&mut idle), if !stopping => {}
                () = self.abort.cancelled() => return,
            }
            stopping = true;
            connection.as_mut().graceful_shutdown();
        }
    }
}

/// Ends when a connection had no request for so long, or up to twice as long.
async fn unused(seat: &Seat, limit: Duration) {
    let mut before = None;
    loop {
        let now = seat.idle();
        if now.is_some() && now == before {
            return;
        }
        before = now;
        sleep(limit).await;
    }
}

/// Ends with `waiting`, if there is anything to wait for.
async fn over(waiting: &mut Option<std::pin::Pin<Box<impl Future<Output = ()>>>>) {
    match waiting {
        Some(waiting) => waiting.as_mut().await,
        None => std::future::pending().await,
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
