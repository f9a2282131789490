//! A producer: messages with ids of their own, one request after the other, until it is told to stop.

use std::sync::atomic::{AtomicBool, Ordering};

use bugle_client::Error;
use fastrand::Rng;

use crate::load::Load;
use crate::record::{Outcome, Pushed};
use crate::session::Session;

/// Messages in one request, at most.
const MOST: usize = 6;
/// A push without an outcome is tried again so often.
const REPEATS: usize = 3;

/// Ids that nobody else has: every maker has a name.
pub(crate) struct Ids {
    name: String,
    count: u64,
}

impl Ids {
    pub(crate) fn new(name: String) -> Self {
        Self { name, count: 0 }
    }

    /// A message for some partition of a queue.
    pub(crate) fn message(&mut self, queue: &str, load: &Load, rng: &mut Rng) -> Pushed {
        self.count += 1;
        Pushed {
            queue: queue.to_owned(),
            partition: format!("p{}", rng.usize(..load.partitions)),
            id: format!("{}-{}", self.name, self.count),
        }
    }
}

/// Push until `stop`.
pub(crate) async fn produce(
    load: &Load,
    mut session: Session,
    mut ids: Ids,
    mut rng: Rng,
    stop: &AtomicBool,
) -> Result<(), Error> {
    while !stop.load(Ordering::Relaxed) {
        let messages: Vec<Pushed> =
            (0..rng.usize(1..=MOST)).map(|_| ids.message(&load.queue, load, &mut rng)).collect();
        let mut outcome = session.push(messages.clone()).await?;
        // The same ids again: stored once, whatever became of the first. Not always, so that some stay unknown.
        for _ in 0..REPEATS {
            if outcome != Outcome::Unknown || rng.bool() {
                break;
            }
            outcome = session.push(messages.clone()).await?;
        }
        tokio::time::sleep(load.pause).await;
    }
    Ok(())
}
