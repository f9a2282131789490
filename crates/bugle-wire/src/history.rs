//! Answers that tell of the past: series of numbers by time, server and queue. Answers tell of many points, so they are
//! spelled as they are written and never built as JSON values.

use schemars::JsonSchema;
use serde::Serialize;

use crate::time::{Millis, Seconds};

/// The time an answer tells of.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct BucketRange {
    /// Its beginning.
    pub from: Millis,
    /// Its end.
    pub to: Millis,
}

/// One bucket of `/api/v1/status`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names are the contract's, and say it")]
pub struct ThroughputPoint {
    pub timestamp: Seconds,
    pub ingested: u64,
    pub processed: u64,
    pub pop_messages: u64,
    pub ingested_per_second: f64,
    pub processed_per_second: f64,
    pub pop_per_second: f64,
    pub avg_lag_ms: f64,
    pub max_lag_ms: f64,
    pub avg_event_loop_lag_ms: f64,
    pub max_event_loop_lag_ms: f64,
    pub min_free_slots: u64,
    pub db_errors: u64,
    pub ack_failed: u64,
    pub dlq_count: u64,
    pub queen_cpu_user_pct: f64,
    pub queen_cpu_sys_pct: f64,
    pub queen_rss_mb: f64,
    pub db_pool_active: u64,
    pub db_pool_idle: u64,
    pub db_pool_size: u64,
}

/// One bucket of `/api/v1/analytics/worker-metrics`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names are the contract's, and say it")]
pub struct WorkerPoint {
    pub timestamp: Seconds,
    pub push_messages: u64,
    pub pop_messages: u64,
    pub ack_messages: u64,
    pub push_requests: u64,
    pub pop_requests: u64,
    pub ack_requests: u64,
    pub transactions: u64,
    pub jobs_done: u64,
    pub push_per_second: f64,
    pub pop_per_second: f64,
    pub ack_per_second: f64,
    pub avg_event_loop_lag_ms: f64,
    pub max_event_loop_lag_ms: f64,
    pub avg_free_slots: f64,
    pub min_free_slots: u64,
    pub db_connections: u64,
    pub avg_job_queue_size: f64,
    pub max_job_queue_size: u64,
    pub backoff_size: u64,
    pub avg_lag_ms: f64,
    pub max_lag_ms: f64,
    pub lag_count: u64,
    pub db_errors: u64,
    pub ack_success: u64,
    pub ack_failed: u64,
    pub dlq_count: u64,
    pub refused: u64,
    pub partitions_created: u64,
    pub partitions_deleted: u64,
}

/// `/api/v1/status/analytics`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnalyticsAnswer<'a> {
    /// Oldest first, those without messages as well.
    pub data_points: Vec<AnalyticsPoint>,
    /// Length of a bucket, as it was asked for.
    #[schemars(extend("enum" = ["minute", "hour", "day"]))]
    pub interval: &'a str,
    /// The beginning.
    pub from: Millis,
    /// The end.
    pub to: Millis,
    /// Too much to read: the oldest was left out.
    pub truncated: bool,
}

/// Messages stored in one bucket.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct AnalyticsPoint {
    /// When it begins.
    pub timestamp: Seconds,
    /// Messages.
    pub messages: u64,
}

/// One queue in one bucket of `/api/v1/analytics/queue-lag`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueLagEntry<'a> {
    /// The queue.
    pub queue_name: &'a str,
    /// Messages delivered.
    pub pop_count: u64,
    /// Mean time from push to delivery.
    pub avg_lag_ms: f64,
    /// Longest time from push to delivery.
    pub max_lag_ms: f64,
    /// When the bucket begins.
    pub bucket_time: Seconds,
}

/// `/api/v1/analytics/queue-ops`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpsAnswer<'a> {
    /// The time it tells of.
    pub time_range: BucketRange,
    /// Length of a bucket.
    pub bucket_minutes: u64,
    /// Oldest first, then by queue.
    pub series: Vec<OpsPoint<'a>>,
    /// The queues in it, by name.
    pub queues: Vec<&'a str>,
    /// Too much to read: the oldest was left out.
    pub truncated: bool,
}

/// One queue in one bucket.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names are the contract's, and say it")]
pub struct OpsPoint<'a> {
    pub bucket: Seconds,
    pub queue_name: &'a str,
    pub push_requests: u64,
    pub push_messages: u64,
    pub pop_messages: u64,
    pub pop_empty: u64,
    pub ack_requests: u64,
    pub ack_success: u64,
    pub ack_failed: u64,
    pub transactions: u64,
    pub partitions_created: u64,
    pub partitions_deleted: u64,
    pub partition_count: u64,
    pub avg_lag_ms: f64,
    pub max_lag_ms: f64,
    pub push_per_second: f64,
    pub pop_per_second: f64,
    pub ack_per_second: f64,
    pub empty_per_second: f64,
    pub parked_count: u64,
}

/// `/api/v1/analytics/queue-parked-replicas`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ParkedAnswer<'a> {
    /// The time it tells of.
    pub time_range: BucketRange,
    /// Length of a bucket.
    pub bucket_minutes: u64,
    /// Oldest first, then by server and queue.
    pub series: Vec<ParkedPoint<'a>>,
    /// The servers in it.
    pub replicas: Vec<Replica<'a>>,
    /// Too much to read: the oldest was left out.
    pub truncated: bool,
}

/// One queue on one server in one bucket.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ParkedPoint<'a> {
    /// When the bucket begins.
    pub bucket: Seconds,
    /// The queue.
    pub queue_name: &'a str,
    /// The server.
    #[serde(flatten)]
    pub replica: Replica<'a>,
    /// Pops parked there, at most.
    pub parked_count: u64,
}

/// A server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Replica<'a> {
    /// Its host.
    pub hostname: &'a str,
    /// Its name.
    pub worker_id: &'a str,
}

/// `/api/v1/analytics/retention`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RemovalAnswer {
    /// The time it tells of.
    pub time_range: BucketRange,
    /// Length of a bucket.
    pub bucket_minutes: u64,
    /// Oldest first.
    pub series: Vec<RemovalPoint>,
    /// All of it.
    pub totals: RemovalCounts,
    /// Too much to read: the oldest was left out.
    pub truncated: bool,
}

/// What was removed in one bucket.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct RemovalPoint {
    /// When the bucket begins.
    pub bucket: Seconds,
    /// What was removed.
    #[serde(flatten)]
    pub counts: RemovalCounts,
}

/// Messages removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RemovalCounts {
    /// At their age.
    pub retention_msgs: u64,
    /// Because every group had read them.
    pub completed_retention_msgs: u64,
    /// Unread.
    pub eviction_msgs: u64,
    /// All of these.
    pub total_msgs: u64,
    /// Times that some were removed.
    pub event_count: u64,
}
