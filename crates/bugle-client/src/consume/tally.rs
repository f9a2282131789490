//! What a consumer did, counted.

use std::ops::AddAssign;

/// What a consumer did until it ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Consumed {
    /// Messages handled, and reported as done.
    pub completed: u64,
    /// Deliveries whose handler failed or panicked.
    pub failed: u64,
    /// Of those, messages that became dead letters.
    pub dead_lettered: u64,
    /// Reports that the server turned down, because the lease was over: these messages come again.
    pub rejected: u64,
    /// Reports that got no answer: these messages may come again.
    pub unanswered: u64,
}

impl AddAssign for Consumed {
    fn add_assign(&mut self, other: Self) {
        self.completed += other.completed;
        self.failed += other.failed;
        self.dead_lettered += other.dead_lettered;
        self.rejected += other.rejected;
        self.unanswered += other.unanswered;
    }
}
