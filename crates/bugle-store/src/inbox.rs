//! The inbox: messages that others have committed beside their own data, in their own transactions, and that a server moves
//! into lanes.
//!
//! An engine may have one or not ([`crate::Engine::inbox`]). Whoever writes into it does so past the server, so the engine
//! knows rows with names, not lanes: queue and partition may not exist yet. A row leaves the inbox and its message enters
//! its lane in one change of the store, or neither happens: that, and nothing that a mover remembers, is what makes it once.
//!
//! *Order.* A row has a number, given before its transaction commits. So numbers are no position to read from: a row may come
//! to light behind a higher one. Movers ask for what is there, lowest number first, and name the rows they take.

use std::sync::Arc;

use bytes::Bytes;

use crate::Answer;
use crate::change::{Append, AppendError, Appended};
use crate::time::Timestamp;

/// What those who write into an inbox announce to the servers that listen to their database: a hint to look there, as the
/// bell's carriers know it. It names nothing, so that a transaction sends it once however many rows it writes.
pub const INBOX_HINT: &str = "AQEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE";

/// A queue's and a partition's name.
pub type LaneName = (Arc<str>, Arc<str>);

/// Which rows, at most.
#[derive(Clone, Debug)]
pub struct InboxAsk {
    /// Only lanes after this one, in the order of their names' bytes.
    pub after: Option<LaneName>,
    /// Not of these queues; they cost next to nothing, whatever waits for them.
    pub without: Vec<Arc<str>>,
    /// Most lanes.
    pub lanes: usize,
    /// Most rows, divided among the lanes.
    pub rows: usize,
    /// Most bytes of payloads, not counting the row that reaches them.
    pub bytes: usize,
}

/// Rows of an inbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InboxFront {
    /// Lanes with rows, in the order of their names' bytes.
    pub lanes: Vec<InboxLane>,
    /// There may be more, in these lanes or in later ones.
    pub more: bool,
}

/// The first rows of one lane, as many as were committed when they were read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxLane {
    /// Where they go.
    pub name: LaneName,
    /// By number, lowest first; at least one.
    pub rows: Vec<InboxRow>,
}

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxRow {
    /// Its number: those of one transaction ascend, and those of a transaction that began after another had ended are higher.
    pub id: u64,
    /// The producer's id.
    pub transaction_id: Bytes,
    /// JSON as it was given.
    pub payload: Bytes,
    /// When it was written, before its commit.
    pub written_at: Timestamp,
}

/// Take rows of one lane out of the inbox and append their messages.
#[derive(Clone, Debug)]
pub struct Take {
    /// Where the rows lie.
    pub name: LaneName,
    /// All of them must still be there.
    pub rows: Vec<u64>,
    /// What is appended to the lane of that name; `None`: nothing, their messages are there already.
    pub append: Option<Append>,
}

/// Why rows were not taken; nothing changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TakeError {
    /// Some row is not there any more, or somebody is taking it right now.
    #[error("the rows were taken by another")]
    Taken,
    /// The append was refused.
    #[error("{0}")]
    Append(AppendError),
}

/// How much is in an inbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InboxDepth {
    /// Rows, counted up to the most that was asked for.
    pub rows: u64,
    /// When the oldest of those was written.
    pub oldest: Option<Timestamp>,
}

/// See the module.
pub trait Inbox: Send + Sync {
    /// The first rows of lanes. They stay where they are, and others may be told of them too.
    fn front(&self, ask: InboxAsk) -> Answer<'_, InboxFront>;

    /// Take rows, each item all or nothing and for itself; items name different lanes. After an outer error nothing is known,
    /// and asking for the front tells: what is not there any more was appended.
    fn take(&self, batch: Vec<Take>) -> Answer<'_, Vec<Result<Option<Appended>, TakeError>>>;

    /// How much is in it, counting at most so many rows.
    fn depth(&self, most: usize) -> Answer<'_, InboxDepth>;
}
