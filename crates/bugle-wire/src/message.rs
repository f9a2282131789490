//! `/api/v1/messages`: looking at messages and handling single ones.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::field::Text;
use crate::payload::Payload;
use crate::shape::{MaybeName, Traceparent};
use crate::time::Millis;

/// What both the list and the full form tell of a message.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MessageEntry<'a> {
    /// Server-minted id.
    pub id: Uuid,
    /// The producer's id.
    pub transaction_id: &'a str,
    /// Its lane.
    pub partition_id: Uuid,
    /// Position in the lane.
    pub offset: u64,
    /// `queue/partition`.
    pub queue_path: String,
    /// Where it is.
    pub queue: &'a str,
    /// Where it is.
    pub partition: &'a str,
    /// Of the queue.
    pub namespace: &'a str,
    /// Of the queue.
    pub task: &'a str,
    /// What has become of it.
    #[schemars(extend("enum" = ["pending", "processing", "completed", "dead_letter"]))]
    pub status: &'a str,
    /// Pass-through.
    pub trace_id: Option<Uuid>,
    /// The W3C trace context that it was pushed with. Told only where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Traceparent")]
    pub traceparent: Option<String>,
    /// Of that context. Told only where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<&'a str>,
    /// Who pushed it.
    pub producer_sub: Option<&'a str>,
    /// When it was pushed.
    pub created_at: Millis,
    /// When the lease ends under which somebody works on it.
    pub lease_expires_at: Option<Millis>,
    /// The payload.
    pub data: Payload<'a>,
    /// The same under its other name.
    pub payload: Payload<'a>,
}

/// A message of the list.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListedMessage<'a> {
    /// As everywhere.
    #[serde(flatten)]
    pub entry: MessageEntry<'a>,
    /// What anonymous consumers have made of it.
    #[schemars(extend("enum" = ["pending", "processing", "completed", "dead_letter", null]))]
    pub queue_status: Option<&'a str>,
    /// What named groups have made of it.
    pub bus_status: BusStatus,
    /// Of the queue.
    pub queue_priority: i64,
    /// Fingerprint of the transaction id, by which the server looks for it: 16 hex digits.
    pub txn_hash: String,
    /// Where it is stored.
    pub segment: Option<SegmentEntry>,
}

/// The messages of a partition that were stored together.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SegmentEntry {
    /// Position of the first.
    pub base_offset: u64,
    /// How many.
    pub messages: u64,
}

/// What named groups have made of a message.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BusStatus {
    /// Groups past it.
    pub consumed_by: usize,
    /// All of them.
    pub total_groups: usize,
}

/// Who reads some queues.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModeEntry {
    /// Anonymous consumers do.
    pub has_queue_mode: bool,
    /// So many named groups do.
    pub bus_groups_count: usize,
    /// Named groups past the message, where one is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consumed_by_groups: Option<usize>,
    /// Anonymous consumers are `queue`, named groups `bus`, both `hybrid`.
    #[serde(rename = "type")]
    #[schemars(extend("enum" = ["none", "queue", "bus", "hybrid"]))]
    pub kind: &'static str,
}

/// `GET /api/v1/messages`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "MessageListAnswer")]
pub struct MessageListAnswer<'a, P> {
    /// Newest first.
    pub messages: Vec<ListedMessage<'a>>,
    /// How many match in all, as far as was looked.
    pub total: u64,
    /// There was too much to look at all of it.
    pub truncated: bool,
    /// Who reads these queues.
    pub mode: ModeEntry,
    /// Which of them these are.
    pub pagination: P,
}

/// `GET /api/v1/messages/:partitionId/:transactionId`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FullMessage<'a> {
    /// As everywhere.
    #[serde(flatten)]
    pub entry: MessageEntry<'a>,
    /// It is stored encrypted.
    pub is_encrypted: bool,
    /// From its latest dead letter.
    pub error_message: Option<&'a str>,
    /// From its latest dead letter.
    pub retry_count: Option<u32>,
    /// Options of its queue.
    pub queue_config: QueueConfigEntry,
    /// Who reads its queue.
    pub mode: ModeEntry,
    /// Every group of its queue.
    pub consumer_groups: Vec<MessageGroup<'a>>,
}

/// Options of a queue that matter to a message.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueConfigEntry {
    /// Seconds.
    pub lease_time: u64,
    /// Failed deliveries before a message is given up.
    pub retry_limit: u64,
    /// Milliseconds.
    pub retry_delay: u64,
    /// Seconds.
    pub ttl: u64,
    /// Weight.
    pub priority: i64,
}

/// How a group stands to a message.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MessageGroup<'a> {
    /// Its name.
    pub name: &'a str,
    /// It is past the message.
    pub consumed: bool,
    /// It holds the message until then.
    pub lease_expires_at: Option<Millis>,
}

/// Body of `POST /api/v1/messages/:partitionId/:transactionId/dlq`; all of it may be absent.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct GiveUpRequest<'a> {
    /// Whose cursor; anonymous consumers' if absent.
    #[serde(borrow)]
    #[schemars(with = "MaybeName")]
    pub consumer_group: Text<'a>,
    /// Why.
    #[serde(borrow)]
    pub error: Text<'a>,
}

/// What became of a single message, or that there is none.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MessageOutcome<'a> {
    /// It was done.
    pub success: bool,
    /// As sent.
    pub partition_id: &'a str,
    /// As sent.
    pub transaction_id: &'a str,
    /// What was done, or why not.
    pub message: &'a str,
    /// The same where it is an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<&'a str>,
}
