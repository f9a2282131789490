//! What happens before a request reaches a route, counted for the metrics. Copies are one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Counters of the accept loop and of the gate.
#[derive(Clone, Debug, Default)]
pub struct Edge(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    connections: AtomicUsize,
    shed: AtomicU64,
    limited: [AtomicU64; Limit::ALL.len()],
    bodies: AtomicUsize,
    exports: [AtomicU64; Export::ALL.len()],
}

/// What became of telemetry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Export {
    SpansSent,
    SpansDropped,
    TracesSent,
    TracesFailed,
    MetricsSent,
    MetricsFailed,
}

impl Export {
    pub(crate) const ALL: [Self; 6] = [
        Self::SpansSent,
        Self::SpansDropped,
        Self::TracesSent,
        Self::TracesFailed,
        Self::MetricsSent,
        Self::MetricsFailed,
    ];
}

/// A bound that a caller can exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    Requests,
    Messages,
    InFlight,
    Bodies,
}

impl Limit {
    pub(crate) const ALL: [(Self, &'static str); 4] = [
        (Self::Requests, "requests"),
        (Self::Messages, "messages"),
        (Self::InFlight, "in_flight"),
        (Self::Bodies, "bodies"),
    ];
}

/// The counters at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EdgeReading {
    /// Open now.
    pub(crate) connections: usize,
    /// Idle connections closed for the sake of new ones.
    pub(crate) shed: u64,
    /// Requests answered with 429, by limit.
    pub(crate) limited: [u64; Limit::ALL.len()],
    /// Bytes of large bodies that are here.
    pub(crate) bodies: usize,
    /// What became of telemetry.
    pub(crate) exports: [u64; Export::ALL.len()],
}

impl Edge {
    pub(crate) fn opened(&self) {
        self.0.connections.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn closed(&self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn shed(&self, connections: usize) {
        self.0.shed.fetch_add(connections as u64, Ordering::Relaxed);
    }

    pub(crate) fn limited(&self, limit: Limit) {
        self.0.limited[limit as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn exported(&self, what: Export, count: u64) {
        self.0.exports[what as usize].fetch_add(count, Ordering::Relaxed);
    }

    /// Room for so many more bytes of bodies, unless there are more than `most` then. To be given back by
    /// [`Self::leave`].
    pub(crate) fn enter(&self, bytes: usize, most: usize) -> bool {
        let before = self.0.bodies.fetch_add(bytes, Ordering::Relaxed);
        let fits = before.saturating_add(bytes) <= most;
        if !fits {
            self.leave(bytes);
        }
        fits
    }

    pub(crate) fn leave(&self, bytes: usize) {
        self.0.bodies.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> EdgeReading {
        EdgeReading {
            connections: self.0.connections.load(Ordering::Relaxed),
            shed: self.0.shed.load(Ordering::Relaxed),
            limited: std::array::from_fn(|at| self.0.limited[at].load(Ordering::Relaxed)),
            bodies: self.0.bodies.load(Ordering::Relaxed),
            exports: std::array::from_fn(|at| self.0.exports[at].load(Ordering::Relaxed)),
        }
    }
}
