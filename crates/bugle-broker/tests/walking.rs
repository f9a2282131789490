//! Walking over all lanes of a queue that a server knows nothing of, page by page.
#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/faulty.rs"]
mod faulty;
#[path = "common/histories.rs"]
mod histories;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use bugle_broker::{Broker, BrokerConfig};
use bugle_store::{MemoryStore, Timestamp};

use common::*;
use faulty::Faulty;
use histories::Histories;

/// Lanes for three pages.
const LANES: usize = 25_000;
const PAGES: usize = 3;

/// A store on this clock.
fn memory(clock: &Arc<AtomicI64>) -> Arc<MemoryStore> {
    let clock = clock.clone();
    Arc::new(
        MemoryStore::with_clock(Arc::new(move || Timestamp(clock.fetch_add(1, Ordering::Relaxed)))).shared(),
    )
}

fn clock() -> Arc<AtomicI64> {
    Arc::new(AtomicI64::new(START))
}

/// A message into every lane, by another server.
async fn fill(store: &Arc<Faulty>) {
    let other = Broker::open(store.clone(), BrokerConfig::default()).await.unwrap();
    let items = (0..LANES).map(|n| item("q", &format!("p{n}"), &format!("{n}"), "1")).collect();
    other.push(items).await.unwrap();
}

#[tokio::test]
async fn who_comes_while_another_walks_does_not_walk_too() {
    let store = Faulty::new(memory(&clock()));
    fill(&store).await;
    let broker = Arc::new(Broker::open(store.clone(), BrokerConfig::default()).await.unwrap());
    let before = store.calls("probe");
    let gate = store.hold_after("probe");
    let pop = || {
        tokio::spawn({
            let broker = broker.clone();
            async move { ids(&broker.pop(from_queue("q")).await.unwrap()) }
        })
    };
    let first = pop();
    gate.reached().await;
    let others: Vec<_> = (0..5).map(|_| pop()).collect();
    tokio::task::yield_now().await;
    gate.open();
    let mut taken = first.await.unwrap();
    for other in others {
        taken.extend(other.await.unwrap());
    }
    taken.sort_unstable();
    taken.dedup();
    assert_eq!(taken.len(), 6, "each has a message of its own: {taken:?}");
    assert_eq!(store.calls("probe") - before, PAGES);
}

#[tokio::test]
async fn a_walk_during_which_everything_is_forgotten_begins_anew() {
    let clock = clock();
    let histories = Histories::new(memory(&clock), memory(&clock));
    let store = Faulty::new(histories.clone());
    fill(&store).await;
    // So long ago that nobody finds it by looking back.
    clock.fetch_add(3_600_000_000, Ordering::Relaxed);
    let broker = Arc::new(Broker::open(store.clone(), BrokerConfig::default()).await.unwrap());
    // The second page of the walk is asked for when the lanes of the first one are forgotten.
    let gate = store.hold_after("probe");
    let walking = tokio::spawn({
        let broker = broker.clone();
        async move { broker.pop(from_queue("q")).await }
    });
    gate.reached().await;
    let second = store.hold_before("probe");
    gate.open();
    second.reached().await;
    histories.fail_over();
    push(&broker, "other", "p", &["noticed"]).await;
    second.open();
    let mut taken = walking.await.unwrap().map_or(0, |answer| ids(&answer).len());
    loop {
        let request =
            bugle_broker::PopRequest { batch: Some(1000), partitions: Some(1000), ..from_queue("q") };
        let answer = broker.pop(request).await.unwrap();
        match ids(&answer).len() {
            0 => break,
            more => taken += more,
        }
    }
    assert_eq!(taken, LANES);
}
