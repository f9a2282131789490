//! Looking into the waiting room: who waits for what, since when, and what woke those who were served.
//!
//! Who waits is found by walking those who do. Who was served is gone by then, so it is written down, but only while
//! somebody watches: a pop that is served costs one look at a number otherwise.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::time::Instant;

use bugle_store::Group;

use crate::Broker;
use crate::api::{PopAnswer, PopTarget, Served, Waiter, WaitingKey, WaitingRoom};
use crate::inner::Inner;
use crate::pop::PopJob;

/// Those who were served last and are remembered.
const REMEMBERED: usize = 200;

/// What is written down.
#[derive(Default)]
pub(crate) struct Witness {
    watching: AtomicUsize,
    served: Mutex<VecDeque<Served>>,
}

impl Witness {
    /// Whether anybody watches.
    pub(crate) fn is_there(&self) -> bool {
        self.watching.load(Ordering::Relaxed) > 0
    }

    fn saw(&self, served: Served) {
        let mut all = self.served.lock();
        if all.len() >= REMEMBERED {
            all.pop_back();
        }
        all.push_front(served);
    }
}

/// Somebody watches who is served, until this is dropped.
pub struct Watching(Arc<Inner>);

impl Drop for Watching {
    fn drop(&mut self) {
        if self.0.witness.watching.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.witness.served.lock().clear();
        }
    }
}

impl Broker {
    /// Begin to write down who is served.
    pub fn watch_waiting(&self) -> Watching {
        self.0.witness.watching.fetch_add(1, Ordering::AcqRel);
        Watching(self.0.clone())
    }

    /// Who waits on this server now: at most so many keys, and so many of those who wait.
    pub fn waiting_room(&self, most: usize) -> WaitingRoom {
        self.0.waiting_room(most)
    }
}

impl Inner {
    /// A waiting pop got messages.
    pub(crate) fn witness_served(&self, job: &PopJob, answer: &PopAnswer) {
        let Some(lane) = answer.lanes.first() else { return };
        let (source, woken) = job.woken().map(|(source, at)| (source, at.elapsed())).unzip();
        self.witness.saw(Served {
            at: self.engine.now().latest,
            queue: lane.queue.clone(),
            partition: lane.partition.clone(),
            group: job.request.group.clone(),
            source,
            waited: job.came.elapsed(),
            woken,
            messages: answer.count(),
            consumer: job.request.consumer.clone(),
        });
    }

    fn waiting_room(&self, most: usize) -> WaitingRoom {
        let mut census = Census { now: Instant::now(), keys: HashMap::new(), waiters: Vec::new() };
        let claiming = self.claiming.lock().clone();
        for channel in self.channels.wanted() {
            let state = channel.state.lock();
            let about = About {
                empty_checks: state.empty_checks,
                backed_off: state.empty_checks >= self.config.floor.threshold,
                claiming: claiming.contains_key(&channel.no),
                ready: state.ready(),
            };
            state.each_waiting(|job, holding| census.count(job, holding, about));
        }
        self.channels.each_filtering(|job| census.count(job, false, About::default()));
        census.finish(most, self.witness.served.lock().iter().cloned().collect())
    }
}

/// What is known of a channel.
#[derive(Clone, Copy, Default)]
struct About {
    empty_checks: u32,
    backed_off: bool,
    claiming: bool,
    ready: usize,
}

/// The room while it is walked.
struct Census {
    now: Instant,
    keys: HashMap<(PopTarget, Group), WaitingKey>,
    waiters: Vec<Waiter>,
}

impl Census {
    fn count(&mut self, job: &PopJob, holding: bool, about: About) {
        let (target, group) = (&job.request.target, &job.request.group);
        let key = self.keys.entry((target.clone(), group.clone())).or_insert_with(|| WaitingKey {
            target: target.clone(),
            group: group.clone(),
            waiters: 0,
            since: job.began,
            empty_checks: about.empty_checks,
            backed_off: about.backed_off,
            claiming: about.claiming,
            ready: about.ready,
        });
        key.waiters += 1;
        key.since = key.since.min(job.began);
        self.waiters.push(Waiter {
            target: target.clone(),
            group: group.clone(),
            since: job.began,
            left: job.deadline.map_or_else(Default::default, |end| end.saturating_duration_since(self.now)),
            holding,
            consumer: job.request.consumer.clone(),
        });
    }

    fn finish(self, most: usize, served: Vec<Served>) -> WaitingRoom {
        let mut keys: Vec<WaitingKey> = self.keys.into_values().collect();
        let mut waiters = self.waiters;
        keys.sort_by_key(|key| (Reverse(key.waiters), key.since));
        waiters.sort_by_key(|waiter| waiter.since);
        let (keys_total, waiters_total) = (keys.len(), waiters.len());
        keys.truncate(most);
        waiters.truncate(most);
        WaitingRoom { keys, keys_total, waiters, waiters_total, served }
    }
}

#[cfg(test)]
mod tests {
    use bugle_store::Timestamp;

    use super::*;

    fn served(at: i64) -> Served {
        Served {
            at: Timestamp(at),
            queue: "q".into(),
            partition: "p".into(),
            group: "g".into(),
            source: None,
            waited: std::time::Duration::ZERO,
            woken: None,
            messages: 1,
            consumer: None,
        }
    }

    #[test]
    fn only_the_latest_are_remembered() {
        let witness = Witness::default();
        for at in 0..REMEMBERED as i64 + 5 {
            witness.saw(served(at));
        }
        let seen: Vec<i64> = witness.served.lock().iter().map(|served| served.at.0).collect();
        assert_eq!((seen.len(), seen[0]), (REMEMBERED, REMEMBERED as i64 + 4));
        assert_eq!(seen.last(), Some(&5));
    }
}
