//! Consumer groups sent elsewhere while others are in the middle of something: claims, acknowledgements, waits.
#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/faulty.rs"]
mod faulty;

use std::sync::Arc;

use bugle_broker::{AckStatus, Broker, BrokerConfig, PopRequest, Refused, SeekTo};
use bugle_store::{Engine, Group, MemoryStore, Timestamp};
use common::waits::{answer, parked, until};
use common::{ack_as, from_lane, from_queue, push};
use faulty::{Fault, Faulty};
use tokio::task::JoinHandle;

fn group() -> Group {
    "g".into()
}

fn of(request: PopRequest) -> PopRequest {
    PopRequest { group: group(), ..request }
}

fn at_once(request: PopRequest) -> PopRequest {
    PopRequest { auto_ack: true, ..of(request) }
}

async fn open() -> (Broker, Arc<Faulty>) {
    let engine: Arc<dyn Engine> = Arc::new(MemoryStore::default());
    let faulty = Faulty::new(engine);
    (Broker::open(faulty.clone(), BrokerConfig::default()).await.unwrap(), faulty)
}

fn seeking(broker: &Broker, to: SeekTo) -> JoinHandle<u64> {
    let broker = broker.clone();
    tokio::spawn(async move { broker.seek("q", &group(), None, to).await.unwrap().partitions })
}

#[tokio::test]
async fn who_looked_in_the_middle_of_a_seek_is_woken_at_its_end() {
    for request in [from_queue("q"), from_lane("q", "a")] {
        let (broker, faulty) = open().await;
        push(&broker, "q", "a", &["1"]).await;
        broker.pop(at_once(from_queue("q"))).await.unwrap();
        let pop = parked(&broker, at_once(request.clone())).await;
        let gate = faulty.hold_before("swap");
        let seek = seeking(&broker, SeekTo::Beginning);
        gate.reached().await;
        // The record is another one, so whoever waited has asked again, and found the cursor where it was.
        until(|| broker.read().waiting.parked == 1).await;
        gate.open();
        assert_eq!(answer(pop).await, ["1"]);
        assert_eq!(seek.await.unwrap(), 1);
    }
}

#[tokio::test]
async fn a_seek_whose_caller_went_away_is_finished() {
    let (broker, faulty) = open().await;
    push(&broker, "q", "a", &["1"]).await;
    broker.pop(at_once(from_queue("q"))).await.unwrap();
    let gate = faulty.hold_before("swap");
    let seek = seeking(&broker, SeekTo::Beginning);
    gate.reached().await;
    seek.abort();
    assert!(seek.await.unwrap_err().is_cancelled());
    let pop = parked(&broker, at_once(from_queue("q"))).await;
    gate.open();
    assert_eq!(answer(pop).await, ["1"]);
}

#[tokio::test]
async fn a_first_claim_that_began_before_a_seek_does_not_undo_it() {
    let (broker, faulty) = open().await;
    push(&broker, "q", "a", &["1"]).await;
    let new = PopRequest { subscription_mode: Some("new".into()), ..at_once(from_queue("q")) };
    assert_eq!(broker.pop(new).await.unwrap().count(), 0);
    push(&broker, "q", "a", &["2"]).await;
    // It would begin at the second message, as the group had subscribed.
    let gate = faulty.hold_before("swap");
    let copy = broker.clone();
    let claim = tokio::spawn(async move { copy.pop(at_once(from_queue("q"))).await.unwrap() });
    gate.reached().await;
    assert_eq!(seeking(&broker, SeekTo::Beginning).await.unwrap(), 0);
    gate.open();
    assert_eq!(answer(claim).await, ["1", "2"]);
}

#[tokio::test]
async fn a_claim_in_flight_is_overtaken_by_a_seek_and_delivers_from_there() {
    let (broker, faulty) = open().await;
    push(&broker, "q", "a", &["1"]).await;
    broker.pop(at_once(from_queue("q"))).await.unwrap();
    push(&broker, "q", "a", &["2"]).await;
    let gate = faulty.hold_before("swap");
    let copy = broker.clone();
    let claim = tokio::spawn(async move { copy.pop(at_once(from_queue("q"))).await.unwrap() });
    gate.reached().await;
    assert_eq!(seeking(&broker, SeekTo::Beginning).await.unwrap(), 1);
    gate.open();
    assert_eq!(answer(claim).await, ["1", "2"]);
}

#[tokio::test]
async fn an_acknowledgement_in_flight_frees_its_lane_for_who_waits_after_the_subscription_changed() {
    let (broker, faulty) = open().await;
    push(&broker, "q", "a", &["1", "2"]).await;
    let held = broker.pop(PopRequest { batch: Some(1), ..of(from_queue("q")) }).await.unwrap();
    let gate = faulty.hold_before("swap");
    let copy = broker.clone();
    let ack =
        tokio::spawn(
            async move { ack_as(&copy, &held, "g", &[("1", AckStatus::Completed)]).await[0].success },
        );
    gate.reached().await;
    broker.subscription(&group(), Timestamp::ZERO).await.unwrap();
    let pop = parked(&broker, of(from_queue("q"))).await;
    gate.open();
    assert!(ack.await.unwrap());
    assert_eq!(answer(pop).await, ["2"]);
}

#[tokio::test]
async fn a_seek_that_the_store_did_not_answer_may_be_repeated() {
    for fault in [Fault::Before, Fault::After] {
        let (broker, faulty) = open().await;
        push(&broker, "q", "a", &["1"]).await;
        broker.pop(at_once(from_queue("q"))).await.unwrap();
        let pop = parked(&broker, at_once(from_queue("q"))).await;
        faulty.next("swap", fault);
        let refused = broker.seek("q", &group(), None, SeekTo::Beginning).await;
        assert!(matches!(refused, Err(Refused::Unavailable(_))), "{refused:?}");
        let _ = broker.seek("q", &group(), None, SeekTo::Beginning).await.unwrap();
        assert_eq!(answer(pop).await, ["1"]);
    }
}
