//! Models of two servers on one store: what one commits wakes those who wait at the other, whatever moment they began to
//! wait at, and whatever hint is lost.
#![allow(clippy::unwrap_used)]

mod rig;

use std::time::Duration;

use rig::hub::Hub;
use rig::*;
use tokio::model::Model;
use tokio::{spawn, time};

/// Time for the servers to find each other, after which the floor looks every 15 s only.
const ACQUAINTED: Duration = Duration::from_secs(2);
/// Less than the floor's interval after that: what no hint brings comes too late.
const HORIZON: Duration = Duration::from_secs(8);

/// A pop waits at one server, a push is made at the other; `peers` = over a carrier that sends what is wanted only.
fn between(name: &'static str, executions: u64, peers: bool, lost: usize) -> Model {
    Model::new(name, executions, HORIZON, move || async move {
        let (store, hub) = (store(true).await, Hub::new());
        let carrier = |place| if peers { hub.peer(place) } else { hub.everyone(place) };
        let here = server(&store, "here", carrier(0)).await;
        let there = server(&store, "there", carrier(1)).await;
        // The group is known, the lane exists, and all is read.
        push(&here, "a", "0").await;
        // Where only what is wanted is sent, the other server must not want it yet.
        let reader = if peers { &here } else { &there };
        let first = reader.pop(any(FOREVER)).await.unwrap();
        ack(reader, &first).await;
        time::sleep(ACQUAINTED).await;
        hub.lose(lost);
        let pop = spawn({
            let there = there.clone();
            async move { ids(&there.pop(any(FOREVER)).await.unwrap()) }
        });
        push(&here, "a", "1").await;
        assert_eq!(pop.await.unwrap(), ["1"]);
    })
}

fn everyone() -> Model {
    between("everyone", 150, false, 0)
}

fn peers() -> Model {
    between("peers", 150, true, 0)
}

/// The next frame is lost, whichever it is.
fn lossy() -> Model {
    between("lossy", 150, false, 1)
}

#[test]
fn a_push_at_one_server_wakes_a_pop_at_the_other() {
    everyone().holds();
}

#[test]
fn a_push_while_interest_is_on_its_way_wakes_a_pop_at_the_other() {
    peers().holds();
}

#[test]
fn a_frame_that_is_lost_costs_a_second() {
    lossy().holds();
}

#[test]
fn a_number_stands_for_one_order_of_steps() {
    everyone().is_repeatable(10);
}

mod planted {
    use super::*;

    #[test]
    fn a_pop_that_is_not_known_to_wait_is_found() {
        everyone().finds("wait without being known to wait");
    }

    #[test]
    fn a_driver_that_is_woken_too_early_is_found() {
        everyone().finds("wake the driver before the hint is there");
    }

    #[test]
    fn a_gap_that_is_overlooked_is_found() {
        lossy().finds("overlook a gap");
    }

    #[test]
    fn a_gap_that_nobody_looks_after_is_found() {
        lossy().finds("hear of a gap and go on");
    }

    #[test]
    fn an_interest_that_is_announced_without_a_look_is_found() {
        peers().finds("announce an interest and do not look");
    }
}
