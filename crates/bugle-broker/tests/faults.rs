//! A storm over a store that fails at random, before or after it did what it was asked, with clients that go away at any
//! moment and leases that expire: what was answered is stored once and in order, every group gets all of it, and nothing
//! comes again after its acknowledgement was confirmed. The seed is printed; `SEED` repeats a run.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod common;
#[path = "common/faulty.rs"]
mod faulty;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use bugle_broker::{AckItem, AckStatus, Broker, BrokerConfig, LeaseToken, PopAnswer, PopRequest};
use bugle_store::{Engine, Lane, MemoryStore, QUEUE_MODE, Read, Timestamp};
use parking_lot::Mutex;

use common::*;
use faulty::Faulty;

const LANES: usize = 5;
const PRODUCERS: usize = 4;
const ROUNDS: usize = 6;
const PER_ROUND: usize = 15;
const GROUPS: [&str; 2] = [QUEUE_MODE, "second"];
const CONSUMERS_PER_GROUP: usize = 3;
/// Long enough for abandoned leases to end, far too short for a consumer that waits for a wake-up that was lost.
const DRAIN: Duration = Duration::from_secs(15);

/// What is known of one (group, lane).
#[derive(Clone, Copy, Default)]
struct Position {
    /// Everything below was acknowledged, and that was confirmed.
    confirmed: u64,
    /// An acknowledgement of everything below was sent.
    attempted: u64,
}

struct Storm {
    brokers: Vec<Broker>,
    faulty: Arc<Faulty>,
    plain: Arc<dyn Engine>,
    clock: Arc<AtomicI64>,
    positions: Mutex<HashMap<(String, String), Position>>,
    wait: Duration,
}

impl Storm {
    async fn new(servers: usize) -> Arc<Self> {
        let clock = Arc::new(AtomicI64::new(START));
        let read = clock.clone();
        let store =
            MemoryStore::with_clock(Arc::new(move || Timestamp(read.fetch_add(1, Ordering::Relaxed))));
        let plain: Arc<dyn Engine> = if servers == 1 { Arc::new(store) } else { Arc::new(store.shared()) };
        let faulty = Faulty::new(plain.clone());
        let mut brokers = Vec::new();
        for _ in 0..servers {
            brokers.push(Broker::open(faulty.clone(), BrokerConfig::default()).await.unwrap());
        }
        // Alone, a server must wake its consumers whatever happens; what another one pushed is seen by asking again.
        let wait = if servers == 1 { Duration::from_secs(120) } else { Duration::from_millis(300) };
        Arc::new(Self { brokers, faulty, plain, clock, positions: Mutex::default(), wait })
    }

    fn broker(&self, rng: &mut fastrand::Rng) -> &Broker {
        &self.brokers[rng.usize(..self.brokers.len())]
    }

    async fn produce(self: Arc<Self>, producer: usize, round: usize, mut rng: fastrand::Rng) {
        for n in round * PER_ROUND..(round + 1) * PER_ROUND {
            let lane = format!("lane-{}", rng.usize(..LANES));
            let items = vec![item("storm", &lane, &format!("{producer}-{n:04}"), "{}")];
            while self.broker(&mut rng).push(items.clone()).await.is_err() {
                tokio::time::sleep(Duration::from_micros(200)).await;
            }
        }
    }

    fn position(&self, group: &str, lane: &str) -> Position {
        self.positions.lock().get(&(group.to_owned(), lane.to_owned())).copied().unwrap_or_default()
    }

    fn change(&self, group: &str, lane: &str, change: impl FnOnce(&mut Position)) {
        change(self.positions.lock().entry((group.to_owned(), lane.to_owned())).or_default());
    }

    async fn consume(self: Arc<Self>, group: &'static str, mut rng: fastrand::Rng) {
        loop {
            let before: HashMap<String, u64> = (0..LANES)
                .map(|n| format!("lane-{n}"))
                .map(|lane| (lane.clone(), self.position(group, &lane).confirmed))
                .collect();
            let request = PopRequest {
                group: group.into(),
                batch: Some(rng.u32(1..15)),
                partitions: Some(rng.u32(1..4)),
                lease_seconds: Some(1),
                ..if rng.u8(..4) == 0 {
                    from_lane("storm", &format!("lane-{}", rng.usize(..LANES)))
                } else {
                    from_queue("storm")
                }
            };
            let direct = matches!(request.target, bugle_broker::PopTarget::Lane { .. });
            let wait = if direct { Duration::from_millis(50) } else { self.wait };
            let broker = self.broker(&mut rng).clone();
            let pop = broker.pop(waiting(request, wait));
            let answer = if rng.u8(..5) == 0 {
                match tokio::time::timeout(Duration::from_micros(rng.u64(..2000)), pop).await {
                    Ok(answer) => answer.unwrap(),
                    Err(_) => continue,
                }
            } else {
                pop.await.unwrap()
            };
            self.check(group, &before, &answer);
            // Some consumers die with what they hold.
            if !answer.lanes.is_empty() && rng.u8(..20) != 0 {
                self.acknowledge(group, &answer, &mut rng).await;
            }
        }
    }

    fn check(&self, group: &str, before: &HashMap<String, u64>, answer: &PopAnswer) {
        for lane in &answer.lanes {
            let offsets: Vec<u64> = lane.messages.iter().map(|m| m.offset).collect();
            let first = offsets[0];
            assert!(offsets.iter().copied().eq(first..first + offsets.len() as u64), "{group} {offsets:?}");
            let confirmed = before[&*lane.partition];
            assert!(first >= confirmed, "{group} {}: {first} came again after {confirmed}", lane.partition);
            let attempted = self.position(group, &lane.partition).attempted;
            assert!(
                first <= attempted,
                "{group} {}: {first} although only {attempted} was acked",
                lane.partition
            );
        }
    }

    async fn acknowledge(&self, group: &str, answer: &PopAnswer, rng: &mut fastrand::Rng) {
        for lane in &answer.lanes {
            // The rest of a range that is acknowledged in part comes again when the lease ends.
            let count =
                if rng.u8(..15) == 0 { rng.usize(1..=lane.messages.len()) } else { lane.messages.len() };
            let messages = &lane.messages[..count];
            let next = messages.last().unwrap().offset + 1;
            self.change(group, &lane.partition, |p| p.attempted = p.attempted.max(next));
            let items: Vec<AckItem> = messages
                .iter()
                .map(|m| AckItem {
                    transaction_id: m.message.transaction().to_owned(),
                    lane: Some(lane.lane),
                    status: AckStatus::Completed,
                    group: group.into(),
                    lease: answer.lease_id.map(LeaseToken::Id),
                    error: None,
                })
                .collect();
            let acked = loop {
                match self.broker(rng).ack(items.clone()).await {
                    Ok(acked) => break acked,
                    Err(_) => tokio::time::sleep(Duration::from_micros(200)).await,
                }
            };
            if acked.iter().all(|a| a.success) {
                self.change(group, &lane.partition, |p| p.confirmed = p.confirmed.max(next));
            }
        }
    }

    async fn lanes(&self) -> Vec<Lane> {
        let queues = self.plain.snapshot(None).await.unwrap().unwrap().queues;
        let Some(queue) = queues.iter().find(|q| &*q.name == "storm") else { return Vec::new() };
        self.plain.lanes(queue.id, None, 1000).await.unwrap()
    }

    async fn behind(&self) -> Vec<String> {
        let mut behind = Vec::new();
        for lane in self.lanes().await {
            for group in GROUPS {
                let confirmed = self.position(group, &lane.name).confirmed;
                if confirmed < lane.head {
                    behind.push(format!("{group} {}: {confirmed} of {}", lane.name, lane.head));
                }
            }
        }
        behind
    }

    /// Every id once, and each producer's in its order.
    async fn check_log(&self) {
        let mut total = 0;
        for lane in self.lanes().await {
            let read = Read { lane: lane.id, from: 0, to: lane.head, max_bytes: usize::MAX };
            let segments = self.plain.read(vec![read]).await.unwrap().remove(0);
            let mut last: BTreeMap<String, String> = BTreeMap::new();
            for message in segments.iter().flat_map(|s| s.messages().unwrap()) {
                let (producer, n) = message.transaction().split_once('-').unwrap();
                let before = last.insert(producer.to_owned(), n.to_owned());
                assert!(before.as_deref() < Some(n), "{}: {n} of {producer} after {before:?}", lane.name);
                total += 1;
            }
        }
        assert_eq!(total, PRODUCERS * PER_ROUND * ROUNDS);
    }
}

async fn storm(servers: usize) {
    let seed = std::env::var("SEED").ok().and_then(|s| s.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    println!("SEED={seed}");
    let storm = Storm::new(servers).await;
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut consumers = tokio::task::JoinSet::new();
    for group in GROUPS {
        for _ in 0..CONSUMERS_PER_GROUP {
            consumers.spawn(storm.clone().consume(group, rng.fork()));
        }
    }
    consumers.spawn({
        let clock = storm.clock.clone();
        async move {
            loop {
                tokio::time::sleep(Duration::from_millis(10)).await;
                clock.fetch_add(20_000, Ordering::Relaxed);
            }
        }
    });
    for round in 0..ROUNDS {
        storm.faulty.at_random(rng.u64(..), 12);
        let producers: Vec<_> =
            (0..PRODUCERS).map(|n| tokio::spawn(storm.clone().produce(n, round, rng.fork()))).collect();
        for producer in producers {
            tokio::time::timeout(Duration::from_secs(60), producer)
                .await
                .expect("every push is answered")
                .unwrap();
        }
        // The store is well again: everybody gets everything, without another push to help.
        storm.faulty.at_random(0, 0);
        let drained = async {
            while !storm.behind().await.is_empty() {
                tokio::select! {
                    ended = consumers.join_next() => ended.unwrap().unwrap(),
                    () = tokio::time::sleep(Duration::from_millis(20)) => (),
                }
            }
        };
        if tokio::time::timeout(DRAIN, drained).await.is_err() {
            panic!("round {round} left behind: {:?}", storm.behind().await);
        }
    }
    storm.check_log().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_broker() {
    storm(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_brokers_on_one_store() {
    storm(2).await;
}
