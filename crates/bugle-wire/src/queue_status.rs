//! `/api/v1/status/queues/…`: a queue with its options and partitions, and its newest messages.

use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

use crate::resource::CountsEntry;
use crate::time::Millis;

/// `GET /api/v1/status/queues/:queue`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct QueueStatusAnswer<'a> {
    /// The queue.
    pub queue: QueueStatusEntry<'a>,
    /// By name.
    pub partitions: Vec<PartitionStatusEntry<'a>>,
    /// There are more partitions.
    #[serde(skip_serializing_if = "crate::group::is_false")]
    pub truncated: bool,
    /// Over all partitions.
    pub totals: TotalsEntry,
}

/// A queue with the options that matter to who looks after it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueStatusEntry<'a> {
    /// Identity of the queue.
    pub id: Uuid,
    /// Its name.
    pub name: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
    /// Its task.
    pub task: &'a str,
    /// Its weight.
    pub priority: i64,
    /// When it was created.
    pub created_at: Millis,
    /// Its options.
    pub config: StatusConfigEntry,
}

/// Options of a queue.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusConfigEntry {
    /// Seconds.
    pub lease_time: u64,
    /// Failed deliveries before a message is given up.
    pub retry_limit: u64,
    /// Milliseconds.
    pub retry_delay: u64,
    /// Seconds.
    pub ttl: u64,
    /// Most pending messages; 0 = no limit.
    pub max_queue_size: u64,
    /// Given-up messages are kept.
    pub dead_letter_queue: bool,
}

/// A partition.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PartitionStatusEntry<'a> {
    /// Its `partitionId`.
    pub id: Uuid,
    /// Its name.
    pub name: &'a str,
    /// When it was created.
    pub created_at: Millis,
    /// Its messages.
    pub messages: CountsEntry,
    /// The same under its other name.
    pub stats: CountsEntry,
    /// How much was consumed.
    pub cursor: ConsumedEntry,
    /// When something was last pushed or delivered.
    pub last_activity: Millis,
    /// When its oldest kept message was pushed.
    pub oldest_message: Option<Millis>,
    /// When its newest kept message was pushed.
    pub newest_message: Option<Millis>,
}

/// How much was consumed.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConsumedEntry {
    /// Messages.
    pub total_consumed: u64,
    /// Always `null`: batches are not counted.
    pub batches_consumed: Option<u64>,
}

/// Sums, in both forms that clients read.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct TotalsEntry {
    /// All of them.
    pub messages: CountsEntry,
    /// The same, spread out.
    #[serde(flatten)]
    pub counts: CountsEntry,
}

/// A message of `GET /api/v1/status/queues/:queue/messages`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusMessageEntry<'a> {
    /// Server-minted id.
    pub id: Uuid,
    /// The producer's id.
    pub transaction_id: &'a str,
    /// Its lane.
    pub partition_id: Uuid,
    /// `queue/partition`.
    pub queue_path: String,
    /// Where it is.
    pub queue: &'a str,
    /// Where it is.
    pub partition: &'a str,
    /// `pending`, `processing`, `completed` or `dead_letter`.
    #[schemars(extend("enum" = ["pending", "processing", "completed", "dead_letter"]))]
    pub status: &'a str,
    /// When it was pushed.
    pub created_at: Millis,
}
