//! The accept loop by itself: bounds, disconnects, panics, the end.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use bugle_http::ServeConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;

use crate::client::{PATIENCE, Server};

fn router() -> Router {
    Router::new().route("/", get(async || "hello")).route(
        "/panic",
        get(async || -> &'static str {
            panic!("on purpose");
        }),
    )
}

/// A route that tells when it is entered and when it is left, and answers when told to.
fn parked() -> (Router, mpsc::UnboundedReceiver<&'static str>, Arc<Notify>) {
    struct Left(mpsc::UnboundedSender<&'static str>);
    impl Drop for Left {
        fn drop(&mut self) {
            let _ = self.0.send("left");
        }
    }
    let (events, seen) = mpsc::unbounded_channel();
    let go = Arc::new(Notify::new());
    let told = go.clone();
    let handler = async move || {
        let left = Left(events);
        left.0.send("entered").unwrap();
        told.notified().await;
        "done"
    };
    (Router::new().route("/park", get(handler)), seen, go)
}

#[tokio::test]
async fn both_protocols_are_served_on_one_port() {
    let server = Server::start(router(), ServeConfig::default()).await;
    assert_eq!(server.send("GET", "/", "").await.body, "hello");
    assert_eq!(server.send_h2("GET", "/").await.body, "hello");
}

#[tokio::test]
async fn a_connection_is_kept_for_the_next_request() {
    let server = Server::start(router(), ServeConfig::default()).await;
    let mut stream = server.connect().await;
    for _ in 0..3 {
        stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let mut seen = Vec::new();
        while !seen.ends_with(b"hello") {
            assert_ne!(stream.read_buf(&mut seen).await.unwrap(), 0, "closed after {seen:?}");
        }
    }
}

#[tokio::test]
async fn a_preface_that_arrives_in_pieces_is_still_http2() {
    let server = Server::start(router(), ServeConfig::default()).await;
    let mut stream = server.connect().await;
    stream.set_nodelay(true).unwrap();
    stream.write_all(b"PRI * HT").await.unwrap();
    stream.write_all(b"TP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let mut head = [0; 9];
    timeout(PATIENCE, stream.read_exact(&mut head)).await.unwrap().unwrap();
    assert_eq!(head[3], 4, "the server's SETTINGS frame");
}

#[tokio::test]
async fn a_panicking_handler_is_answered_and_the_server_lives() {
    let server = Server::start(router(), ServeConfig::default()).await;
    let answer = server.send("GET", "/panic", "").await;
    assert_eq!(answer.status, 500);
    assert_eq!(answer.body, r#"{"error":"internal error"}"#);
    assert_eq!(server.send("GET", "/", "").await.status, 200);
}

#[tokio::test]
async fn a_silent_client_and_a_slow_one_are_closed() {
    let short = Duration::from_millis(50);
    let config = ServeConfig { first_byte_timeout: short, header_timeout: short, ..ServeConfig::default() };
    let server = Server::start(router(), config).await;
    for sent in ["", "PRI * HTTP", "GET / HTTP/1.1\r\nhost:"] {
        let mut stream = server.connect().await;
        stream.write_all(sent.as_bytes()).await.unwrap();
        let mut seen = Vec::new();
        // A reset is as good as an end here.
        let _ = timeout(PATIENCE, stream.read_to_end(&mut seen)).await.expect("the server closes");
        assert!(!seen.starts_with(b"HTTP/1.1 200"));
    }
}

#[tokio::test]
async fn a_handler_is_dropped_when_its_client_goes_away() {
    for half_close in [false, true] {
        let (router, mut seen, _go) = parked();
        let server = Server::start(router, ServeConfig::default()).await;
        let mut stream = server.connect().await;
        stream.write_all(b"GET /park HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        assert_eq!(seen.recv().await, Some("entered"));
        if half_close {
            stream.shutdown().await.unwrap();
        } else {
            drop(stream);
        }
        assert_eq!(timeout(PATIENCE, seen.recv()).await.expect("the handler is dropped"), Some("left"));
    }
}

#[tokio::test]
async fn an_http2_handler_is_dropped_when_its_client_goes_away() {
    let (router, mut seen, _go) = parked();
    let server = Server::start(router, ServeConfig::default()).await;
    let address = server.address;
    let request = tokio::spawn(async move { Server { address, ..server }.send_h2("GET", "/park").await });
    assert_eq!(seen.recv().await, Some("entered"));
    request.abort();
    assert_eq!(timeout(PATIENCE, seen.recv()).await.expect("the handler is dropped"), Some("left"));
}

#[tokio::test]
async fn stopping_finishes_requests_in_flight_and_takes_no_more() {
    let (router, mut seen, go) = parked();
    let server = Server::start(router, ServeConfig::default()).await;
    let mut stream = server.connect().await;
    stream.write_all(b"GET /park HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    assert_eq!(seen.recv().await, Some("entered"));
    server.stop.cancel();
    go.notify_one();
    let mut answer = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("done"), "{answer}");
    timeout(PATIENCE, server.task).await.expect("the server ends").unwrap();
    assert!(tokio::net::TcpStream::connect(server.address).await.is_err());
}

#[tokio::test]
async fn stopping_does_not_wait_for_ever() {
    let (router, mut seen, _go) = parked();
    let config = ServeConfig { shutdown_grace: Duration::from_millis(50), ..ServeConfig::default() };
    let server = Server::start(router, config).await;
    let mut stream = server.connect().await;
    stream.write_all(b"GET /park HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    assert_eq!(seen.recv().await, Some("entered"));
    server.stop.cancel();
    timeout(PATIENCE, server.task).await.expect("the server ends").unwrap();
    assert_eq!(seen.recv().await, Some("left"));
}

#[tokio::test]
async fn connections_over_the_cap_wait_their_turn() {
    let config = ServeConfig { max_connections: 1, ..ServeConfig::default() };
    let server = Server::start(router(), config).await;
    let mut first = server.connect().await;
    first.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut byte = [0];
    first.read_exact(&mut byte).await.unwrap();
    let mut second = server.connect().await;
    second.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let early = timeout(Duration::from_millis(100), second.read_exact(&mut byte)).await;
    assert!(early.is_err(), "served over the cap");
    drop(first);
    timeout(PATIENCE, second.read_exact(&mut byte)).await.expect("its turn comes").unwrap();
}
