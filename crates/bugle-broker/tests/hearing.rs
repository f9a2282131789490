//! Two brokers on one store, each hearing the other or not: who waits is woken wherever the work came from, and while
//! nothing happens the store is asked nothing.
#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/faulty.rs"]
mod faulty;

use std::sync::Arc;
use std::time::Duration;

use bugle_broker::{AckStatus, Broker, BrokerConfig, FloorConfig, PopRequest, WakeSource};
use bugle_store::{MemoryStore, QUEUE_MODE};
use common::waits::{LONG, Pair, answer, deaf_pair, parked, until};
use common::{ack_as, configure, from_lane, from_queue, ids, push, waiting};
use faulty::Faulty;

fn wakes(broker: &Broker, source: WakeSource) -> u64 {
    broker.read().waiting.wakes.iter().find(|(s, _)| *s == source).unwrap().1
}

#[tokio::test]
async fn a_push_elsewhere_wakes_who_waits_here() {
    let pair = Pair::hearing().await;
    let surveys = pair.b.read().floor.surveys;
    for request in [from_queue("q"), from_lane("q", "p")] {
        let request = PopRequest { auto_ack: true, ..request };
        let pop = parked(&pair.b, request).await;
        push(&pair.a, "q", "p", &["x"]).await;
        assert_eq!(answer(pop).await, ["x"]);
        configure(&pair.a, "q", serde_json::json!({ "dedupWindowSeconds": 0 })).await;
    }
    assert_eq!(wakes(&pair.b, WakeSource::Notify), 2);
    assert_eq!(pair.b.read().floor.surveys, surveys);
}

#[tokio::test]
async fn a_filter_that_waits_here_hears_of_a_queue_made_elsewhere() {
    let pair = Pair::hearing().await;
    let target = bugle_broker::PopTarget::Filter { namespace: Some("ns".into()), task: None };
    let pop = parked(&pair.b, PopRequest { target, ..from_queue("") }).await;
    push(&pair.a, "ns.mail", "p", &["x"]).await;
    assert_eq!(answer(pop).await, ["x"]);
}

#[tokio::test]
async fn a_lane_freed_elsewhere_wakes_who_waits_here() {
    let pair = Pair::hearing().await;
    push(&pair.a, "q", "p", &["x", "y"]).await;
    let held = pair.a.pop(from_queue("q")).await.unwrap();
    let pop = parked(&pair.b, from_queue("q")).await;
    ack_as(&pair.a, &held, QUEUE_MODE, &[("x", AckStatus::Completed), ("y", AckStatus::Retry)]).await;
    assert_eq!(answer(pop).await, ["y"]);
}

#[tokio::test]
async fn options_changed_elsewhere_free_what_they_hid_here() {
    let pair = Pair::hearing().await;
    configure(&pair.a, "q", serde_json::json!({ "delayedProcessing": 3600 })).await;
    push(&pair.a, "q", "p", &["x"]).await;
    let pop = parked(&pair.b, from_queue("q")).await;
    configure(&pair.a, "q", serde_json::json!({ "delayedProcessing": 0 })).await;
    assert_eq!(answer(pop).await, ["x"]);
}

#[tokio::test]
async fn who_comes_again_to_a_quiet_queue_asks_the_store_nothing() {
    let pair = Pair::hearing().await;
    let requests = [from_queue("q"), from_lane("other", "p")];
    for request in &requests {
        let request = waiting(request.clone(), Duration::from_millis(20));
        assert_eq!(pair.b.pop(request).await.unwrap().count(), 0);
    }
    // Servers that have just met look at everything once or twice; after that nothing is asked.
    let mut quiet = false;
    for _ in 0..10 {
        let before = pair.b.read().store.calls;
        for request in requests.iter().cycle().take(50) {
            let request = waiting(request.clone(), Duration::from_millis(1));
            assert_eq!(pair.b.pop(request).await.unwrap().count(), 0);
        }
        quiet |= pair.b.read().store.calls == before;
    }
    assert!(quiet);
    // Who does not wait must be told what is true now.
    let before = pair.b.read().store.calls;
    pair.b.pop(from_queue("q")).await.unwrap();
    assert!(pair.b.read().store.calls > before);
}

#[tokio::test]
async fn a_hint_that_nobody_waited_for_makes_the_next_pop_ask() {
    let pair = Pair::hearing().await;
    let brief = || waiting(from_queue("q"), Duration::from_millis(20));
    assert_eq!(pair.b.pop(brief()).await.unwrap().count(), 0);
    let heard = pair.b.read().carriers[0].received;
    push(&pair.a, "q", "p", &["x"]).await;
    until(|| pair.b.read().carriers[0].received > heard).await;
    assert_eq!(ids(&pair.b.pop(waiting(from_queue("q"), LONG)).await.unwrap()), ["x"]);
}

/// Messages of partitions that were pushed to through one server while nobody waited at the other, which has heard of them.
async fn told_of(pair: &Pair, store: &Faulty, ids: &[&str]) {
    let brief = || waiting(from_queue("q"), Duration::from_millis(5));
    // Servers that have just met look at everything once or twice; after that nothing is asked.
    loop {
        let before = store.calls("probe");
        assert_eq!(pair.b.pop(brief()).await.unwrap().count(), 0);
        if store.calls("probe") == before {
            break;
        }
    }
    for id in ids {
        // Somebody of another group waits: when he is served the hint has come.
        let witness = PopRequest { group: "witness".into(), auto_ack: true, ..from_queue("q") };
        let witness = parked(&pair.b, witness).await;
        push(&pair.a, "q", id, &[id]).await;
        assert_eq!(answer(witness).await, [*id]);
    }
}

#[tokio::test]
async fn what_was_told_while_nobody_waited_is_looked_at_by_name() {
    let store = Faulty::new(Arc::new(MemoryStore::default().shared()));
    let pair = Pair::hearing_on(store.clone()).await;
    configure(&pair.a, "q", serde_json::json!({})).await;
    told_of(&pair, &store, &["x", "y", "z"]).await;
    let probes = store.calls("probe");
    let all = PopRequest { auto_ack: true, partitions: Some(10), ..waiting(from_queue("q"), LONG) };
    let mut found = ids(&pair.b.pop(all).await.unwrap());
    found.sort_unstable();
    assert_eq!(found, ["x", "y", "z"]);
    assert_eq!(store.calls("probe"), probes);
}

#[tokio::test]
async fn one_message_for_a_thousand_consumers_costs_one_claim_on_each_server() {
    let pair = Pair::hearing().await;
    let mut pops = Vec::new();
    for broker in [&pair.a, &pair.b] {
        for _ in 0..500 {
            let broker = broker.clone();
            let request = PopRequest { auto_ack: true, ..waiting(from_queue("q"), Duration::from_secs(3)) };
            pops.push(tokio::spawn(async move { broker.pop(request).await.unwrap().count() }));
        }
        until(|| broker.read().waiting.parked == 500).await;
    }
    let before = [pair.a.read().claims.calls, pair.b.read().claims.calls];
    push(&pair.a, "q", "p", &["x"]).await;
    let mut delivered = 0;
    for pop in pops {
        delivered += pop.await.unwrap();
    }
    assert_eq!(delivered, 1);
    assert!(pair.a.read().claims.calls - before[0] <= 2);
    assert!(pair.b.read().claims.calls - before[1] <= 2);
}

#[tokio::test]
async fn a_lost_hint_is_found_by_the_floor() {
    let floor = FloorConfig {
        with_carrier: Duration::from_millis(200),
        pending_check_from: Duration::ZERO,
        ..FloorConfig::default()
    };
    let pair = Pair::new(BrokerConfig { floor, ..BrokerConfig::default() }).await;
    let pop = parked(&pair.b, from_queue("q")).await;
    pair.hub.lose(true);
    push(&pair.a, "q", "p", &["x"]).await;
    assert_eq!(answer(pop).await, ["x"]);
    assert_eq!(wakes(&pair.b, WakeSource::Floor), 1);
    let reading = pair.b.read();
    assert!(reading.floor.surveys >= 1 && reading.pending.hits >= 1, "{reading:?}");
}

#[tokio::test]
async fn a_lost_last_hint_is_found_by_the_hint_that_trails_it() {
    let pair = Pair::hearing().await;
    let pop = parked(&pair.b, from_queue("q")).await;
    // The hint is lost; what trails it a second later is not.
    let sent = pair.hub.sent();
    pair.hub.lose(true);
    push(&pair.a, "q", "p", &["x"]).await;
    until(|| pair.hub.sent() > sent).await;
    pair.hub.lose(false);
    assert_eq!(answer(pop).await, ["x"]);
    assert_eq!(wakes(&pair.b, WakeSource::Floor), 1);
}

#[tokio::test]
async fn brokers_that_cannot_hear_each_other_wake_by_the_floor() {
    for check in [true, false] {
        let floor = FloorConfig {
            base: Duration::from_millis(10),
            pending_check: check,
            pending_check_from: Duration::ZERO,
            ..FloorConfig::default()
        };
        let (a, b) = deaf_pair(floor).await;
        let pops = [parked(&b, from_queue("q")).await, parked(&b, from_lane("r", "p")).await];
        push(&a, "q", "p", &["x"]).await;
        push(&a, "r", "p", &["y"]).await;
        let [first, second] = pops;
        assert_eq!((answer(first).await, answer(second).await), (vec!["x".into()], vec!["y".into()]));
        assert_eq!(b.read().floor.surveys > 0, check);
        // What is freed elsewhere is found as well, and options that changed.
        let pop = parked(&b, from_queue("s")).await;
        configure(&a, "s", serde_json::json!({ "delayedProcessing": 3600 })).await;
        push(&a, "s", "p", &["z"]).await;
        configure(&a, "s", serde_json::json!({ "delayedProcessing": 0 })).await;
        assert_eq!(answer(pop).await, ["z"]);
    }
}

#[tokio::test]
async fn the_floor_backs_off_while_it_finds_nothing_and_rests_while_nobody_waits() {
    let floor = FloorConfig {
        base: Duration::from_millis(1),
        max: Duration::from_millis(40),
        pending_check_from: Duration::ZERO,
        ..FloorConfig::default()
    };
    let (a, b) = deaf_pair(floor).await;
    let pop = parked(&b, from_queue("q")).await;
    until(|| b.read().floor.interval == floor.max).await;
    let reading = b.read();
    assert_eq!((reading.waiting.keys, reading.waiting.keys_backed_off), (1, 1));
    assert!(reading.pending.checks >= 3 && reading.pending.misses >= 3 && reading.pending.hits == 0);
    push(&a, "q", "p", &["x"]).await;
    assert_eq!(answer(pop).await, ["x"]);
    // Nobody waits any more: a look that had begun may end, then none begins.
    until(|| b.read().waiting.waiting == 0).await;
    tokio::time::sleep(floor.max).await;
    let surveys = b.read().floor.surveys;
    tokio::time::sleep(floor.max * 4).await;
    assert_eq!(b.read().floor.surveys, surveys);
}
