//! Counters by queue.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

use bugle_store::QueueId;

use super::Count;

/// Queues counted one by one; what comes later is counted together, until some of the first are deleted.
const MAX_QUEUES: usize = 20_000;

/// One queue's counters.
#[derive(Debug, Default)]
pub(crate) struct QueueMeter {
    pub(crate) pushed: Count,
    pub(crate) popped: Count,
    pub(crate) acked: Count,
    /// Unread messages that would have gone by age if every group had read them, as of the last retention run.
    overdue: AtomicU64,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct QueueMeters {
    by_queue: RwLock<HashMap<QueueId, Arc<QueueMeter>>>,
    rest: Arc<QueueMeter>,
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

    /// Unread messages kept beyond the age at which read ones go. A queue that never had any costs nothing.
    pub(crate) fn set_overdue(&self, queue: QueueId, messages: u64) {
        if messages > 0 || self.by_queue.read().contains_key(&queue) {
            self.of(queue).overdue.store(messages, Ordering::Relaxed);
        }
    }

    /// A queue is gone.
    pub(crate) fn forget(&self, queue: QueueId) {
        self.by_queue.write().remove(&queue);
    }
}

impl QueueMeter {
    pub(crate) fn overdue(&self) -> u64 {
        self.overdue.load(Ordering::Relaxed)
    }
}
