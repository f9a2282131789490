//! A real server on a disk that fails on command: what it refuses, what its health says, and that a restart finds all that was
//! answered.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::Server;

/// One request, on a connection of its own: status and body.
fn send(server: &Server, method: &str, path: &str, body: &str) -> (u16, String) {
    let host = server.url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
}

fn push(server: &Server, id: &str) -> (u16, String) {
    let item = format!(r#"{{"items":[{{"queue":"q","payload":1,"transactionId":"{id}"}}]}}"#);
    send(server, "POST", "/api/v1/push", &item)
}

/// Push, let the disk fail, push again, let it be well, push again; then restart.
fn fails(command: &str, reason: &str) {
    let mut server = Server::embedded(None);
    assert_eq!(push(&server, "before").0, 201);
    assert_eq!(send(&server, "GET", "/health/ready", ""), (200, r#"{"status":"ready"}"#.to_owned()));
    server.command_disk(command);
    let (status, body) = push(&server, "during");
    assert!(status == 503 && body.contains(reason), "{command}: {status} {body}");
    server.command_disk("");
    let (status, body) = push(&server, "after");
    assert!(status == 503 && body.contains(reason), "no later success pretends: {command}: {status} {body}");
    let (status, body) = send(&server, "GET", "/health", "");
    assert!(status == 503 && body.contains(reason), "{command}: {status} {body}");
    let (status, body) = send(&server, "GET", "/health/ready", "");
    let stopped = body.starts_with(r#"{"status":"stopped","reason":"#) && body.contains(reason);
    assert!(status == 503 && stopped, "nothing is sent here any more: {command}: {status} {body}");
    assert_eq!(send(&server, "GET", "/health/live", "").0, 200, "{command}: the process answers");
    server = server.crash_and_restart();
    assert_eq!(send(&server, "GET", "/health", "").0, 200);
    assert_eq!(send(&server, "GET", "/health/ready", "").0, 200);
    let (status, body) = send(&server, "GET", "/api/v1/pop/queue/q?batch=10", "");
    assert!(status == 200 && body.contains("before") && !body.contains("after"), "{status} {body}");
    assert_eq!(push(&server, "again").0, 201);
}

#[test]
fn a_failed_sync_stops_the_server_until_it_is_started_again() {
    fails("eio-sync", "Input/output error");
}

#[test]
fn a_failed_write_stops_the_server_until_it_is_started_again() {
    fails("eio-write", "Input/output error");
}

#[test]
fn a_full_disk_stops_the_server_until_it_is_started_again() {
    fails("full", "No space left");
}
