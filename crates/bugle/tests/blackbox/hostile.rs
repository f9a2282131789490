//! Clients that mean harm, on raw sockets: what they get, and that others are served all the same.

use std::net::SocketAddr;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::common::{On, PATIENCE, Server};

/// Short bounds, so that tests need not wait for long ones.
const SHORT: [&str; 5] = [
    "--first-byte-timeout=300ms",
    "--header-timeout=300ms",
    "--body-timeout=300ms",
    "--answer-timeout=300ms",
    "--max-body=100KiB",
];

async fn open(at: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(at).await.unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Send, and everything that comes back until the server closes. A reset is an end like any other.
async fn said(stream: &mut TcpStream, bytes: &[u8]) -> String {
    let _ = stream.write_all(bytes).await;
    rest(stream).await
}

async fn rest(stream: &mut TcpStream) -> String {
    let mut seen = Vec::new();
    let _ = timeout(PATIENCE, stream.read_to_end(&mut seen)).await.expect("the server closes");
    String::from_utf8_lossy(&seen).into_owned()
}

fn status(answer: &str) -> &str {
    answer.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)).unwrap_or("none")
}

/// What a good client does still works.
async fn still_serves(server: &Server) {
    server.push_ids("good", "p", &["t"]).await;
    let popped = server.pop_some("/queue/good").await;
    server.ack_all(&popped, "completed").await;
}

/// The same bytes again and again, slower than any bound, until the server has enough of it.
async fn dribble(stream: &mut TcpStream, bytes: &[u8]) {
    let mut byte = [0];
    let dribbling = async {
        loop {
            tokio::select! {
                _ = stream.read(&mut byte) => return,
                () = tokio::time::sleep(std::time::Duration::from_millis(50)) => {}
            }
            if stream.write_all(bytes).await.is_err() {
                return;
            }
        }
    };
    timeout(PATIENCE, dribbling).await.expect("the server closes");
}

#[tokio::test]
async fn headers_that_dribble_in_are_given_up() {
    let on = On::embedded();
    let server = on.start_with(&SHORT).await;
    let mut first = open(server.address()).await;
    first.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\n").await.unwrap();
    dribble(&mut first, b"x-a: b\r\n").await;
    let mut later = open(server.address()).await;
    later.write_all(b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut seen = [0; 12];
    later.read_exact(&mut seen).await.unwrap();
    assert_eq!(&seen, b"HTTP/1.1 200");
    later.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
    rest(&mut later).await;
    still_serves(&server).await;
}

#[tokio::test]
async fn bodies_that_dribble_in_are_given_up_although_no_pause_is_long() {
    let on = On::embedded();
    let server = on.start_with(&SHORT).await;
    for announced in ["content-length: 90000", "transfer-encoding: chunked"] {
        let mut stream = open(server.address()).await;
        let head = format!("POST /api/v1/push HTTP/1.1\r\nhost: localhost\r\n{announced}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let piece: &[u8] = if announced.contains("chunked") { b"1\r\n \r\n" } else { b" " };
        dribble(&mut stream, piece).await;
    }
    let mut stopped = open(server.address()).await;
    let cut = b"POST /api/v1/push HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n{\"items\":[";
    assert_eq!(status(&said(&mut stopped, cut).await), "408", "a length that was a lie");
    still_serves(&server).await;
}

#[tokio::test]
async fn a_waiting_pop_is_cut_by_none_of_these_bounds() {
    let on = On::embedded();
    let server = on.start_with(&SHORT).await;
    for queue in ["one", "two"] {
        // The second time over HTTP/2, whose idle connections have a bound too.
        let line = if queue == "two" { Some(server.line().await) } else { None };
        let (client, path) = (server.client(), format!("/queue/{queue}?wait=true&timeout=60000"));
        let waiting = tokio::spawn(async move {
            match line {
                Some(line) => line.pop(&path).await.status,
                None => client.get(&format!("/api/v1/pop{path}")).await.status,
            }
        });
        server.until_parked(1).await;
        // Those who came later run into every bound, one after the other.
        for begun in ["", "GET / HTTP/1.1\r\n", "GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n"] {
            said(&mut open(server.address()).await, begun.as_bytes()).await;
        }
        assert!(!waiting.is_finished());
        server.push_ids(queue, "p", &["t"]).await;
        assert_eq!(waiting.await.unwrap(), 200);
    }
}

#[tokio::test]
async fn header_bombs_are_refused() {
    let on = On::embedded();
    let server = on.start_with(&["--max-header-bytes=16KiB"]).await;
    let many = (0..200).fold(String::new(), |text, n| format!("{text}x-{n}: y\r\n"));
    let large = format!("x: {}\r\n", "y".repeat(100 << 10));
    for bomb in [many, large] {
        let request = format!("GET /health HTTP/1.1\r\nhost: localhost\r\n{bomb}\r\n");
        assert_eq!(status(&said(&mut open(server.address()).await, request.as_bytes()).await), "431");
    }
    let path = format!("GET /{} HTTP/1.1\r\nhost: localhost\r\n\r\n", "x".repeat(100 << 10));
    let answer = said(&mut open(server.address()).await, path.as_bytes()).await;
    assert!(["414", "431"].contains(&status(&answer)), "{answer}");
    still_serves(&server).await;
}

#[tokio::test]
async fn body_bombs_are_refused_by_what_they_announce_and_by_what_they_are() {
    let on = On::embedded();
    let server = on.start_with(&SHORT).await;
    let head = "POST /api/v1/push HTTP/1.1\r\nhost: localhost\r\n";
    let announced = format!("{head}content-length: 1099511627776\r\n\r\n");
    assert_eq!(status(&said(&mut open(server.address()).await, announced.as_bytes()).await), "413");
    let mut endless = format!("{head}transfer-encoding: chunked\r\n\r\n").into_bytes();
    for _ in 0..1000 {
        endless.extend_from_slice(b"400\r\n");
        endless.extend_from_slice(&[b' '; 1024]);
        endless.extend_from_slice(b"\r\n");
    }
    let answer = said(&mut open(server.address()).await, &endless).await;
    assert!(["413", "none"].contains(&status(&answer)), "{answer}");
    // Compressed bodies are not unpacked: they are taken for what they are, which is no JSON.
    let gzip = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff\xab\xae\x05\x00\x43\xbf\xa6\xa3\x02\x00\x00\x00";
    let mut packed = format!(
        "{head}content-encoding: gzip\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        gzip.len()
    )
    .into_bytes();
    packed.extend_from_slice(gzip);
    let answer = said(&mut open(server.address()).await, &packed).await;
    assert!(status(&answer) == "400" && answer.contains("not UTF-8"), "{answer}");
    still_serves(&server).await;
}

#[tokio::test]
async fn large_bodies_share_a_bound() {
    let on = On::embedded();
    let server = on.start_with(&["--max-body-memory=1MiB", "--max-body=10MiB"]).await;
    let mut slow = Vec::new();
    // Each takes a part of the room and stops.
    for _ in 0..3 {
        let mut stream = open(server.address()).await;
        stream
            .write_all(b"POST /api/v1/push HTTP/1.1\r\nhost: localhost\r\ncontent-length: 900000\r\n\r\n")
            .await
            .unwrap();
        stream.write_all(&vec![b' '; 300 << 10]).await.unwrap();
        slow.push(stream);
    }
    server.until("their bodies are here", |m| m.get("bugle_body_bytes") >= 900.0 * 1024.0).await;
    let body = json!({"items": [{"queue": "q", "payload": "x".repeat(500 << 10)}]}).to_string();
    let refused = server.send("POST", "/api/v1/push", body.clone()).await;
    assert_eq!((refused.status, refused.headers.contains_key("retry-after")), (429, true));
    assert!(server.metrics().await.get("bugle_requests_limited_total{limit=\"bodies\"}") >= 1.0);
    still_serves(&server).await;
    drop(slow);
    server.until("there is room again", |m| m.get("bugle_body_bytes") == 0.0).await;
    assert_eq!(server.send("POST", "/api/v1/push", body).await.status, 201);
    server.until("what is stored takes no room", |m| m.get("bugle_body_bytes") == 0.0).await;
}

#[tokio::test]
async fn garbage_behind_a_good_request_is_refused_and_changes_nothing() {
    let on = On::embedded();
    let server = on.start_with(&SHORT).await;
    let push = r#"{"items":[{"queue":"piped","payload":1,"transactionId":"one"}]}"#;
    let good = format!(
        "POST /api/v1/push HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{push}",
        push.len()
    );
    for garbage in
        ["\0\0\0\0\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "x y z w\r\n\r\n"]
    {
        let answer = said(&mut open(server.address()).await, format!("{good}{garbage}").as_bytes()).await;
        assert_eq!(status(&answer), "201", "{answer}");
        assert_eq!(answer.matches("HTTP/1.1 2").count(), 1, "{answer}");
    }
    for smuggled in [
        "content-length: 5\r\ncontent-length: 6\r\n",
        "content-length: 5\r\ntransfer-encoding: chunked\r\n",
        "content-length: -1\r\n",
        "content-length: 5, 5x\r\n",
        "transfer-encoding: gzip\r\n",
    ] {
        let request = format!("POST /api/v1/push HTTP/1.1\r\nhost: localhost\r\n{smuggled}\r\n{{}}   GET /");
        let answer = said(&mut open(server.address()).await, request.as_bytes()).await;
        assert!(!answer.contains("HTTP/1.1 2"), "{smuggled} {answer}");
    }
    let popped = server.pop_some("/queue/piped?batch=100").await;
    assert_eq!(popped["messages"].as_array().unwrap().len(), 1, "the one id, once");
    still_serves(&server).await;
}

/// A frame of HTTP/2.
fn h2_frame(kind: u8, flags: u8, stream: u32, content: &[u8]) -> Vec<u8> {
    let length = (content.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), content].concat()
}

/// A connection of HTTP/2 on which these bytes are sent again and again, and nothing is read, until the server ends it.
async fn flood(at: SocketAddr, begun: &[u8], again: &[u8]) {
    let mut stream = open(at).await;
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    stream.write_all(&[h2_frame(4, 0, 0, &[]), begun.to_vec()].concat()).await.unwrap();
    let many = again.repeat((64 << 10) / again.len());
    let flooding = async { while stream.write_all(&many).await.is_ok() {} };
    timeout(PATIENCE, flooding).await.expect("the server ends it");
}

#[tokio::test]
async fn floods_of_http2_frames_are_ended() {
    let on = On::embedded();
    let server = on.start_with(&SHORT).await;
    // Settings and pings are answered; nobody reads the answers.
    flood(server.address(), &[], &h2_frame(4, 0, 0, &[])).await;
    flood(server.address(), &[], &h2_frame(6, 0, 0, &[7; 8])).await;
    // Headers that never end.
    let open_headers = h2_frame(1, 1, 1, &[0x82, 0x86, 0x84]);
    flood(server.address(), &open_headers, &h2_frame(9, 0, 1, &[0x00, 0x01, b'x', 0x01, b'y'])).await;
    // Requests that are given up at once.
    let mut resets = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    resets.extend(h2_frame(4, 0, 0, &[]));
    for stream in (1..20_000).step_by(2) {
        resets.extend(h2_frame(1, 5, stream, b"\x82\x86\x84\x41\x09localhost"));
        resets.extend(h2_frame(3, 0, stream, &8_u32.to_be_bytes()));
    }
    said(&mut open(server.address()).await, &resets).await;
    still_serves(&server).await;
}

#[tokio::test]
async fn a_tls_handshake_that_never_ends_is_given_up() {
    let on = On::embedded();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (cert, key) = (on.dir().join("cert.pem"), on.dir().join("key.pem"));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let tls = [format!("--tls-cert={}", cert.display()), format!("--tls-key={}", key.display())];
    let flags: Vec<&str> = SHORT.iter().copied().chain(tls.iter().map(String::as_str)).collect();
    let server = on.start_with(&flags).await;
    for begun in [&b""[..], b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\n\r\n"] {
        let answer = said(&mut open(server.address()).await, begun).await;
        assert_eq!(status(&answer), "none");
    }
    let mut slow = open(server.address()).await;
    slow.write_all(b"\x16\x03\x01\x40\x00").await.unwrap();
    dribble(&mut slow, b"\x01").await;
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_given_up() {
    let on = On::embedded();
    let server = on.start_with(&[SHORT[3]]).await;
    let item = json!({"queue": "large", "payload": "x".repeat(1 << 20)});
    for _ in 0..16 {
        server.push(json!([item])).await;
    }
    let mut deaf = open(server.address()).await;
    deaf.write_all(b"GET /api/v1/pop/queue/large?batch=16 HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await
        .unwrap();
    // The lease of a client that is gone is given back, so somebody else gets the messages.
    server.wait("/queue/large?batch=1").answer().await;
    drop(deaf);
}

on_every_engine! {
    async fn idle_connections_make_room_for_those_who_work(on: On) {
        let server = on.start_with(&["--max-connections=8"]).await;
        // One that waits for messages, and more of those who say nothing than there are places.
        let waiter = server.park("/queue/good?consumerGroup=w").await;
        let mut idle = Vec::new();
        for n in 0..9 {
            let mut stream = open(server.address()).await;
            if n % 2 == 1 {
                stream.write_all(b"GET /health HTTP/1.1\r\nhost: ").await.unwrap();
            }
            idle.push(stream);
        }
        timeout(PATIENCE, still_serves(&server)).await.expect("a place is found");
        // Whoever waits for messages stays.
        waiter.answer().await;
        assert!(server.metrics().await.get("bugle_connections_shed_total") >= 1.0);
        assert!(server.metrics().await.get("bugle_connections") <= 8.0);
        drop(idle);
    }
}

#[tokio::test]
async fn connections_leave_descriptors_to_the_store() {
    let on = On::embedded();
    // Of 320 descriptors half are kept, so there are 160 connections; the default would be 20,000.
    let server = on.start_limited(320).await;
    let mut idle = Vec::new();
    for _ in 0..200 {
        idle.push(open(server.address()).await);
    }
    timeout(PATIENCE, still_serves(&server)).await.expect("a place is found");
    assert!(server.metrics().await.get("bugle_connections") <= 160.0);
    assert!(server.descriptors() <= 240, "{} descriptors", server.descriptors());
    drop(idle);
}

#[tokio::test]
async fn an_idle_http2_connection_ends_and_one_that_waits_does_not() {
    let on = On::embedded();
    let server = on.start_with(&["--header-timeout=300ms"]).await;
    let line = server.line().await;
    assert_eq!(line.send("GET", "/health", "").await.status, 200);
    let waiting = server.line().await;
    let popping = tokio::spawn(async move { waiting.pop("/queue/h2?wait=true&timeout=60000").await.status });
    server.until_parked(1).await;
    // The idle one goes; the one that waits and the one that asks remain.
    server.until("the idle connection is closed", |m| m.get("bugle_connections") <= 2.0).await;
    server.push_ids("h2", "p", &["t"]).await;
    assert_eq!(popping.await.unwrap(), 200);
    drop(line);
}
