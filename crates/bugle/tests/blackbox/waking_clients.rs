//! Clients that go away and clients that are too many: nothing is lost to the dead, and every place they held is free at
//! once.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::time::timeout;

use crate::common::{On, PATIENCE, Server, Sql, ids};
use crate::waking::NO_FLOOR;

/// Far less than any lease or timeout in these tests.
const AT_ONCE: Duration = Duration::from_secs(1);

on_every_engine! {
    async fn one_too_many_is_told_when_to_come_back(on: On) {
        let server = on.start_with(&["--max-waiters=2"]).await;
        let first = server.park("/queue/q").await;
        let second = server.park("/queue/q").await;
        let refused = server.get("/api/v1/pop/queue/q?wait=true&timeout=60000").await;
        assert_eq!(refused.status, 429, "{:?}", refused.body);
        let seconds: u64 = refused.headers["retry-after"].to_str().unwrap().parse().unwrap();
        assert!((1..=60).contains(&seconds) && !refused.error().is_empty());
        assert_eq!(server.pop("/queue/q?wait=false").await, None, "who does not wait takes no place");
        // A client that disconnects leaves its place to the next at once.
        first.leave();
        server.until("a place is free", |m| m.get("bugle_waiters") == 1.0).await;
        let third = server.park("/queue/q").await;
        server.push_ids("q", "a", &["a"]).await;
        assert_eq!(ids(&second.answer().await), ["a"]);
        server.push_ids("q", "b", &["b"]).await;
        assert_eq!(ids(&third.answer().await), ["b"]);
    }

    async fn a_client_gone_in_the_middle_of_its_answer_holds_nothing(on: On) {
        let server = on.start_with(&NO_FLOOR).await;
        push_twelve_megabytes(&server).await;
        read_a_little(&server, "/api/v1/pop/queue/q?batch=12").await;
        is_free(&server).await;
    }

    async fn a_request_cancelled_in_the_middle_of_its_answer_holds_nothing(on: On) {
        let server = on.start_with(&NO_FLOOR).await;
        push_twelve_megabytes(&server).await;
        let line = server.line().await;
        line.pop_and_cancel("/queue/q?batch=12").await;
        is_free(&server).await;
        // The connection lives on.
        assert_eq!(line.pop("/queue/q").await.status, 204);
    }
}

async fn push_twelve_megabytes(server: &Server) {
    server.configure(json!({"queue": "q", "options": {"leaseTime": 300}})).await;
    let payload = "x".repeat(1 << 20);
    let item =
        |n| json!({"queue": "q", "partition": "p", "transactionId": format!("t{n}"), "payload": payload});
    server.push((0..12).map(item).collect()).await;
}

/// Nothing of it counts as delivered, and its lease is over.
async fn is_free(server: &Server) {
    let begun = Instant::now();
    let popped = server.wait("/queue/q").answer().await;
    let freed = begun.elapsed();
    assert_eq!((ids(&popped), &popped["messages"][0]["deliveryAttempt"]), (vec!["t0"], &json!(1)));
    // Reading a megabyte takes its time too; the lease would have lasted five minutes.
    assert!(freed < Duration::from_secs(5), "{freed:?}");
}

/// Ask, read the beginning of the answer, and close the connection.
async fn read_a_little(server: &Server, path: &str) {
    let socket = TcpSocket::new_v4().unwrap();
    // Small, so that the answer cannot be over before it was begun to be read.
    socket.set_recv_buffer_size(16 << 10).unwrap();
    let mut stream = socket.connect(server.address()).await.unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").as_bytes()).await.unwrap();
    let mut beginning = [0; 1024];
    timeout(PATIENCE, stream.read_exact(&mut beginning)).await.expect("an answer").unwrap();
    assert!(beginning.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&beginning));
}

/// A server with one message to claim, and a transaction of the test's own that keeps the claim from going on.
async fn claim_held_up(on: &On) -> (Server, Sql) {
    let server = on.start_with(&NO_FLOOR).await;
    server.configure(json!({"queue": "q", "options": {"leaseTime": 300}})).await;
    server.push_ids("q", "p", &["t0"]).await;
    server.pop_some("/queue/q?autoAck=true").await;
    server.push_ids("q", "p", &["t1"]).await;
    let mut sql = Sql::to(on).await;
    sql.run("BEGIN; SELECT 1 FROM {schema}.cursors FOR UPDATE").await;
    (server, sql)
}

/// Wait until a statement of the server waits for the lock.
async fn until_held_up(on: &On) {
    let blocked =
        "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%{schema}.cursors%'";
    Sql::to(on).await.until_some(blocked).await;
}

async fn gets_it_at_once(server: &Server) -> Value {
    let begun = Instant::now();
    let popped = server.wait("/queue/q").answer().await;
    let freed = begun.elapsed();
    assert_eq!(ids(&popped), ["t1"]);
    assert_eq!(popped["messages"][0]["deliveryAttempt"], 1, "it was not delivered to the dead");
    assert!(freed < AT_ONCE, "free after {freed:?}");
    popped
}

on_every_database! {
    async fn a_waiting_client_killed_during_its_claim_holds_nothing(on: On) {
        let (server, mut sql) = claim_held_up(&on).await;
        let client = server.wait("/queue/q");
        until_held_up(&on).await;
        client.leave();
        server.until("the server knows", |m| m.get("bugle_waiters") == 0.0).await;
        sql.run("COMMIT").await;
        gets_it_at_once(&server).await;
    }

    async fn a_client_killed_during_its_claim_holds_nothing(on: On) {
        let (server, mut sql) = claim_held_up(&on).await;
        let client = server.client();
        let pop = tokio::spawn(async move { client.pop("/queue/q").await });
        until_held_up(&on).await;
        pop.abort();
        assert!(pop.await.unwrap_err().is_cancelled());
        sql.run("COMMIT").await;
        gets_it_at_once(&server).await;
    }

    async fn another_client_that_waits_gets_what_the_dead_one_had_claimed(on: On) {
        let (server, mut sql) = claim_held_up(&on).await;
        let dead = server.wait("/queue/q");
        until_held_up(&on).await;
        let alive = server.park("/queue/q").await;
        dead.leave();
        server.until("the server knows", |m| m.get("bugle_waiters") == 1.0).await;
        let begun = Instant::now();
        sql.run("COMMIT").await;
        let (popped, at) = alive.timed().await;
        assert_eq!((ids(&popped), &popped["messages"][0]["deliveryAttempt"]), (vec!["t1"], &json!(1)));
        assert!(at - begun < AT_ONCE, "{:?}", at - begun);
    }
}
