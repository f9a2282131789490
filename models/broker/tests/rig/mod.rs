//! A broker on the reference store, for models: every call of the store takes its time, and what must not happen at once is
//! watched.
#![allow(dead_code, clippy::unwrap_used)]

pub(crate) mod engine;
pub(crate) mod hub;

use std::sync::Arc;
use std::time::Duration;

use bugle_broker::{
    AckItem, AckStatus, Broker, BrokerConfig, LeaseToken, PopAnswer, PopRequest, PopTarget, PushItem,
};
use bugle_store::{Catalog, MemoryStore, QUEUE_MODE, Queue, QueueId, QueueOptions, Timestamp};
use bugle_wake::{BellOptions, Carrier};
use tokio::time::passed;

pub(crate) use engine::Slow;

/// Longer than any model: whoever still waits then is stuck.
pub(crate) const FOREVER: Duration = Duration::from_secs(3600);
pub(crate) const QUEUE: &str = "q";

/// The queue's id, so that lanes have the same ones every time.
const ID: u128 = 0x6d6f_6465_6c00_4000_8000_0000_0000_0001;
/// Start of the store's time.
const START: i64 = 1_700_000_000_000_000;

/// A store with one queue.
pub(crate) async fn store(shared: bool) -> Arc<Slow> {
    let ticks = std::sync::atomic::AtomicI64::new(0);
    let clock = move || {
        let tick = ticks.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Timestamp(START + passed().as_micros() as i64 + tick)
    };
    let store = MemoryStore::with_clock(Arc::new(clock));
    let queue = Queue {
        id: QueueId(uuid::Uuid::from_u128(ID)),
        name: QUEUE.into(),
        namespace: "n".into(),
        task: "t".into(),
        created_at: Timestamp(START),
        version: 1,
        options: QueueOptions::default(),
    };
    store.put_queue(queue).await.unwrap();
    Arc::new(Slow::new(if shared { store.shared() } else { store }, !shared))
}

/// A broker that owns its store. Half of them have one call in flight per verb, so that everything meets in the intakes.
pub(crate) async fn alone() -> Broker {
    let calls_in_flight = if fastrand::bool() { (1, 1) } else { (2, 8) };
    let config = BrokerConfig { calls_in_flight, ..BrokerConfig::default() };
    Broker::open(store(false).await, config).await.unwrap()
}

/// A broker on a store that others write to too.
pub(crate) async fn server(store: &Arc<Slow>, name: &str, carrier: Carrier) -> Broker {
    let bell = BellOptions { name: name.into(), ..BellOptions::default() };
    Broker::open_with(store.clone(), BrokerConfig::default(), bell, vec![carrier]).await.unwrap()
}

pub(crate) async fn push(broker: &Broker, partition: &str, id: &str) {
    let item = PushItem {
        queue: QUEUE.into(),
        partition: partition.into(),
        transaction_id: Some(id.to_owned().into()),
        trace_id: None,
        producer_sub: None,
        context: None,
        payload: "1".into(),
    };
    let pushed = broker.push(vec![item]).await.unwrap();
    assert!(!pushed[0].duplicate, "{id} is no duplicate");
}

/// One message of any lane, waited for.
pub(crate) fn any(wait: Duration) -> PopRequest {
    PopRequest {
        target: PopTarget::Queue { queue: QUEUE.into() },
        group: QUEUE_MODE.into(),
        wait: Some(wait),
        batch: Some(1),
        partitions: None,
        auto_ack: false,
        lease_seconds: None,
        subscription_mode: None,
        subscription_from: None,
        conflation: false,
        autopilot: false,
        consumer: None,
    }
}

/// One message of one lane, waited for.
pub(crate) fn of_lane(partition: &str, wait: Duration) -> PopRequest {
    PopRequest { target: PopTarget::Lane { queue: QUEUE.into(), partition: partition.into() }, ..any(wait) }
}

/// One message of any queue of a namespace, waited for.
pub(crate) fn of_namespace(wait: Duration) -> PopRequest {
    let target = PopTarget::Filter { namespace: Some("n".into()), task: None };
    PopRequest { target, ..any(wait) }
}

pub(crate) fn ids(answer: &PopAnswer) -> Vec<String> {
    answer.lanes.iter().flat_map(|l| &l.messages).map(|m| m.message.transaction().to_owned()).collect()
}

/// Acknowledge all of an answer, which must count.
pub(crate) async fn ack(broker: &Broker, answer: &PopAnswer) {
    let items: Vec<AckItem> = answer
        .lanes
        .iter()
        .flat_map(|lane| lane.messages.iter().map(move |message| (lane.lane, message)))
        .map(|(lane, message)| AckItem {
            transaction_id: message.message.transaction().to_owned(),
            lane: Some(lane),
            status: AckStatus::Completed,
            group: QUEUE_MODE.into(),
            lease: answer.lease_id.map(LeaseToken::Id),
            error: None,
        })
        .collect();
    let acked = broker.ack(items).await.unwrap();
    assert!(acked.iter().all(|acked| acked.success), "{acked:?}");
}
