//! A broker on the reference store, and short forms of its verbs.
#![allow(dead_code, clippy::unwrap_used)]

pub(crate) mod hub;
pub(crate) mod waits;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use bugle_broker::{
    AckItem, AckStatus, Acked, Broker, BrokerConfig, Configure, LeaseToken, PopAnswer, PopRequest, PopTarget,
    PushItem, Pushed,
};
use bugle_store::{Engine, MemoryStore, QUEUE_MODE, Timestamp};

/// A broker, its engine and a clock that tests move.
pub(crate) struct Rig {
    pub(crate) broker: Broker,
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) clock: Arc<AtomicI64>,
}

/// Start of the tests' time.
pub(crate) const START: i64 = 1_700_000_000_000_000;

impl Rig {
    pub(crate) async fn new(exclusive: bool) -> Self {
        Self::with(exclusive, BrokerConfig::default()).await
    }

    pub(crate) async fn with(exclusive: bool, config: BrokerConfig) -> Self {
        let clock = Arc::new(AtomicI64::new(START));
        let read = clock.clone();
        let store =
            MemoryStore::with_clock(Arc::new(move || Timestamp(read.fetch_add(1, Ordering::Relaxed))));
        let engine: Arc<dyn Engine> = if exclusive { Arc::new(store) } else { Arc::new(store.shared()) };
        Self { broker: Broker::open(engine.clone(), config).await.unwrap(), engine, clock }
    }

    /// A second broker on the same store.
    pub(crate) async fn sibling(&self) -> Broker {
        Broker::open(self.engine.clone(), BrokerConfig::default()).await.unwrap()
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.clock.fetch_add(by.as_micros() as i64, Ordering::Relaxed);
    }
}

pub(crate) fn item(queue: &str, partition: &str, id: &str, payload: &str) -> PushItem {
    PushItem {
        queue: queue.into(),
        partition: partition.into(),
        transaction_id: (!id.is_empty()).then(|| id.to_owned().into()),
        trace_id: None,
        producer_sub: None,
        context: None,
        payload: payload.to_owned().into(),
    }
}

pub(crate) async fn push(broker: &Broker, queue: &str, partition: &str, ids: &[&str]) -> Vec<Pushed> {
    let items = ids.iter().map(|id| item(queue, partition, id, &format!("{id:?}"))).collect();
    broker.push(items).await.unwrap()
}

pub(crate) fn from_queue(queue: &str) -> PopRequest {
    PopRequest {
        target: PopTarget::Queue { queue: queue.into() },
        group: QUEUE_MODE.into(),
        wait: None,
        batch: Some(100),
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

pub(crate) fn from_lane(queue: &str, partition: &str) -> PopRequest {
    PopRequest {
        target: PopTarget::Lane { queue: queue.into(), partition: partition.into() },
        ..from_queue(queue)
    }
}

pub(crate) fn waiting(request: PopRequest, wait: Duration) -> PopRequest {
    PopRequest { wait: Some(wait), ..request }
}

pub(crate) fn ids(answer: &PopAnswer) -> Vec<String> {
    answer.lanes.iter().flat_map(|l| &l.messages).map(|m| m.message.transaction().to_owned()).collect()
}

pub(crate) async fn ack_as(
    broker: &Broker,
    answer: &PopAnswer,
    group: &str,
    only: &[(&str, AckStatus)],
) -> Vec<Acked> {
    let mut items = Vec::new();
    for (id, status) in only {
        let lane =
            answer.lanes.iter().find(|l| l.messages.iter().any(|m| m.message.transaction() == *id)).unwrap();
        items.push(AckItem {
            transaction_id: (*id).to_owned(),
            lane: Some(lane.lane),
            status: *status,
            group: group.into(),
            lease: answer.lease_id.map(LeaseToken::Id),
            error: None,
        });
    }
    broker.ack(items).await.unwrap()
}

pub(crate) async fn ack_all(broker: &Broker, answer: &PopAnswer) -> Vec<Acked> {
    let all = ids(answer);
    let all: Vec<(&str, AckStatus)> = all.iter().map(|id| (id.as_str(), AckStatus::Completed)).collect();
    ack_as(broker, answer, QUEUE_MODE, &all).await
}

pub(crate) async fn configure(broker: &Broker, queue: &str, options: serde_json::Value) {
    let options = options.as_object().unwrap().clone();
    let request = Configure { queue: queue.into(), namespace: None, task: None, options, replace: false };
    broker.configure(request).await.unwrap();
}

/// Run a test body on a broker that owns its store and on one that shares it.
#[macro_export]
macro_rules! on_both {
    ($($(#[$meta:meta])* async fn $name:ident($rig:ident: Rig) $body:block)*) => {$(
        mod $name {
            use super::*;
            async fn run($rig: Rig) $body
            #[tokio::test]
            async fn exclusive() { run(Rig::new(true).await).await }
            #[tokio::test]
            async fn shared() { run(Rig::new(false).await).await }
        }
    )*};
}
