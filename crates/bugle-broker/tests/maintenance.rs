//! Push maintenance: what is spooled is stored once and in order, whatever fails and whenever.
#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/faulty.rs"]
mod faulty;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use bugle_broker::{Broker, BrokerConfig, EncryptionKey, Operation, Refused};
use bugle_spool::{FileSpool, SpoolOptions};
use bugle_store::{Engine, MemoryStore, PutSwitches, Spool, Timestamp};
use bugle_wake::BellOptions;
use tempfile::TempDir;

use common::waits::until;
use common::*;
use faulty::{Fault, Faulty};

/// A store, a clock, and a directory for spools, all of which outlive brokers.
struct World {
    faulty: Arc<Faulty>,
    clock: Arc<AtomicI64>,
    dir: TempDir,
}

impl World {
    fn new(exclusive: bool) -> Self {
        let clock = Arc::new(AtomicI64::new(START));
        let read = clock.clone();
        let store =
            MemoryStore::with_clock(Arc::new(move || Timestamp(read.fetch_add(1, Ordering::Relaxed))));
        let engine: Arc<dyn Engine> = if exclusive { Arc::new(store) } else { Arc::new(store.shared()) };
        Self { faulty: Faulty::new(engine), clock, dir: tempfile::tempdir().unwrap() }
    }

    async fn open(&self, spool: &str) -> Broker {
        self.open_with(spool, BrokerConfig::default()).await
    }

    async fn open_with(&self, spool: &str, config: BrokerConfig) -> Broker {
        let spool: Arc<dyn Spool> = FileSpool::open(SpoolOptions::new(self.dir.path().join(spool))).unwrap();
        Broker::open_spooling(self.faulty.clone(), Some(spool), config, BellOptions::default(), Vec::new())
            .await
            .unwrap()
    }

    /// The spool as a crash at this moment would leave it.
    fn copy(&self, from: &str, to: &str) {
        let to = self.dir.path().join(to);
        std::fs::create_dir(&to).unwrap();
        for entry in std::fs::read_dir(self.dir.path().join(from)).unwrap() {
            let path = entry.unwrap().path();
            std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
        }
    }
}

async fn maintain(broker: &Broker, on: bool) {
    broker.switch(PutSwitches { push_maintenance: Some(on), pop_maintenance: None }).await.unwrap();
}

async fn drained(broker: &Broker) {
    until(|| broker.spool().records == 0).await;
}

/// Everything in a queue, by ids, for a group that has read nothing.
async fn stored(broker: &Broker, queue: &str, group: &str) -> Vec<String> {
    let mut request = from_queue(queue);
    (request.group, request.partitions, request.batch) = (group.into(), Some(100), Some(10_000));
    ids(&broker.pop(request).await.unwrap())
}

async fn buffered(broker: &Broker, partition: &str, all: &[&str]) {
    let pushed = push(broker, "q", partition, all).await;
    assert!(pushed.iter().all(|one| one.buffered && !one.duplicate), "{pushed:?}");
}

#[tokio::test]
async fn what_is_pushed_meanwhile_is_stored_afterwards_in_order() {
    for exclusive in [true, false] {
        let world = World::new(exclusive);
        let broker = world.open("spool").await;
        push(&broker, "q", "p", &["0"]).await;
        maintain(&broker, true).await;
        let appends = world.faulty.calls("append");
        buffered(&broker, "p", &["1", "2"]).await;
        buffered(&broker, "p", &["3"]).await;
        assert_eq!(
            (world.faulty.calls("append"), broker.spool().records),
            (appends, 3),
            "nothing was stored"
        );
        assert_eq!(stored(&broker, "q", "before").await, ["0"]);
        maintain(&broker, false).await;
        drained(&broker).await;
        let after = push(&broker, "q", "p", &["4"]).await;
        assert!(!after[0].buffered);
        assert_eq!(stored(&broker, "q", "after").await, ["0", "1", "2", "3", "4"]);
    }
}

#[tokio::test]
async fn ids_are_minted_when_they_are_told_and_repeated_ones_store_once() {
    let world = World::new(true);
    let broker = world.open("spool").await;
    maintain(&broker, true).await;
    let pushed = broker.push(vec![item("q", "p", "", "1"), item("q", "p", "", "2")]).await.unwrap();
    buffered(&broker, "p", &["again"]).await;
    buffered(&broker, "p", &["again"]).await;
    maintain(&broker, false).await;
    drained(&broker).await;
    let popped = broker.pop(from_queue("q")).await.unwrap();
    let told: Vec<_> = pushed.iter().map(|one| (one.message_id, one.transaction_id.clone())).collect();
    let found: Vec<_> =
        popped.lanes[0].messages.iter().map(|m| (m.message.id, m.message.transaction_id.clone())).collect();
    assert_eq!((found.len(), &found[..2]), (3, &told[..]));
}

#[tokio::test]
async fn pushes_right_after_its_end_overtake_nothing() {
    let world = World::new(true);
    let broker = world.open("spool").await;
    maintain(&broker, true).await;
    buffered(&broker, "p", &["1"]).await;
    let gate = world.faulty.hold_before("append");
    maintain(&broker, false).await;
    gate.reached().await;
    // Another lane is free; the same one waits for what is on its way.
    assert!(!push(&broker, "q", "other", &["x"]).await[0].buffered);
    let copy = broker.clone();
    let behind = tokio::spawn(async move { push(&copy, "q", "p", &["2"]).await });
    tokio::task::yield_now().await;
    gate.open();
    assert!(!behind.await.unwrap()[0].buffered, "it was stored when the last batch was");
    let mut lane = from_lane("q", "p");
    lane.batch = Some(10);
    assert_eq!(ids(&broker.pop(lane).await.unwrap()), ["1", "2"]);
}

#[tokio::test]
async fn a_producer_keeps_its_order_while_maintenance_comes_and_goes() {
    let world = World::new(true);
    let broker = world.open("spool").await;
    let producing: Vec<_> = (0..3)
        .map(|lane| {
            let (broker, lane) = (broker.clone(), format!("lane-{lane}"));
            tokio::spawn(async move {
                let mut spooled = 0;
                for n in 0..400 {
                    let pushed = push(&broker, "q", &lane, &[&format!("{lane} {n:04}")]).await;
                    spooled += usize::from(pushed[0].buffered);
                }
                spooled
            })
        })
        .collect();
    for round in 0..20 {
        maintain(&broker, round % 2 == 0).await;
        let before = broker.read().push.messages;
        let done = || producing.iter().all(tokio::task::JoinHandle::is_finished);
        until(|| broker.read().push.messages > before + 20 || done()).await;
    }
    maintain(&broker, false).await;
    let mut spooled = 0;
    for producer in producing {
        spooled += producer.await.unwrap();
    }
    assert!(spooled > 0, "some went through the spool");
    drained(&broker).await;
    for lane in 0..3 {
        let lane = format!("lane-{lane}");
        let mut request = from_lane("q", &lane);
        request.batch = Some(10_000);
        let wanted: Vec<String> = (0..400).map(|n| format!("{lane} {n:04}")).collect();
        assert_eq!(ids(&broker.pop(request).await.unwrap()), wanted);
    }
}

#[tokio::test]
async fn a_drain_whose_answers_are_lost_stores_once_also_without_a_window() {
    for (exclusive, window) in [(true, 3600), (true, 0), (false, 3600), (false, 0)] {
        let world = World::new(exclusive);
        let broker = world.open("spool").await;
        configure(&broker, "q", serde_json::json!({"dedupWindowSeconds": window})).await;
        // Somebody else writes there too, which makes an append without a window unconditional.
        let other = world.open("other").await;
        push(&broker, "q", "p", &["a"]).await;
        push(&other, "q", "p", &["b"]).await;
        push(&broker, "q", "p", &["c"]).await;
        maintain(&broker, true).await;
        buffered(&broker, "p", &["1", "2", "3"]).await;
        world.faulty.next("append", Fault::After);
        world.faulty.next("append", Fault::Before);
        maintain(&broker, false).await;
        drained(&broker).await;
        let found = stored(&broker, "q", "g").await;
        assert_eq!(found, ["a", "b", "c", "1", "2", "3"], "exclusive {exclusive}, window {window}");
    }
}

#[tokio::test]
async fn equal_ids_are_all_stored_where_the_window_is_off() {
    let world = World::new(true);
    let broker = world.open("spool").await;
    configure(&broker, "q", serde_json::json!({"dedupWindowSeconds": 0})).await;
    maintain(&broker, true).await;
    buffered(&broker, "p", &["same", "same"]).await;
    buffered(&broker, "p", &["same"]).await;
    maintain(&broker, false).await;
    drained(&broker).await;
    assert_eq!(stored(&broker, "q", "g").await, ["same"; 3]);
}

#[tokio::test]
async fn a_crash_between_the_store_and_the_position_stores_nothing_twice() {
    for window in [3600, 0] {
        let world = World::new(true);
        let broker = world.open("spool").await;
        configure(&broker, "q", serde_json::json!({"dedupWindowSeconds": window})).await;
        maintain(&broker, true).await;
        let all: Vec<String> = (0..50).map(|n| format!("{n:02}")).collect();
        for some in all.chunks(7) {
            let some: Vec<&str> = some.iter().map(String::as_str).collect();
            buffered(&broker, "p", &some).await;
        }
        world.copy("spool", "crashed");
        maintain(&broker, false).await;
        drained(&broker).await;
        broker.shutdown().await;
        // As if the position had never been moved; and so late that no window remembers.
        world.clock.fetch_add(Duration::from_secs(7200).as_micros() as i64, Ordering::Relaxed);
        let again = world.open("crashed").await;
        drained(&again).await;
        let after = push(&again, "q", "p", &["last"]).await;
        assert!(!after[0].buffered);
        let mut wanted = all.clone();
        wanted.push("last".into());
        assert_eq!(stored(&again, "q", "g").await, wanted, "window {window}");
    }
}

#[tokio::test]
async fn a_store_that_is_away_is_waited_for_and_the_spool_takes_what_comes_behind() {
    let world = World::new(false);
    let broker = world.open("spool").await;
    maintain(&broker, true).await;
    buffered(&broker, "p", &["1"]).await;
    world.faulty.break_down(&["append", "load", "ensure_lanes"]);
    maintain(&broker, false).await;
    until(|| world.faulty.calls("ensure_lanes") > 2).await;
    assert_eq!(broker.spool().records, 1);
    let refused = broker.push(vec![item("q", "free", "x", "1")]).await;
    assert!(matches!(refused, Err(Refused::Unavailable(_))), "there is no other buffer: {refused:?}");
    buffered(&broker, "p", &["2"]).await;
    world.faulty.break_down(&[]);
    drained(&broker).await;
    assert_eq!(stored(&broker, "q", "g").await, ["1", "2"]);
}

#[tokio::test]
async fn transactions_with_pushes_must_wait_and_others_go_on() {
    let world = World::new(true);
    let broker = world.open("spool").await;
    push(&broker, "q", "p", &["a"]).await;
    let popped = broker.pop(from_queue("q")).await.unwrap();
    maintain(&broker, true).await;
    let operation = vec![Operation::Push(item("q", "p", "b", "1"))];
    let refused = broker.transact(operation.clone(), Vec::new()).await;
    assert!(matches!(refused, Err(Refused::Maintenance(_))), "{refused:?}");
    let ack = bugle_broker::AckItem {
        transaction_id: "a".into(),
        lane: Some(popped.lanes[0].lane),
        status: bugle_broker::AckStatus::Completed,
        group: bugle_store::QUEUE_MODE.into(),
        lease: None,
        error: None,
    };
    assert!(broker.transact(vec![Operation::Ack(ack)], Vec::new()).await.unwrap().success);
    maintain(&broker, false).await;
    assert!(broker.transact(operation, Vec::new()).await.unwrap().success);
}

fn holds(dir: &Path, text: &str) -> bool {
    std::fs::read_dir(dir).unwrap().any(|entry| {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    })
}

#[tokio::test]
async fn payloads_of_encrypted_queues_are_never_in_clear() {
    let world = World::new(true);
    let keyless = world.open("keyless").await;
    configure(&keyless, "q", serde_json::json!({"encryptionEnabled": true})).await;
    maintain(&keyless, true).await;
    let refused = keyless.push(vec![item("open", "p", "x", "1"), item("q", "p", "y", "2")]).await;
    assert!(matches!(refused, Err(Refused::Conflict(_))), "{refused:?}");
    assert_eq!(keyless.spool().records, 0, "all of it is refused");

    let key = EncryptionKey { id: "k".into(), key: [7; 32] };
    let config = BrokerConfig { encryption_keys: vec![key], ..BrokerConfig::default() };
    let broker = world.open_with("spool", config).await;
    // Nobody knows yet that this queue will be an encrypted one.
    broker.push(vec![item("late", "p", "t", "\"plain-secret\"")]).await.unwrap();
    assert!(!holds(&world.dir.path().join("spool"), "plain-secret"));
    configure(&broker, "late", serde_json::json!({"encryptionEnabled": true})).await;
    maintain(&broker, false).await;
    drained(&broker).await;
    let popped = broker.pop(from_queue("late")).await.unwrap();
    assert_eq!(popped.lanes[0].messages[0].message.payload, "\"plain-secret\"");
}

#[tokio::test]
async fn a_server_without_a_spool_refuses() {
    let rig = Rig::new(true).await;
    maintain(&rig.broker, true).await;
    let refused = rig.broker.push(vec![item("q", "p", "x", "1")]).await;
    assert!(matches!(refused, Err(Refused::Maintenance(_))), "{refused:?}");
    maintain(&rig.broker, false).await;
    push(&rig.broker, "q", "p", &["x"]).await;
}

#[tokio::test]
async fn a_storm_over_a_failing_store_stores_everything_once_and_in_order() {
    for seed in 0..4 {
        let world = World::new(seed % 2 == 0);
        let broker = world.open("spool").await;
        configure(&broker, "q", serde_json::json!({"dedupWindowSeconds": if seed < 2 { 3600 } else { 0 }}))
            .await;
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut wanted: Vec<Vec<String>> = vec![Vec::new(); 4];
        maintain(&broker, true).await;
        for round in 0..60 {
            let lane = rng.usize(..4);
            let some: Vec<String> = (0..rng.usize(1..5)).map(|n| format!("{round} {n}")).collect();
            let some: Vec<&str> = some.iter().map(String::as_str).collect();
            buffered(&broker, &lane.to_string(), &some).await;
            wanted[lane].extend(some.iter().map(|id| (*id).to_owned()));
        }
        world.faulty.at_random(seed, 8);
        while broker
            .switch(PutSwitches { push_maintenance: Some(false), pop_maintenance: None })
            .await
            .is_err()
        {}
        drained(&broker).await;
        world.faulty.at_random(seed, 0);
        for (lane, wanted) in wanted.iter().enumerate() {
            let mut request = from_lane("q", &lane.to_string());
            request.batch = Some(1000);
            assert_eq!(&ids(&broker.pop(request).await.unwrap()), wanted, "seed {seed}, lane {lane}");
        }
    }
}
