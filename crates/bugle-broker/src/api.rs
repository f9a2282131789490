//! What callers ask of the broker and what they get back: plain data, no HTTP, no SQL.

mod groups;
mod history;
mod letters;
mod messages;
mod stats;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use uuid::Uuid;

use bugle_store::{
    Group, LaneId, LeaseId, Message, Offset, QueueOptions, Timestamp, TraceContext, Unavailable,
};

pub use groups::{GroupDeleted, GroupPartition, GroupQueue, SeekPreview, SeekTo, Sought};
pub use history::{
    GaugeLooks, Gauges, History, HistoryQuery, Looks, QueueCounts, QueuePoint, ServerCounts, ServerHistory,
    ServerPoint, Vitals,
};
pub use letters::{Letter, LetterQuery, Redrive, RedriveCursor, Redriven, Replay, Replayed};
pub use messages::{
    GroupView, MessageList, MessageQuery, MessageStatus, MessageView, NewTrace, ReadMode, TraceView,
};
pub use stats::{
    Depth, Family, GroupState, GroupStats, LaggingPartition, MessageCounts, Overview, PartitionStats,
    QueueDetail, QueueFilter, QueueStats, RankedPartition, Spread, Throughput, Totals,
};
pub use waiting::{Consumer, Served, Waiter, WaitingKey, WaitingRoom};

/// Why a whole request was turned down. Nothing was changed, except after `Unavailable`, when nothing is known.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Refused {
    /// The request is wrong; the text names the field.
    #[error("{0}")]
    Invalid(String),
    /// What the request names does not exist.
    #[error("{0}")]
    NotFound(String),
    /// The request contradicts what is stored or configured.
    #[error("{0}")]
    Conflict(String),
    /// A bound was reached (waiters, queued calls, a full queue); try again later.
    #[error("{reason}")]
    Busy {
        /// Which bound.
        reason: String,
        /// When trying again makes sense.
        retry_after: Duration,
    },
    /// An operator has switched on what keeps this from being done; try again later.
    #[error("{0}")]
    Maintenance(String),
    /// The store gave no answer; the outcome is unknown and the request may be repeated.
    #[error("{0}")]
    Unavailable(String),
}

impl From<Unavailable> for Refused {
    fn from(e: Unavailable) -> Self {
        Self::Unavailable(e.reason)
    }
}

/// One message to push. Names are already checked by [`crate::check_name`].
#[derive(Clone, Debug)]
pub struct PushItem {
    /// Queue name.
    pub queue: Arc<str>,
    /// Partition name.
    pub partition: Arc<str>,
    /// The producer's id, UTF-8; without one the broker mints a UUID.
    pub transaction_id: Option<Bytes>,
    /// Pass-through.
    pub trace_id: Option<Uuid>,
    /// Who pushes (from the token).
    pub producer_sub: Option<Bytes>,
    /// The trace it belongs to.
    pub context: Option<Arc<TraceContext>>,
    /// The payload's JSON bytes.
    pub payload: Bytes,
}

/// What became of one pushed message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// Its transaction id, minted if it had none.
    pub transaction_id: Bytes,
    /// Id of the stored message: its own, or the original's if it is a duplicate.
    pub message_id: Uuid,
    /// Its lane.
    pub lane: LaneId,
    /// The id was already there inside the dedupe window; nothing was stored.
    pub duplicate: bool,
    /// It is kept on this server's disk and will be stored from there. Whether its id was there before is found out then,
    /// and its lane is nil if the queue is not known.
    pub buffered: bool,
}

/// Where to pop from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PopTarget {
    /// One partition.
    Lane {
        /// Queue name.
        queue: Arc<str>,
        /// Partition name.
        partition: Arc<str>,
    },
    /// Any partitions of one queue.
    Queue {
        /// Queue name.
        queue: Arc<str>,
    },
    /// Any partitions of the queues with this namespace and/or task (both given = both must match).
    Filter {
        /// Namespace to match.
        namespace: Option<Arc<str>>,
        /// Task to match.
        task: Option<Arc<str>>,
    },
}

/// A pop.
#[derive(Clone, Debug)]
pub struct PopRequest {
    /// Where from.
    pub target: PopTarget,
    /// Whose cursor.
    pub group: Group,
    /// How long to wait for messages; `None` answers at once.
    pub wait: Option<Duration>,
    /// Most messages in the answer, over all lanes; `None` = the default (or the broker's choice under `autopilot`).
    pub batch: Option<u32>,
    /// Most lanes to claim; `None` = the default.
    pub partitions: Option<u32>,
    /// Commit at delivery: at most once.
    pub auto_ack: bool,
    /// Lease length instead of the queue's.
    pub lease_seconds: Option<u64>,
    /// `subscriptionMode` as sent; looked at only at the group's first contact.
    pub subscription_mode: Option<String>,
    /// `subscriptionFrom` as sent; looked at only at the group's first contact.
    pub subscription_from: Option<String>,
    /// Last-value delivery, stored at the group's first contact.
    pub conflation: bool,
    /// The caller leaves batch and partitions to the broker.
    pub autopilot: bool,
    /// Who asks, for those who look at the waiting room.
    pub consumer: Option<Consumer>,
}

/// Answer to a pop; empty if `lanes` is.
#[derive(Clone, Debug, Default)]
pub struct PopAnswer {
    /// Shared by all lanes; `None` under auto-ack or when empty.
    pub lease_id: Option<LeaseId>,
    /// When the lease ends.
    pub lease_expires_at: Option<Timestamp>,
    /// Lanes in claim order.
    pub lanes: Vec<PoppedLane>,
    /// The group conflates.
    pub conflation: bool,
    /// The request disagreed with the group's stored conflation.
    pub conflation_conflict: bool,
    /// Empty because the store could not be asked.
    pub store_unavailable: bool,
    /// What the broker chose, under `autopilot`.
    pub autopilot: Option<Autopilot>,
    /// How it was served.
    pub phases: Phases,
}

/// Where the time of a pop went. Pops that are served together share it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    /// Lanes it tried.
    pub candidates: u32,
    /// Finding them.
    pub find: Duration,
    /// Taking leases, and reading along with it.
    pub lease: Duration,
    /// Reading and assembling messages.
    pub messages: Duration,
}

impl PopAnswer {
    /// Messages over all lanes.
    pub fn count(&self) -> usize {
        self.lanes.iter().map(|l| l.messages.len()).sum()
    }
}

/// The broker's choice of terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Autopilot {
    /// Lanes.
    pub partitions: u32,
    /// Messages.
    pub batch: u32,
    /// Time waited for them, in milliseconds.
    pub wait_ms: u64,
}

/// Messages of one claimed lane.
#[derive(Clone, Debug)]
pub struct PoppedLane {
    /// Queue name.
    pub queue: Arc<str>,
    /// Partition name.
    pub partition: Arc<str>,
    /// Lane id = the protocol's `partitionId`.
    pub lane: LaneId,
    /// How often the first of them was handed to this group, this time included.
    pub delivery_attempt: u32,
    /// In log order, decrypted.
    pub messages: Vec<Popped>,
}

/// One delivered message.
#[derive(Clone, Debug)]
pub struct Popped {
    /// Position in the lane.
    pub offset: Offset,
    /// When it was pushed.
    pub created_at: Timestamp,
    /// The message; its payload is JSON.
    pub message: Message,
}

/// What a consumer says of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckStatus {
    /// Done.
    Completed,
    /// Could not be processed: charge the retry budget, deliver again.
    Failed,
    /// Deliver again without charging.
    Retry,
    /// Give up on it now.
    Dlq,
}

/// One acknowledgement.
#[derive(Clone, Debug)]
pub struct AckItem {
    /// Which message.
    pub transaction_id: String,
    /// Its lane; `None` if what was sent is no lane id at all.
    pub lane: Option<LaneId>,
    /// What is said of it.
    pub status: AckStatus,
    /// Whose cursor.
    pub group: Group,
    /// The lease it was delivered under. `None` = not given.
    pub lease: Option<LeaseToken>,
    /// For dead letters.
    pub error: Option<String>,
}

/// A lease id as a client sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseToken {
    /// A lease id.
    Id(LeaseId),
    /// Text that cannot be a lease id; never valid.
    Garbage,
}

/// What became of one acknowledgement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acked {
    /// It was taken.
    pub success: bool,
    /// Why not.
    pub error: Option<String>,
    /// It was taken but changed nothing.
    pub noop: bool,
    /// The message is a dead letter now.
    pub dlq: bool,
    /// It was taken and the lane is free for the group now.
    pub lease_released: bool,
    /// The trace that its message belongs to, if it was found.
    pub context: Option<Arc<TraceContext>>,
    /// Queue name, where known.
    pub queue: Option<Arc<str>>,
    /// Partition name, where known.
    pub partition: Option<Arc<str>>,
}

/// Answer to a lease renewal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renewed {
    /// Lanes whose lease was extended.
    pub renewed: usize,
    /// The earliest of the new ends.
    pub expires_at: Option<Timestamp>,
    /// `Lease not found` or `Lease already expired`.
    pub error: Option<&'static str>,
}

/// One operation of a transaction.
#[derive(Clone, Debug)]
pub enum Operation {
    /// Push one message.
    Push(PushItem),
    /// Acknowledge one message.
    Ack(AckItem),
}

/// Answer to a transaction.
#[derive(Clone, Debug)]
pub struct Transacted {
    /// Everything happened; otherwise nothing did.
    pub success: bool,
    /// Why not, in the protocol's words.
    pub error: Option<String>,
    /// Machine-readable: `duplicate`, `ack_rejected`, `bad_request`, `db_error`.
    pub reason: Option<&'static str>,
    /// Outcomes in order of the operations; after a failure only those before it.
    pub results: Vec<OperationResult>,
}

/// Outcome of one operation of a transaction.
#[derive(Clone, Debug)]
pub enum OperationResult {
    /// A push, and the queue it went to.
    Push(Pushed, Arc<str>),
    /// An acknowledgement: transaction id and what became of it.
    Ack(String, Acked),
}

/// A configure request after its JSON was read; options are checked by the broker.
#[derive(Clone, Debug)]
pub struct Configure {
    /// Queue name (may be empty).
    pub queue: Arc<str>,
    /// `None` = not given.
    pub namespace: Option<String>,
    /// `None` = not given.
    pub task: Option<String>,
    /// Option names and values as sent.
    pub options: serde_json::Map<String, serde_json::Value>,
    /// Options not named go back to their defaults instead of staying as they are.
    pub replace: bool,
}

/// Answer to configure.
#[derive(Clone, Debug)]
pub struct Configured {
    /// Identity of the queue.
    pub queue_id: Uuid,
    /// Namespace now.
    pub namespace: Arc<str>,
    /// Task now.
    pub task: Arc<str>,
    /// All options as they are now.
    pub options: QueueOptions,
    /// Option names nobody knows.
    pub ignored: Vec<String>,
}

/// What clearing a queue has removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleared {
    /// Partitions that held messages.
    pub partitions: u64,
    /// Messages.
    pub messages: u64,
}

/// The store's health as the broker sees it.
#[derive(Clone, Debug)]
pub struct Health {
    /// The last call to the store was answered.
    pub store_connected: bool,
    /// The last error and when it happened (Unix milliseconds).
    pub last_error: Option<(String, i64)>,
    /// Pops that wait now.
    pub waiting: usize,
}
