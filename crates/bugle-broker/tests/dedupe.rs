//! Duplicates among more ids than memory holds: found all the same, and the store is asked only where it can know more.
#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/faulty.rs"]
mod faulty;

use std::sync::Arc;

use bugle_broker::{Broker, BrokerConfig};
use bugle_store::{Engine, MemoryStore};

use common::*;
use faulty::Faulty;

/// The n-th UUIDv7.
fn id(n: u32) -> String {
    format!("{n:08x}-0000-7000-8000-000000000000")
}

async fn push_ids(broker: &Broker, ids: impl Iterator<Item = u32>) {
    let items = ids.map(|n| item("q", "p", &id(n), "1")).collect();
    assert!(broker.push(items).await.unwrap().iter().all(|pushed| !pushed.duplicate));
}

async fn is_duplicate(broker: &Broker, id: &str) -> bool {
    push(broker, "q", "p", &[id]).await[0].duplicate
}

/// Brokers that keep only the last few fingerprints in memory.
async fn forgetful(store: Arc<dyn Engine>) -> (Broker, Arc<Faulty>) {
    let faulty = Faulty::new(store);
    let config = BrokerConfig { dedupe_memory: 0, segment_cache: 0, ..BrokerConfig::default() };
    (Broker::open(faulty.clone(), config).await.unwrap(), faulty)
}

#[tokio::test]
async fn ids_above_all_that_memory_forgot_are_not_looked_up() {
    let store = Arc::new(MemoryStore::new());
    let (broker, faulty) = forgetful(store.clone()).await;
    push_ids(&broker, (2..=1200).step_by(2)).await;
    push_ids(&broker, [1300].into_iter()).await;
    assert!(!is_duplicate(&broker, &id(1299)).await, "out of order");
    assert!(is_duplicate(&broker, &id(1299)).await, "known from memory");
    assert_eq!(faulty.calls("find"), 0);

    assert!(is_duplicate(&broker, &id(600)).await, "forgotten");
    assert!(is_duplicate(&broker, &id(1200)).await, "the greatest that was forgotten");
    assert!(!is_duplicate(&broker, &id(601)).await, "below the greatest, but new");
    assert!(!is_duplicate(&broker, "plain").await);
    assert!(!is_duplicate(&broker, &id(1250).to_uppercase().replace("-7", "-4")).await);
    assert_eq!(faulty.calls("find"), 5, "each of these was looked for in the store");
    assert!(is_duplicate(&broker, "plain").await);

    let (again, faulty) = forgetful(store).await;
    assert!(is_duplicate(&again, &id(1300)).await, "after a restart memory knows nothing");
    assert!(is_duplicate(&again, &id(1299)).await);
    assert!(is_duplicate(&again, &id(601)).await);
    assert!(is_duplicate(&again, "plain").await);
    assert_eq!(faulty.calls("find"), 4);
    assert!(!is_duplicate(&again, &id(1400)).await);
    assert!(!is_duplicate(&again, &id(1399)).await, "out of order, above all there was at the start");
    assert_eq!(faulty.calls("find"), 4);
}

#[tokio::test]
async fn ids_of_another_server_are_known_when_an_append_went_past_them() {
    let store: Arc<dyn Engine> = Arc::new(MemoryStore::new().shared());
    let here = Broker::open(store.clone(), BrokerConfig::default()).await.unwrap();
    let there = Broker::open(store.clone(), BrokerConfig::default()).await.unwrap();
    push_ids(&here, [10].into_iter()).await;
    push_ids(&there, 1000..1600).await;
    // Refused at first, since the head has moved: from now on it checks fingerprints and goes past.
    push_ids(&here, [20].into_iter()).await;
    push_ids(&there, 2000..2600).await;
    push_ids(&here, [1700].into_iter()).await;
    assert!(is_duplicate(&here, &id(2599)).await);
    assert!(is_duplicate(&here, &id(2000)).await);
    assert!(is_duplicate(&here, &id(1000)).await);
}

#[tokio::test]
async fn a_lane_created_again_knows_nothing_of_the_one_before() {
    let store = Arc::new(MemoryStore::new());
    let (broker, _) = forgetful(store.clone()).await;
    push_ids(&broker, 1000..1600).await;
    broker.delete_queue("q").await.unwrap();
    push_ids(&broker, 1000..1600).await;
    assert!(is_duplicate(&broker, &id(1000)).await);
    assert!(is_duplicate(&broker, &id(1599)).await);
}
