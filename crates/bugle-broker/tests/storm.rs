//! Many producers and consumers at once, on one broker and on two that share a store: nothing lost, nothing reordered,
//! nothing delivered after its acknowledgement was confirmed.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bugle_broker::{AckStatus, Broker, PopAnswer, PopRequest};
use bugle_store::QUEUE_MODE;
use parking_lot::Mutex;

use common::*;

const LANES: usize = 12;
const PRODUCERS: usize = 6;
const PER_PRODUCER: usize = 400;

/// Positions confirmed so far, by lane.
#[derive(Default)]
struct Seen {
    confirmed: Mutex<HashMap<String, u64>>,
    total: AtomicUsize,
}

impl Seen {
    /// A delivery must start where the last confirmed one ended.
    fn check(&self, answer: &PopAnswer) {
        for lane in &answer.lanes {
            let next = self.confirmed.lock().get(&*lane.partition).copied().unwrap_or(0);
            let offsets: Vec<u64> = lane.messages.iter().map(|m| m.offset).collect();
            let expected: Vec<u64> = (next..next + offsets.len() as u64).collect();
            assert_eq!(offsets, expected, "lane {}", lane.partition);
        }
    }

    fn confirm(&self, lane: &str, next: u64, count: usize) {
        self.confirmed.lock().insert(lane.to_owned(), next);
        self.total.fetch_add(count, Ordering::SeqCst);
    }
}

async fn produce(broker: Broker, producer: usize) {
    for n in 0..PER_PRODUCER {
        let lane = format!("lane-{}", fastrand::usize(..LANES));
        let id = format!("{producer}-{n}");
        let pushed = broker
            .push(vec![item("storm", &lane, &id, "{}"), item("storm", &lane, &id, "{}")])
            .await
            .unwrap();
        assert!(!pushed[0].duplicate && pushed[1].duplicate);
        if n % 7 == 0 {
            tokio::task::yield_now().await;
        }
    }
}

async fn consume(broker: Broker, seen: Arc<Seen>, all: usize) {
    while seen.total.load(Ordering::SeqCst) < all {
        let request =
            PopRequest { batch: Some(fastrand::u32(1..20)), partitions: Some(3), ..from_queue("storm") };
        let answer = broker.pop(waiting(request, Duration::from_millis(200))).await.unwrap();
        if answer.lanes.is_empty() {
            continue;
        }
        seen.check(&answer);
        if fastrand::u8(..8) == 0 {
            let first = answer.lanes[0].messages[0].message.transaction().to_owned();
            let acked = ack_as(&broker, &answer, QUEUE_MODE, &[(&first, AckStatus::Retry)]).await;
            assert!(acked[0].success, "{acked:?}");
            for lane in &answer.lanes[1..] {
                let last = lane.messages.last().unwrap();
                seen.confirm(&lane.partition, last.offset + 1, lane.messages.len());
                let acked = ack_as(
                    &broker,
                    &answer,
                    QUEUE_MODE,
                    &[(last.message.transaction(), AckStatus::Completed)],
                )
                .await;
                assert!(acked[0].success, "{acked:?}");
            }
            continue;
        }
        // Confirmed positions are noted before the ack, so that whoever claims next already finds them.
        for lane in &answer.lanes {
            seen.confirm(&lane.partition, lane.messages.last().unwrap().offset + 1, lane.messages.len());
        }
        let acked = ack_all(&broker, &answer).await;
        assert!(acked.iter().all(|a| a.success), "{acked:?}");
    }
}

async fn storm(brokers: Vec<Broker>) {
    let all = PRODUCERS * PER_PRODUCER;
    let seen = Arc::new(Seen::default());
    let mut tasks = Vec::new();
    for n in 0..PRODUCERS {
        tasks.push(tokio::spawn(produce(brokers[n % brokers.len()].clone(), n)));
    }
    for n in 0..8 {
        tasks.push(tokio::spawn(consume(brokers[n % brokers.len()].clone(), seen.clone(), all)));
    }
    for task in tasks {
        tokio::time::timeout(Duration::from_secs(60), task).await.expect("the storm ends").unwrap();
    }
    assert_eq!(seen.total.load(Ordering::SeqCst), all);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_broker() {
    let rig = Rig::new(true).await;
    storm(vec![rig.broker]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_brokers_on_one_store() {
    let rig = Rig::new(false).await;
    let other = rig.sibling().await;
    storm(vec![rig.broker, other]).await;
}
