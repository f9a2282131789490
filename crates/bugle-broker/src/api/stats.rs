//! What queues hold and how far groups have come, as operators see it.

use std::sync::Arc;
use std::time::Duration;

use bugle_store::{Group, GroupRecord, LaneId, LeaseId, Queue, Timestamp};

/// Messages by what has become of them, seen by the group that a queue is judged by: that of anonymous consumers if it
/// has read anything or nobody else has, otherwise the named group that is furthest behind.
///
/// No message is "failed": it is delivered again, which is pending, or it is a dead letter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageCounts {
    /// Kept: pending, processing or completed.
    pub total: u64,
    /// To be delivered.
    pub pending: u64,
    /// Delivered under a lease that has not ended.
    pub processing: u64,
    /// Kept, and done with.
    pub completed: u64,
    /// Copies that were put aside because consumers gave up on them; not part of the total.
    pub dead_letter: u64,
}

/// A queue and what it holds.
#[derive(Clone, Debug)]
pub struct QueueStats {
    /// The queue.
    pub queue: Arc<Queue>,
    /// Partitions it has.
    pub partitions: u64,
    /// Its messages.
    pub messages: MessageCounts,
    /// Messages consumed so far by all its groups together.
    pub consumed: u64,
    /// Partitions that are leased now, by all its groups together.
    pub leases: u64,
    /// Messages under those leases.
    pub leased: u64,
}

/// Which queues.
#[derive(Clone, Debug, Default)]
pub struct QueueFilter {
    /// Of this name.
    pub queue: Option<Arc<str>>,
    /// With this namespace.
    pub namespace: Option<Arc<str>>,
    /// With this task.
    pub task: Option<Arc<str>>,
    /// With this text in their name, in any case.
    pub search: Option<String>,
}

impl QueueFilter {
    /// Whether a queue is among them.
    pub fn fits(&self, queue: &Queue) -> bool {
        let is = |wanted: &Option<Arc<str>>, name: &Arc<str>| wanted.as_ref().is_none_or(|w| w == name);
        is(&self.queue, &queue.name)
            && is(&self.namespace, &queue.namespace)
            && is(&self.task, &queue.task)
            && self.search.as_ref().is_none_or(|s| queue.name.to_lowercase().contains(&s.to_lowercase()))
    }
}

/// Queues that share a namespace or a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Family {
    /// The namespace or task.
    pub name: Arc<str>,
    /// Queues with it.
    pub queues: u64,
    /// Their partitions.
    pub partitions: u64,
    /// Their messages.
    pub messages: MessageCounts,
}

/// Sums over all queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Queues.
    pub queues: u64,
    /// Partitions.
    pub partitions: u64,
    /// Namespaces that queues have.
    pub namespaces: u64,
    /// Tasks that queues have.
    pub tasks: u64,
    /// Messages.
    pub messages: MessageCounts,
    /// Messages consumed so far.
    pub consumed: u64,
    /// Partitions leased now.
    pub leases: u64,
    /// Messages under those leases.
    pub leased: u64,
}

/// Everything at a glance.
#[derive(Clone, Copy, Debug)]
pub struct Overview {
    /// Sums.
    pub totals: Totals,
    /// Seconds since the oldest message was pushed that is not done with, over the queues that have such messages.
    /// Where very many have, over those with most of them.
    pub lag_seconds: Spread,
    /// Messages that are not done with, over the queues that have such messages.
    pub lag_messages: Spread,
    /// Messages pushed to this server and done with by it, per second.
    pub throughput: Throughput,
    /// When this was so. It was counted then; it is no older.
    pub at: Timestamp,
}

/// How numbers are spread; all zero if there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// Their mean.
    pub avg: f64,
    /// The one in the middle, or the mean of both.
    pub median: f64,
    /// The smallest.
    pub min: u64,
    /// The largest.
    pub max: u64,
}

/// Messages per second on this server: over the last minute if somebody asked during it, otherwise since somebody last
/// asked or the server started.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Throughput {
    /// Stored.
    pub ingested_per_second: f64,
    /// Acknowledged, or taken without need to.
    pub processed_per_second: f64,
}

/// One queue with its partitions.
#[derive(Clone, Debug)]
pub struct QueueDetail {
    /// As in the list.
    pub stats: QueueStats,
    /// By name.
    pub partitions: Vec<PartitionStats>,
    /// There are more.
    pub truncated: bool,
}

/// A partition and what it holds.
#[derive(Clone, Debug)]
pub struct PartitionStats {
    /// Its id.
    pub id: LaneId,
    /// Its name.
    pub name: Arc<str>,
    /// When it was created.
    pub created_at: Timestamp,
    /// Its messages, seen by the group that the whole queue is judged by.
    pub messages: MessageCounts,
    /// Messages that this group has consumed.
    pub consumed: u64,
    /// When something was last pushed or delivered to this group.
    pub active_at: Timestamp,
    /// When its oldest kept message was pushed.
    pub oldest: Option<Timestamp>,
    /// When its newest kept message was pushed.
    pub newest: Option<Timestamp>,
}

/// What a group has before it on a queue, by partition.
#[derive(Clone, Debug)]
pub struct Depth {
    /// The queue.
    pub queue: Arc<str>,
    /// The group that was asked for.
    pub group: Option<Group>,
    /// Messages that are not done with, delivered or not.
    pub pending: u64,
    /// Partitions that have any.
    pub partitions_pending: u64,
    /// The group gets only the newest message of each partition.
    pub conflation: bool,
    /// By name, with their messages.
    pub partitions: Vec<(Arc<str>, u64)>,
    /// There are more partitions; the sums count them.
    pub truncated: bool,
}

impl Depth {
    /// Deliveries to come: one per partition where only the newest message counts.
    pub fn effective_pending(&self) -> u64 {
        if self.conflation { self.partitions_pending } else { self.pending }
    }
}

/// A partition of those with most to be delivered.
#[derive(Clone, Debug)]
pub struct RankedPartition {
    /// Its queue.
    pub queue: Arc<str>,
    /// Its name.
    pub partition: Arc<str>,
    /// Its id.
    pub id: LaneId,
    /// Messages to be delivered to the group that the queue is judged by.
    pub pending: u64,
    /// Messages delivered to it and not done with.
    pub processing: u64,
    /// Age of the oldest of both.
    pub behind: Option<Duration>,
}

/// How a group is doing on a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupState {
    /// It reads.
    Stable,
    /// It has left a message for long.
    Lagging,
    /// It has never read.
    Dead,
}

impl GroupState {
    /// As it is spelled.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stable => "Stable",
            Self::Lagging => "Lagging",
            Self::Dead => "Dead",
        }
    }
}

/// A group on a queue.
#[derive(Clone, Debug)]
pub struct GroupStats {
    /// The group.
    pub group: Group,
    /// The queue.
    pub queue: Arc<Queue>,
    /// How it reads; a group may have read before that was recorded.
    pub record: Option<Arc<GroupRecord>>,
    /// Partitions it has a cursor on.
    pub cursors: u64,
    /// Partitions with messages it is not done with.
    pub partitions_behind: u64,
    /// Those messages.
    pub lag: u64,
    /// There were too many partitions to see where it begins in each: the lag is at most this.
    pub at_most: bool,
    /// Age of the oldest of those messages; `None` if there were too many partitions to look for it.
    pub behind: Option<Duration>,
    /// How it is doing.
    pub state: GroupState,
    /// Messages consumed so far.
    pub consumed: u64,
}

/// A partition in which a group is behind.
#[derive(Clone, Debug)]
pub struct LaggingPartition {
    /// The group.
    pub group: Group,
    /// The queue.
    pub queue: Arc<str>,
    /// Its name.
    pub partition: Arc<str>,
    /// Its id.
    pub id: LaneId,
    /// The lease that holds it now.
    pub lease: Option<LeaseId>,
    /// Messages that are not done with.
    pub lag: u64,
    /// When the oldest of them was pushed.
    pub oldest: Timestamp,
    /// How long ago that was.
    pub behind: Duration,
    /// When the group was last given messages of it.
    pub served_at: Option<Timestamp>,
}
