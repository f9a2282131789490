//! When the history is written, and that nothing is told twice or not at all.
#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/faulty.rs"]
mod faulty;

use std::sync::Arc;
use std::time::Duration;

use bugle_broker::{Broker, BrokerConfig, History, HistoryQuery};
use bugle_store::{Engine, MemoryStore, Timestamp};
use tokio::time::{Instant, sleep};

use common::{START, ack_all, from_queue, push};
use faulty::{Fault, Faulty};

const MINUTE: Duration = Duration::from_secs(60);

/// A broker whose store's clock goes with the test's, which stands still while anything runs.
async fn rig() -> (Arc<Faulty>, Broker) {
    let began = Instant::now();
    let clock = move || Timestamp(START + began.elapsed().as_micros() as i64);
    let engine = Faulty::new(Arc::new(MemoryStore::with_clock(Arc::new(clock)).shared()));
    let broker = Broker::open(engine.clone(), BrokerConfig::default()).await.unwrap();
    (engine, broker)
}

/// Records that are stored.
async fn stored(engine: &dyn Engine) -> u64 {
    let queues = engine.snapshot(None).await.unwrap().unwrap().queues;
    let Some(queue) = queues.iter().find(|queue| &*queue.name == "__system_history") else { return 0 };
    engine.lanes(queue.id, None, 9).await.unwrap().iter().map(|lane| lane.head).sum()
}

async fn told(broker: &Broker) -> History {
    let query = HistoryQuery { span: MINUTE * 60 * 24 * 7, by_queue: true, ..HistoryQuery::default() };
    broker.history(&query).await.unwrap()
}

fn pushed(history: &History) -> u64 {
    history.queues.iter().map(|point| point.counts.pushed).sum()
}

#[tokio::test(start_paused = true)]
async fn a_record_is_written_after_a_minute_with_traffic_and_none_while_nothing_happens() {
    let (engine, broker) = rig().await;
    sleep(MINUTE * 600).await;
    assert_eq!(stored(&*engine).await, 0);
    push(&broker, "q", "p", &["a", "b"]).await;
    assert_eq!(pushed(&told(&broker).await), 2, "told from memory");
    assert_eq!(stored(&*engine).await, 0);
    sleep(MINUTE + Duration::from_secs(1)).await;
    assert_eq!(stored(&*engine).await, 1);
    let appends = engine.calls("append");
    sleep(MINUTE * 600).await;
    assert_eq!((stored(&*engine).await, engine.calls("append")), (1, appends), "nothing happened since");
    assert_eq!(pushed(&told(&broker).await), 2);
    push(&broker, "q", "p", &["c"]).await;
    sleep(MINUTE * 3).await;
    assert_eq!(stored(&*engine).await, 2);
    assert_eq!(pushed(&told(&broker).await), 3);
}

#[tokio::test(start_paused = true)]
async fn every_minute_has_its_own_numbers() {
    let (_engine, broker) = rig().await;
    for round in 0..5 {
        let ids: Vec<String> = (0..=round).map(|n| format!("{round}-{n}")).collect();
        push(&broker, "q", "p", &ids.iter().map(String::as_str).collect::<Vec<_>>()).await;
        sleep(MINUTE).await;
    }
    let query = HistoryQuery { span: MINUTE * 60, by_queue: true, ..HistoryQuery::default() };
    let history = broker.history(&query).await.unwrap();
    let counts: Vec<u64> = history.queues.iter().map(|point| point.counts.pushed).collect();
    assert_eq!(counts, [1, 2, 3, 4, 5]);
    assert!(history.queues.windows(2).all(|pair| pair[1].at == pair[0].at.plus(MINUTE)), "{history:?}");
}

#[tokio::test(start_paused = true)]
async fn consumers_that_ask_in_vain_are_told_of_rarely() {
    let (engine, broker) = rig().await;
    for _ in 0..40 {
        assert!(broker.pop(from_queue("q")).await.unwrap().lanes.is_empty());
        sleep(MINUTE / 2).await;
    }
    assert_eq!(stored(&*engine).await, 1, "in twenty minutes");
    let empty: u64 = told(&broker).await.queues.iter().map(|point| point.counts.pop_empty).sum();
    assert_eq!(empty, 40);
}

#[tokio::test(start_paused = true)]
async fn a_record_whose_outcome_is_unknown_is_told_once() {
    for fault in [Fault::Before, Fault::After] {
        let (engine, broker) = rig().await;
        push(&broker, "q", "p", &["a", "b", "c"]).await;
        engine.next("append", fault);
        sleep(MINUTE + Duration::from_secs(1)).await;
        assert_eq!(pushed(&told(&broker).await), 3, "while it is not known");
        push(&broker, "q", "p", &["d"]).await;
        sleep(MINUTE * 3).await;
        assert_eq!(pushed(&told(&broker).await), 4);
        let sibling = Broker::open(engine.clone(), BrokerConfig::default()).await.unwrap();
        assert_eq!(pushed(&told(&sibling).await), 4, "all of it is stored");
        let errors: u64 =
            told(&broker).await.servers.iter().flat_map(|s| &s.points).map(|p| p.counts.store_errors).sum();
        assert_eq!(errors, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_for_long_loses_nothing_of_the_history() {
    let (engine, broker) = rig().await;
    push(&broker, "q", "p", &["a"]).await;
    engine.break_down(&["append"]);
    sleep(MINUTE * 90).await;
    engine.break_down(&[]);
    push(&broker, "q", "p", &["b"]).await;
    sleep(MINUTE * 2).await;
    assert_eq!(pushed(&told(&broker).await), 2);
    let sibling = Broker::open(engine.clone(), BrokerConfig::default()).await.unwrap();
    assert_eq!(pushed(&told(&sibling).await), 2, "all of it is stored");
}

#[tokio::test(start_paused = true)]
async fn what_is_left_is_written_at_the_end_and_deleted_queues_still_count() {
    let (engine, broker) = rig().await;
    push(&broker, "q", "p", &["a", "b"]).await;
    let popped = broker.pop(from_queue("q")).await.unwrap();
    ack_all(&broker, &popped).await;
    broker.delete_queue("q").await.unwrap();
    broker.shutdown().await;
    assert_eq!(stored(&*engine).await, 1);
    let sibling = Broker::open(engine.clone(), BrokerConfig::default()).await.unwrap();
    let history = told(&sibling).await;
    let point = history.queues.iter().find(|point| &*point.queue == "other").unwrap();
    assert_eq!((point.counts.pushed, point.counts.popped, point.counts.acked), (2, 2, 2));
}
