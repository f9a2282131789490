//! Databases and servers that go away and come back under those who wait: they are told nothing of it, and get all there is.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::common::{Client, On, OwnPostgres, PATIENCE, Sql, ids, until_true};
use crate::waking_servers::by_notify;

on_every_database! {
    async fn a_claim_whose_connection_dies_is_made_again(on: On) {
        let (_a, b) = by_notify(&on).await;
        b.push_ids("q", "p", &["t0"]).await;
        b.pop_some("/queue/q?autoAck=true").await;
        b.push_ids("q", "p", &["t1"]).await;
        let (mut holder, mut killer) = (Sql::to(&on).await, Sql::to(&on).await);
        holder.run("BEGIN; SELECT 1 FROM {schema}.cursors FOR UPDATE").await;
        let waiter = b.wait("/queue/q?leaseSeconds=300");
        let blocked = "FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%{schema}.cursors%'";
        killer.until_some(&format!("SELECT 1 {blocked}")).await;
        killer.rows(&format!("SELECT pg_terminate_backend(pid) {blocked}")).await;
        holder.run("COMMIT").await;
        let popped = waiter.answer().await;
        assert_eq!((ids(&popped), &popped["messages"][0]["deliveryAttempt"]), (vec!["t1"], &json!(1)));
        assert_eq!(b.ack_all(&popped, "completed").await[0]["success"], true);
    }
}

/// Takes as long as the longest wait for a lock.
#[tokio::test]
async fn a_claim_that_the_database_gives_up_is_made_again() {
    let on = On::postgres().await;
    let (_a, b) = by_notify(&on).await;
    b.push_ids("q", "p", &["t0"]).await;
    b.pop_some("/queue/q?autoAck=true").await;
    b.push_ids("q", "p", &["t1"]).await;
    let mut holder = Sql::to(&on).await;
    holder.run("BEGIN; SELECT 1 FROM {schema}.cursors FOR UPDATE").await;
    let waiter = b.wait("/queue/q?leaseSeconds=300");
    b.until("given up", |m| m.get("bugle_store_errors_total") >= 1.0).await;
    assert!(!waiter.is_answered(), "who waits is told nothing of it");
    holder.run("COMMIT").await;
    let popped = waiter.answer().await;
    assert_eq!((ids(&popped), &popped["messages"][0]["deliveryAttempt"]), (vec!["t1"], &json!(1)));
}

#[tokio::test]
async fn a_restarted_database_serves_three_hundred_who_waited_through_it() {
    let mut database = OwnPostgres::start().await;
    let on = On::database(&database.address(), &["--log-level=off"]);
    let (a, b) = tokio::join!(on.start(), on.start());
    tokio::join!(a.until_hearing("notify", 1), b.until_hearing("notify", 1));
    a.push_ids("q", "p", &["before"]).await;
    assert_eq!(ids(&b.pop_some("/queue/q?autoAck=true").await), ["before"]);
    let mut waiters = JoinSet::new();
    for server in [&a, &b] {
        let line = server.line().await;
        for _ in 0..150 {
            let line = line.clone();
            waiters.spawn(async move { line.pop("/queue/q?wait=true&timeout=110000&autoAck=true").await });
        }
    }
    tokio::join!(a.until_parked(150), b.until_parked(150));
    database.stop();
    until_true("it is missed", async || a.get("/health").await.status == 503).await;
    until_true("it is missed", async || b.get("/health").await.status == 503).await;
    database.begin().await;

    let item = |n| json!({"queue": "q", "partition": format!("p{n}"), "transactionId": format!("t{n}")});
    let body = json!({"items": (0..300).map(item).collect::<Vec<_>>()}).to_string();
    // Until the server is back it says 503, and a retried push stores once.
    until_true("a push is taken", async || {
        let answer = a.send("POST", "/api/v1/push", body.clone()).await;
        assert!([201, 503].contains(&answer.status), "{answer:?}");
        answer.status == 201
    })
    .await;
    let answers = timeout(PATIENCE, waiters.join_all()).await.expect("all are served");
    let popped: Vec<_> = answers.into_iter().map(|answer| answer.expect(200)).collect();
    let mut seen: Vec<_> = popped.iter().flat_map(ids).collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 300, "each has a message of its own");
    tokio::join!(a.until_hearing("notify", 1), b.until_hearing("notify", 1));
}

/// Messages that were acknowledged, and whether that was confirmed: a server that dies may have heard it.
type Acked = Arc<Mutex<HashMap<String, bool>>>;

/// Consume until the server is gone.
async fn consume(client: Client, acked: Acked) {
    loop {
        let path = "/api/v1/pop/queue/q?wait=true&timeout=300&batch=5&leaseSeconds=2";
        let Ok(popped) = client.try_send("GET", path, "").await else { return };
        if popped.status == 204 {
            continue;
        }
        let popped = popped.expect(200);
        for id in ids(&popped) {
            assert_ne!(acked.lock().unwrap().get(id), Some(&true), "{id} came after a confirmed ack");
        }
        let message = |m: &Value| json!({"transactionId": m["transactionId"], "partitionId": m["partitionId"], "leaseId": m["leaseId"], "status": "completed"});
        let acks: Vec<_> = popped["messages"].as_array().unwrap().iter().map(message).collect();
        let body = json!({"acknowledgments": acks, "consumerGroup": popped["consumerGroup"]}).to_string();
        let answer = client.try_send("POST", "/api/v1/ack/batch", body).await;
        let mut acked = acked.lock().unwrap();
        let Ok(answer) = answer else {
            for id in ids(&popped) {
                acked.entry(id.to_owned()).or_insert(false);
            }
            return;
        };
        for (id, result) in ids(&popped).into_iter().zip(answer.expect(200).as_array().unwrap()) {
            if result["success"] == true {
                acked.insert(id.to_owned(), true);
            }
        }
    }
}

/// Push to ten lanes until told to stop; how many messages that were.
async fn produce(client: Client, stop: Arc<AtomicBool>) -> usize {
    for n in 0.. {
        let item = |lane| json!({"queue": "q", "partition": format!("p{lane}"), "transactionId": format!("{lane}/{n}")});
        client.push((0..10).map(item).collect()).await;
        if stop.load(Ordering::SeqCst) {
            return (n + 1) * 10;
        }
        // A pace that consumers keep up with.
        sleep(Duration::from_millis(20)).await;
    }
    unreachable!("it is told to stop")
}

#[tokio::test]
async fn servers_that_come_and_go_under_load_lose_nothing() {
    let on = On::postgres().await;
    let (a, b) = tokio::join!(on.start(), on.start());
    let acked = Acked::default();
    let mut consumers = JoinSet::new();
    for client in [a.client(), b.client()].iter().cycle().take(8) {
        consumers.spawn(consume(client.clone(), acked.clone()));
    }
    let stop = Arc::new(AtomicBool::new(false));
    let producer = tokio::spawn(produce(a.client(), stop.clone()));
    for crash in [false, true, false, true] {
        let c = on.start().await;
        let before = c.metrics().await;
        for _ in 0..3 {
            consumers.spawn(consume(c.client(), acked.clone()));
        }
        c.until("it has a share", |m| m.since(&before, "bugle_messages_total{verb=\"ack\"}") >= 20.0).await;
        if crash {
            c.kill();
        } else {
            assert!(c.terminate().await.success());
        }
    }
    stop.store(true, Ordering::SeqCst);
    let pushed = timeout(PATIENCE, producer).await.expect("all is pushed").unwrap();
    until_true("all is acknowledged", async || {
        while let Some(ended) = consumers.try_join_next() {
            ended.expect("no consumer fails");
        }
        acked.lock().unwrap().len() == pushed
    })
    .await;
}
