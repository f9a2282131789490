//! Models of lanes: one append in flight per lane, in order; a lane is in one hand at a time; no message is lost or doubled.
//! What must not be in flight twice is watched by the rig's store.
#![allow(clippy::unwrap_used)]

mod rig;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rig::*;
use tokio::model::Model;
use tokio::spawn;

const HORIZON: Duration = Duration::from_secs(4);
/// Messages of each of two lanes, pushed by as many at once.
const EACH: usize = 3;

/// Many push to two lanes while two consumers take one message at a time and acknowledge it.
fn handing_out() -> Model {
    Model::new("handing out", 200, HORIZON, || async {
        let broker = alone().await;
        // By lane: offsets in the order they came.
        let got: Arc<Mutex<BTreeMap<String, Vec<u64>>>> = Arc::default();
        let consumers = [(); 2].map(|()| {
            let (broker, got) = (broker.clone(), got.clone());
            spawn(async move {
                loop {
                    let answer = broker.pop(any(FOREVER)).await.unwrap();
                    let Some(lane) = answer.lanes.first() else { return };
                    let offsets = lane.messages.iter().map(|message| message.offset);
                    got.lock().unwrap().entry(lane.partition.to_string()).or_default().extend(offsets);
                    ack(&broker, &answer).await;
                    let all = got.lock().unwrap().values().map(Vec::len).sum::<usize>();
                    if all == 2 * EACH {
                        // Whoever still waits is told that there is nothing.
                        broker.drain();
                    }
                }
            })
        });
        let mut pushes = Vec::new();
        for n in 0..2 * EACH {
            let broker = broker.clone();
            pushes.push(spawn(async move {
                push(&broker, if n % 2 == 0 { "a" } else { "b" }, &n.to_string()).await
            }));
        }
        for task in pushes.into_iter().chain(consumers) {
            task.await.unwrap();
        }
        let in_order: Vec<u64> = (0..EACH as u64).collect();
        let wanted = ["a", "b"].map(|lane| (lane.to_owned(), in_order.clone()));
        assert_eq!(*got.lock().unwrap(), BTreeMap::from(wanted), "each once, in order");
    })
}

#[test]
fn lanes_are_in_one_hand_at_a_time_and_lose_nothing() {
    handing_out().holds();
}

#[test]
fn a_lane_that_is_taken_and_left_is_found() {
    handing_out().finds("take a lane and leave it");
}

#[test]
fn pushes_that_are_left_behind_are_found() {
    handing_out().finds("end a turn over those who wait");
}

#[test]
fn a_second_append_to_a_lane_is_found() {
    handing_out().finds("append beside the append in flight");
}
