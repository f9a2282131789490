//! `/api/v1/resources/…` and `/api/v1/stats/refresh`: what there is and how much of it.

use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

use crate::time::Millis;

/// All that is told of messages by number.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CountsEntry {
    /// Kept.
    pub total: u64,
    /// To be delivered.
    pub pending: u64,
    /// Delivered, not acknowledged.
    pub processing: u64,
    /// Acknowledged and kept.
    pub completed: u64,
    /// Always 0: a message that failed is to be delivered again, or it is a dead letter.
    pub failed: u64,
    /// Given up.
    pub dead_letter: u64,
}

/// The short form in lists.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShortCounts {
    /// Kept.
    pub total: u64,
    /// To be delivered.
    pub pending: u64,
    /// Delivered, not acknowledged.
    pub processing: u64,
    /// Given up.
    pub dead_letter: u64,
}

/// A queue of a list.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueEntry<'a> {
    /// Identity of the queue.
    pub id: Uuid,
    /// Its name.
    pub name: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
    /// Its task.
    pub task: &'a str,
    /// When it was created.
    pub created_at: Millis,
    /// Partitions it has.
    pub partitions: u64,
    /// Its messages.
    pub messages: ShortCounts,
    /// Nothing is delivered from it for now.
    pub paused: bool,
    /// Always `null`: how many pieces messages are stored in is not counted.
    pub segments: Option<u64>,
    /// Always `null`: bytes are not counted.
    pub retained_bytes: Option<u64>,
}

/// `GET /api/v1/resources/queues` and, with pagination, `GET /api/v1/status/queues`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "QueueListAnswer")]
pub struct QueueListAnswer<'a, P> {
    /// Newest first, or as asked for.
    pub queues: Vec<QueueEntry<'a>>,
    /// How many match in all.
    pub total: usize,
    /// Which of them these are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pagination: Option<P>,
}

/// `GET /api/v1/resources/queues/:queue`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "QueueDetailAnswer")]
pub struct QueueDetailAnswer<'a, O> {
    /// Identity of the queue.
    pub id: Uuid,
    /// Its name.
    pub name: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
    /// Its task.
    pub task: &'a str,
    /// When it was created.
    pub created_at: Millis,
    /// By name.
    pub partitions: Vec<PartitionEntry<'a>>,
    /// There are more partitions.
    #[serde(skip_serializing_if = "crate::group::is_false")]
    pub truncated: bool,
    /// Over all partitions.
    pub totals: CountsEntry,
    /// What is stored.
    pub segments: StoredEntry,
    /// All its options.
    pub options: O,
}

/// What a queue stores.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct StoredEntry {
    /// Messages.
    pub messages: u64,
}

/// A partition of a queue.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PartitionEntry<'a> {
    /// Its `partitionId`.
    pub id: Uuid,
    /// Its name.
    pub name: &'a str,
    /// When it was created.
    pub created_at: Millis,
    /// Its messages.
    pub stats: CountsEntry,
    /// When its oldest kept message was pushed.
    pub oldest_message: Option<Millis>,
    /// When its newest kept message was pushed.
    pub newest_message: Option<Millis>,
}

/// `GET /api/v1/resources/queues/:queue/depth`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DepthAnswer<'a> {
    /// The queue.
    pub queue: &'a str,
    /// The group that was asked for.
    pub group: Option<&'a str>,
    /// Messages not acknowledged.
    pub pending: u64,
    /// Partitions that have any.
    pub partitions_pending: u64,
    /// The group gets only the newest message of a partition.
    pub conflation: bool,
    /// Deliveries to come.
    pub effective_pending: u64,
    /// By name.
    pub partitions: Vec<PartitionDepth<'a>>,
    /// There are more partitions.
    #[serde(skip_serializing_if = "crate::group::is_false")]
    pub truncated: bool,
}

/// A partition and what is before a group in it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PartitionDepth<'a> {
    /// Its name.
    pub partition: &'a str,
    /// Messages not acknowledged.
    pub pending: u64,
}

/// `GET /api/v1/resources/partitions`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RankingAnswer<'a> {
    /// Most pending first.
    pub partitions: Vec<RankedEntry<'a>>,
}

/// A partition with much to be delivered.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RankedEntry<'a> {
    /// Its queue.
    pub queue: &'a str,
    /// Its name.
    pub partition: &'a str,
    /// Its `partitionId`.
    pub id: Uuid,
    /// Messages to be delivered.
    pub pending: u64,
    /// Messages delivered, not acknowledged.
    pub processing: u64,
    /// Age of the oldest of both.
    pub lag_seconds: Option<u64>,
}

/// `GET /api/v1/resources/namespaces`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct NamespacesAnswer<'a> {
    /// By name.
    pub namespaces: Vec<NamespaceEntry<'a>>,
}

/// A namespace.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct NamespaceEntry<'a> {
    /// Its name.
    pub namespace: &'a str,
    /// What belongs to it.
    #[serde(flatten)]
    pub family: FamilyEntry,
}

/// `GET /api/v1/resources/tasks`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TasksAnswer<'a> {
    /// By name.
    pub tasks: Vec<TaskEntry<'a>>,
}

/// A task.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TaskEntry<'a> {
    /// Its name.
    pub task: &'a str,
    /// What belongs to it.
    #[serde(flatten)]
    pub family: FamilyEntry,
}

/// What belongs to a namespace or task.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct FamilyEntry {
    /// Queues.
    pub queues: u64,
    /// Their partitions.
    pub partitions: u64,
    /// Their messages.
    pub messages: FamilyCounts,
}

/// Messages of a namespace or task.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct FamilyCounts {
    /// Kept.
    pub total: u64,
    /// To be delivered.
    pub pending: u64,
}

/// `GET /api/v1/resources/overview`.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OverviewAnswer {
    /// Queues.
    pub queues: u64,
    /// Partitions.
    pub partitions: u64,
    /// Namespaces.
    pub namespaces: u64,
    /// Tasks.
    pub tasks: u64,
    /// Messages.
    pub messages: CountsEntry,
    /// How far queues are behind.
    pub lag: LagEntry,
    /// Messages per second.
    pub throughput: ThroughputEntry,
    /// When this was so.
    pub timestamp: Millis,
    /// Always 0: it was counted for this answer.
    pub stats_age: u64,
}

/// How far queues are behind.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct LagEntry {
    /// In seconds.
    pub time: SpreadEntry,
    /// In messages.
    pub offset: SpreadEntry,
}

/// How numbers are spread.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct SpreadEntry {
    /// Mean.
    pub avg: f64,
    /// The middle one.
    pub median: f64,
    /// The smallest.
    pub min: u64,
    /// The largest.
    pub max: u64,
}

/// Messages per second.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThroughputEntry {
    /// Pushed.
    pub ingested_per_second: f64,
    /// Done with.
    pub processed_per_second: f64,
}

/// `POST /api/v1/stats/refresh`: what would have been counted again, were it not always current.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct RefreshAnswer {
    /// Partitions.
    pub partition: RefreshedEntry,
    /// Queues.
    pub queue: RefreshedEntry,
    /// Namespaces.
    pub namespace: RefreshedEntry,
    /// Tasks.
    pub task: RefreshedEntry,
    /// The whole.
    pub system: RefreshedEntry,
    /// Counts of what is gone: there are none to remove.
    pub cleanup: CleanedEntry,
}

/// How many there are.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct RefreshedEntry {
    /// All of them.
    pub counted: u64,
}

/// How many were removed.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct CleanedEntry {
    /// Always 0.
    pub removed: u64,
}
