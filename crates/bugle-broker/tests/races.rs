//! Races and lost answers, made certain: an engine that holds or loses chosen answers.
#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/faulty.rs"]
mod faulty;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use bugle_broker::{Broker, BrokerConfig, LeaseToken, Operation, PopAnswer, PopRequest, PopTarget};
use bugle_store::{
    Append, Engine, Expire, Guard, LaneId, Load, MemoryStore, NewSegment, QUEUE_MODE, Timestamp, Trim,
};

use common::*;
use faulty::{Fault, Faulty};

const SOON: Duration = Duration::from_secs(2);

struct Bench {
    broker: Broker,
    faulty: Arc<Faulty>,
    /// The engine without faults.
    plain: Arc<dyn Engine>,
}

async fn bench(exclusive: bool) -> Bench {
    bench_with(exclusive, BrokerConfig::default()).await
}

async fn bench_with(exclusive: bool, config: BrokerConfig) -> Bench {
    let clock = AtomicI64::new(START);
    let store = MemoryStore::with_clock(Arc::new(move || Timestamp(clock.fetch_add(1, Ordering::Relaxed))));
    let plain: Arc<dyn Engine> = if exclusive { Arc::new(store) } else { Arc::new(store.shared()) };
    let faulty = Faulty::new(plain.clone());
    let broker = Broker::open(faulty.clone(), config).await.unwrap();
    Bench { broker, faulty, plain }
}

impl Bench {
    async fn lane(&self, queue: &str, partition: &str) -> LaneId {
        let snapshot = self.plain.snapshot(None).await.unwrap().unwrap();
        let queue = snapshot.queues.iter().find(|q| &*q.name == queue).unwrap().id;
        LaneId::derive(queue, partition)
    }

    async fn leased(&self, lane: LaneId) -> bool {
        let found = self.plain.load(vec![Load::Lane(lane, QUEUE_MODE.into())]).await.unwrap().remove(0);
        found[0].cursor.as_ref().is_some_and(|c| c.lease.is_some())
    }

    fn start(&self, request: PopRequest) -> tokio::task::JoinHandle<PopAnswer> {
        let broker = self.broker.clone();
        tokio::spawn(async move { broker.pop(request).await.unwrap() })
    }

    /// Wait until this many pops wait, and have gone as far as they get.
    async fn parked(&self, count: usize) {
        while self.broker.health().await.waiting < count {
            tokio::task::yield_now().await;
        }
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
    }
}

/// A pop of one message, acknowledged.
async fn consume(broker: &Broker, request: PopRequest) -> Vec<String> {
    let answer = broker.pop(request).await.unwrap();
    assert!(ack_all(broker, &answer).await.iter().all(|a| a.success));
    ids(&answer)
}

/// A load answered before a push but taken over after it must not take the lane's head back.
#[tokio::test]
async fn an_old_answer_does_not_hide_a_message() {
    let b = bench(true).await;
    push(&b.broker, "q", "a", &["m1"]).await;
    assert_eq!(consume(&b.broker, from_queue("q")).await, ["m1"]);
    let gate = b.faulty.hold_after("load");
    let direct = b.start(from_lane("q", "a"));
    gate.reached().await;
    push(&b.broker, "q", "a", &["m2"]).await;
    gate.open();
    let first = direct.await.unwrap();
    let second = b.broker.pop(waiting(from_queue("q"), SOON)).await.unwrap();
    assert_eq!([ids(&first), ids(&second)].concat(), ["m2"]);
}

/// An append whose answer was lost, found again by the retry, is visible to the next pop.
#[tokio::test]
async fn a_retry_answered_as_duplicate_is_visible() {
    let b = bench(true).await;
    push(&b.broker, "q", "a", &["m1"]).await;
    assert_eq!(consume(&b.broker, from_queue("q")).await, ["m1"]);
    b.faulty.next("append", Fault::After);
    b.broker.push(vec![item("q", "a", "m2", "{}")]).await.unwrap_err();
    let retried = push(&b.broker, "q", "a", &["m2"]).await;
    assert!(retried[0].duplicate);
    let answer = b.broker.pop(waiting(from_queue("q"), SOON)).await.unwrap();
    assert_eq!(ids(&answer), ["m2"]);
}

/// A pop that was dispatched and whose client left does not take the wake-up with it.
#[tokio::test]
async fn a_wake_up_for_a_client_that_left_goes_to_the_next() {
    let config = BrokerConfig { calls_in_flight: (1, 1), ..BrokerConfig::default() };
    let b = bench_with(true, config).await;
    push(&b.broker, "q", "a", &["m1"]).await;
    push(&b.broker, "other", "x", &["n1"]).await;
    assert_eq!(consume(&b.broker, from_queue("q")).await, ["m1"]);
    let first = b.start(waiting(from_queue("q"), Duration::from_secs(30)));
    b.parked(1).await;
    let second = b.start(waiting(from_queue("q"), SOON));
    b.parked(2).await;
    // The only worker is busy, so that the woken pop has to queue.
    let gate = b.faulty.hold_after("load");
    let busy = b.start(from_lane("other", "x"));
    gate.reached().await;
    push(&b.broker, "q", "a", &["m2"]).await;
    first.abort();
    assert!(first.await.is_err());
    gate.open();
    busy.await.unwrap();
    assert_eq!(ids(&second.await.unwrap()), ["m2"]);
}

/// The same id in two transactions at once is stored once.
#[tokio::test]
async fn an_id_in_two_transactions_at_once_is_stored_once() {
    let b = bench(true).await;
    push(&b.broker, "q", "a", &["m0"]).await;
    // A broker that starts later does not cover the lane in memory and asks the store.
    let broker = Broker::open(b.faulty.clone(), BrokerConfig::default()).await.unwrap();
    let gate = b.faulty.hold_after("find");
    let slow = tokio::spawn({
        let broker = broker.clone();
        async move { broker.transact(vec![Operation::Push(item("q", "a", "same", "1"))], vec![]).await.unwrap() }
    });
    gate.reached().await;
    let quick = broker.transact(vec![Operation::Push(item("q", "a", "same", "2"))], vec![]).await.unwrap();
    assert!(quick.success);
    gate.open();
    let slow = slow.await.unwrap();
    assert_eq!((slow.success, slow.reason), (false, Some("duplicate")));
}

/// A transaction whose client left while it was committed is heard of by those who wait.
#[tokio::test]
async fn a_transaction_whose_client_left_wakes_who_waits() {
    let b = bench(true).await;
    push(&b.broker, "q", "a", &["m1"]).await;
    assert_eq!(consume(&b.broker, from_queue("q")).await, ["m1"]);
    let waits = b.start(waiting(from_queue("q"), SOON));
    b.parked(1).await;
    let gate = b.faulty.hold_after("commit");
    let left = tokio::spawn({
        let broker = b.broker.clone();
        async move { broker.transact(vec![Operation::Push(item("q", "a", "m2", "1"))], vec![]).await }
    });
    gate.reached().await;
    left.abort();
    assert!(left.await.is_err());
    gate.open();
    assert_eq!(ids(&waits.await.unwrap()), ["m2"]);
}

/// A push that found its lane before the lane was collected is answered.
#[tokio::test]
async fn a_push_to_a_collected_lane_is_answered() {
    let b = bench(true).await;
    push(&b.broker, "q", "a", &["m1"]).await;
    let lane = b.lane("q", "a").await;
    b.plain.trim(vec![Trim { lane, to: 1 }]).await.unwrap();
    let gate = b.faulty.hold_after("ensure_lanes");
    let both = tokio::spawn({
        let broker = b.broker.clone();
        async move { broker.push(vec![item("q", "a", "m2", "{}"), item("q", "new", "n1", "{}")]).await.unwrap() }
    });
    gate.reached().await;
    assert_eq!(b.plain.expire(Expire::Lanes(Timestamp::MAX), 10).await.unwrap(), 2);
    push(&b.broker, "q", "a", &["m3"]).await;
    gate.open();
    let both = tokio::time::timeout(SOON, both).await.expect("the push is answered").unwrap();
    assert_eq!(both.len(), 2);
}

/// A pop future dropped when its answer is on its way gives the lease back.
#[tokio::test]
async fn a_pop_dropped_with_its_answer_sent_gives_the_lease_back() {
    let b = bench(true).await;
    push(&b.broker, "q", "a", &["m1"]).await;
    assert_eq!(consume(&b.broker, from_queue("q")).await, ["m1"]);
    let lane = b.lane("q", "a").await;
    let mut pop = Box::pin(b.broker.pop(waiting(from_queue("q"), Duration::from_secs(30))));
    tokio::select! {
        biased;
        _ = &mut pop => panic!("there is nothing yet"),
        () = b.parked(1) => (),
    }
    push(&b.broker, "q", "a", &["m2"]).await;
    while !b.leased(lane).await {
        tokio::task::yield_now().await;
    }
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
    drop(pop);
    let answer = b.broker.pop(waiting(from_queue("q"), SOON)).await.unwrap();
    assert_eq!(ids(&answer), ["m2"]);
    assert_eq!(answer.lanes[0].delivery_attempt, 1);
}

/// A pop of one partition asks the store also when memory says that it is held: another server may have freed it.
#[tokio::test]
async fn a_partition_freed_through_another_server_is_served() {
    let b = bench(false).await;
    let other = Broker::open(b.plain.clone(), BrokerConfig::default()).await.unwrap();
    push(&b.broker, "q", "a", &["m1"]).await;
    let held = b.broker.pop(from_lane("q", "a")).await.unwrap();
    assert!(ack_all(&other, &held).await[0].success);
    push(&other, "q", "a", &["m2"]).await;
    assert_eq!(ids(&b.broker.pop(from_lane("q", "a")).await.unwrap()), ["m2"]);
}

/// An ack whose answer was lost frees the lane when it is repeated.
#[tokio::test]
async fn a_repeated_ack_frees_the_lane() {
    let b = bench(true).await;
    push(&b.broker, "q", "a", &["m1"]).await;
    let held = b.broker.pop(from_queue("q")).await.unwrap();
    push(&b.broker, "q", "a", &["m2"]).await;
    b.faulty.next("swap", Fault::After);
    let lane = held.lanes[0].lane;
    let ack = bugle_broker::AckItem {
        transaction_id: "m1".into(),
        lane: Some(lane),
        status: bugle_broker::AckStatus::Completed,
        group: QUEUE_MODE.into(),
        lease: held.lease_id.map(LeaseToken::Id),
        error: None,
    };
    b.broker.ack(vec![ack.clone()]).await.unwrap_err();
    assert!(b.broker.ack(vec![ack]).await.unwrap()[0].success);
    let answer = b.broker.pop(waiting(from_queue("q"), SOON)).await.unwrap();
    assert_eq!(ids(&answer), ["m2"]);
}

/// A lane collected and filled again by another server is not delivered from what this one remembers.
#[tokio::test]
async fn a_new_incarnation_of_a_lane_is_not_served_from_memory() {
    let b = bench(false).await;
    push(&b.broker, "q", "a", &["old1", "old2"]).await;
    assert_eq!(consume(&b.broker, from_queue("q")).await.len(), 2);
    let lane = b.lane("q", "a").await;
    b.plain.trim(vec![Trim { lane, to: 2 }]).await.unwrap();
    assert_eq!(b.plain.expire(Expire::Lanes(Timestamp::MAX), 10).await.unwrap(), 1);
    let other = Broker::open(b.plain.clone(), BrokerConfig::default()).await.unwrap();
    push(&other, "q", "a", &["new1"]).await;
    push(&other, "q", "a", &["new2"]).await;
    push(&other, "q", "a", &["new3"]).await;
    let request = PopRequest { batch: Some(2), ..from_queue("q") };
    assert_eq!(ids(&b.broker.pop(request).await.unwrap()), ["new1", "new2"]);
}

/// While the store is away waiting pops do not hammer it.
#[tokio::test]
async fn an_outage_is_not_hammered() {
    let b = bench(true).await;
    push(&b.broker, "q", "a", &["m1"]).await;
    assert_eq!(consume(&b.broker, from_queue("q")).await, ["m1"]);
    let pops = [b.start(waiting(from_queue("q"), SOON)), b.start(waiting(from_queue("q"), SOON))];
    b.parked(2).await;
    b.faulty.break_down(&["swap", "load", "probe", "ping"]);
    let before = b.faulty.calls("swap") + b.faulty.calls("load");
    push(&b.broker, "q", "a", &["m2"]).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let calls = b.faulty.calls("swap") + b.faulty.calls("load") - before;
    b.faulty.break_down(&[]);
    let mut got = Vec::new();
    for pop in pops {
        got.extend(ids(&pop.await.unwrap()));
    }
    assert_eq!(got, ["m2"]);
    assert!(calls < 20, "{calls} calls in 300 ms");
}

/// A pop that parks just after its queue was deleted finds the queue's next incarnation.
#[tokio::test]
async fn a_pop_that_meets_a_deletion_finds_the_new_queue() {
    let b = bench(true).await;
    push(&b.broker, "q", "a", &["m1"]).await;
    let gate = b.faulty.hold_before("probe");
    let pop = b.start(waiting(from_queue("q"), SOON));
    gate.reached().await;
    assert!(b.broker.delete_queue("q").await.unwrap());
    gate.open();
    b.parked(1).await;
    push(&b.broker, "q", "a", &["m2"]).await;
    assert_eq!(ids(&pop.await.unwrap()), ["m2"]);
}

/// A filter pop that parks while a queue it wants comes to be is served from it.
#[tokio::test]
async fn a_filter_pop_does_not_miss_a_queue_that_is_new() {
    let b = bench(true).await;
    push(&b.broker, "ns.one", "a", &["m1"]).await;
    let filter = PopTarget::Filter { namespace: Some("ns".into()), task: None };
    let request = PopRequest { target: filter, ..from_queue("-") };
    assert_eq!(consume(&b.broker, PopRequest { group: QUEUE_MODE.into(), ..request.clone() }).await, ["m1"]);
    let gate = b.faulty.hold_after("probe");
    let pop = b.start(waiting(
        PopRequest { group: "g".into(), subscription_mode: Some("new".into()), ..request },
        SOON,
    ));
    gate.reached().await;
    push(&b.broker, "ns.two", "a", &["m2"]).await;
    gate.open();
    b.parked(1).await;
    // The group is new to the queue: what came before its first contact there may be skipped, what comes now may not.
    tokio::time::sleep(Duration::from_millis(50)).await;
    let queue = b.plain.snapshot(None).await.unwrap().unwrap();
    assert!(
        queue.groups.iter().any(|g| &*g.group == "g" && queue.queues.iter().any(|q| q.id == g.queue && &*q.name == "ns.two")),
        "the group has met the new queue"
    );
    drop(pop);
}

/// A change of the dedupe window under a push does not break its lane.
#[tokio::test]
async fn a_window_switched_off_under_a_push_leaves_the_lane_working() {
    let b = bench(true).await;
    push(&b.broker, "q", "a", &["m1"]).await;
    let broker = Broker::open(b.faulty.clone(), BrokerConfig::default()).await.unwrap();
    let gate = b.faulty.hold_after("find");
    let repeated = tokio::spawn({
        let broker = broker.clone();
        async move { broker.push(vec![item("q", "a", "m1", "{}")]).await }
    });
    gate.reached().await;
    configure(&broker, "q", serde_json::json!({ "dedupWindowSeconds": 0 })).await;
    gate.open();
    let _ = repeated.await.unwrap();
    let pushed = tokio::time::timeout(SOON, broker.push(vec![item("q", "a", "m2", "{}")])).await;
    assert!(pushed.expect("the lane works").is_ok());
}

/// A lease of a group that this server has not met yet can be renewed here.
#[tokio::test]
async fn a_lease_is_renewed_by_a_server_new_to_its_group() {
    let b = bench(false).await;
    let other = Broker::open(b.plain.clone(), BrokerConfig::default()).await.unwrap();
    push(&b.broker, "q", "a", &["m1"]).await;
    let held = b.broker.pop(from_queue("q")).await.unwrap();
    let renewed = other.renew(LeaseToken::Id(held.lease_id.unwrap()), 60).await.unwrap();
    assert_eq!((renewed.renewed, renewed.error), (1, None));
}

/// A claim whose answer was lost does not keep its lane for the whole lease: nobody holds it.
#[tokio::test]
async fn a_claim_with_a_lost_answer_is_taken_back() {
    let b = bench(true).await;
    push(&b.broker, "q", "a", &["m1"]).await;
    b.faulty.next("swap", Fault::After);
    let answer = b.broker.pop(waiting(from_queue("q"), SOON)).await.unwrap();
    assert_eq!(ids(&answer), ["m1"]);
}

/// Messages that did not fit into an auto-acked answer are not committed with it.
#[tokio::test]
async fn an_auto_acked_claim_with_a_lost_answer_is_told() {
    let bench = bench(true).await;
    let quick = PopRequest { auto_ack: true, ..from_queue("q") };
    push(&bench.broker, "q", "a", &["1"]).await;
    bench.faulty.next("swap", Fault::After);
    // What it committed cannot be delivered. It must not wait and be given others as if nothing had been.
    let answer = bench.broker.pop(waiting(quick.clone(), SOON)).await.unwrap();
    assert!(answer.store_unavailable && answer.lanes.is_empty());
    push(&bench.broker, "q", "a", &["2"]).await;
    assert_eq!(ids(&bench.broker.pop(waiting(quick, SOON)).await.unwrap()), ["2"]);
}

#[tokio::test]
async fn what_did_not_fit_into_an_auto_acked_answer_comes_next() {
    let config = BrokerConfig { pop_max_bytes: 1000, segment_cache: 0, ..BrokerConfig::default() };
    let b = bench_with(true, config).await;
    let big = format!("{:?}", "x".repeat(600));
    for id in ["m1", "m2", "m3", "m4"] {
        b.broker.push(vec![item("q", "a", id, &big)]).await.unwrap();
    }
    let auto = |batch| PopRequest { batch: Some(batch), auto_ack: true, ..from_queue("q") };
    let mut got = ids(&b.broker.pop(auto(2)).await.unwrap());
    assert_eq!(got, ["m1"], "the bound in bytes cuts the answer");
    for _ in 0..4 {
        got.extend(ids(&b.broker.pop(auto(1)).await.unwrap()));
    }
    assert_eq!(got, ["m1", "m2", "m3", "m4"]);
}

/// A segment that cannot be decoded stops its lane, not the server.
#[tokio::test]
async fn a_damaged_segment_is_not_claimed_over_and_over() {
    let b = bench(false).await;
    push(&b.broker, "q", "a", &["m1"]).await;
    assert_eq!(consume(&b.broker, from_queue("q")).await, ["m1"]);
    let segment = NewSegment { id: 1, fingerprints: [7].into(), greatest: None, body: vec![255; 3].into() };
    let (lane, now) = (b.lane("q", "a").await, Timestamp(START + 1_000_000));
    let append = Append { lane, known_head: 1, guard: Guard::Free, segment, now };
    assert!(b.plain.append(vec![append]).await.unwrap()[0].is_ok());
    let before = b.faulty.calls("swap");
    let pop = b.start(waiting(from_queue("q"), Duration::from_millis(300)));
    assert!(pop.await.unwrap().lanes.is_empty());
    let swaps = b.faulty.calls("swap") - before;
    assert!(swaps < 20, "{swaps} exchanges in 300 ms");
}

/// A claim that fails for a pop that does not wait leaves its lane to those that do.
#[tokio::test]
async fn a_failed_claim_of_a_passer_by_does_not_leave_the_waiting_behind() {
    let b = bench(true).await;
    push(&b.broker, "q", "a", &["m1"]).await;
    assert_eq!(consume(&b.broker, from_queue("q")).await, ["m1"]);
    let gate = faulty::Gate::new();
    b.faulty.next("swap", Fault::HoldAndFail(gate.clone()));
    push(&b.broker, "q", "a", &["m2"]).await;
    let passer_by = b.start(from_queue("q"));
    gate.reached().await;
    let waits = b.start(waiting(from_queue("q"), SOON));
    b.parked(1).await;
    gate.open();
    let got = [ids(&passer_by.await.unwrap()), ids(&waits.await.unwrap())].concat();
    assert_eq!(got, ["m2"]);
}
