//! Models of waiting: no wake is lost, nobody who leaves keeps what was meant for the next, nothing is handed out twice.

mod rig;

use std::time::Duration;

use bugle_broker::Broker;
use rig::*;
use tokio::model::Model;
use tokio::{spawn, time};

/// Less than any interval of the floor with a carrier, any lease and any retry: what a wake does not bring comes too late.
const HORIZON: Duration = Duration::from_secs(4);
const EXECUTIONS: u64 = 400;

/// A pop that must get exactly one message, and acknowledges it.
async fn take_one(broker: Broker, request: bugle_broker::PopRequest) -> String {
    let answer = broker.pop(request).await.unwrap();
    let ids = ids(&answer);
    assert_eq!(ids.len(), 1, "one message is asked for");
    ack(&broker, &answer).await;
    ids[0].clone()
}

/// Two pops go to park while two lanes are written: both are served, each by one message.
fn parking() -> Model {
    Model::new("parking", EXECUTIONS, HORIZON, || async {
        let broker = alone().await;
        let pops = [(); 2].map(|()| spawn(take_one(broker.clone(), any(FOREVER))));
        let pushes = [("a", "1"), ("b", "2")].map(|(lane, id)| {
            let broker = broker.clone();
            spawn(async move { push(&broker, lane, id).await })
        });
        let mut got = Vec::new();
        for pop in pops {
            got.push(pop.await.unwrap());
        }
        got.sort();
        assert_eq!(got, ["1", "2"]);
        for push in pushes {
            push.await.unwrap();
        }
    })
}

#[test]
fn a_push_while_a_pop_goes_to_park_is_delivered() {
    parking().holds();
}

#[test]
fn a_pop_that_parks_without_a_last_look_is_found() {
    parking().finds("park without a last look");
}

#[test]
fn a_ring_before_the_lane_has_grown_is_found() {
    parking().finds("ring before the lane has grown");
}

#[test]
fn an_item_that_is_offered_while_a_worker_ends_is_found() {
    parking().finds("count out late");
}

#[test]
fn a_number_stands_for_one_order_of_steps() {
    parking().is_repeatable(40);
}
