//! All numbers of a broker at one moment, as plain data.

use std::sync::Arc;
use std::time::Duration;

use bugle_store::{SpoolState, Switches};
use bugle_wake::{CarrierStatus, Hearing};

use super::{HistogramReading, WakeSource};

/// See the module.
#[derive(Clone, Debug)]
pub struct Reading {
    /// Since the broker was opened.
    pub uptime: Duration,
    /// Pushes.
    pub push: VerbReading,
    /// Pops, waiting or not.
    pub pop: VerbReading,
    /// Acknowledgements.
    pub ack: VerbReading,
    /// Transactions.
    pub transact: VerbReading,
    /// Acknowledgements that were refused one by one.
    pub acks_rejected: u64,
    /// Messages that became dead letters.
    pub dead_lettered: u64,
    /// Dead letters that went back to a queue.
    pub redriven: u64,
    /// What operators have switched.
    pub switches: Switches,
    /// The spool.
    pub spool: SpoolReading,
    /// The inbox, if the store has one.
    pub inbox: Option<InboxReading>,
    /// Pops that wait.
    pub waiting: WaitingReading,
    /// Exchanges of cursors on behalf of pops.
    pub claims: ClaimReading,
    /// The floor's checks, by waiting key.
    pub pending: PendingReading,
    /// The floor.
    pub floor: FloorReading,
    /// The store.
    pub store: StoreReading,
    /// Compression of segments.
    pub packing: PackingReading,
    /// Whether other servers are heard.
    pub hearing: Hearing,
    /// Each carrier.
    pub carriers: Vec<CarrierStatus>,
    /// Queues that had traffic on this server, the busiest first; left empty unless asked for. The last of very many
    /// are counted together as `other`.
    pub queues: Vec<QueueReading>,
}

/// The spool.
#[derive(Clone, Debug)]
pub struct SpoolReading {
    /// How it is.
    pub state: SpoolState,
    /// Messages that went into it.
    pub spooled: u64,
    /// Messages that went from it into the store.
    pub drained: u64,
}

/// The inbox.
#[derive(Clone, Debug)]
pub struct InboxReading {
    /// Messages this server has moved into their queues.
    pub stored: u64,
    /// Messages that were there already.
    pub duplicates: u64,
    /// Tries that failed.
    pub failures: u64,
    /// Rows that wait, as last counted here, up to a bound.
    pub waiting: u64,
    /// Age of the oldest of those.
    pub oldest: Duration,
    /// Queues that refuse: they are full, or there is no key to encrypt for them.
    pub blocked: usize,
    /// Some of those by name, the longest blocked first.
    pub blocked_queues: Vec<BlockedQueue>,
    /// From the writing of the oldest row of a batch to its being moved.
    pub delay: HistogramReading,
}

/// A queue whose messages wait in the inbox because it refuses them.
#[derive(Clone, Debug)]
pub struct BlockedQueue {
    /// Its name.
    pub queue: Arc<str>,
    /// Why it refused last.
    pub reason: String,
    /// For so long.
    pub since: Duration,
}

/// Compression of segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PackingReading {
    /// Bytes of bodies that are stored compressed, before.
    pub before: u64,
    /// Bytes of the same, after.
    pub after: u64,
    /// Tries that did not pay.
    pub unpaid: u64,
}

/// One verb.
#[derive(Clone, Debug)]
pub struct VerbReading {
    /// Requests.
    pub requests: u64,
    /// Messages pushed, delivered or acknowledged.
    pub messages: u64,
    /// Requests that were refused as a whole.
    pub refused: u64,
    /// Items that wait for a store call now.
    pub queued: usize,
    /// How long requests took; not counted for pops, which wait because they are told to.
    pub took: HistogramReading,
}

/// Waiting pops.
#[derive(Clone, Debug)]
pub struct WaitingReading {
    /// Pops with `wait=true` that are here now, parked or being served.
    pub waiting: usize,
    /// Of those: parked.
    pub parked: usize,
    /// Pops with `wait=true` that ever came.
    pub registered: u64,
    /// That got messages.
    pub served: u64,
    /// That ended at their deadline.
    pub expired: u64,
    /// Whose client went away.
    pub cancelled: u64,
    /// (queue, partition or any, group) and filters with somebody parked.
    pub keys: usize,
    /// Keys whose claim is running.
    pub keys_in_flight: usize,
    /// Keys that the floor found empty at least `threshold` times in a row.
    pub keys_backed_off: usize,
    /// Independently locked parts of the registry.
    pub shards: usize,
    /// By what woke them.
    pub wakes: [(WakeSource, u64); 5],
    /// How long those who got messages had waited.
    pub mean_wait: Duration,
    /// From the last wake to the answer.
    pub wake_to_delivery: HistogramReading,
}

/// Claims.
#[derive(Clone, Copy, Debug)]
pub struct ClaimReading {
    /// Store calls.
    pub calls: u64,
    /// Pops they were made for.
    pub pops: u64,
    /// Of those: got messages.
    pub served: u64,
    /// Lanes they tried.
    pub lanes: u64,
    /// Lanes lost to somebody else.
    pub lost: u64,
    /// Calls that brought nobody a message.
    pub empty: u64,
    /// Lanes whose messages were still in memory and were not read from the store.
    pub cached: u64,
}

/// The floor's checks.
#[derive(Clone, Copy, Debug)]
pub struct PendingReading {
    /// Keys looked at.
    pub checks: u64,
    /// That had something.
    pub hits: u64,
    /// That had nothing.
    pub misses: u64,
}

/// The floor.
#[derive(Clone, Copy, Debug)]
pub struct FloorReading {
    /// Its interval now.
    pub interval: Duration,
    /// Questions asked.
    pub surveys: u64,
    /// Of those: without an answer.
    pub errors: u64,
}

/// The store.
#[derive(Clone, Copy, Debug)]
pub struct StoreReading {
    /// The last call was answered.
    pub connected: bool,
    /// Calls made.
    pub calls: u64,
    /// Calls without an answer.
    pub errors: u64,
    /// Times it went on on another timeline.
    pub timelines: u64,
    /// Connections in use, if the store has any.
    pub in_use: usize,
    /// Open connections without work.
    pub idle: usize,
    /// Most connections.
    pub max: usize,
}

/// One queue.
#[derive(Clone, Debug)]
pub struct QueueReading {
    /// Its name.
    pub name: Arc<str>,
    /// Messages pushed here.
    pub pushed: u64,
    /// Messages delivered here.
    pub popped: u64,
    /// Messages acknowledged here.
    pub acked: u64,
    /// Pops parked here.
    pub waiting: usize,
    /// Unread messages kept beyond the age at which read ones go, as of the last retention run.
    pub overdue: u64,
}
