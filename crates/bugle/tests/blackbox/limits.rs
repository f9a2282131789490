//! What one caller may have of the server, and what it is told when it wants more.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::common::{Answer, Client, On};

const PUSH: &str = "/api/v1/push";

fn messages(count: usize) -> Value {
    let item = json!({"queue": "q", "payload": 1});
    json!({ "items": vec![item; count] })
}

/// A refusal by a limit of its caller: it says which, and when to come back.
fn limited(answer: &Answer, by: &str) {
    assert_eq!(answer.status, 429, "{:?}", answer.body);
    assert_eq!(answer.json()["code"], "rate_limited");
    assert!(answer.error().contains(by), "{}", answer.error());
    let pause: u64 = answer.headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert!(pause >= 1);
}

async fn keyed(at: SocketAddr, key: &str, path: &str, body: Value) -> Answer {
    Client::new(at).send_with("POST", path, &[("x-api-key", key)], body.to_string()).await
}

on_every_engine! {
    async fn messages_over_the_limit_are_refused_as_a_whole(on: On) {
        let server = on.start_with(&["--limit-messages=1/100"]).await;
        assert_eq!(server.post(PUSH, messages(80)).await.status, 201);
        limited(&server.post(PUSH, messages(80)).await, "1/s (burst 100) messages for 127.0.0.1");
        let operations = json!({"operations": [{"type": "push", "items": messages(80)["items"]}]});
        limited(&server.post("/api/v1/transaction", operations).await, "messages");
        let popped = server.pop_some("/queue/q?batch=1000").await;
        assert_eq!(popped["messages"].as_array().unwrap().len(), 80, "nothing of what was refused was stored");
        server.ack_all(&popped, "completed").await;
        assert_eq!(server.metrics().await.get("bugle_requests_limited_total{limit=\"messages\"}"), 2.0);
    }

    async fn requests_over_the_limit_are_refused_and_others_are_not(on: On) {
        let keys = "--api-keys=shop:read-write:shop-shop-shop-shop,ops:read-write:ops-ops-ops-ops-ops,vip:read-write:vip-vip-vip-vip-vip";
        let flags = [keys, "--limit-requests=1/3", "--limit-callers=vip:-:-:-,ops:1/1:-:-"];
        let server = on.start_with(&flags).await;
        let send = async |key: &str| keyed(server.address(), key, PUSH, messages(1)).await;
        // Twenty at once, however slow the machine is.
        let burst = async |key: &str| futures_util::future::join_all((0..20).map(|_| send(key))).await;
        for (key, least, what) in [
            ("shop-shop-shop-shop", 3, "1/s (burst 3) requests for \"shop\""),
            ("ops-ops-ops-ops-ops", 1, "1/s (burst 1) requests for \"ops\""),
        ] {
            let answers = burst(key).await;
            let (good, bad): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 201);
            assert!(good.len() >= least && !bad.is_empty(), "{} of 20", good.len());
            bad.into_iter().for_each(|answer| limited(answer, what));
        }
        for _ in 0..20 {
            assert_eq!(send("vip-vip-vip-vip-vip").await.status, 201, "no limit by name");
            assert_eq!(server.get("/health/live").await.status, 200, "health is free");
        }
        assert_eq!(send("nobody-nobody-nobody").await.status, 401);
        assert!(server.metrics().await.get("bugle_requests_limited_total{limit=\"requests\"}") >= 2.0);
    }

    async fn one_caller_cannot_take_all_places_of_those_who_wait(on: On) {
        let server = on.start_with(&["--limit-in-flight=2"]).await;
        let first = server.park("/queue/a").await;
        let second = server.park("/queue/b").await;
        limited(&server.get("/api/v1/pop/queue/c?wait=true").await, "2 requests at a time for 127.0.0.1");
        limited(&server.post(PUSH, messages(1)).await, "2 requests at a time");
        first.leave();
        server.until_parked(1).await;
        // The client is gone, and what it had is free when the server has noticed.
        crate::common::until_true("there is a place again", async || server.post(PUSH, messages(1)).await.status == 201).await;
        second.leave();
    }
}

#[tokio::test]
async fn limits_change_by_a_hang_up() {
    let on = On::embedded();
    let config = on.dir().join("bugle.toml");
    std::fs::write(&config, "limit-messages = '1/100'\n").unwrap();
    let server = on.start_with(&[format!("--config={}", config.display())]).await;
    let push = async || server.post(PUSH, messages(100)).await.status;
    assert_eq!((push().await, push().await), (201, 429));
    std::fs::write(&config, "").unwrap();
    server.hang_up();
    crate::common::until_true("no limit any more", async || push().await == 201 && push().await == 201).await;
}

#[tokio::test]
async fn whoever_waits_as_long_as_told_is_served() {
    let on = On::embedded();
    let server = on.start_with(&["--limit-requests=2/1"]).await;
    let pop = async || {
        for refusals in 0..30 {
            let answer = server.get("/api/v1/pop/queue/q").await;
            if answer.status == 204 {
                return refusals;
            }
            limited(&answer, "requests");
            let pause = answer.headers["retry-after"].to_str().unwrap().parse().unwrap();
            tokio::time::sleep(std::time::Duration::from_secs(pause)).await;
        }
        panic!("never served");
    };
    let refusals: u32 = futures_util::future::join_all((0..6).map(|_| pop())).await.iter().sum();
    assert!(refusals > 0, "the limit holds");
}
