//! `/api/v1/analytics/system-metrics` and `/api/v1/analytics/worker-metrics`: what servers did and used.

use schemars::JsonSchema;
use serde::Serialize;

use crate::history::{BucketRange, WorkerPoint};
use crate::time::{Millis, Seconds};

/// `/api/v1/analytics/system-metrics`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicasAnswer<'a> {
    /// The time it tells of.
    pub time_range: BucketRange,
    /// The servers.
    pub replicas: Vec<ReplicaSeries<'a>>,
    /// How many there are.
    pub replica_count: usize,
    /// Length of a bucket.
    pub bucket_minutes: u64,
    /// Number of points over all servers.
    pub point_count: usize,
    /// Too much to read: the oldest was left out.
    pub truncated: bool,
}

/// A server and what it used.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaSeries<'a> {
    /// Its host.
    pub hostname: &'a str,
    /// Its port, if its name tells it.
    pub port: Option<u16>,
    /// Its name.
    pub worker_id: &'a str,
    /// Oldest first.
    pub time_series: Vec<ReplicaPoint>,
}

/// A server in one bucket.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaPoint {
    /// When it begins.
    pub timestamp: Seconds,
    /// Records it was made of.
    pub sample_count: u64,
    /// What was seen.
    pub metrics: ReplicaMetrics,
}

/// What a server used and did in one bucket. The names with underscores are those existing dashboards know.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct ReplicaMetrics {
    /// The processor.
    pub cpu: CpuLooks,
    /// Memory.
    pub memory: MemoryLooks,
    /// Connections to the store.
    pub database: PoolLooks,
    /// What waits for the store.
    pub threadpool: ThreadpoolLooks,
    /// Who waits for an answer.
    pub registries: RegistryLooks,
    /// How promptly things are done.
    pub event_loop: LoopLooks,
    /// What was done.
    pub shared_state: OpsCounts,
}

/// A number that was looked at several times.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct LooksEntry {
    /// Mean.
    pub avg: f64,
    /// The smallest.
    pub min: u64,
    /// The largest.
    pub max: u64,
    /// The latest.
    pub last: u64,
}

/// Processor time in microseconds per second.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct CpuLooks {
    /// In the server.
    pub user_us: LooksEntry,
    /// In the system, on its behalf.
    pub system_us: LooksEntry,
}

/// Bytes of memory.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct MemoryLooks {
    /// Resident.
    pub rss_bytes: LooksEntry,
    /// Of addresses.
    pub virtual_bytes: LooksEntry,
}

/// Connections to the store.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct PoolLooks {
    /// At most.
    pub pool_size: LooksEntry,
    /// Doing nothing.
    pub pool_idle: LooksEntry,
    /// In use.
    pub pool_active: LooksEntry,
}

/// What waits for the store.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct ThreadpoolLooks {
    /// Calls to the store.
    pub db: QueuedLooks,
}

/// Calls that wait.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct QueuedLooks {
    /// At most so many at once.
    pub pool_size: LooksEntry,
    /// Waiting.
    pub queue_size: LooksEntry,
}

/// Who waits for an answer.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct RegistryLooks {
    /// Parked pops.
    pub response: LooksEntry,
}

/// How promptly things are done.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct LoopLooks {
    /// Microseconds that a timer was late.
    pub lag_us: LooksEntry,
}

/// What was done, under the name dashboards know.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct OpsCounts {
    /// By verb.
    pub sidecar_ops: VerbOps,
}

/// By verb.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct VerbOps {
    /// Pushes.
    pub push: OpsCount,
    /// Pops.
    pub pop: OpsCount,
    /// Acknowledgements.
    pub ack: OpsCount,
}

/// Requests and what was in them.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct OpsCount {
    /// Requests.
    pub count: u64,
    /// Messages.
    pub items: u64,
}

/// `/api/v1/analytics/worker-metrics`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkersAnswer<'a> {
    /// The time it tells of.
    pub time_range: BucketRange,
    /// Length of a bucket.
    pub bucket_minutes: u64,
    /// Number of buckets.
    pub point_count: usize,
    /// All servers together, newest first.
    pub time_series: Vec<WorkerPoint>,
    /// The servers.
    pub workers: Vec<WorkerEntry<'a>>,
    /// Those with most deliveries first.
    pub queues: Vec<BusyQueue<'a>>,
    /// All of it.
    pub summary: WorkSummary,
    /// Too much to read: the oldest was left out.
    pub truncated: bool,
}

/// A server as it was in its last bucket, and what it did in all.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkerEntry<'a> {
    /// Its host.
    pub hostname: &'a str,
    /// Its name.
    pub worker_id: &'a str,
    /// Mean milliseconds that a timer was late.
    pub avg_event_loop_lag_ms: f64,
    /// Most milliseconds that a timer was late, in all the time.
    pub max_event_loop_lag_ms: f64,
    /// Connections to the store that were free at least.
    pub free_slots: u64,
    /// Connections to the store.
    pub db_connections: u64,
    /// Calls that waited for the store, at most.
    pub job_queue_size: u64,
    /// Queues and groups that were looked for less often.
    pub backoff_size: u64,
    /// Messages that were done with, in all the time.
    pub messages_processed: u64,
    /// When it last told something.
    pub last_seen: Millis,
}

/// A queue over the whole time.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BusyQueue<'a> {
    /// The queue.
    pub queue_name: &'a str,
    /// Messages delivered.
    pub pop_count: u64,
    /// Mean time from push to delivery.
    pub avg_lag_ms: f64,
    /// Longest time from push to delivery.
    pub max_lag_ms: f64,
}

/// All servers over the whole time.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names are the contract's, and say it")]
pub struct WorkSummary {
    pub total_push_messages: u64,
    pub total_pop_messages: u64,
    pub total_ack_messages: u64,
    pub total_push_requests: u64,
    pub total_pop_requests: u64,
    pub total_ack_requests: u64,
    pub total_transactions: u64,
    pub total_db_errors: u64,
    pub total_ack_failed: u64,
    pub total_dlq: u64,
    /// Now.
    pub pending_messages: u64,
}
