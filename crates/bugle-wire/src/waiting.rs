//! `GET /api/v1/waiting` and `GET /api/v1/events`: who waits, and what happens, as it happens.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::server::{CarrierEntry, InboxEntry};
use crate::time::Millis;

/// `GET /api/v1/waiting`, and the event `waiting`: the waiting room of the server that answers.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaitingAnswer<'a> {
    /// When this was so.
    pub at: Millis,
    /// Pops that wait, those included that are being served.
    pub waiting: usize,
    /// What is waited for, the most wanted first.
    pub keys: Vec<WaitingKeyEntry<'a>>,
    /// How many keys there are in all.
    pub keys_total: usize,
    /// Who waits, the longest wait first.
    pub waiters: Vec<WaiterEntry<'a>>,
    /// How many wait in all.
    pub waiters_total: usize,
    /// Who got messages after a wait, the latest first: written down only while somebody listens to the event `waiting`.
    pub served: Vec<ServedEntry<'a>>,
    /// How many wakes there were, by what rang.
    pub wakes: BTreeMap<&'static str, u64>,
    /// How the floor looks after those who wait.
    pub floor: FloorEntry,
    /// How pops are gathered into store calls.
    pub batching: BatchingEntry,
}

/// Something that is waited for: a partition, a queue, or all queues of a namespace or task.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaitingKeyEntry<'a> {
    /// What.
    #[serde(flatten)]
    pub target: WaitingTarget<'a>,
    /// Whose cursor.
    pub consumer_group: &'a str,
    /// How many wait.
    pub waiters: usize,
    /// Since when the first of them does.
    pub since: Millis,
    /// Looks of the floor in a row that found nothing.
    pub empty_checks: u32,
    /// So many that it looks less often.
    pub backed_off: bool,
    /// A claim is running.
    pub claiming: bool,
    /// Partitions believed to have something for them.
    pub ready: usize,
}

/// What somebody waits for.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct WaitingTarget<'a> {
    /// This queue.
    pub queue: Option<&'a str>,
    /// This partition of it; `null` = any.
    pub partition: Option<&'a str>,
    /// Any queue with this namespace.
    pub namespace: Option<&'a str>,
    /// Any queue with this task.
    pub task: Option<&'a str>,
}

/// Somebody who waits.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaiterEntry<'a> {
    /// For what.
    #[serde(flatten)]
    pub target: WaitingTarget<'a>,
    /// Whose cursor.
    pub consumer_group: &'a str,
    /// Since when.
    pub since: Millis,
    /// Milliseconds until the wait ends.
    pub left_ms: u64,
    /// It has messages and lets its batch grow (`minPopWaitTime`).
    pub holding: bool,
    /// Where its request came from.
    pub peer: Option<String>,
    /// Who it is, where callers are known.
    pub subject: Option<&'a str>,
}

/// Somebody who waited and got messages.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServedEntry<'a> {
    /// When.
    pub at: Millis,
    /// The queue.
    pub queue: &'a str,
    /// The partition, the first if there were several.
    pub partition: &'a str,
    /// Whose cursor.
    pub consumer_group: &'a str,
    /// What woke it; `null` = it found messages as it came.
    #[schemars(extend("enum" = ["local", "notify", "udp", "timer", "floor", null]))]
    pub source: Option<&'static str>,
    /// Milliseconds that it had waited.
    pub waited_ms: f64,
    /// Milliseconds from the wake to the answer.
    pub woken_ms: Option<f64>,
    /// Messages it got.
    pub messages: usize,
    /// Where its request came from.
    pub peer: Option<String>,
    /// Who it is, where callers are known.
    pub subject: Option<&'a str>,
}

/// The floor: the look that finds what no hint told of.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FloorEntry {
    /// Milliseconds between two looks, now.
    pub interval_ms: f64,
    /// Looks so far.
    pub looks: u64,
    /// Keys that were looked at.
    pub checks: u64,
    /// Of those: had something.
    pub hits: u64,
    /// Keys that are looked at less often now, because nothing was found again and again.
    pub backed_off: usize,
}

/// How pops are gathered.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BatchingEntry {
    /// Store calls that claimed for pops.
    pub calls: u64,
    /// Pops they were made for.
    pub pops: u64,
    /// Of those: got messages.
    pub served: u64,
    /// Partitions they tried.
    pub partitions: u64,
    /// Partitions lost to somebody else.
    pub lost: u64,
    /// Calls that brought nobody a message.
    pub empty: u64,
}

/// The event `server`: counters of the server that answers, since its start, and how it is now.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerEvent<'a> {
    /// When this was so.
    pub at: Millis,
    /// Milliseconds since the server started.
    pub uptime_ms: u64,
    /// Pushes.
    pub push: VerbEvent,
    /// Pops.
    pub pop: VerbEvent,
    /// Acknowledgements.
    pub ack: VerbEvent,
    /// Transactions.
    pub transaction: VerbEvent,
    /// Acknowledgements refused one by one.
    pub acks_rejected: u64,
    /// Messages that became dead letters.
    pub dead_lettered: u64,
    /// Dead letters sent back.
    pub redriven: u64,
    /// Pops that wait now.
    pub waiting: usize,
    /// How many wakes there were, by what rang.
    pub wakes: BTreeMap<&'static str, u64>,
    /// From wake to answer in the second that ended.
    pub wake: Option<LatencyEvent>,
    /// How long pushes took in the second that ended.
    pub push_latency: Option<LatencyEvent>,
    /// How long acknowledgements took in the second that ended.
    pub ack_latency: Option<LatencyEvent>,
    /// The store.
    pub store: StoreEvent<'a>,
    /// How well other servers are heard.
    pub hearing: &'static str,
    /// What they are heard by.
    pub carriers: Vec<CarrierEntry<'a>>,
    /// What waits in the inbox, if the store has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inbox: Option<InboxEntry<'a>>,
    /// Pushes are in maintenance.
    pub push_maintenance: bool,
    /// Pops are in maintenance.
    pub pop_maintenance: bool,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Microseconds of processor time since the start.
    pub cpu_us: u64,
}

/// One verb, since the start.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct VerbEvent {
    /// Requests.
    pub requests: u64,
    /// Messages in them.
    pub messages: u64,
    /// Requests refused as a whole.
    pub refused: u64,
}

/// Durations of a second, in milliseconds. Where in a bucket of the histogram they lie is guessed evenly.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LatencyEvent {
    /// How many there were.
    pub count: u64,
    /// Half took no longer.
    pub p50: f64,
    /// 99 of 100 took no longer.
    pub p99: f64,
}

/// The store, as the event `server` tells of it.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct StoreEvent<'a> {
    /// Which one.
    pub engine: &'a str,
    /// The last call was answered.
    pub connected: bool,
    /// Calls so far.
    pub calls: u64,
    /// Calls without an answer.
    pub errors: u64,
}

/// The event `queues`: what moved in the second that ended, on the server that answers.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueuesEvent<'a> {
    /// When it ended.
    pub at: Millis,
    /// Milliseconds since the event before.
    pub elapsed_ms: u64,
    /// Queues that something happened on, the busiest first.
    pub queues: Vec<QueueMoved<'a>>,
    /// There were more.
    pub truncated: bool,
}

/// What happened on a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct QueueMoved<'a> {
    /// Its name.
    pub name: &'a str,
    /// Messages pushed.
    pub pushed: u64,
    /// Messages delivered.
    pub popped: u64,
    /// Messages acknowledged.
    pub acked: u64,
    /// Pops that wait there now.
    pub waiting: usize,
}
