//! What the broker counts. Counters are plain atomics, moved where the thing happens; [`Reading`] is a copy of all of
//! them at one moment, for whoever prints them.
//!
//! Counting costs a relaxed add. What can be derived (gauges of queues and registries) is looked up when it is read.

mod histogram;
mod queues;
mod reading;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

pub use histogram::HistogramReading;
pub use reading::{
    BlockedQueue, ClaimReading, FloorReading, InboxReading, PackingReading, PendingReading, QueueReading,
    Reading, SpoolReading, StoreReading, VerbReading, WaitingReading,
};

use histogram::Histogram;
pub(crate) use queues::QueueMeter;
use queues::QueueMeters;

/// What woke a waiting pop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WakeSource {
    /// Something happened on this server.
    Local,
    /// Another server told by PostgreSQL's NOTIFY.
    Notify,
    /// Another server told by UDP.
    Udp,
    /// A delay, window, retry delay or lease ended.
    Timer,
    /// The floor found it in the store.
    Floor,
}

impl WakeSource {
    /// All of them, in the order of [`WaitingReading::wakes`].
    pub const ALL: [Self; 5] = [Self::Local, Self::Notify, Self::Udp, Self::Timer, Self::Floor];

    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Notify => "notify",
            Self::Udp => "udp",
            Self::Timer => "timer",
            Self::Floor => "floor",
        }
    }
}

impl From<bugle_wake::Source> for WakeSource {
    fn from(source: bugle_wake::Source) -> Self {
        match source {
            bugle_wake::Source::Udp => Self::Udp,
            _ => Self::Notify,
        }
    }
}

/// A count that only grows.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn one(&self) {
        self.add(1);
    }

    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Requests of one verb and what they carried.
#[derive(Debug, Default)]
pub(crate) struct Verb {
    pub(crate) requests: Count,
    pub(crate) messages: Count,
    pub(crate) refused: Count,
    /// How long requests took, for verbs that do not wait for messages.
    pub(crate) took: Histogram,
}

/// Compression of segments.
#[derive(Debug, Default)]
pub(crate) struct PackingMeter {
    /// Bytes of bodies that were stored compressed, and what became of them.
    pub(crate) before: Count,
    pub(crate) after: Count,
    /// Tries that did not pay.
    pub(crate) unpaid: Count,
}

impl PackingMeter {
    pub(crate) fn read(&self) -> PackingReading {
        PackingReading { before: self.before.get(), after: self.after.get(), unpaid: self.unpaid.get() }
    }
}

/// All counters of a broker.
#[derive(Debug, Default)]
pub(crate) struct Meters {
    pub(crate) push: Verb,
    pub(crate) pop: Verb,
    pub(crate) ack: Verb,
    pub(crate) transact: Verb,
    /// Pops that got nothing, and acknowledgements that were refused one by one.
    pub(crate) pop_empty: Count,
    pub(crate) ack_failed: Count,
    /// Messages stored, and messages that groups are done with.
    pub(crate) ingested: Count,
    pub(crate) processed: Count,
    /// Dead letters made, and sent back.
    pub(crate) dead_lettered: Count,
    pub(crate) redriven: Count,
    /// Messages that went into the spool, and from it into the store.
    pub(crate) spooled: Count,
    pub(crate) drained: Count,
    /// Messages of the inbox that were stored, or were there already, and tries to move some that failed.
    pub(crate) inbox_stored: Count,
    pub(crate) inbox_duplicates: Count,
    pub(crate) inbox_failures: Count,
    /// From the writing of the oldest row of a batch to its being moved.
    pub(crate) inbox_delay: Histogram,

    /// Waiting pops, by what became of them.
    pub(crate) registered: Count,
    pub(crate) served: Count,
    pub(crate) expired: Count,
    pub(crate) cancelled: Count,
    wakes: [Count; 5],
    /// Microseconds that pops which got messages had waited, and how many those were.
    waited_us: Count,
    wake_to_delivery: Histogram,

    /// Exchanges of cursors on behalf of pops, the pops and lanes in them, and what came back empty-handed.
    pub(crate) claim_calls: Count,
    pub(crate) claim_jobs: Count,
    pub(crate) claim_lanes: Count,
    pub(crate) claims_lost: Count,
    pub(crate) claims_empty: Count,
    pub(crate) claims_cached: Count,
    /// Waiting pops that a claim had messages for.
    pub(crate) claim_served: Count,

    pub(crate) pending_checks: Count,
    pub(crate) pending_hits: Count,
    pub(crate) pending_misses: Count,
    pub(crate) surveys: Count,
    pub(crate) survey_errors: Count,

    pub(crate) store_calls: Count,
    pub(crate) store_errors: Count,
    /// Changes of the store's timeline.
    pub(crate) timelines: Count,
    pub(crate) packing: PackingMeter,
    pub(crate) queues: QueueMeters,
    /// Whoever writes the history sleeps until something is counted.
    still: AtomicBool,
    stirred: Notify,
}

impl Meters {
    /// Something was counted that the history should tell of. Costs a look at a flag, except for the first after a rest.
    pub(crate) fn stir(&self) {
        if self.still.load(Ordering::Relaxed) && self.still.swap(false, Ordering::AcqRel) {
            self.stirred.notify_one();
        }
    }

    /// From now on the next [`Self::stir`] ends [`Self::stirred`].
    pub(crate) fn rest(&self) {
        self.still.store(true, Ordering::SeqCst);
    }

    /// Wait for something to be counted.
    pub(crate) async fn stirred(&self) {
        self.stirred.notified().await;
    }

    pub(crate) fn woken(&self, source: WakeSource) {
        self.wakes[source as usize].one();
    }

    /// A waiting pop got messages `since` it came, and after it was last woken.
    pub(crate) fn delivered(&self, waited: Duration, since_woken: Option<Duration>) {
        self.served.one();
        self.waited_us.add(waited.as_micros() as u64);
        if let Some(since) = since_woken {
            self.wake_to_delivery.record(since);
        }
    }

    pub(crate) fn wakes(&self) -> [(WakeSource, u64); 5] {
        WakeSource::ALL.map(|source| (source, self.wakes[source as usize].get()))
    }

    pub(crate) fn mean_wait(&self) -> Duration {
        let served = self.served.get().max(1);
        Duration::from_micros(self.waited_us.get() / served)
    }

    pub(crate) fn wake_to_delivery(&self) -> HistogramReading {
        self.wake_to_delivery.read()
    }
}

impl Verb {
    /// One request and what came of it.
    pub(crate) fn count<T, E>(&self, answer: &Result<T, E>, messages: impl FnOnce(&T) -> usize) {
        self.requests.one();
        match answer {
            Ok(answer) => self.messages.add(messages(answer) as u64),
            Err(_) => self.refused.one(),
        }
    }

    pub(crate) fn read(&self, queued: usize) -> VerbReading {
        VerbReading {
            requests: self.requests.get(),
            messages: self.messages.get(),
            refused: self.refused.get(),
            queued,
            took: self.took.read(),
        }
    }
}
