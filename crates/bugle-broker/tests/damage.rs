//! One lane whose messages cannot be read any more, on the real engine: pops that look before they claim, because messages are
//! hidden by time or committed by delivery, go on with the other lanes.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;
use std::time::Duration;

use bugle_broker::{Broker, BrokerConfig, PopRequest};
use bugle_disk::SimDisk;
use bugle_store_embedded::{EmbeddedOptions, EmbeddedStore};
use common::*;
use serde_json::json;

/// Longer than any delay in here.
const PATIENCE: Duration = Duration::from_secs(30);

/// A broker that remembers no message, so that each is read from the disk.
async fn broker(disk: &SimDisk) -> Broker {
    let mut options = EmbeddedOptions::new("unused");
    (options.file_size, options.cache_bytes) = (1 << 20, 0);
    let store = EmbeddedStore::open_on(Arc::new(disk.clone()), options).unwrap();
    Broker::open(store, BrokerConfig { segment_cache: 0, ..BrokerConfig::default() }).await.unwrap()
}

/// Flip a bit in what was pushed with this id. Its payload is the id too, and lies in the log as it was sent.
fn damage(disk: &SimDisk, id: &str) {
    let payload = format!("{id:?}");
    let logs = disk.files().into_iter().map(|(name, _)| name).filter(|name| name.ends_with(".log"));
    let found = logs.filter_map(|name| {
        let at = disk.content(&name).windows(payload.len()).position(|bytes| bytes == payload.as_bytes())?;
        Some((name, at))
    });
    let [(log, at)] = &found.collect::<Vec<_>>()[..] else { panic!("{id} is not in one place") };
    disk.flip(log, at * 8 + 11);
}

/// Pop until these have come.
async fn comes(broker: &Broker, request: &PopRequest, wanted: &[&str]) {
    let mut come = Vec::new();
    while come.len() < wanted.len() {
        let answer = broker.pop(waiting(request.clone(), PATIENCE)).await.unwrap();
        assert!(!answer.store_unavailable, "the store is well");
        assert!(!answer.lanes.is_empty(), "only {come:?} came");
        come.extend(ids(&answer));
    }
    come.sort();
    assert_eq!(come, wanted);
}

/// All pops see all lanes, so that the damaged one is in every batch that is read.
fn of_all_lanes() -> PopRequest {
    PopRequest { partitions: Some(10), ..from_queue("q") }
}

async fn pushed(disk: &SimDisk) -> Broker {
    let broker = broker(disk).await;
    configure(&broker, "q", json!({ "delayedProcessing": 0 })).await;
    for partition in ["a", "b", "c"] {
        push(&broker, "q", partition, &[&format!("{partition}-1"), &format!("{partition}-2")]).await;
    }
    broker
}

#[tokio::test]
async fn a_damaged_lane_does_not_fail_auto_acked_pops_of_others() {
    let disk = SimDisk::default();
    let broker = pushed(&disk).await;
    damage(&disk, "b-1");
    let request = PopRequest { auto_ack: true, ..of_all_lanes() };
    comes(&broker, &request, &["a-1", "a-2", "c-1", "c-2"]).await;
    let rest = broker.pop(request).await.unwrap();
    assert!(rest.lanes.is_empty() && !rest.store_unavailable, "damage is not served: {:?}", ids(&rest));
    push(&broker, "q", "d", &["d-1"]).await;
    comes(&broker, &PopRequest { auto_ack: true, ..of_all_lanes() }, &["d-1"]).await;
}

#[tokio::test]
async fn a_damaged_lane_does_not_fail_delayed_pops_of_others() {
    let disk = SimDisk::default();
    let broker = pushed(&disk).await;
    damage(&disk, "b-1");
    configure(&broker, "q", json!({ "delayedProcessing": 1 })).await;
    comes(&broker, &of_all_lanes(), &["a-1", "a-2", "c-1", "c-2"]).await;
    assert!(broker.health().await.store_connected);
}
