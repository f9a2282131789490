//! What a Bugle store is: plain data, two traits, a small reference store and the suite that every engine passes.
//!
//! A store is a log of segments per lane, cursors exchanged by compare-and-set, and a catalog. It holds no queue
//! semantics: what an acknowledgement does to a cursor, when a message is visible, what is a duplicate, is decided once,
//! in `bugle-broker`, by pure functions over the data defined here.
//!
//! Every call takes a batch and answers one outcome per item. The inner `Result` is a fact about one item. The outer
//! error means that *nothing is known*: the changes may or may not have happened.
//!
//! Modules in reading order; each uses only those above it.

mod backup;
mod catalog;
mod change;
mod context;
mod cursor;
mod examination;
mod inbox;
mod lane;
mod lease_id;
mod memory;
mod message;
mod name;
mod options;
mod packed;
mod recode;
mod segment;
mod spool;
mod survey;
mod tally;
mod time;

#[cfg(feature = "testing")]
mod calls;
#[cfg(feature = "conformance")]
pub mod conformance;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use uuid::Uuid;

pub use backup::{Backup, BackupAnswer, BackupError, BackupPiece, NoFiles};
#[cfg(feature = "testing")]
#[doc(hidden)]
pub use calls::RowId;
pub use catalog::{
    DeadLetterFilter, Expire, GroupRecord, LaneError, NewLane, Page, PutQueue, PutSwitches, Queue, Snapshot,
    Start, Switches, Trace, TraceFilter, TraceName,
};
pub use change::{
    Append, AppendError, Appended, Commit, CommitError, Committed, DeadLetter, Guard, Span, Swap, SwapError,
    Swapped,
};
pub use context::TraceContext;
pub use cursor::{Cursor, Lease};
pub use examination::{Examination, Finding, Severity, cursor_fault, first_gap};
pub use inbox::{
    INBOX_HINT, Inbox, InboxAsk, InboxDepth, InboxFront, InboxLane, InboxRow, LaneName, Take, TakeError,
};
pub use lane::{
    Aged, AgedLane, Find, Found, Lane, LaneCursor, Load, Position, Probe, Probed, Read, Segments, Trim,
};
pub use lease_id::{Whereabouts, lease_id, whereabouts};
pub use memory::MemoryStore;
pub use message::{Malformed, Message};
pub use name::{DEFAULT_PARTITION, Group, LaneId, LeaseId, NAME_MAX, QUEUE_MODE, QueueId};
pub use options::{Enforced, QueueOptions};
pub use packed::{Codec, MAX_PLAIN, MAX_RATIO, pack, plain_len, unpack};
pub use recode::{Recode, Recoded};
pub use segment::{NewSegment, Offset, Segment, fingerprint, uuid_v7};
pub use spool::{Spool, SpoolAnswer, SpoolBatch, SpoolError, SpoolState, Spooled};
pub use survey::{Survey, Surveyed, WrittenLane};
pub use tally::{Ends, GroupTally, QueueTally};
pub use time::{Now, Timestamp};

/// The store gave no usable answer: what was asked may or may not have happened.
#[derive(Clone, Debug, thiserror::Error)]
#[error("store unavailable: {reason}")]
pub struct Unavailable {
    /// What went wrong, for operators; carries no secrets.
    pub reason: String,
}

impl Unavailable {
    /// An outage with this reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}

/// A store's answer. Boxed, so that the traits are object-safe: one allocation per batch is nothing.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Unavailable>> + Send + 'a>>;

/// The log and the cursors.
///
/// An answered change is durable. Within one call, items must name different lanes (`append`) and different
/// (lane, group) pairs (`swap`).
pub trait Store: Send + Sync {
    /// The present, as this store's clock bounds it. Never blocks.
    fn now(&self) -> Now;

    /// Whether this process is the only writer, so that what it knows of heads and cursors stays true.
    fn exclusive(&self) -> bool;

    /// Counts the histories of this store. Another number means that the store has gone back to an earlier state and on from
    /// there (a failover to a copy that had not got everything, a restore): what was learned before may never have happened.
    /// It only grows, and asking for it never blocks.
    ///
    /// `append`, `swap`, `commit` and `trim` change the history that goes on when they are called, or fail.
    fn timeline(&self) -> u64 {
        0
    }

    /// Append segments. Offsets are gapless and assigned in commit order.
    fn append(&self, batch: Vec<Append>) -> Answer<'_, Vec<Result<Appended, AppendError>>>;

    /// When it is answered, everything is durable that was seen of this store before: whoever answers a request by what is stored
    /// already, and changes nothing, asks for it. A store that shows nothing before it is durable has nothing to do.
    fn flush(&self) -> Answer<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Exchange cursors, each for itself, and read along with it.
    fn swap(&self, batch: Vec<Swap>) -> Answer<'_, Vec<Result<Swapped, SwapError>>>;

    /// Make sets of changes, each all or nothing, one after the other: sets of one call may name the same lanes and
    /// cursors.
    fn commit(&self, batch: Vec<Commit>) -> Answer<'_, Vec<Result<Committed, CommitError>>>;

    /// Read ranges: every kept segment that overlaps one, whole. An unknown lane yields nothing.
    fn read(&self, batch: Vec<Read>) -> Answer<'_, Vec<Segments>>;

    /// Where fingerprints of kept messages occur, ascending by (index, offset).
    fn find(&self, batch: Vec<Find>) -> Answer<'_, Vec<Vec<Found>>>;

    /// Which lanes have messages for a group.
    fn probe(&self, batch: Vec<Probe>) -> Answer<'_, Vec<Probed>>;

    /// Lanes and cursors as they are now.
    fn load(&self, batch: Vec<Load>) -> Answer<'_, Vec<Vec<LaneCursor>>>;

    /// The first offset stamped after a time (the head if none is, the tail if all are; 0 for an unknown lane).
    fn position(&self, batch: Vec<Position>) -> Answer<'_, Vec<Offset>>;

    /// Remove the front of lanes. Answers the number of messages removed, one per item (0 for an unknown lane).
    fn trim(&self, batch: Vec<Trim>) -> Answer<'_, Vec<u64>>;

    /// Lanes whose oldest kept message is older than asked, in lane id order. Asking for many queues in one call is
    /// cheap, in particular where there is nothing old.
    fn aged(&self, batch: Vec<Aged>) -> Answer<'_, Vec<Vec<AgedLane>>>;

    /// What moved anywhere: the one question a server asks for all its waiting consumers together.
    fn survey(&self, survey: Survey) -> Answer<'_, Surveyed>;
}

/// Queues, lanes, groups, dead letters and traces: small or rarely changed.
///
/// Text is any text without U+0000, which callers remove: not every engine can store it. It comes back byte for byte.
pub trait Catalog: Send + Sync {
    /// Whether the store answers; cheap.
    fn ping(&self) -> Answer<'_, ()>;

    /// All queues, groups and switches, unless the version is still `known`.
    fn snapshot(&self, known: Option<u64>) -> Answer<'_, Option<Snapshot>>;

    /// Change switches. Answers all of them as they are afterwards.
    fn put_switches(&self, change: PutSwitches) -> Answer<'_, Switches>;

    /// Create (`queue.version == 1`) or update (`queue.version` = stored version + 1) a queue.
    fn put_queue(&self, queue: Queue) -> Answer<'_, PutQueue>;

    /// Delete a queue with everything in it. Afterwards no append or swap on its lanes succeeds. `false` = unknown id.
    fn delete_queue(&self, id: QueueId) -> Answer<'_, bool>;

    /// Create lanes that do not exist; answer all of them.
    fn ensure_lanes(&self, batch: Vec<NewLane>) -> Answer<'_, Vec<Result<Lane, LaneError>>>;

    /// At most `limit` lanes of a queue, ordered by the bytes of their names; only those after the given name. It costs
    /// what it returns.
    fn lanes(&self, queue: QueueId, after: Option<Arc<str>>, limit: usize) -> Answer<'_, Vec<Lane>>;

    /// What queues hold, these or all, in queue id order. Unknown queues are left out. What was answered before is
    /// counted; leases are those that have not ended at `now`.
    fn tallies(&self, queues: Option<Vec<QueueId>>, now: Timestamp) -> Answer<'_, Vec<QueueTally>>;

    /// Store a group at first contact; the first one wins and is answered. `None` = unknown queue.
    fn put_group(&self, group: GroupRecord) -> Answer<'_, Option<GroupRecord>>;

    /// Replace a stored group's record. `false` = there is none.
    fn update_group(&self, group: GroupRecord) -> Answer<'_, bool>;

    /// Forget a group's cursors on a queue and, if asked, its record. Answers the number of cursors removed.
    fn delete_group(&self, queue: QueueId, group: Group, record: bool) -> Answer<'_, u64>;

    /// Dead letters, latest failure first, and how many match in all.
    fn dead_letters(&self, filter: DeadLetterFilter, page: Page) -> Answer<'_, (Vec<DeadLetter>, u64)>;

    /// At most `limit` dead letters, earliest failure first, ties by id; only those after the given (failure, id). Unlike
    /// a page it stays in place while letters before it are deleted, and it costs what it returns.
    fn dead_letters_after(
        &self,
        filter: DeadLetterFilter,
        after: Option<(Timestamp, Uuid)>,
        limit: usize,
    ) -> Answer<'_, Vec<DeadLetter>>;

    /// Delete dead letters by id. Answers how many there were.
    fn delete_dead_letters(&self, ids: Vec<Uuid>) -> Answer<'_, u64>;

    /// Record a trace. One whose queue is gone may be dropped.
    fn put_trace(&self, trace: Trace) -> Answer<'_, ()>;

    /// Traces, and how many match in all.
    fn traces(&self, filter: TraceFilter, page: Page) -> Answer<'_, (Vec<Trace>, u64)>;

    /// Trace names, latest first, and how many there are.
    fn trace_names(&self, page: Page) -> Answer<'_, (Vec<TraceName>, u64)>;

    /// Remove at most `limit` aged rows. Answers how many were removed.
    fn expire(&self, what: Expire, limit: usize) -> Answer<'_, u64>;
}

/// Connections of an engine to its database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connections {
    /// Working.
    pub in_use: usize,
    /// Open, without work.
    pub idle: usize,
    /// Most that may be open.
    pub max: usize,
}

/// A whole engine.
pub trait Engine: Store + Catalog {
    /// Its connections now; an engine without a database has none.
    fn connections(&self) -> Connections {
        Connections::default()
    }

    /// Why it answers nothing more until it is opened again; `None` while it may answer, now or later. Never blocks.
    fn stopped(&self) -> Option<String> {
        None
    }

    /// What its database tells of itself, for operators: sections by name, each a JSON text. An engine without a database
    /// has none.
    fn internals(&self) -> Answer<'_, Vec<(String, String)>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// Where others commit messages beside their own data, if this engine has such a place.
    fn inbox(&self) -> Option<&dyn Inbox> {
        None
    }

    /// Begin a copy of its files, with everything that was answered before.
    fn backup(&self) -> BackupAnswer<'_> {
        Box::pin(async { Err(BackupError::Elsewhere("this store has no files to copy")) })
    }

    /// Finish what was begun and release files and connections.
    fn close(&self) -> Answer<'_, ()>;
}
