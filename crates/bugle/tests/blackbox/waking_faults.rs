//! Carriers and servers that fail: who waits elsewhere is served all the same, late at the worst.

use std::time::{Duration, Instant};

use bugle_pg::testdb;
use serde_json::json;

use crate::common::{DatagramProxy, On, Sql, WireCutter, free_udp, ids, until_true};
use crate::waking_servers::{by_datagrams, by_notify};

#[tokio::test]
async fn a_server_that_cannot_listen_still_delivers_and_listens_again() {
    let on = On::postgres().await;
    let (wire, around) = WireCutter::before(&testdb::server().await).await;
    let listen = format!("--listen-store={around}");
    let (a, b) = (on.start().await, on.start_with(&[listen.as_str(), "--log-level=off"]).await);
    tokio::join!(a.until_hearing("notify", 1), b.until_hearing("notify", 1));
    wire.cut();
    until_true("not connected", async || b.get("/health").await.json()["hearing"] == "isolated").await;
    let health = b.get("/health").await.expect(200);
    assert_eq!(health["carriers"][0]["state"], "isolated", "{health}");
    let waiter = b.park("/queue/q?autoAck=true").await;
    let before = b.metrics().await;
    a.push_ids("q", "p", &["while cut"]).await;
    assert_eq!(ids(&waiter.answer().await), ["while cut"]);
    assert_eq!(b.metrics().await.woken_by("floor", &before), 1.0);

    wire.mend();
    b.until_hearing("notify", 1).await;
    assert_eq!(b.get("/health").await.json()["hearing"], "connected");
    let before = b.metrics().await;
    assert!(before.get("bugle_carrier_reconnects_total{carrier=\"notify\"}") >= 1.0);
    for n in 0..3 {
        let waiter = b.park("/queue/q?autoAck=true").await;
        a.push_ids("q", "p", &[&format!("mended {n}")]).await;
        assert_eq!(ids(&waiter.answer().await).len(), 1);
    }
    assert!(b.metrics().await.woken_by("notify", &before) >= 2.0);
}

on_every_database! {
    async fn a_killed_listening_connection_costs_nobody_a_message(on: On) {
        let (a, b) = by_notify(&on).await;
        let mut sql = Sql::to(&on).await;
        // The database is shared with other tests, and all servers' connections have one name.
        let ours = format!("FROM pg_stat_activity WHERE application_name = 'bugle listen' AND query LIKE '%{}%'", sql.channel());
        for n in 0..5 {
            let waiter = b.park("/queue/q?autoAck=true").await;
            let before = b.metrics().await;
            let killed = sql.rows(&format!("SELECT pg_terminate_backend(pid) {ours}")).await;
            assert_eq!(killed.len(), 2, "one of each server");
            // Told to nobody: the floor is far away, but who listens again looks.
            a.push_ids("q", "p", &[&format!("t{n}")]).await;
            assert_eq!(ids(&waiter.answer().await), [format!("t{n}")]);
            for server in [&a, &b] {
                server.until("it listens again", |m| {
                    m.since(&before, "bugle_carrier_reconnects_total{carrier=\"notify\"}") >= 1.0
                        && m.get("bugle_hearing{state=\"connected\"}") == 1.0
                }).await;
            }
        }
    }

    async fn garbage_on_the_channel_harms_nobody(on: On) {
        let (a, b) = by_notify(&on).await;
        let mut sql = Sql::to(&on).await;
        let before = b.metrics().await;
        let waiter = b.park("/queue/q?autoAck=true").await;
        let channel = sql.channel();
        let long = "x".repeat(7_900);
        for garbage in ["", "garbage", "not base64 ä!", "AQEAAAA", "////////////////", &long] {
            sql.run(&format!("SELECT pg_notify('{channel}', '{garbage}')")).await;
        }
        let malformed = "bugle_carrier_dropped_total{carrier=\"notify\",reason=\"malformed\"}";
        b.until("all came", |m| m.since(&before, malformed) == 6.0).await;
        assert!(!waiter.is_answered());
        a.push_ids("q", "p", &["t1"]).await;
        assert_eq!(ids(&waiter.answer().await), ["t1"]);
        let waiter = b.park("/queue/q?autoAck=true").await;
        a.push_ids("q", "p", &["t2"]).await;
        assert_eq!(ids(&waiter.answer().await), ["t2"]);
        let after = b.metrics().await;
        assert!(after.woken_by("notify", &before) >= 1.0);
        assert_eq!(after.get("bugle_hearing{state=\"connected\"}"), 1.0);
    }

    async fn a_lease_taken_elsewhere_while_one_waited_ends_on_time_for_him(on: On) {
        let (a, b) = by_notify(&on).await;
        for round in 0.. {
            assert!(round < 5, "the nearer one never wins");
            let path = format!("/queue/q{round}?leaseSeconds=2");
            let (near, far) = (a.park(&path).await, b.park(&path).await);
            let pushed = Instant::now();
            a.push_ids(&format!("q{round}"), "p", &["t"]).await;
            until_true("one has it", async || near.is_answered() || far.is_answered()).await;
            if far.is_answered() {
                // Which of them is faster is not promised; this is about the other case.
                near.leave();
                a.until_parked(0).await;
                continue;
            }
            a.kill();
            let (popped, at) = far.timed().await;
            assert_eq!((ids(&popped), &popped["messages"][0]["deliveryAttempt"]), (vec!["t"], &json!(2)));
            let waited = at - pushed;
            assert!(waited >= Duration::from_secs(2) && waited < Duration::from_secs(4), "{waited:?}");
            return;
        }
    }

    async fn a_server_killed_with_a_lease_gives_way_when_the_lease_ends(on: On) {
        let (a, b) = by_notify(&on).await;
        a.push_ids("q", "p", &["t"]).await;
        let taken = Instant::now();
        a.pop_some("/queue/q?leaseSeconds=2").await;
        let waiter = b.park("/queue/q").await;
        a.kill();
        let (popped, at) = waiter.timed().await;
        assert_eq!((ids(&popped), &popped["messages"][0]["deliveryAttempt"]), (vec!["t"], &json!(2)));
        let waited = at - taken;
        assert!(waited >= Duration::from_secs(2), "before its end: {waited:?}");
        assert!(waited < Duration::from_secs(4), "long after its end: {waited:?}");
    }
}

#[tokio::test]
async fn a_pooler_that_cannot_listen_leaves_it_to_the_floor() {
    let on = On::pgbouncer().await;
    let (a, b) = tokio::join!(on.start_with(&["--log-level=off"]), on.start_with(&["--log-level=off"]));
    until_true("known", async || b.get("/health").await.json()["hearing"] == "isolated").await;
    for n in 0..3 {
        let (begun, before) = (Instant::now(), b.metrics().await);
        let waiter = b.park("/queue/q?autoAck=true").await;
        a.push_ids("q", "p", &[&format!("t{n}")]).await;
        let (popped, at) = waiter.timed().await;
        assert_eq!(ids(&popped).len(), 1);
        assert!(at - begun < Duration::from_secs(5), "{:?}", at - begun);
        assert_eq!(b.metrics().await.woken_by("floor", &before), 1.0);
    }
}

#[tokio::test]
async fn a_restarted_server_is_heard_again() {
    let on = On::postgres().await;
    let [x, y] = free_udp();
    let (one, two) = (by_datagrams(x, y), by_datagrams(y, x));
    let (mut a, b) = tokio::join!(on.start_with(&one), on.start_with(&two));
    for round in 0..3 {
        tokio::join!(a.until_hearing("udp", 1), b.until_hearing("udp", 1));
        let before = b.metrics().await;
        for n in 0..3 {
            let waiter = b.park("/queue/q?autoAck=true").await;
            a.push_ids("q", "p", &[&format!("{round}/{n}")]).await;
            assert_eq!(ids(&waiter.answer().await), [format!("{round}/{n}")]);
        }
        assert!(b.metrics().await.woken_by("udp", &before) >= 2.0, "round {round}");
        a.kill();
        a = on.start_with(&one).await;
    }
}

#[tokio::test]
async fn a_lost_datagram_costs_two_seconds() {
    let on = On::postgres().await;
    let [x, y] = free_udp();
    let proxy = DatagramProxy::between(x, y).await;
    let (one, two) = (by_datagrams(x, proxy.address), by_datagrams(y, proxy.address));
    let (a, b) = tokio::join!(on.start_with(&one), on.start_with(&two));
    tokio::join!(a.until_hearing("udp", 1), b.until_hearing("udp", 1));
    // The first makes known who waits for what.
    let waiter = b.park("/queue/q?autoAck=true").await;
    a.push_ids("q", "p", &["first"]).await;
    assert_eq!(ids(&waiter.answer().await), ["first"]);
    // Quiet again: what follows a burst has passed too, so that the lost one is the last.
    let sent = "bugle_carrier_frames_total{carrier=\"udp\",direction=\"sent\"}";
    let calm = a.metrics().await;
    a.until("the trailing frame", |m| m.since(&calm, "bugle_uptime_seconds") > 1.5 && m.get(sent) > 0.0)
        .await;

    let waiter = b.park("/queue/q?autoAck=true").await;
    let before = b.metrics().await;
    proxy.lose_one();
    let begun = Instant::now();
    a.push_ids("q", "p", &["lost"]).await;
    let (popped, at) = waiter.timed().await;
    assert!(proxy.has_lost_it());
    assert_eq!(ids(&popped), ["lost"]);
    assert!(at - begun < Duration::from_secs(3), "{:?}", at - begun);
    let after = b.metrics().await;
    assert_eq!(after.since(&before, "bugle_carrier_gaps_total{carrier=\"udp\"}"), 1.0);
    assert_eq!(after.woken_by("floor", &before), 1.0, "found by looking");
}
