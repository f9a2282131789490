//! How many store calls of one verb may be in flight: a pure function of how much waits.
//!
//! It follows the backlog, not the round-trip time: with group commit a call's delay says nothing about congestion,
//! since calls that arrive together share one fsync.

/// Bounds for calls in flight, and how much backlog justifies one more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    /// Always allowed.
    pub(crate) min: usize,
    /// Never exceeded.
    pub(crate) max: usize,
    /// Backlog per additional call.
    pub(crate) backlog: usize,
    /// Most items in one call.
    pub(crate) batch: usize,
}

impl Limit {
    /// Calls allowed in flight while `queued` items wait and `slow` of the calls take long.
    pub(crate) fn allowed(&self, queued: usize, slow: usize) -> usize {
        (self.min + slow + queued / self.backlog.max(1)).clamp(1, self.max.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_with_the_backlog_between_its_bounds() {
        let limit = Limit { min: 2, max: 5, backlog: 10, batch: 100 };
        assert_eq!(limit.allowed(0, 0), 2);
        assert_eq!(limit.allowed(9, 0), 2);
        assert_eq!(limit.allowed(10, 0), 3);
        assert_eq!(limit.allowed(0, 1), 3);
        assert_eq!(limit.allowed(1000, 0), 5);
        assert_eq!(limit.allowed(10, 1000), 5);
    }
}
