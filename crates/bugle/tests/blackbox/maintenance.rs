//! Push maintenance with its spool, pop maintenance, and what the server tells of them.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::common::{Client, On, PATIENCE, ids, until_true};

pub(crate) const PUSHES: &str = "/api/v1/system/maintenance";
pub(crate) const POPS: &str = "/api/v1/system/maintenance/pop";

pub(crate) async fn switch(server: &Client, path: &str, enabled: bool) -> Value {
    server.post(path, json!({ "enabled": enabled })).await.expect(200)
}

/// Looks where nobody asks the store for anything.
pub(crate) async fn drained(server: &Client) {
    until_true("drained", async || {
        let metrics = server.get("/metrics/prometheus").await;
        String::from_utf8(metrics.body.to_vec()).unwrap().contains("\nbugle_spool_messages 0\n")
    })
    .await;
}

/// Push, and say how each message was taken.
pub(crate) async fn statuses(server: &Client, queue: &str, partition: &str, all: &[&str]) -> Vec<String> {
    let pushed = server.push_ids(queue, partition, all).await;
    pushed.as_array().unwrap().iter().map(|one| one["status"].as_str().unwrap().to_owned()).collect()
}

/// Whether a text lies anywhere under a directory. Files may come and go meanwhile.
fn holds(dir: &std::path::Path, text: &str) -> bool {
    std::fs::read_dir(dir).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            return holds(&path, text);
        }
        let bytes = std::fs::read(&path).unwrap_or_default();
        // Files are prepared at full size; what was never written is not searched.
        let written = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        bytes[..written].windows(text.len()).any(|window| window == text.as_bytes())
    })
}

on_every_engine! {
    async fn pushes_are_kept_on_disk_and_stored_in_order_when_it_ends(on: On) {
        let server = on.start().await;
        server.push_ids("q", "p", &["0"]).await;
        let answer = switch(&server, PUSHES, true).await;
        assert_eq!((&answer["maintenanceMode"], &answer["bufferedMessages"], &answer["bufferHealthy"]), (&json!(true), &json!(0), &json!(true)));
        assert!(answer["message"].as_str().unwrap().contains("ENABLED") && answer.get("popMaintenanceMode").is_none(), "{answer}");
        let pushed = server.push(json!([{"queue": "q", "partition": "p", "transactionId": "1", "payload": 1}, {"queue": "new", "payload": 2}])).await;
        assert_eq!((&pushed[0]["status"], &pushed[0]["queue"], &pushed[0]["partition"], &pushed[0]["transactionId"]), (&json!("buffered"), &json!("q"), &json!("p"), &json!("1")));
        assert_eq!((&pushed[1]["index"], &pushed[1]["queueName"], &pushed[1]["partition"]), (&json!(1), &json!("new"), &json!("Default")));
        assert_eq!(pushed[1]["transaction_id"], pushed[1]["transactionId"]);
        server.push_ids("q", "p", &["2"]).await;
        let state = server.get(PUSHES).await.expect(200);
        assert_eq!((&state["maintenanceMode"], &state["popMaintenanceMode"], &state["bufferedMessages"]), (&json!(true), &json!(false), &json!(3)));
        let stats = &state["bufferStats"];
        assert_eq!((&stats["pendingCount"], &stats["failedCount"], &stats["dbHealthy"]), (&json!(3), &json!(0), &json!(true)));
        assert_eq!(stats["failedFiles"], json!({"count": 0, "totalBytes": 0, "totalMB": 0, "failoverCount": 0, "qos0Count": 0}));
        assert_eq!(ids(&server.pop_some("/queue/q?batch=10&consumerGroup=during").await), ["0"]);
        assert_eq!(server.pop("/queue/new").await, None);
        let metrics = server.get("/metrics/prometheus").await;
        let text = String::from_utf8(metrics.body.to_vec()).unwrap();
        assert!(text.contains("bugle_maintenance{of=\"push\"} 1") && text.contains("bugle_spool_messages 3"), "{text}");

        switch(&server, PUSHES, false).await;
        drained(&server).await;
        assert_eq!(statuses(&server, "q", "p", &["3"]).await, ["queued"]);
        assert_eq!(ids(&server.pop_some("/queue/q?batch=10&consumerGroup=after").await), ["0", "1", "2", "3"]);
        let new = server.pop_some("/queue/new").await;
        assert_eq!((&new["messages"][0]["id"], &new["messages"][0]["transactionId"]), (&pushed[1]["message_id"], &pushed[1]["transactionId"]), "ids are those that were told");
    }

    async fn a_parked_pop_is_woken_by_the_drain(on: On) {
        let server = on.start().await;
        let waiter = server.park("/queue/q").await;
        switch(&server, PUSHES, true).await;
        server.push_ids("q", "p", &["t"]).await;
        switch(&server, PUSHES, false).await;
        assert_eq!(ids(&waiter.answer().await), ["t"]);
    }

    async fn what_was_kept_survives_a_crash_and_maintenance_does_too(on: On) {
        let server = on.start().await;
        switch(&server, PUSHES, true).await;
        let all: Vec<String> = (0..50).map(|n| format!("{n:02}")).collect();
        for id in &all {
            assert_eq!(statuses(&server, "q", "p", &[id]).await, ["buffered"]);
        }
        server.kill();
        let server = on.start().await;
        assert_eq!(server.get(PUSHES).await.json()["bufferedMessages"], 50);
        assert_eq!(server.get("/health").await.json()["shared_state"]["maintenance_mode"], true);
        assert_eq!(statuses(&server, "q", "p", &["last"]).await, ["buffered"]);
        assert!(server.terminate().await.success());
        let server = on.start().await;
        switch(&server, PUSHES, false).await;
        drained(&server).await;
        let popped = server.pop_some("/queue/q?batch=100").await;
        assert_eq!(ids(&popped)[..50], all);
        assert_eq!(ids(&popped)[50..], ["last"]);
    }

    async fn a_server_killed_while_it_drains_stores_everything_once(on: On) {
        let server = on.start().await;
        // Without a window nothing but the drain itself keeps a message from being stored twice.
        server.configure(json!({"queue": "q", "options": {"dedupWindowSeconds": 0}})).await;
        switch(&server, PUSHES, true).await;
        let text = "x".repeat(8_000);
        let all: Vec<String> = (0..3000).map(|n| format!("{n:04}")).collect();
        for some in all.chunks(100) {
            let items: Value = some.iter().map(|id| json!({"queue": "q", "partition": "p", "transactionId": id, "payload": text})).collect();
            server.push(items).await;
        }
        switch(&server, PUSHES, false).await;
        let mut server = server;
        for round in 1..4 {
            let left = 3000 - round * 700;
            let far = async || server.get(PUSHES).await.json()["bufferedMessages"].as_u64().unwrap() <= left;
            until_true("a part is drained", far).await;
            server.kill();
            server = on.start().await;
        }
        drained(&server).await;
        let mut found: Vec<String> = Vec::new();
        while let Some(popped) = server.pop("/queue/q?batch=1000&autoAck=true").await {
            found.extend(ids(&popped).into_iter().map(str::to_owned));
        }
        assert_eq!(found, all);
    }

    async fn a_full_spool_is_told_and_nothing_of_the_push_is_kept(on: On) {
        let server = on.start_with(&["--max-spool=1000"]).await;
        switch(&server, PUSHES, true).await;
        assert_eq!(statuses(&server, "q", "p", &["a"]).await, ["buffered"]);
        let large = json!({"items": [{"queue": "q", "partition": "p", "payload": "x".repeat(900)}]});
        let refused = server.post("/api/v1/push", large).await;
        assert_eq!((refused.status, refused.headers.contains_key("retry-after")), (429, true));
        assert!(refused.error().contains("spool is full"), "{}", refused.error());
        switch(&server, PUSHES, false).await;
        drained(&server).await;
        assert_eq!(ids(&server.pop_some("/queue/q?batch=9").await), ["a"]);
    }

    async fn transactions_with_pushes_are_told_to_come_back(on: On) {
        let server = on.start().await;
        server.push_ids("from", "p", &["t"]).await;
        let popped = server.pop_some("/queue/from").await;
        let message = &popped["messages"][0];
        let ack = json!({"type": "ack", "transactionId": "t", "partitionId": message["partitionId"], "leaseId": message["leaseId"]});
        let push = json!({"type": "push", "items": [{"queue": "to", "transactionId": "u"}]});
        switch(&server, PUSHES, true).await;
        let refused = server.post("/api/v1/transaction", json!({"operations": [ack, push]})).await;
        assert_eq!((refused.status, refused.headers.contains_key("retry-after")), (503, true));
        assert_eq!(refused.json()["code"], "maintenance");
        switch(&server, PUSHES, false).await;
        let done = server.post("/api/v1/transaction", json!({"operations": [ack, push]})).await.expect(200);
        assert_eq!(done["success"], true, "{done}");
    }

    async fn encrypted_payloads_lie_nowhere_in_clear(on: On) {
        let key = "--encryption-key=000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
        let server = on.start_with(&[key, "--spool-dir=spool"]).await;
        server.configure(json!({"queue": "q", "options": {"encryptionEnabled": true}})).await;
        switch(&server, PUSHES, true).await;
        server.push(json!([{"queue": "q", "payload": {"card": "plain-secret"}}])).await;
        assert!(!holds(on.dir(), "plain-secret"));
        assert!(holds(on.dir(), "BUGLESPL"), "the search finds the spool");
        switch(&server, PUSHES, false).await;
        drained(&server).await;
        assert_eq!(server.pop_some("/queue/q").await["messages"][0]["data"], json!({"card": "plain-secret"}));
    }

    async fn paused_pops_are_empty_and_consumers_resume_by_themselves(on: On) {
        let server = on.start().await;
        let before = server.park("/queue/q?consumerGroup=before").await;
        let answer = switch(&server, POPS, true).await;
        assert_eq!((&answer["popMaintenanceMode"], answer.get("maintenanceMode")), (&json!(true), None));
        until_true("a parked pop is answered", async || before.is_answered()).await;
        server.push_ids("q", "p", &["t"]).await;
        assert_eq!(server.pop("/queue/q").await, None);
        let begun = Instant::now();
        assert_eq!(server.pop("/queue/q?wait=true&timeout=300").await, None);
        assert!(begun.elapsed() >= Duration::from_millis(300), "who waits does so, and does not spin");
        let waiter = server.wait("/queue/q");
        server.until_waiting(1).await;
        let filter = server.wait("?namespace=q&consumerGroup=filter");
        server.until_waiting(2).await;
        assert_eq!(server.get(POPS).await.expect(200)["popMaintenanceMode"], true);
        switch(&server, POPS, false).await;
        assert_eq!(ids(&waiter.answer().await), ["t"]);
        assert_eq!(ids(&filter.answer().await), ["t"]);
    }

    async fn acks_go_on_while_pops_are_paused(on: On) {
        let server = on.start().await;
        server.push_ids("q", "p", &["a", "b"]).await;
        let popped = server.pop_some("/queue/q").await;
        switch(&server, POPS, true).await;
        assert_eq!(server.ack_all(&popped, "completed").await[0]["success"], true);
        switch(&server, POPS, false).await;
        assert_eq!(ids(&server.pop_some("/queue/q").await), ["b"]);
    }

    async fn a_paused_conflating_consumer_is_told_of_its_policy(on: On) {
        let server = on.start().await;
        switch(&server, POPS, true).await;
        let empty = server.pop_some("/queue/q?consumerGroup=g&conflation=true&wait=true&timeout=50").await;
        assert_eq!((&empty["conflation"], &empty["messages"]), (&json!(true), &json!([])));
    }

    async fn wrong_switches_change_nothing(on: On) {
        let server = on.start().await;
        for path in [PUSHES, POPS] {
            for body in [json!({}), json!({"enabled": "true"}), json!({"enabled": 1}), json!({"enabled": null})] {
                let refused = server.post(path, body.clone()).await;
                assert_eq!((refused.status, refused.error()), (400, "enabled (boolean) is required".into()), "{path} {body}");
            }
        }
        let state = server.get(PUSHES).await.json();
        assert_eq!((&state["maintenanceMode"], &state["popMaintenanceMode"]), (&json!(false), &json!(false)));
    }

    async fn the_flags_are_told_where_existing_clients_read_them(on: On) {
        let server = on.start().await;
        for (push, pop) in [(false, false), (true, false), (true, true), (false, true)] {
            switch(&server, PUSHES, push).await;
            switch(&server, POPS, pop).await;
            let health = server.get("/health").await.expect(200);
            let state = server.get("/api/v1/system/shared-state").await.expect(200);
            let stats = server.get("/internal/api/shared-state/stats").await.expect(200);
            for told in [&health["shared_state"], &state, &stats] {
                assert_eq!((&told["maintenance_mode"], &told["pop_maintenance_mode"]), (&json!(push), &json!(pop)), "{told}");
            }
        }
    }

    async fn a_hint_from_outside_wakes_and_other_internals_answer(on: On) {
        let server = on.start().await;
        server.push_ids("q", "p", &["t"]).await;
        for body in [json!({"queue": "q"}), json!({"queue": "q", "partition": "p"}), json!({"queue": "nobody knows it"})] {
            assert_eq!(server.post("/internal/api/notify", body).await.expect(200), json!({"status": "ok"}));
        }
        for (body, complaint) in [(json!({}), "queue is required"), (json!({"queue": 5}), "queue must be a string"), (json!({"queue": "q", "partition": []}), "partition must be a string")] {
            let refused = server.post("/internal/api/notify", body).await;
            assert_eq!((refused.status, refused.error()), (400, complaint.into()));
        }
        let stats = server.get("/internal/api/inter-instance/stats").await.expect(200);
        assert!(stats["transport"]["sent"].is_u64() && stats["carriers"].is_array(), "{stats}");
    }

    async fn routes_that_are_left_out_are_told_as_such(on: On) {
        let server = on.start().await;
        for (method, path) in [
            ("GET", "/migration"), ("GET", "/api/v1/migration/status"), ("POST", "/api/v1/migration/start"), ("POST", "/streams/v1/queries"),
            ("POST", "/streams/v1/cycle"), ("POST", "/streams/v1/state/get"), ("POST", "/api/v1/stream/define"), ("GET", "/api/v1/stream/poll"),
            ("GET", "/api/v1/status/buffers"),
        ] {
            let answer = server.send(method, path, "").await;
            assert_eq!((answer.status, answer.json()), (404, json!({"error": "Not Found", "code": "no_such_route"})), "{method} {path}");
        }
    }
}

#[tokio::test]
async fn two_servers_do_not_share_a_spool() {
    let on = On::postgres().await;
    let (a, b) = tokio::join!(on.start(), on.start());
    switch(&a, PUSHES, true).await;
    until_true("b knows", async || b.get(PUSHES).await.json()["maintenanceMode"] == true).await;
    assert_eq!(statuses(&a, "q", "p", &["a"]).await, ["buffered"]);
    let refused = b.post("/api/v1/push", json!({"items": [{"queue": "q", "payload": 1}]})).await;
    assert_eq!(refused.status, 503);
    assert!(refused.error().contains("spool directory of its own"), "{}", refused.error());
    assert_eq!(b.get(PUSHES).await.json()["bufferHealthy"], false);
}

#[tokio::test]
async fn pushes_are_taken_while_the_database_is_away_for_maintenance() {
    let (cutter, address) = crate::common::WireCutter::before(&bugle_pg::testdb::server().await).await;
    let on = On::database(&address, &["--notify=false"]);
    let server = on.start().await;
    server.push_ids("q", "p", &["0"]).await;
    switch(&server, PUSHES, true).await;
    cutter.cut();
    let all: Vec<String> = (1..20).map(|n| format!("{n:02}")).collect();
    for id in &all {
        assert_eq!(statuses(&server, "q", "p", &[id]).await, ["buffered"]);
    }
    cutter.mend();
    let begun = Instant::now();
    while server.post(PUSHES, json!({"enabled": false})).await.status != 200 {
        assert!(begun.elapsed() < PATIENCE, "the store never came back");
        sleep(Duration::from_millis(20)).await;
    }
    drained(&server).await;
    let popped = server.pop_some("/queue/q?batch=100").await;
    assert_eq!(ids(&popped)[..1], ["0"]);
    assert_eq!(ids(&popped)[1..], all);
}
