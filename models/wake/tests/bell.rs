//! Models of the bell: whatever is rung is heard, or a re-check is advised, whatever else is rung or lost at the time.
#![expect(clippy::unwrap_used, reason = "tests may")]

#[path = "../../broker/tests/rig/hub.rs"]
mod hub;

use std::collections::BTreeSet;
use std::time::Duration;

use bugle_wake::{Audience, Bell, BellOptions, Heard, Tiding};
use hub::Hub;
use tokio::model::Model;
use tokio::sync::mpsc;
use tokio::{spawn, time};

/// Less than the interval of pings: what neither a hint nor the frame behind a burst tells comes too late.
const HORIZON: Duration = Duration::from_secs(8);

/// Something that moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Word(u8);

impl Tiding for Word {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.0);
    }

    fn decode(input: &mut &[u8]) -> Option<Self> {
        let (first, rest) = input.split_first()?;
        *input = rest;
        Some(Self(*first))
    }

    fn topic(&self) -> Option<u64> {
        None
    }
}

fn bell(name: &str, hub: &Hub, place: usize) -> (Bell<Word>, mpsc::Receiver<Heard<Word>>) {
    let options = BellOptions { name: name.into(), ..BellOptions::default() };
    Bell::start(options, vec![hub.everyone(place)])
}

/// Several ring at once, and the next so many frames are lost.
fn ringing(name: &'static str, lost: usize) -> Model {
    Model::new(name, 300, HORIZON, move || async move {
        let hub = Hub::new();
        let (here, _ours) = bell("here", &hub, 0);
        let (there, mut heard) = bell("there", &hub, 1);
        while [&here, &there].iter().any(|bell| bell.audience() != Audience::Somebody) {
            time::sleep(Duration::from_millis(50)).await;
        }
        // Whatever was advised because they met.
        time::sleep(Duration::from_millis(500)).await;
        while heard.try_recv().is_ok() {}
        hub.lose(lost);
        for word in 0..3 {
            let here = here.clone();
            spawn(async move { here.ring(Word(word)) });
        }
        let mut missing: BTreeSet<Word> = (0..3).map(Word).collect();
        while !missing.is_empty() {
            match heard.recv().await.unwrap() {
                Heard::Tidings { tidings, .. } => missing.retain(|word| !tidings.contains(word)),
                Heard::Recheck { .. } => return,
                Heard::Health(_) => {}
            }
        }
    })
}

#[test]
fn whatever_is_rung_is_heard() {
    ringing("ringing", 0).holds();
}

#[test]
fn what_is_lost_is_noticed() {
    ringing("ringing with a loss", 1).holds();
}

#[test]
fn a_hint_that_is_dropped_behind_another_is_found() {
    ringing("ringing", 0).finds("drop what comes while a frame is under way");
}

#[test]
fn a_gap_that_is_overlooked_is_found() {
    ringing("ringing with a loss", 1).finds("overlook a gap");
}
