//! `/`, `/health` and what the server tells of itself.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::time::Millis;

/// `GET /`.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Greeting {
    /// Always `bugle`.
    pub server: &'static str,
    /// Of the server.
    pub version: &'static str,
    /// Where the API begins.
    pub api: &'static str,
    /// Where to ask for health.
    pub health: &'static str,
    /// Where the API is described for people.
    pub docs: &'static str,
    /// Where the API is described for programs.
    pub openapi: &'static str,
}

/// `GET /health/live` and `/health/ready`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StatusAnswer {
    /// In one word.
    #[schemars(extend("enum" = ["alive", "ready", "draining", "stopped"]))]
    pub status: &'static str,
    /// Why the store has stopped, if it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `GET /health`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HealthAnswer<'a> {
    /// In one word.
    #[schemars(extend("enum" = ["healthy", "unhealthy"]))]
    pub status: &'static str,
    /// The store, under the name older clients know it by.
    #[schemars(extend("enum" = ["connected", "disconnected"]))]
    pub database: &'static str,
    /// Always `bugle`.
    pub server: &'static str,
    /// Of the server.
    pub version: &'static str,
    /// The store.
    pub store: StoreEntry<'a>,
    /// Pops that wait now.
    pub waiting: usize,
    /// How well other servers are heard.
    #[schemars(extend("enum" = ["connected", "degraded", "isolated", "none"]))]
    pub hearing: &'static str,
    /// What they are heard by.
    pub carriers: Vec<CarrierEntry<'a>>,
    /// What waits in the inbox, if the store has one. A queue that is blocked makes no server unhealthy: any other would be
    /// refused as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inbox: Option<InboxEntry<'a>>,
    /// The same in the words older clients know.
    pub shared_state: SharedInShort,
}

/// The inbox: messages that applications pushed in their own transactions, on their way into queues. As this server last
/// saw it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InboxEntry<'a> {
    /// Messages that wait there, counted up to a bound.
    pub waiting: u64,
    /// Milliseconds that the oldest of them has waited.
    pub oldest_ms: f64,
    /// Queues that take nothing from it now.
    pub blocked: usize,
    /// Those of them that have been so longest, at most 20.
    pub blocked_queues: Vec<BlockedEntry<'a>>,
}

/// A queue that takes nothing from the inbox.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlockedEntry<'a> {
    /// Its name.
    pub queue: &'a str,
    /// Why: it is full, or there is no key to encrypt for it.
    pub reason: &'a str,
    /// Milliseconds since it began.
    pub blocked_for_ms: f64,
}

/// The store, as `/health` tells of it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StoreEntry<'a> {
    /// Which one.
    pub engine: &'a str,
    /// It answers.
    pub connected: bool,
    /// The latest failure, mended or not.
    pub last_error: Option<String>,
    /// When that was.
    pub last_error_at: Option<Millis>,
}

/// Something by which other servers are heard.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CarrierEntry<'a> {
    /// `notify` or `udp`.
    pub name: String,
    /// How well.
    pub state: String,
    /// The other servers.
    pub peers: Vec<PeerEntry<'a>>,
    /// Milliseconds that the latest ping took.
    pub last_round_trip_ms: Option<f64>,
}

/// Another server.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PeerEntry<'a> {
    /// Its name.
    pub name: &'a str,
    /// It is heard.
    pub healthy: bool,
    /// Milliseconds that its latest ping took.
    pub last_round_trip_ms: Option<f64>,
    /// Milliseconds since it was heard last.
    pub silent_for_ms: Option<f64>,
}

/// `GET /metrics` as JSON. Rates are per second since the start: a rate since the last look would depend on who else
/// looks. Sizes of a virtual machine's heap are 0: there is none.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct MetricsSummary {
    /// Seconds since the start.
    pub uptime: f64,
    /// Requests that push, pop, acknowledge or transact.
    pub requests: Counted,
    /// Messages in them.
    pub messages: Counted,
    /// Connections to the store.
    pub database: DatabaseUse,
    /// Bytes.
    pub memory: MemoryUse,
    /// Microseconds of processor time since the start.
    pub cpu: CpuUse,
}

/// A count since the start.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Counted {
    /// So many.
    pub total: u64,
    /// Per second.
    pub rate: f64,
}

/// Connections to the store.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DatabaseUse {
    /// At most.
    pub pool_size: usize,
    /// Doing nothing.
    pub idle_connections: usize,
    /// Calls that wait for one.
    pub waiting_requests: usize,
}

/// Bytes of memory.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemoryUse {
    /// Resident.
    pub rss: u64,
    /// Always 0.
    pub heap_total: u64,
    /// Always 0.
    pub heap_used: u64,
    /// Always 0.
    pub external: u64,
    /// Always 0.
    pub array_buffers: u64,
}

/// Microseconds of processor time.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct CpuUse {
    /// In the server.
    pub user: u64,
    /// In the system, on its behalf.
    pub system: u64,
}

/// `GET /api/v1/system/shared-state`. The names with underscores are those existing dashboards know.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SharedState<'a> {
    /// How servers hear each other.
    #[serde(flatten)]
    pub between: BetweenServers<'a>,
    /// Pushes go into the spool.
    pub maintenance_mode: bool,
    /// Pops get nothing.
    pub pop_maintenance_mode: bool,
    /// What waits in the inbox, if the store has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inbox: Option<InboxEntry<'a>>,
    /// Parts of the registry of waiting pops.
    pub local_sidecars: usize,
    /// What pops wait for.
    pub group_backoff: BackoffCount,
    /// Waiting pops.
    pub waiters: WaiterCount,
    /// Waiting pops that were woken, by what woke them.
    pub wakes: BTreeMap<&'static str, u64>,
    /// Pops per call to the store.
    pub pop_batch_size: f64,
    /// Calls to the store for pops.
    pub pop_batch_count: u64,
    /// Pops served per call.
    pub served_per_claim: f64,
    /// Calls that served nobody.
    pub empty_claims: u64,
    /// Looks for messages nobody told of.
    pub has_pending_checks: u64,
    /// Those that found some.
    pub has_pending_hits: u64,
    /// Those that found none.
    pub has_pending_misses: u64,
    /// Mean milliseconds that a pop waited.
    pub mean_wait_ms: f64,
    /// Milliseconds between two looks of the floor.
    pub floor_interval_ms: f64,
}

/// How servers hear each other.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct BetweenServers<'a> {
    /// There are carriers to other servers.
    pub enabled: bool,
    /// One of them works.
    pub running: bool,
    /// How well other servers are heard.
    #[schemars(extend("enum" = ["connected", "degraded", "isolated", "none"]))]
    pub hearing: &'static str,
    /// Frames.
    pub transport: TransportCount,
    /// What other servers are heard by.
    pub carriers: Vec<CarrierEntry<'a>>,
    /// Other servers.
    pub server_health: ServerCount,
}

/// The part of the shared state that `/health` tells to everybody.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct SharedInShort {
    /// There are carriers to other servers.
    pub enabled: bool,
    /// One of them works.
    pub running: bool,
    /// Other servers.
    pub server_health: ServerCount,
    /// Pushes go into the spool.
    pub maintenance_mode: bool,
    /// Pops get nothing.
    pub pop_maintenance_mode: bool,
}

/// Frames between servers.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct TransportCount {
    /// Sent.
    pub sent: u64,
    /// Received.
    pub received: u64,
    /// Received and not used.
    pub dropped: u64,
}

/// Other servers.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct ServerCount {
    /// Known.
    pub servers_tracked: usize,
    /// Heard.
    pub servers_alive: usize,
    /// Not heard.
    pub servers_dead: usize,
}

/// What pops wait for: queues and groups.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct BackoffCount {
    /// All.
    pub groups_tracked: usize,
    /// Asked for at this moment.
    pub groups_in_flight: usize,
    /// Looked for less often, because nothing came.
    pub groups_backed_off: usize,
}

/// Waiting pops.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct WaiterCount {
    /// Now.
    pub waiting: usize,
    /// Now, without anything being done for them.
    pub parked: usize,
    /// Since the start.
    pub registered: u64,
    /// Got messages.
    pub served: u64,
    /// Got none in their time.
    pub expired: u64,
    /// Went away.
    pub cancelled: u64,
}
