//! What travels and what is heard: the words of the bell's two sides.
//!
//! The carriers know nothing of queues. What moved is a [`Tiding`] of the caller's making; what comes in is either
//! tidings of others or the advice to look at everything once, because something may have been missed.

use std::fmt;
use std::hash::Hash;

/// One thing that moved. Small, hashable; opaque to the carriers.
pub trait Tiding: Clone + Eq + Hash + Send + Sync + 'static {
    /// Append the encoded form, at least one byte.
    fn encode(&self, out: &mut Vec<u8>);

    /// Read one from the front of `input`, which moves on. `None`: not understood, so the receiver looks at everything.
    fn decode(input: &mut &[u8]) -> Option<Self>;

    /// What a waiter must have asked for to want this; `None`: everybody wants it.
    fn topic(&self) -> Option<u64>;
}

/// The carrier that brought something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// LISTEN/NOTIFY through the database.
    Notify,
    /// Datagrams from peers.
    Udp,
    /// A transport of the caller's own, by its name.
    Custom(&'static str),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Notify => "notify",
            Self::Udp => "udp",
            Self::Custom(name) => name,
        })
    }
}

/// Something heard from other servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard<T> {
    /// Hints of another server.
    Tidings {
        /// Who brought them.
        source: Source,
        /// What moved.
        tidings: Vec<T>,
    },
    /// Something may have been missed: look at everything once.
    Recheck {
        /// The carrier it happened on.
        source: Source,
        /// Why, in words: "gap", "peer restarted", "peer silent", "new peer", "reconnected", "not understood",
        /// "overflow" or "interest announced".
        reason: &'static str,
    },
    /// The overall state changed.
    Health(Hearing),
}

/// Whether other servers' hints reach this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hearing {
    /// Overall state.
    pub state: HearingState,
    /// At least one carrier is proven whole, so that every hint of every server comes through.
    pub covered: bool,
    /// Grows each time hints may have been missed. While it stays the same and `covered` is true, nothing was.
    pub lapses: u64,
}

/// Who would hear a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// At least one other server, or it cannot be ruled out.
    Somebody,
    /// Answers to the greeting may still come.
    NotKnownYet,
    /// Nobody.
    Nobody,
}

/// How well other servers are heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HearingState {
    /// Every carrier is proven by a recent round trip; with UDP, to every peer.
    Connected,
    /// Some carrier or peer does not answer while another works.
    Degraded,
    /// Nothing works, or no carrier was configured.
    Isolated,
}

impl fmt::Display for HearingState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connected => "connected",
            Self::Degraded => "degraded",
            Self::Isolated => "isolated",
        })
    }
}
