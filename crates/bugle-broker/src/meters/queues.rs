//! Counters by queue.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use bugle_store::{QueueId, Timestamp};

use super::Count;
use crate::api::QueueCounts;
use crate::semantics::packing::Experience;

/// Queues counted one by one; what comes later is counted together, until some of the first are deleted.
const MAX_QUEUES: usize = 20_000;

/// One queue's counters, named as in [`QueueCounts`].
#[derive(Debug, Default)]
pub(crate) struct QueueMeter {
    pub(crate) push_requests: Count,
    pub(crate) pushed: Count,
    pub(crate) popped: Count,
    pub(crate) auto_acked: Count,
    pub(crate) pop_empty: Count,
    pub(crate) ack_requests: Count,
    pub(crate) acked: Count,
    pub(crate) ack_failed: Count,
    pub(crate) dead: Count,
    pub(crate) transactions: Count,
    pub(crate) lanes_created: Count,
    pub(crate) lanes_deleted: Count,
    pub(crate) retained: Count,
    pub(crate) completed: Count,
    pub(crate) evicted: Count,
    pub(crate) removals: Count,
    lag_count: Count,
    lag_us: Count,
    /// Since the last record of the history.
    lag_max_us: AtomicU64,
    /// Unread messages that would have gone by age if every group had read them, as of the last retention run.
    overdue: AtomicU64,
    /// How compressing its segments has paid of late.
    pub(crate) packing: Mutex<Experience>,
    /// What the history has been told of.
    told: Mutex<QueueCounts>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct QueueMeters {
    by_queue: RwLock<HashMap<QueueId, Arc<QueueMeter>>>,
    rest: Arc<QueueMeter>,
    /// What queues that are gone had counted and not told.
    gone: Mutex<QueueCounts>,
}

impl QueueMeters {
    /// The counters of a queue.
    pub(crate) fn of(&self, queue: QueueId) -> Arc<QueueMeter> {
        if let Some(meter) = self.by_queue.read().get(&queue) {
            return meter.clone();
        }
        let mut by_queue = self.by_queue.write();
        if by_queue.len() >= MAX_QUEUES {
            return self.rest.clone();
        }
        by_queue.entry(queue).or_default().clone()
    }

    /// All queues that were counted one by one.
    pub(crate) fn all(&self) -> Vec<(QueueId, Arc<QueueMeter>)> {
        self.by_queue.read().iter().map(|(id, meter)| (*id, meter.clone())).collect()
    }

    /// What was counted for all other queues together.
    pub(crate) fn rest(&self) -> &QueueMeter {
        &self.rest
    }

    /// What was not told yet of queues that have no meter of their own, or none any more.
    pub(crate) fn untold_rest(&self) -> QueueCounts {
        let mut counts = self.rest.untold();
        counts.add(&self.gone.lock());
        counts
    }

    /// The history was told this of them.
    pub(crate) fn tell_rest(&self, counts: &QueueCounts) {
        let mut gone = self.gone.lock();
        let of_rest = counts.since(&gone);
        *gone = gone.since(counts);
        gone.lag_max_us = 0;
        drop(gone);
        self.rest.tell(&of_rest);
    }

    /// Unread messages kept beyond the age at which read ones go. A queue that never had any costs nothing.
    pub(crate) fn set_overdue(&self, queue: QueueId, messages: u64) {
        if messages > 0 || self.by_queue.read().contains_key(&queue) {
            self.of(queue).overdue.store(messages, Ordering::Relaxed);
        }
    }

    /// A queue is gone.
    pub(crate) fn forget(&self, queue: QueueId) {
        let forgotten = self.by_queue.write().remove(&queue);
        if let Some(meter) = forgotten {
            self.gone.lock().add(&meter.untold());
        }
    }
}

impl QueueMeter {
    pub(crate) fn overdue(&self) -> u64 {
        self.overdue.load(Ordering::Relaxed)
    }

    /// Messages of one lane were delivered, the oldest of them pushed at `oldest`.
    pub(crate) fn delivered(&self, messages: usize, oldest: Timestamp, now: Timestamp) {
        let lag = u64::try_from(now.since(oldest).as_micros()).unwrap_or(u64::MAX);
        self.popped.add(messages as u64);
        self.lag_count.one();
        self.lag_us.add(lag);
        self.lag_max_us.fetch_max(lag, Ordering::Relaxed);
    }

    fn counts(&self) -> QueueCounts {
        QueueCounts {
            lag_max_us: self.lag_max_us.load(Ordering::Relaxed),
            parked: 0,
            push_requests: self.push_requests.get(),
            pushed: self.pushed.get(),
            popped: self.popped.get(),
            auto_acked: self.auto_acked.get(),
            pop_empty: self.pop_empty.get(),
            ack_requests: self.ack_requests.get(),
            acked: self.acked.get(),
            ack_failed: self.ack_failed.get(),
            dead: self.dead.get(),
            transactions: self.transactions.get(),
            lanes_created: self.lanes_created.get(),
            lag_count: self.lag_count.get(),
            lag_us: self.lag_us.get(),
            retained: self.retained.get(),
            completed: self.completed.get(),
            evicted: self.evicted.get(),
            removals: self.removals.get(),
            lanes_deleted: self.lanes_deleted.get(),
        }
    }

    /// What the history was not told yet.
    pub(crate) fn untold(&self) -> QueueCounts {
        self.counts().since(&self.told.lock())
    }

    /// The history was told this.
    pub(crate) fn tell(&self, counts: &QueueCounts) {
        self.told.lock().add(counts);
        // A greater one that came in between belongs to the next record.
        let _ = self.lag_max_us.compare_exchange(counts.lag_max_us, 0, Ordering::Relaxed, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_told_once_also_of_queues_that_are_gone() {
        let meters = QueueMeters::default();
        let (stays, goes) = (QueueId::random(), QueueId::random());
        meters.of(stays).pushed.add(3);
        meters.of(goes).pushed.add(5);
        meters.of(goes).delivered(2, Timestamp(10), Timestamp(17));
        meters.rest().pushed.add(100);
        let told = meters.of(stays).untold();
        assert_eq!(told.pushed, 3);
        meters.of(stays).tell(&told);
        meters.of(stays).pushed.add(1);
        assert_eq!(meters.of(stays).untold().pushed, 1);

        meters.forget(goes);
        let rest = meters.untold_rest();
        assert_eq!((rest.pushed, rest.popped, rest.lag_us, rest.lag_max_us), (105, 2, 7, 7));
        meters.rest().pushed.add(1);
        meters.tell_rest(&rest);
        let after = meters.untold_rest();
        assert_eq!((after.pushed, after.popped, after.lag_max_us), (1, 0, 0));
        meters.tell_rest(&after);
        assert_eq!(meters.untold_rest(), QueueCounts::default());
    }

    #[test]
    fn the_longest_lag_begins_anew_with_every_record() {
        let meter = QueueMeter::default();
        meter.delivered(1, Timestamp(0), Timestamp(50));
        meter.delivered(1, Timestamp(0), Timestamp(20));
        let told = meter.untold();
        assert_eq!((told.lag_max_us, told.lag_us, told.lag_count), (50, 70, 2));
        meter.tell(&told);
        assert_eq!(meter.untold(), QueueCounts::default());
        meter.delivered(1, Timestamp(0), Timestamp(5));
        assert_eq!(meter.untold().lag_max_us, 5);
    }
}
