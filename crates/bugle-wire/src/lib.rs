//! The JSON of the `/api/v1` contract: what requests may look like and how answers are spelled.
//!
//! Requests borrow from the body they were read from, so that payloads are never copied here. They are read
//! leniently ([`Field`]): a field of the wrong type is remembered, not refused, because only the caller can name the
//! field by its full path (`items[3].queue must be a string`). `null` means absent everywhere but in payloads.
//!
//! Modules in reading order; each uses only those above it.

mod error;
mod field;
mod payload;
mod text;
mod time;

mod shape;

mod ack;
mod group;
mod group_list;
mod history;
mod letter;
mod message;
mod pop;
mod push;
mod queue;
mod queue_status;
mod renew;
mod resource;
mod server;
mod system;
mod trace;
mod transact;
mod waiting;
mod worker;

mod status;

pub use ack::{AckBatchRequest, AckEntry, AckResult};
pub use error::{ErrorBody, Unreadable, read};
pub use field::{Field, List, Object, Raw, Text};
pub use group::{
    DeleteGroupAnswer, GroupPartitionEntry, GroupQueueEntry, SeekAnswer, SeekPartitionAnswer,
    SeekPreviewEntry, SeekRequest, SubscriptionAnswer, SubscriptionRequest,
};
pub use group_list::{GroupEntry, LaggingEntry};
pub use history::{
    AnalyticsAnswer, AnalyticsPoint, BucketRange, OpsAnswer, OpsPoint, ParkedAnswer, ParkedPoint,
    QueueLagEntry, RemovalAnswer, RemovalCounts, RemovalPoint, Replica, ThroughputPoint, WorkerPoint,
};
pub use letter::{
    LetterCount, LetterEntry, LetterList, Pagination, RedriveAnswer, RedriveDestination, RedriveFilter,
    RedriveRequest, ReplayAnswer, ReplayRequest,
};
pub use message::{
    BusStatus, FullMessage, GiveUpRequest, ListedMessage, MessageEntry, MessageGroup, MessageListAnswer,
    MessageOutcome, ModeEntry, QueueConfigEntry, SegmentEntry,
};
pub use payload::Payload;
pub use pop::{
    AutopilotTerms, LaneLabel, PopAnswer, PopAnswerMessage, PopHead, PopMessage, PopRefusal, TraceHeaders,
    write_pop_end,
};
pub use push::{BufferedPush, PushEntry, PushRequest, PushResult, PushStatus};
pub use queue::{ConfigureAnswer, ConfigureRequest, DeleteQueueAnswer};
pub use queue_status::{
    ConsumedEntry, PartitionStatusEntry, QueueStatusAnswer, QueueStatusEntry, StatusConfigEntry,
    StatusMessageEntry, TotalsEntry,
};
pub use renew::{RenewAnswer, RenewRequest};
pub use resource::{
    CleanedEntry, CountsEntry, DepthAnswer, FamilyCounts, FamilyEntry, LagEntry, NamespaceEntry,
    NamespacesAnswer, OverviewAnswer, PartitionDepth, PartitionEntry, QueueDetailAnswer, QueueEntry,
    QueueListAnswer, RankedEntry, RankingAnswer, RefreshAnswer, RefreshedEntry, ShortCounts, SpreadEntry,
    StoredEntry, TaskEntry, TasksAnswer, ThroughputEntry,
};
pub use server::{
    BackoffCount, BetweenServers, BlockedEntry, CarrierEntry, Counted, CpuUse, DatabaseUse, Greeting,
    HealthAnswer, InboxEntry, MemoryUse, MetricsSummary, PeerEntry, ServerCount, SharedInShort, SharedState,
    StatusAnswer, StoreEntry, TransportCount, WaiterCount,
};
pub use status::{
    ErrorCounts, ErrorEntry, LeaseCounts, LetterSummary, TrafficAnswer, TrafficMessages, TrafficQueue,
    VerbNumbers,
};
pub use system::{
    BufferStats, ClearAnswer, FailedFiles, MaintenanceAnswer, NotifyAnswer, NotifyRequest, SwitchRequest,
};
pub use text::write_text;
pub use time::{Millis, Seconds, write_micros};
pub use trace::{
    NamedTrace, NoSuccess, TraceEntry, TraceList, TraceNameEntry, TraceNameList, TraceRecorded, TraceRequest,
};
pub use transact::{OperationEntry, OperationOutcome, TransactAnswer, TransactRequest};
pub use waiting::{
    BatchingEntry, FloorEntry, LatencyEvent, QueueMoved, QueuesEvent, ServedEntry, ServerEvent, StoreEvent,
    VerbEvent, WaiterEntry, WaitingAnswer, WaitingKeyEntry, WaitingTarget,
};
pub use worker::{
    BusyQueue, CpuLooks, LooksEntry, LoopLooks, MemoryLooks, OpsCount, OpsCounts, PoolLooks, QueuedLooks,
    RegistryLooks, ReplicaMetrics, ReplicaPoint, ReplicaSeries, ReplicasAnswer, ThreadpoolLooks, VerbOps,
    WorkSummary, WorkerEntry, WorkersAnswer,
};
