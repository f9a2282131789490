//! A database that goes away and comes back.

use bugle_pg::testdb;
use serde_json::json;
use tokio::time::timeout;

use crate::common::{On, PATIENCE, Server, WireCutter, ids};

async fn start() -> (On, WireCutter, Server) {
    let (wire, address) = WireCutter::before(&testdb::server().await).await;
    let on = On::database(&address, &[]);
    let server = on.start_with(&["--log-level=off"]).await;
    (on, wire, server)
}

async fn until_healthy(server: &Server) {
    let healthy = async { while server.get("/health").await.status != 200 {} };
    timeout(PATIENCE, healthy).await.expect("the server finds its store again");
}

#[tokio::test]
async fn while_the_store_is_away_pops_are_empty_and_the_rest_is_told_to_come_back() {
    let (_on, wire, server) = start().await;
    server.push_ids("q", "p", &["t"]).await;
    let popped = server.pop_some("/queue/q?consumerGroup=a").await;
    wire.cut();

    let push = server.post("/api/v1/push", json!({"items": [{"queue": "q", "payload": 1}]})).await;
    assert_eq!(push.status, 503, "{:?}", push.body);
    assert!(push.headers.contains_key("retry-after") && !push.error().is_empty());
    let message = &popped["messages"][0];
    let ack = json!({"transactionId": "t", "partitionId": message["partitionId"], "leaseId": message["leaseId"], "consumerGroup": "a"});
    assert_eq!(server.post("/api/v1/ack", ack.clone()).await.status, 503);
    for path in [
        "/api/v1/pop/queue/q",
        "/api/v1/pop/queue/q/partition/p",
        "/api/v1/pop/queue/q?wait=true&timeout=300",
    ] {
        let pop = server.get(path).await;
        assert_eq!((pop.status, pop.body.len()), (204, 0), "{path}");
        if !path.contains("wait") {
            assert_eq!(pop.headers["bugle-store"], "unavailable", "{path}");
        }
    }
    let health = server.get("/health").await;
    assert_eq!((health.status, &health.json()["database"]), (503, &json!("disconnected")));
    assert!(health.json()["store"]["lastError"].is_string());
    assert_eq!(server.get("/health/live").await.status, 200);

    wire.mend();
    until_healthy(&server).await;
    assert_eq!(server.post("/api/v1/ack", ack).await.expect(200)[0]["success"], true);
    assert_eq!(ids(&server.pop_some("/queue/q").await)[0], "t");
}

#[tokio::test]
async fn a_pop_that_waits_through_an_outage_is_served_afterwards() {
    let (_on, wire, server) = start().await;
    server.push_ids("q", "p", &["before"]).await;
    assert_eq!(ids(&server.pop_some("/queue/q?autoAck=true").await), ["before"]);
    let client = server.client();
    let waiter = tokio::spawn(async move { client.pop("/queue/q?wait=true&timeout=60000").await });
    server.until_waiting(1).await;
    wire.cut();
    assert_eq!(server.post("/api/v1/push", json!({"items": [{"queue": "q"}]})).await.status, 503);
    wire.mend();
    until_healthy(&server).await;
    server.push_ids("q", "p", &["after"]).await;
    let popped = timeout(PATIENCE, waiter).await.expect("woken").unwrap().expect("a message");
    assert!(!ids(&popped).is_empty());
}
