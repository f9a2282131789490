//! The description of the API against the server: every operation is used, every answer held against what is said of it
//! (see `common::contract`), so that nothing described stays unproven.

use serde_json::{Value, json};

use crate::common::contract::{DOCUMENT, seen};
use crate::common::{Client, Events, Server};
use crate::dead_letters::bury;
use crate::maintenance::{POPS, PUSHES, drained, switch};

/// Statuses that need an outage, a flood, a slow client or credentials; other tests see to them.
const ELSEWHERE: [u16; 7] = [401, 403, 408, 413, 429, 500, 503];

/// Refusals that need another server's help at the right moment, or another engine.
const RARE: [(&str, &str, u16); 2] =
    [("post", "/api/v1/dlq/redrive", 409), ("post", "/api/v1/system/backup", 409)];

on_every_engine! {
    async fn the_server_tells_the_description_that_is_kept(on: On) {
        let server = on.start().await;
        assert!(server.get("/openapi.json").await.expect(200) == *DOCUMENT, "docs/openapi.json is another");
        let page = server.get("/docs").await;
        assert_eq!((page.status, &page.headers["content-type"]), (200, &"text/html; charset=utf-8".parse().unwrap()));
        assert!(page.headers["content-security-policy"].to_str().unwrap().starts_with("default-src 'none'"));
    }

    async fn every_operation_answers_as_it_is_described(on: On) {
        let server = on.start().await;
        tell(&server).await;
        consume(&server).await;
        transact(&server).await;
        look(&server).await;
        give_up_and_send_back(&server).await;
        trace(&server).await;
        count(&server).await;
        recall(&server).await;
        move_groups(&server).await;
        maintain(&server).await;
        back_up(&server).await;
        clear(&server).await;
        refuse(&server).await;
        assert!(unseen().is_empty(), "described but never seen: {:#?}", unseen());
    }
}

/// What is described and was not answered yet.
fn unseen() -> Vec<(String, String, u16)> {
    let seen = seen();
    let mut missing = Vec::new();
    for (path, methods) in DOCUMENT["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let statuses =
                operation["responses"].as_object().unwrap().keys().map(|s| s.parse::<u16>().unwrap());
            missing.extend(statuses.map(|status| (method.clone(), path.clone(), status)));
        }
    }
    let rare = |(method, path, status): &(String, String, u16)| RARE.contains(&(method, path, *status));
    missing.retain(|entry| !seen.contains(entry) && !ELSEWHERE.contains(&entry.2) && !rare(entry));
    missing
}

async fn tell(server: &Server) {
    for path in [
        "/",
        "/docs",
        "/openapi.json",
        "/health",
        "/health/live",
        "/health/ready",
        "/metrics",
        "/metrics/prometheus",
        "/api/v1/system/shared-state",
        "/api/v1/system/maintenance",
        "/api/v1/system/maintenance/pop",
        "/internal/api/shared-state/stats",
        "/internal/api/inter-instance/stats",
        "/api/v1/waiting",
    ] {
        assert_eq!(server.get(path).await.status, 200, "{path}");
    }
    let page = server.send_with("GET", "/", &[("accept", "text/html")], "").await;
    assert_eq!(page.status, 200);
    Events::listen(server, "server").await.next("server").await;
}

async fn back_up(server: &Server) {
    let archive = server.send("POST", "/api/v1/system/backup?spool=only", "").await;
    assert_eq!((archive.status, archive.body.len() % 512), (200, 0));
    server.send("POST", "/api/v1/system/backup?spool=all", "").await.expect(400);
}

async fn consume(server: &Server) {
    server
        .configure(
            json!({"queue": "q", "namespace": "n", "task": "t", "options": {"leaseTime": 60, "strange": 1}}),
        )
        .await;
    server.push_ids("q", "p", &["t1", "t2", "t1"]).await;
    for rest in [
        "/queue/q?consumerGroup=a&autopilot=true",
        "/queue/q/partition/p?consumerGroup=b&autoAck=true",
        "?namespace=n",
    ] {
        server.pop_some(rest).await;
    }
    for rest in ["/queue/none", "/queue/none/partition/p", "?namespace=none"] {
        assert!(server.pop(rest).await.is_none());
    }
    let conflated = server.pop_some("/queue/q?consumerGroup=c&conflation=true").await;
    assert_eq!(conflated["conflation"], true);
    assert_eq!(server.pop_some("/queue/q?consumerGroup=c").await["conflationConflict"], true);
    let popped = server.pop_some("/queue/q?consumerGroup=d&batch=2").await;
    let lease = format!("/api/v1/lease/{}/extend", popped["leaseId"].as_str().unwrap());
    assert_eq!(server.post(&lease, json!({"seconds": 90})).await.expect(200)["success"], true);
    server.post("/api/v1/lease/nonsense/extend", json!({})).await.expect(200);
    server.ack_all(&popped, "completed").await;
    let message = &server.pop_some("/queue/q?consumerGroup=e").await["messages"][0];
    let ack = json!({"transactionId": "t1", "partitionId": message["partitionId"], "leaseId": message["leaseId"], "consumerGroup": "e"});
    assert_eq!(server.post("/api/v1/ack", ack.clone()).await.expect(200)[0]["success"], true);
    let mut stale = ack;
    stale["leaseId"] = json!("stale");
    server.post("/api/v1/ack", stale).await.expect(200);
}

async fn transact(server: &Server) {
    let push = |queue: &str| json!({"type": "push", "queue": queue, "payload": 1});
    let done =
        server.post("/api/v1/transaction", json!({"operations": [push("t"), push("t")]})).await.expect(200);
    assert_eq!(done["success"], true);
    let ack = json!({"type": "ack", "transactionId": "none", "partitionId": "none"});
    let undone =
        server.post("/api/v1/transaction", json!({"operations": [push("t"), ack]})).await.expect(200);
    assert_eq!(undone["success"], false);
    server.configure(json!({"queue": "sealed", "options": {"encryptionEnabled": true}})).await;
    server.post("/api/v1/transaction", json!({"operations": [push("sealed")]})).await.expect(409);
    server.post("/api/v1/push", json!({"items": [{"queue": "sealed"}]})).await.expect(409);
    server.send("DELETE", "/api/v1/resources/queues/t", "").await.expect(200);
}

async fn look(server: &Server) {
    let listed = server.get("/api/v1/messages?queue=q").await.expect(200);
    let id = listed["messages"][0]["partitionId"].as_str().unwrap();
    server.get(&format!("/api/v1/messages/{id}/t1")).await.expect(200);
    server.get(&format!("/api/v1/messages/{id}/none")).await.expect(404);
    server.get("/api/v1/consumer-groups/d").await.expect(200);
}

async fn give_up_and_send_back(server: &Client) {
    let id = bury(server, "dead", "p", &["d1", "d2", "d3", "d4"], "boom").await;
    let letters = server.get("/api/v1/dlq?queue=dead").await.expect(200);
    server.get("/api/v1/dlq/count?queue=dead").await.expect(200);
    let letter = |i: usize| format!("/api/v1/dlq/{}/replay", letters["messages"][i]["id"].as_str().unwrap());
    let sealed = json!({"queue": "sealed"});
    server.post(&letter(0), sealed.clone()).await.expect(409);
    server.send("POST", &letter(0), "").await.expect(200);
    server.send("POST", &letter(0), "").await.expect(404);
    let left: Vec<&str> = (1..4).map(|i| letters["messages"][i]["transactionId"].as_str().unwrap()).collect();
    let message = |i: usize, rest: &str| format!("/api/v1/messages/{id}/{}{rest}", left[i]);
    server.post(&message(0, "/retry"), sealed).await.expect(409);
    server.send("POST", &message(0, "/retry"), "").await.expect(200);
    server.send("POST", &message(0, "/retry"), "").await.expect(404);
    server.send("DELETE", &message(1, ""), "").await.expect(200);
    server.send("DELETE", &message(1, ""), "").await.expect(404);
    server
        .post("/api/v1/dlq/redrive", json!({"filter": {"queue": "dead"}, "dryRun": true}))
        .await
        .expect(200);
    assert_eq!(
        server.post("/api/v1/dlq/redrive", json!({"filter": {"queue": "dead"}})).await.expect(200)["redriven"],
        1
    );
    server.post("/api/v1/dlq/redrive", json!({"filter": {"queue": "nowhere"}})).await.expect(404);
    let partition =
        server.push_ids("up", "p", &["u1", "u2"]).await[0]["partition_id"].as_str().unwrap().to_owned();
    let give_up = |id: &str| format!("/api/v1/messages/{partition}/{id}/dlq");
    server.send("POST", &give_up("u1"), "").await.expect(409);
    server.pop_some("/queue/up").await;
    server.post(&give_up("u1"), json!({"error": "no use"})).await.expect(200);
    server.send("POST", &give_up("none"), "").await.expect(404);
}

async fn trace(server: &Server) {
    let id = server.push_ids("traced", "p", &["t"]).await[0]["partition_id"].clone();
    let trace = json!({"transactionId": "t", "partitionId": id, "data": [1], "traceNames": ["name"]});
    server.post("/api/v1/traces", trace).await.expect(201);
    server
        .post("/api/v1/traces", json!({"transactionId": "x", "partitionId": id, "data": 1}))
        .await
        .expect(404);
    for path in ["names", "by-name/name", &format!("{}/t", id.as_str().unwrap())] {
        assert_eq!(server.get(&format!("/api/v1/traces/{path}")).await.expect(200)["total"], 1, "{path}");
    }
}

/// What there is. By now there are queues, groups that are behind, and dead letters.
async fn count(server: &Server) {
    for path in [
        "resources/queues?search=q&limit=1",
        "resources/queues/q?limit=1",
        "resources/queues/q/depth?group=d",
        "resources/queues/q/depth",
        "resources/partitions?queue=q",
        "resources/namespaces",
        "resources/tasks",
        "resources/overview",
        "status/queues?namespace=n",
        "status/queues/q",
        "status/queues/q/messages",
        "consumer-groups",
        "consumer-groups/lagging?minLagSeconds=0",
    ] {
        let told = server.get(&format!("/api/v1/{path}")).await.expect(200);
        let list = [&told, &told["queues"], &told["partitions"], &told["namespaces"], &told["tasks"]];
        let empty = list.iter().filter_map(|list| list.as_array()).any(Vec::is_empty);
        assert!(!empty, "{path} proves nothing: {told}");
    }
    for path in [
        "resources/queues/nowhere",
        "resources/queues/nowhere/depth",
        "resources/partitions?queue=nowhere",
        "status/queues/nowhere",
        "status/queues/nowhere/messages",
    ] {
        server.get(&format!("/api/v1/{path}")).await.expect(404);
    }
    server.send("POST", "/api/v1/stats/refresh", "").await.expect(200);
}

/// What happened.
async fn recall(server: &Server) {
    for (path, lists) in [
        ("status", &["/throughput", "/queues", "/workers", "/deadLetterQueue/topErrors"][..]),
        ("status?queue=q", &["/throughput"]),
        ("status/analytics?interval=minute", &["/dataPoints"]),
        ("analytics/system-metrics", &["/replicas", "/replicas/0/timeSeries"]),
        ("analytics/worker-metrics", &["/timeSeries", "/workers", "/queues"]),
        ("analytics/queue-lag", &[""]),
        ("analytics/queue-ops", &["/series", "/queues"]),
        ("analytics/queue-parked-replicas", &["/replicas"]),
        ("analytics/retention", &[]),
        ("analytics/postgres-stats", &[]),
    ] {
        let told = server.get(&format!("/api/v1/{path}")).await.expect(200);
        for list in lists {
            let entries = told.pointer(list).and_then(Value::as_array);
            assert!(entries.is_some_and(|list| !list.is_empty()), "{list} of {path} proves nothing: {told}");
        }
    }
}

async fn maintain(server: &Server) {
    switch(server, PUSHES, true).await;
    assert_eq!(server.push_ids("kept", "p", &["k"]).await[0]["status"], "buffered");
    server.get(PUSHES).await.expect(200);
    switch(server, PUSHES, false).await;
    drained(server).await;
    switch(server, POPS, true).await;
    assert!(server.pop("/queue/kept").await.is_none());
    switch(server, POPS, false).await;
    server.post("/internal/api/notify", json!({"queue": "kept", "partition": "p"})).await.expect(200);
}

async fn clear(server: &Server) {
    server.send("DELETE", "/api/v1/queues/kept/clear?partition=p", "").await.expect(200);
    server.send("DELETE", "/api/v1/queues/kept/clear", "").await.expect(200);
    server.send("DELETE", "/api/v1/queues/nowhere/clear", "").await.expect(404);
}

async fn move_groups(server: &Server) {
    let group = "/api/v1/consumer-groups/d";
    for to in [
        json!({"toBeginning": true}),
        json!({"timestamp": "2026-01-31T12:00:00Z"}),
        json!({"toEnd": true, "dryRun": true}),
    ] {
        server.post(&format!("{group}/queues/q/seek"), to.clone()).await.expect(200);
        server.post(&format!("{group}/queues/q/partitions/p/seek"), to).await.expect(200);
    }
    server.post(&format!("{group}/queues/nowhere/seek"), json!({"toEnd": true})).await.expect(404);
    server.post(&format!("{group}/queues/q/partitions/none/seek"), json!({})).await.expect(404);
    let from = json!({"subscriptionTimestamp": "2026-01-31T12:00:00Z"});
    server.post(&format!("{group}/subscription"), from).await.expect(200);
    server.send("DELETE", &format!("{group}/queues/q"), "").await.expect(200);
    server.send("DELETE", &format!("{group}/queues/nowhere"), "").await.expect(404);
    server.send("DELETE", group, "").await.expect(200);
    server.send("DELETE", "/api/v1/consumer-groups/lagging", "").await.expect(200);
}

/// One bad request to each operation that knows such.
async fn refuse(server: &Server) {
    let long = "x".repeat(256);
    for (path, methods) in DOCUMENT["paths"].as_object().unwrap() {
        for (method, operation) in
            methods.as_object().unwrap().iter().filter(|(_, o)| !o["responses"]["400"].is_null())
        {
            let mut uri = path.clone();
            while let Some((before, rest)) = uri.split_once('{') {
                let after = rest.split_once('}').unwrap().1;
                uri = format!("{before}%FF{after}");
            }
            if uri == *path && operation["requestBody"].is_null() {
                // A switch takes any text, but it must be text.
                let bad =
                    |p: &Value| if p["schema"]["default"].is_boolean() { "%FF" } else { &*long }.to_owned();
                let query = operation["parameters"].as_array().unwrap().iter();
                let query: Vec<String> =
                    query.map(|p| format!("{}={}", p["name"].as_str().unwrap(), bad(p))).collect();
                uri = format!("{uri}?{}", query.join("&"));
            }
            let answer = server.send(&method.to_ascii_uppercase(), &uri, "{").await;
            assert_eq!(answer.status, 400, "{method} {uri}: {}", answer.json());
        }
    }
    let bare: Value = server.get("/api/v1/pop").await.expect(400);
    assert_eq!(bare["messages"], json!([]));
}
