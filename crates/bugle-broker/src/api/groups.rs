//! Consumer groups: sending them elsewhere, deleting them, seeing how far they are.

use std::sync::Arc;
use std::time::Duration;

use bugle_store::{LeaseId, Offset, Timestamp};

/// Where to send a consumer group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeekTo {
    /// To the oldest kept message.
    Beginning,
    /// Behind the newest message.
    End,
    /// Behind everything pushed up to this time.
    Time(Timestamp),
}

/// Answer to a seek.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sought {
    /// Cursors that are there now.
    pub partitions: u64,
    /// For one partition: the offset that comes next.
    pub position: Option<Offset>,
}

/// What a seek would do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeekPreview {
    /// Messages that would then be delivered: of those there are now.
    pub messages: u64,
    /// Partitions they are in.
    pub partitions: u64,
    /// Messages that are before the group as it is.
    pub pending: u64,
}

/// Answer to the deletion of a consumer group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupDeleted {
    /// Cursors that were deleted.
    pub partitions: u64,
    /// A record of how it reads was deleted.
    pub metadata: bool,
}

/// How far a consumer group has come on one queue.
#[derive(Clone, Debug)]
pub struct GroupQueue {
    /// Queue name.
    pub queue: Arc<str>,
    /// By name.
    pub partitions: Vec<GroupPartition>,
    /// There are more than an answer holds.
    pub truncated: bool,
}

/// How far a consumer group has come in one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupPartition {
    /// Partition name.
    pub partition: Arc<str>,
    /// The lease that holds it now.
    pub lease: Option<LeaseId>,
    /// When the group was last given messages of it.
    pub served_at: Option<Timestamp>,
    /// Messages consumed so far.
    pub consumed: u64,
    /// Messages that are kept and not acknowledged.
    pub lag: u64,
    /// Age of the oldest of them; zero if there are none.
    pub behind: Duration,
}
