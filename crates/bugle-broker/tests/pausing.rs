//! Pops that are paused for maintenance, and pops that let a batch grow.
#![allow(clippy::unwrap_used)]

mod common;

use std::time::Duration;

use bugle_broker::{Broker, FloorConfig, PopAnswer, PopRequest};
use bugle_store::PutSwitches;
use serde_json::json;
use tokio::task::JoinHandle;

use common::waits::{LONG, Pair, answer, deaf_pair, parked, until};
use common::*;

async fn pause(broker: &Broker, on: bool) {
    broker.switch(PutSwitches { push_maintenance: None, pop_maintenance: Some(on) }).await.unwrap();
}

fn begin(broker: &Broker, request: PopRequest, wait: Duration) -> JoinHandle<PopAnswer> {
    let broker = broker.clone();
    tokio::spawn(async move { broker.pop(waiting(request, wait)).await.unwrap() })
}

async fn until_waiting(broker: &Broker, count: usize) {
    until(|| broker.read().waiting.waiting == count).await;
}

on_both! {
    async fn paused_pops_get_nothing_and_those_that_wait_go_on_by_themselves(rig: Rig) {
        let broker = &rig.broker;
        let before = parked(broker, from_queue("q")).await;
        pause(broker, true).await;
        assert!(answer(before).await.is_empty(), "a parked pop is answered");
        push(broker, "q", "p", &["a"]).await;
        assert!(broker.pop(from_queue("q")).await.unwrap().lanes.is_empty());
        let short = waiting(from_lane("q", "p"), Duration::from_millis(30));
        assert!(broker.pop(short).await.unwrap().lanes.is_empty(), "its own wait ends");
        let claims = broker.read().claims.calls;
        let (one, two) = (begin(broker, from_queue("q"), LONG), begin(broker, from_lane("r", "p"), LONG));
        until_waiting(broker, 2).await;
        push(broker, "r", "p", &["b"]).await;
        assert_eq!(broker.read().claims.calls, claims, "nothing is claimed");
        assert!(!one.is_finished() && !two.is_finished());
        pause(broker, false).await;
        assert_eq!((answer(one).await, answer(two).await), (vec!["a".to_owned()], vec!["b".to_owned()]));
    }

    async fn a_server_that_stops_lets_paused_pops_go(rig: Rig) {
        pause(&rig.broker, true).await;
        let pop = begin(&rig.broker, from_queue("q"), LONG);
        until_waiting(&rig.broker, 1).await;
        rig.broker.drain();
        assert!(answer(pop).await.is_empty());
    }

    async fn a_conflating_group_is_told_of_it_by_every_empty_answer(rig: Rig) {
        let broker = &rig.broker;
        let request = || PopRequest { group: "g".into(), conflation: true, ..from_queue("q") };
        let short = Duration::from_millis(20);
        for round in 0..2 {
            let now = broker.pop(request()).await.unwrap();
            let later = broker.pop(waiting(request(), short)).await.unwrap();
            assert!(now.conflation && later.conflation && !later.conflation_conflict, "round {round}");
            pause(broker, round == 0).await;
        }
        let plain = broker.pop(waiting(PopRequest { conflation: false, ..request() }, short)).await.unwrap();
        assert!(plain.conflation && plain.conflation_conflict, "the stored one applies");
    }

    async fn a_batch_that_is_not_full_is_let_grow_and_claimed_once(rig: Rig) {
        let broker = &rig.broker;
        configure(broker, "q", json!({"minPopWaitTime": 60_000})).await;
        push(broker, "q", "p", &["a"]).await;
        let request = || PopRequest { batch: Some(3), ..from_queue("q") };
        let held = begin(broker, request(), LONG);
        until(|| broker.read().waiting.parked == 1).await;
        let claims = broker.read().claims.calls;
        push(broker, "q", "p", &["b"]).await;
        assert_eq!(broker.read().claims.calls, claims, "nothing is claimed yet");
        assert!(!held.is_finished());
        push(broker, "q", "p", &["c"]).await;
        assert_eq!(answer(held).await, ["a", "b", "c"]);
        assert_eq!(broker.read().claims.calls, claims + 1);
    }

    async fn a_held_batch_is_delivered_when_its_time_or_its_wait_is_over(rig: Rig) {
        let broker = &rig.broker;
        configure(broker, "q", json!({"minPopWaitTime": 40})).await;
        configure(broker, "slow", json!({"minPopWaitTime": 60_000})).await;
        let request = |queue: &str| PopRequest { batch: Some(100), ..from_queue(queue) };
        push(broker, "q", "p", &["a"]).await;
        assert_eq!(answer(begin(broker, request("q"), LONG)).await, ["a"], "after minPopWaitTime");
        push(broker, "slow", "p", &["b"]).await;
        let own = begin(broker, request("slow"), Duration::from_millis(60));
        assert_eq!(answer(own).await, ["b"], "after its own wait");
        push(broker, "slow", "s", &["c"]).await;
        let direct = begin(broker, PopRequest { batch: Some(9), ..from_lane("slow", "s") }, Duration::from_millis(60));
        assert_eq!(answer(direct).await, ["c"]);
    }

    async fn who_does_not_wait_or_wants_one_message_is_never_held(rig: Rig) {
        let broker = &rig.broker;
        configure(broker, "q", json!({"minPopWaitTime": 60_000})).await;
        push(broker, "q", "p", &["a"]).await;
        push(broker, "q", "r", &["b"]).await;
        assert_eq!(ids(&broker.pop(from_queue("q")).await.unwrap()).len(), 1, "it does not wait");
        let one = PopRequest { batch: Some(1), ..from_queue("q") };
        assert_eq!(answer(begin(broker, one, LONG)).await.len(), 1, "it wants no more");
    }

    async fn what_a_held_pop_leaves_behind_is_for_the_next_one(rig: Rig) {
        let broker = &rig.broker;
        configure(broker, "q", json!({"minPopWaitTime": 60_000})).await;
        let single = begin(broker, PopRequest { batch: Some(1), ..from_queue("other") }, LONG);
        until(|| broker.read().waiting.parked == 1).await;
        push(broker, "q", "p", &["a"]).await;
        let held = begin(broker, PopRequest { batch: Some(3), ..from_queue("q") }, LONG);
        until(|| broker.read().waiting.parked == 2).await;
        held.abort();
        until(|| broker.read().waiting.parked == 1).await;
        assert_eq!(ids(&broker.pop(from_queue("q")).await.unwrap()), ["a"]);
        single.abort();
    }
}

#[tokio::test]
async fn a_switch_on_one_server_acts_on_the_other_at_once_if_it_is_heard() {
    let pair = Pair::hearing().await;
    let waits = parked(&pair.b, from_queue("q")).await;
    pause(&pair.a, true).await;
    assert!(answer(waits).await.is_empty());
    until(|| pair.b.switches().pop_maintenance).await;
    let pop = begin(&pair.b, from_queue("q"), LONG);
    until_waiting(&pair.b, 1).await;
    push(&pair.a, "q", "p", &["a"]).await;
    pause(&pair.a, false).await;
    assert_eq!(answer(pop).await, ["a"]);
}

#[tokio::test]
async fn a_switch_that_nobody_told_is_found_by_the_floor() {
    let (a, b) = deaf_pair(FloorConfig::default()).await;
    let waits = parked(&b, from_queue("q")).await;
    pause(&a, true).await;
    assert!(answer(waits).await.is_empty());
    assert!(b.switches().pop_maintenance);
    let pop = begin(&b, from_queue("q"), LONG);
    until_waiting(&b, 1).await;
    push(&a, "q", "p", &["a"]).await;
    pause(&a, false).await;
    assert_eq!(answer(pop).await, ["a"]);
}

#[tokio::test]
async fn a_switch_is_found_by_the_first_request_after_a_silence() {
    let quick = FloorConfig {
        max: Duration::from_millis(5),
        base: Duration::from_millis(5),
        ..FloorConfig::default()
    };
    let (a, b) = deaf_pair(quick).await;
    push(&a, "q", "p", &["a"]).await;
    pause(&a, true).await;
    // Longer than twice its interval: nobody asked the store meanwhile.
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(b.pop(from_queue("q")).await.unwrap().lanes.is_empty());
}
