//! How a bell behaves. The defaults are meant to be kept; tests shorten them.

use std::time::Duration;

/// How a bell behaves.
#[derive(Clone, Debug)]
pub struct BellOptions {
    /// A name that stays the same when the server starts again; for logs, and to tell a restart from a newcomer.
    /// At most 64 bytes are used; may be empty.
    pub name: String,
    /// Shortest time between two flushes. The first hint of a burst goes at once.
    pub coalesce: Duration,
    /// A burst is followed by one frame that repeats the sequence, so that a lost last hint is found.
    pub trailing: Duration,
    /// How long a topic stays wanted after the last waiter left.
    pub linger: Duration,
    /// Most hints kept for the next flush; above it one advice to re-check replaces them.
    pub max_pending: usize,
    /// Between two proofs of health through the database.
    pub ping: Duration,
    /// Between two proofs of health of a UDP peer.
    pub udp_ping: Duration,
    /// An unanswered ping is repeated after this time.
    pub ping_retry: Duration,
    /// Without an answer for this long the carrier or peer counts as unhealthy.
    pub ping_timeout: Duration,
    /// How long a frame that others overtook may take before it counts as lost.
    pub reorder: Duration,
    /// Re-checks within this time become one.
    pub recheck_every: Duration,
    /// How long peers may take to confirm what is wanted here before a re-check is advised all the same.
    pub confirm: Duration,
    /// Things heard and not yet taken; above it they become one advice to re-check.
    pub heard: usize,
}

impl Default for BellOptions {
    fn default() -> Self {
        Self {
            name: String::new(),
            coalesce: Duration::from_millis(5),
            trailing: Duration::from_secs(1),
            linger: Duration::from_secs(60),
            max_pending: 4096,
            ping: Duration::from_secs(30),
            udp_ping: Duration::from_secs(5),
            ping_retry: Duration::from_secs(1),
            ping_timeout: Duration::from_secs(2),
            reorder: Duration::from_millis(50),
            recheck_every: Duration::from_millis(100),
            confirm: Duration::from_secs(1),
            heard: 1024,
        }
    }
}
