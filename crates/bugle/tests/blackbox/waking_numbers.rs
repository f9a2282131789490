//! The numbers of waking move when the thing happens that they count: wakes by source, carriers, and messages that a group
//! has left unread for too long.

use serde_json::json;

use crate::common::{Metrics, On, Server, free_udp, ids};
use crate::waking_servers::{by_datagrams, by_notify};

/// Waiting pops on `b` that this source has woken in three pushes, of which the first makes known who waits.
async fn woken_by(source: &str, a: &Server, b: &Server) -> f64 {
    let before = b.metrics().await;
    for n in 0..3 {
        let waiter = b.park("/queue/q?autoAck=true").await;
        a.push_ids("q", "p", &[&format!("{source} {n}")]).await;
        assert_eq!(ids(&waiter.answer().await).len(), 1);
    }
    let after = b.metrics().await;
    assert!(
        after.get("bugle_wake_to_delivery_seconds_count")
            - before.get("bugle_wake_to_delivery_seconds_count")
            >= 3.0
    );
    after.woken_by(source, &before)
}

#[tokio::test]
async fn wakes_are_counted_by_their_source() {
    let on = On::postgres().await;
    let (a, b) = by_notify(&on).await;
    assert_eq!(woken_by("local", &b, &b).await, 3.0);
    assert!(woken_by("notify", &a, &b).await >= 2.0);
    let state = b.get("/api/v1/system/shared-state").await.expect(200);
    assert!(state["wakes"]["notify"].as_u64().unwrap() >= 2, "{state}");
    assert_eq!(state["server_health"]["servers_alive"], 1, "{state}");
    assert!(state["transport"]["received"].as_u64().unwrap() >= 2, "{state}");
    // What one sends is counted by it, what the other takes in by the other.
    let sent = a.metrics().await.get("bugle_carrier_frames_total{carrier=\"notify\",direction=\"sent\"}");
    assert!(sent >= 3.0, "{sent}");

    let deaf = ["--notify=false"];
    let on = On::postgres().await;
    let (a, b) = tokio::join!(on.start_with(&deaf), on.start_with(&deaf));
    assert_eq!(woken_by("floor", &a, &b).await, 3.0);
}

#[tokio::test]
async fn carriers_and_peers_show_in_health() {
    let on = On::postgres().await;
    let [x, y] = free_udp();
    let alone = on.start_with(&by_datagrams(x, y)).await;
    let health = alone.get("/health").await.expect(200);
    assert_eq!(
        (&health["carriers"][0]["name"], &health["carriers"][0]["peers"][0]["healthy"]),
        (&json!("udp"), &json!(false))
    );
    assert_ne!(health["hearing"], "connected", "nobody is there yet");
    let other = on.start_with(&by_datagrams(y, x)).await;
    tokio::join!(alone.until_hearing("udp", 1), other.until_hearing("udp", 1));
    assert!(woken_by("udp", &other, &alone).await >= 2.0);
    let health = alone.get("/health").await.expect(200);
    let carrier = &health["carriers"][0];
    assert_eq!((&health["hearing"], &carrier["state"]), (&json!("connected"), &json!("connected")));
    assert!(carrier["lastRoundTripMs"].as_f64().unwrap() >= 0.0, "{health}");
    assert_eq!(carrier["peers"][0]["name"], y.to_string());
    // A server that ends is missed.
    other.kill();
    alone.until("missed", |m| m.get("bugle_hearing{state=\"connected\"}") == 0.0).await;
    let health = alone.get("/health").await.expect(200);
    assert_eq!(health["carriers"][0]["peers"][0]["healthy"], false, "{health}");
}

on_every_engine! {
    async fn messages_left_unread_for_too_long_are_counted(on: On) {
        let server = on.start_with(&["--completed-retention=1s", "--retention-interval=200ms"]).await;
        let overdue = |m: &Metrics| m.get("bugle_queue_unread_overdue{queue=\"q\"}");
        for group in ["fast", "slow"] {
            assert_eq!(server.pop(&format!("/queue/q?consumerGroup={group}")).await, None, "subscribed");
        }
        server.push_ids("q", "p", &["t1", "t2", "t3"]).await;
        assert_eq!(overdue(&server.metrics().await), 0.0, "not old yet");
        server.pop_some("/queue/q?consumerGroup=fast&batch=3&autoAck=true").await;
        server.until("three are overdue", |m| overdue(m) == 3.0).await;
        let popped = server.pop_some("/queue/q?consumerGroup=slow&batch=3").await;
        assert_eq!(ids(&popped), ["t1", "t2", "t3"], "and none has gone");
        server.ack_all(&popped, "completed").await;
        server.until("none is overdue", |m| overdue(m) == 0.0).await;
    }
}
