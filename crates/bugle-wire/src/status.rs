//! `GET /api/v1/status`: traffic by time, and how things stand now.

use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

use crate::history::{BucketRange, ThroughputPoint};
use crate::worker::WorkerEntry;

/// `GET /api/v1/status`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrafficAnswer<'a> {
    /// The time it tells of.
    pub time_range: BucketRange,
    /// Length of a bucket.
    pub bucket_minutes: u64,
    /// Number of buckets.
    pub point_count: usize,
    /// Newest first; only those in which a server told something.
    pub throughput: Vec<ThroughputPoint>,
    /// Newest first, at most 1000.
    pub queues: Vec<TrafficQueue<'a>>,
    /// Messages now, and requests in this time.
    pub messages: TrafficMessages,
    /// Leases now.
    pub leases: LeaseCounts,
    /// Dead letters.
    pub dead_letter_queue: LetterSummary,
    /// The servers.
    pub workers: Vec<WorkerEntry<'a>>,
    /// What went wrong in this time.
    pub errors: ErrorCounts,
    /// Always 0: it was counted for this answer.
    pub stats_age: u64,
    /// Too much to read: the oldest was left out.
    pub truncated: bool,
}

/// A queue.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrafficQueue<'a> {
    /// Identity of the queue.
    pub id: Uuid,
    /// Its name.
    pub name: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
    /// Its task.
    pub task: &'a str,
    /// Partitions it has.
    pub partitions: u64,
    /// Messages consumed so far, over all groups.
    pub total_consumed: u64,
}

/// Messages now, and requests in the time that was asked for.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrafficMessages {
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
    /// Requests.
    pub requests: VerbNumbers<u64>,
    /// Messages per request.
    pub batch_efficiency: VerbNumbers<f64>,
}

/// A number for each verb.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct VerbNumbers<N> {
    /// Of pushes.
    pub push: N,
    /// Of pops.
    pub pop: N,
    /// Of acknowledgements.
    pub ack: N,
}

/// Leases now.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LeaseCounts {
    /// Leases.
    pub active: u64,
    /// The same: a lease holds one partition.
    pub partitions_with_leases: u64,
    /// Messages under them.
    pub total_batch_size: u64,
    /// Messages consumed so far.
    pub total_acked: u64,
}

/// Dead letters: how many there are, and of the latest of this time where they come from and why.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LetterSummary {
    /// All of them.
    pub total_messages: u64,
    /// Partitions that the latest come from.
    pub affected_partitions: usize,
    /// Reasons of the latest, the most frequent first, at most 10.
    pub top_errors: Vec<ErrorEntry>,
}

/// A reason to give a message up.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ErrorEntry {
    /// As the consumer told it.
    pub error: String,
    /// Dead letters of this reason.
    pub count: u64,
}

/// What went wrong.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorCounts {
    /// Calls that the store did not answer.
    pub db_errors: u64,
    /// Acknowledgements that found nothing to acknowledge.
    pub ack_failed: u64,
    /// Messages given up.
    pub dlq_messages: u64,
}
