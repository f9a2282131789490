//! Lanes: one ordered log per (queue, partition name), and what a store tells about them.

use std::sync::Arc;

use uuid::Uuid;

use crate::cursor::Cursor;
use crate::name::{Group, LaneId, LeaseId, QueueId};
use crate::segment::{Offset, Segment};
use crate::time::Timestamp;

/// A lane as the store sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Derived from queue and name, see [`LaneId::derive`].
    pub id: LaneId,
    /// The queue it belongs to.
    pub queue: QueueId,
    /// Partition name.
    pub name: Arc<str>,
    /// The next offset to assign.
    pub head: Offset,
    /// The oldest offset kept; `tail == head` means empty.
    pub tail: Offset,
    /// When it was created.
    pub created_at: Timestamp,
    /// Stamp of its newest segment (creation time while it has none).
    pub written_at: Timestamp,
    /// Greatest UUIDv7 transaction id ever appended; ids above it are new without a look-up.
    pub greatest: Option<Uuid>,
}

/// A lane together with one group's cursor on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneCursor {
    /// The lane.
    pub lane: Lane,
    /// The group asked for.
    pub group: Group,
    /// Its cursor, if it ever had one.
    pub cursor: Option<Cursor>,
}

/// What to load by [`crate::Store::load`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Load {
    /// One lane and one group's cursor on it: one result, or none if there is no such lane.
    Lane(LaneId, Group),
    /// Every (lane, group) whose cursor is held by this lease, expired or not.
    Lease(LeaseId),
    /// Every group's cursor on this lane.
    Cursors(LaneId),
}

/// Which lanes of a queue have messages for a group.
#[derive(Clone, Debug)]
pub struct Probe {
    /// The queue.
    pub queue: QueueId,
    /// The group.
    pub group: Group,
    /// Only lanes written at or after this time; `None` walks all lanes of the queue.
    pub since: Option<Timestamp>,
    /// Lanes to report as well if they have messages, whenever they were written.
    pub recheck: Vec<LaneId>,
    /// Continue after this lane id, see [`Probed::more`].
    pub after: Option<LaneId>,
    /// Most lanes to report.
    pub limit: usize,
}

/// Answer to a [`Probe`]: lanes with `head > max(committed, tail)` (or `head > tail` where the group has no cursor
/// yet: what was trimmed cannot be delivered), leased or not, in lane id order.
#[derive(Clone, Debug, Default)]
pub struct Probed {
    /// The lanes.
    pub lanes: Vec<LaneCursor>,
    /// The limit cut the answer short: ask again with `after` set to the last lane.
    pub more: bool,
}

/// A range to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// The lane.
    pub lane: LaneId,
    /// First offset wanted.
    pub from: Offset,
    /// End (exclusive).
    pub to: Offset,
    /// Stop after the segment that reaches this many body bytes; at least one segment is returned.
    pub max_bytes: usize,
}

/// Fingerprints to look for in a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Find {
    /// The lane.
    pub lane: LaneId,
    /// What to look for.
    pub fingerprints: Vec<u64>,
    /// First offset to search.
    pub from: Offset,
    /// End (exclusive) of the search.
    pub to: Offset,
    /// Ignore segments created before this time.
    pub since: Timestamp,
}

/// A fingerprint that occurs: `fingerprints[index]` is at `offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Found {
    /// Index into [`Find::fingerprints`].
    pub index: usize,
    /// Where it occurs.
    pub offset: Offset,
}

/// "Which offset was current at this time?"
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The lane.
    pub lane: LaneId,
    /// The time.
    pub at: Timestamp,
}

/// Drop what is old at the front of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trim {
    /// The lane.
    pub lane: LaneId,
    /// New tail: offsets below are gone. Never moves backwards, never past the head.
    pub to: Offset,
}

/// Which lanes hold messages older than a time.
#[derive(Clone, Debug)]
pub struct Aged {
    /// The queue.
    pub queue: QueueId,
    /// Messages created before this time count as old.
    pub before: Timestamp,
    /// Continue after this lane id.
    pub after: Option<LaneId>,
    /// Most lanes to report.
    pub limit: usize,
}

/// A lane whose oldest kept message is older than asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgedLane {
    /// The lane.
    pub lane: Lane,
    /// First offset that is not old (the head if all are).
    pub cut: Offset,
    /// Smallest `committed` over all groups with a cursor here; `None` without any.
    pub slowest: Option<Offset>,
}

/// Segments of one read, in order. Gaps at the front mean that the range was trimmed.
pub type Segments = Vec<Segment>;
