//! The changes a store makes: appends to lanes, exchanges of cursors, and both together atomically.

use bytes::Bytes;
use uuid::Uuid;

use crate::cursor::Cursor;
use crate::lane::{Lane, Segments};
use crate::name::{Group, LaneId, QueueId};
use crate::segment::{NewSegment, Offset};
use crate::time::Timestamp;

/// Append one segment to a lane.
#[derive(Clone, Debug)]
pub struct Append {
    /// The lane; it must exist (see [`crate::Catalog::ensure_lanes`]).
    pub lane: LaneId,
    /// The head the caller knows of.
    pub known_head: Offset,
    /// What must hold under the lane's lock for the append to happen.
    pub guard: Guard,
    /// The messages.
    pub segment: NewSegment,
    /// Stamp; the lane keeps the greater of this and its last one, so stamps never decrease along a lane.
    pub now: Timestamp,
}

/// Condition of an append, checked under the lane's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// None: append at whatever the head is.
    Free,
    /// The head must equal `known_head`.
    Head,
    /// None of the segment's fingerprints may occur at or above `known_head` (a moved head alone is fine; a head
    /// *below* `known_head` is refused as moved).
    Fingerprints,
}

/// A segment was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Offset of its first message.
    pub base: Offset,
    /// Its stamp.
    pub created_at: Timestamp,
}

/// Why a segment was not stored; nothing changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// The guard refused; the lane as it is now.
    #[error("the lane's head is {} now", .0.head)]
    Moved(Lane),
    /// There is no such lane (its queue was deleted, or it was collected).
    #[error("no such lane")]
    NoLane,
}

/// Exchange one cursor, if it is still what the caller knows.
#[derive(Clone, Debug)]
pub struct Swap {
    /// The lane.
    pub lane: LaneId,
    /// The group.
    pub group: Group,
    /// Epoch the stored row must have; 0 = there must be no row.
    pub expect: u64,
    /// The new row. Its epoch must be `expect + 1`; that of a first row (`expect` 0) may be any from 1 on.
    pub next: Cursor,
    /// Messages to read along with a successful exchange, saving a round trip.
    pub read: Option<Span>,
    /// Dead letters to store with it, atomically.
    pub dead: Vec<DeadLetter>,
}

/// A range of the swapped lane, with [`crate::Read`]'s meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First offset wanted.
    pub from: Offset,
    /// End (exclusive).
    pub to: Offset,
    /// See [`crate::Read::max_bytes`].
    pub max_bytes: usize,
}

/// The cursor was exchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Swapped {
    /// What `read` asked for; empty without it.
    pub segments: Segments,
}

/// Why a cursor was not exchanged; nothing changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SwapError {
    /// Another epoch is stored: the row as it is now (`None` = there is no row).
    #[error("the cursor was changed by another")]
    Moved(Option<Cursor>),
    /// There is no such lane.
    #[error("no such lane")]
    NoLane,
}

/// Several changes that happen all or not at all. At most one append per lane and one swap per (lane, group).
#[derive(Clone, Debug, Default)]
pub struct Commit {
    /// Segments to append.
    pub appends: Vec<Append>,
    /// Cursors to exchange. `read` is ignored.
    pub swaps: Vec<Swap>,
}

/// All changes were made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// One per append, in order.
    pub appended: Vec<Appended>,
}

/// The first change that was refused; nothing changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// Index into [`Commit::appends`], and why.
    #[error("append {0}: {1}")]
    Append(usize, AppendError),
    /// Index into [`Commit::swaps`], and why.
    #[error("cursor {0}: {1}")]
    Swap(usize, SwapError),
}

/// A message that a group gave up on, with its own copy of the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// Its own id.
    pub id: Uuid,
    /// Queue, for listing and for deleting with the queue.
    pub queue: QueueId,
    /// Lane it was in.
    pub lane: LaneId,
    /// Partition name, kept because the lane may be collected.
    pub partition: std::sync::Arc<str>,
    /// Group that gave up.
    pub group: Group,
    /// Offset it had.
    pub offset: Offset,
    /// The message as encoded by [`crate::Message::to_bytes`].
    pub message: Bytes,
    /// Transaction id, for look-up.
    pub transaction_id: String,
    /// Why.
    pub error: String,
    /// Failed deliveries before.
    pub attempts: u32,
    /// When the message was pushed.
    pub created_at: Timestamp,
    /// When it was given up.
    pub failed_at: Timestamp,
}
