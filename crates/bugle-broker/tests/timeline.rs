//! A failover to a copy that had not got everything: nothing of what was lost is served, and all that was not lost is.
#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/faulty.rs"]
mod faulty;
#[path = "common/histories.rs"]
mod histories;

use std::sync::Arc;

use bugle_broker::{Broker, BrokerConfig, PopAnswer, PopRequest, Pushed, Refused};
use bugle_store::MemoryStore;

use common::waits::{LONG, parked};
use common::*;
use faulty::Faulty;
use histories::Histories;

async fn rig() -> (Arc<Histories>, Broker) {
    let memory = || Arc::new(MemoryStore::default().shared());
    let store = Histories::new(memory(), memory());
    let broker = Broker::open(store.clone(), BrokerConfig::default()).await.unwrap();
    (store, broker)
}

/// Push one message; its payload is what was said.
async fn say(broker: &Broker, id: &str, payload: &str) -> Result<Pushed, Refused> {
    broker.push(vec![item("q", "p", id, payload)]).await.map(|mut all| all.remove(0))
}

fn payloads(answer: &PopAnswer) -> Vec<String> {
    let messages = answer.lanes.iter().flat_map(|lane| &lane.messages);
    messages.map(|m| String::from_utf8(m.message.payload.to_vec()).unwrap()).collect()
}

/// The next messages, acknowledged.
async fn take(broker: &Broker) -> Vec<String> {
    let answer = broker.pop(waiting(from_queue("q"), LONG)).await.unwrap();
    assert!(ack_all(broker, &answer).await.iter().all(|acked| acked.success));
    payloads(&answer)
}

#[tokio::test]
async fn a_message_that_was_lost_is_no_duplicate_when_it_is_pushed_again() {
    let (store, broker) = rig().await;
    say(&broker, "kept", "1").await.unwrap();
    store.lag();
    say(&broker, "lost", "2").await.unwrap();
    assert!(say(&broker, "lost", "2").await.unwrap().duplicate);
    store.fail_over();
    assert!(!say(&broker, "lost", "3").await.unwrap().duplicate, "dedupe memory of the lost timeline");
    assert!(say(&broker, "lost", "3").await.unwrap().duplicate);
    assert!(say(&broker, "kept", "1").await.unwrap().duplicate, "what was kept is known still");
    assert_eq!(take(&broker).await, ["1", "3"]);
}

#[tokio::test]
async fn an_offset_given_out_again_delivers_the_new_message() {
    let (store, broker) = rig().await;
    say(&broker, "a", "1").await.unwrap();
    store.lag();
    say(&broker, "b", "lost").await.unwrap();
    say(&broker, "c", "lost").await.unwrap();
    store.fail_over();
    // Another server is there first: this one learns of the messages by looking.
    let other = Broker::open(store.clone(), BrokerConfig::default()).await.unwrap();
    say(&other, "d", "2").await.unwrap();
    say(&other, "e", "3").await.unwrap();
    assert_eq!(take(&broker).await, ["1", "2", "3"], "segments of the lost timeline");
}

#[tokio::test]
async fn a_cursor_that_was_lost_passes_over_nothing() {
    let (store, broker) = rig().await;
    say(&broker, "a", "1").await.unwrap();
    assert_eq!(take(&broker).await, ["1"]);
    store.lag();
    for id in ["b", "c", "d"] {
        say(&broker, id, "lost").await.unwrap();
        assert_eq!(take(&broker).await, ["lost"]);
    }
    let waits = parked(&broker, from_queue("q")).await;
    store.fail_over();
    say(&broker, "e", "2").await.unwrap();
    assert_eq!(payloads(&waits.await.unwrap()), ["2"], "who waits is served by himself");
}

#[tokio::test]
async fn who_waits_is_served_what_the_new_timeline_holds_without_any_request() {
    let (store, broker) = rig().await;
    say(&broker, "a", "1").await.unwrap();
    store.lag();
    assert_eq!(take(&broker).await, ["1"]);
    let waits = parked(&broker, from_queue("q")).await;
    store.fail_over();
    assert_eq!(payloads(&waits.await.unwrap()), ["1"], "its acknowledgement was lost: it comes again");
    assert_eq!(broker.read().store.timelines, 1);
}

#[tokio::test]
async fn a_queue_that_was_lost_is_not_there_and_one_that_was_deleted_is() {
    let (store, broker) = rig().await;
    say(&broker, "a", "1").await.unwrap();
    store.lag();
    configure(&broker, "young", serde_json::json!({})).await;
    assert!(broker.delete_queue("q").await.unwrap());
    store.fail_over();
    broker.health().await;
    let names = || async {
        let queues = broker.queue_stats(&bugle_broker::QueueFilter::default()).await.unwrap();
        queues.into_iter().map(|stats| stats.queue.name.to_string()).collect::<Vec<_>>()
    };
    let followed = async {
        while names().await != ["q"] {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, followed).await.expect("the catalog of the new timeline");
    assert_eq!(take(&broker).await, ["1"]);
}

#[tokio::test]
async fn a_duplicate_of_what_was_lost_meanwhile_is_none() {
    let (store, _) = rig().await;
    let faulty = Faulty::new(store.clone());
    let broker = Broker::open(faulty.clone(), BrokerConfig::default()).await.unwrap();
    say(&broker, "a", "1").await.unwrap();
    store.lag();
    say(&broker, "b", "lost").await.unwrap();
    // Screened: it is there. The store is asked whether the lane is.
    let gate = faulty.hold_before("load");
    let pushing = tokio::spawn({
        let broker = broker.clone();
        async move { say(&broker, "b", "2").await }
    });
    gate.reached().await;
    store.fail_over();
    gate.open();
    assert!(!pushing.await.unwrap().unwrap().duplicate);
    assert_eq!(take(&broker).await, ["1", "2"]);
}

#[tokio::test]
async fn a_claim_computed_before_is_not_stored_after() {
    let (store, _) = rig().await;
    let faulty = Faulty::new(store.clone());
    // Messages that are committed at delivery are read before they are claimed, if memory does not hold them.
    let config = BrokerConfig { segment_cache: 0, ..BrokerConfig::default() };
    let broker = Broker::open(faulty.clone(), config).await.unwrap();
    say(&broker, "a", "1").await.unwrap();
    assert_eq!(take(&broker).await, ["1"]);
    store.lag();
    for id in ["b", "c", "d"] {
        say(&broker, id, "lost").await.unwrap();
    }
    let gate = faulty.hold_before("read");
    let popping = tokio::spawn({
        let broker = broker.clone();
        let request = PopRequest { auto_ack: true, ..waiting(from_queue("q"), LONG) };
        async move { broker.pop(request).await.unwrap() }
    });
    tokio::time::timeout(LONG, gate.reached()).await.expect("the claim is prepared");
    store.fail_over();
    // Another server has the epochs and offsets given out again.
    let other = Broker::open(store.clone(), BrokerConfig::default()).await.unwrap();
    say(&other, "e", "2").await.unwrap();
    gate.open();
    assert_eq!(payloads(&popping.await.unwrap()), ["2"]);
}
