//! Models of waiting: no wake is lost, nobody who leaves keeps what was meant for the next, nobody is stuck.
#![allow(clippy::unwrap_used)]

mod rig;

use std::time::Duration;

use bugle_broker::{Broker, PopRequest};
use rig::*;
use tokio::model::{Model, note};
use tokio::{spawn, time};

/// Less than any lease and any retry: what a wake does not bring comes too late.
const HORIZON: Duration = Duration::from_secs(4);

/// A pop that must get exactly one message, and acknowledges it.
async fn take_one(broker: Broker, request: PopRequest) -> String {
    note(|| format!("pop {:?}", request.target));
    let answer = broker.pop(request).await.unwrap();
    let ids = ids(&answer);
    note(|| format!("pop answers {ids:?}"));
    assert_eq!(ids.len(), 1, "one message is asked for");
    ack(&broker, &answer).await;
    ids[0].clone()
}

fn pushing(broker: &Broker, lane: &'static str, id: &'static str) -> tokio::task::JoinHandle<()> {
    let broker = broker.clone();
    spawn(async move { push(&broker, lane, id).await })
}

/// A push is committed while one pop goes to park: it is served.
fn parking() -> Model {
    Model::new("parking", 800, HORIZON, || async {
        let broker = alone().await;
        let pop = spawn(take_one(broker.clone(), any(FOREVER)));
        pushing(&broker, "a", "1").await.unwrap();
        assert_eq!(pop.await.unwrap(), "1");
    })
}

/// Pops of every kind wait and lanes are written: each gets one message, whoever was woken for it, and what one leaves in a lane
/// the next one gets when it is acknowledged.
fn crowding() -> Model {
    Model::new("crowding", 800, HORIZON, || async {
        let broker = alone().await;
        let requests = [any(FOREVER), of_namespace(FOREVER), of_lane("a", FOREVER)];
        let pops = requests.map(|request| spawn(take_one(broker.clone(), request)));
        let pushes = ["1", "2", "3"].map(|id| pushing(&broker, "a", id));
        let mut got = Vec::new();
        for pop in pops {
            got.push(pop.await.unwrap());
        }
        for push in pushes {
            push.await.unwrap();
        }
        got.sort();
        assert_eq!(got, ["1", "2", "3"]);
    })
}

/// Two pops wait for one message, and one of their clients goes away at some moment: the other gets it. Nothing that was
/// claimed for the one who left counts as a delivery.
fn leaving() -> Model {
    Model::new("leaving", 800, HORIZON, || async {
        let broker = alone().await;
        let gone = spawn({
            let broker = broker.clone();
            async move {
                let answer = broker.pop(any(FOREVER)).await.unwrap();
                // Answered, and gone before it was sent.
                drop(broker.receipt(&answer, &bugle_store::QUEUE_MODE.into()));
            }
        });
        let stays = spawn(take_one(broker.clone(), any(FOREVER)));
        let push = pushing(&broker, "a", "1");
        gone.abort();
        assert_eq!(stays.await.unwrap(), "1");
        push.await.unwrap();
        let _ = gone.await;
    })
}

/// One of two pops has little time: when it ends with nothing, the other one is served; otherwise it is by the next push.
fn expiring() -> Model {
    Model::new("expiring", 400, HORIZON, || async {
        let broker = alone().await;
        let short = spawn({
            let broker = broker.clone();
            async move { ids(&broker.pop(any(Duration::from_millis(1))).await.unwrap()).len() }
        });
        let long = spawn(take_one(broker.clone(), any(FOREVER)));
        let first = pushing(&broker, "a", "1");
        time::sleep(Duration::from_millis(1)).await;
        if short.await.unwrap() > 0 {
            pushing(&broker, "b", "2").await.unwrap();
        }
        long.await.unwrap();
        first.await.unwrap();
    })
}

/// Somebody keeps what it got for longer than its lease: whoever waits gets it when the lease ends, by the timer alone.
fn leases() -> Model {
    Model::new("leases", 300, HORIZON, || async {
        let broker = alone().await;
        push(&broker, "a", "1").await;
        let kept = broker.pop(PopRequest { lease_seconds: Some(1), ..any(FOREVER) }).await.unwrap();
        assert_eq!(ids(&kept), ["1"]);
        // A lease that ends later is set first, so that the timer's task sleeps too long unless it is told.
        let others = pushing(&broker, "b", "2");
        let later =
            broker.pop(PopRequest { lease_seconds: Some(300), ..of_lane("b", FOREVER) }).await.unwrap();
        assert_eq!(ids(&later), ["2"]);
        others.await.unwrap();
        assert_eq!(take_one(broker, any(FOREVER)).await, "1");
        assert!(time::passed() >= Duration::from_secs(1), "no lease ends early");
    })
}

#[test]
fn a_push_while_a_pop_goes_to_park_is_delivered() {
    parking().holds();
}

#[test]
fn pops_of_every_kind_are_served() {
    crowding().holds();
}

#[test]
fn a_client_that_leaves_takes_nothing_along() {
    leaving().holds();
}

#[test]
fn a_wait_that_ends_takes_nothing_along() {
    expiring().holds();
}

#[test]
fn a_lease_that_ends_is_noticed() {
    leases().holds();
}

#[test]
fn a_number_stands_for_one_order_of_steps() {
    crowding().is_repeatable(20);
    leaving().is_repeatable(20);
}

mod planted {
    use super::*;

    #[test]
    fn a_pop_that_parks_without_a_last_look_is_found() {
        parking().finds("park without a last look");
    }

    #[test]
    fn a_ring_before_the_lane_has_grown_is_found() {
        parking().finds("ring before the lane has grown");
    }

    #[test]
    fn a_lane_that_is_rung_while_it_is_claimed_is_found() {
        crowding().finds("ring a lane that is in hand");
    }

    #[test]
    fn a_client_that_is_gone_and_keeps_its_wake_is_found() {
        leaving().finds("a gone client keeps its wake");
    }

    #[test]
    fn a_lease_of_a_client_that_is_gone_is_found() {
        leaving().finds("keep what a gone client was given");
    }

    #[test]
    fn a_timer_that_is_not_told_is_found() {
        leases().finds("set an earlier time silently");
    }
}
