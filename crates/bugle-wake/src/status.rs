//! What health pages and metrics show of a carrier.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::hint::{HearingState, Source};

/// One carrier as it stands.
#[derive(Clone, Debug)]
pub struct CarrierStatus {
    /// Which carrier.
    pub source: Source,
    /// Its own state: connected when proven, degraded when only some peers answer.
    pub state: HearingState,
    /// Other servers: those heard through the database, or those configured for UDP.
    pub peers: Vec<PeerStatus>,
    /// The latest round trip of a ping.
    pub round_trip: Option<Duration>,
    /// Frames sent.
    pub sent: u64,
    /// Frames of others taken in.
    pub received: u64,
    /// Frames that could not be sent.
    pub send_failed: u64,
    /// Frames dropped, by reason.
    pub dropped: Dropped,
    /// Times that frames were missing.
    pub gaps: u64,
    /// Times that the connection was made again.
    pub reconnects: u64,
}

/// One other server.
#[derive(Clone, Debug)]
pub struct PeerStatus {
    /// Its name, or its address as configured.
    pub name: String,
    /// Whether it was heard lately, or answers pings.
    pub healthy: bool,
    /// The latest round trip to it, where it is pinged by itself.
    pub round_trip: Option<Duration>,
    /// Since it was heard last.
    pub silent_for: Option<Duration>,
}

/// Frames dropped, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Not signed with the shared secret.
    pub forged: u64,
    /// Of no known shape.
    pub malformed: u64,
    /// Seen before.
    pub replayed: u64,
    /// Too old, or from too far in the future.
    pub stale: u64,
    /// This server's own.
    pub own: u64,
}

/// Why a frame was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// Not signed with the shared secret.
    Forged,
    /// Of no known shape.
    Malformed,
    /// Seen before.
    Replayed,
    /// Too old, or from too far in the future.
    Stale,
    /// This server's own.
    Own,
}

/// Counts what a carrier does.
#[derive(Debug, Default)]
pub struct Counters {
    pub(crate) sent: AtomicU64,
    pub(crate) received: AtomicU64,
    pub(crate) send_failed: AtomicU64,
    pub(crate) gaps: AtomicU64,
    pub(crate) reconnects: AtomicU64,
    forged: AtomicU64,
    malformed: AtomicU64,
    replayed: AtomicU64,
    stale: AtomicU64,
    own: AtomicU64,
}

impl Counters {
    /// Count one dropped frame.
    pub fn dropped(&self, reason: DropReason) {
        add(match reason {
            DropReason::Forged => &self.forged,
            DropReason::Malformed => &self.malformed,
            DropReason::Replayed => &self.replayed,
            DropReason::Stale => &self.stale,
            DropReason::Own => &self.own,
        });
    }

    pub(crate) fn all_dropped(&self) -> Dropped {
        Dropped {
            forged: get(&self.forged),
            malformed: get(&self.malformed),
            replayed: get(&self.replayed),
            stale: get(&self.stale),
            own: get(&self.own),
        }
    }
}

pub(crate) fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

pub(crate) fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
