//! Faults on purpose, for two tests: that of the history checker, which must find each [`Bug`] under real load, and the models of
//! concurrency, which must find each [`race`].
//!
//! Without the feature `planted-bugs` every question here is answered `false` at compile time, and nothing is left of them.
//! With it `BUGLE_PLANTED_BUG` chooses one.

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// A push is acknowledged, but one of its messages is not stored.
    DroppedMessage,
    /// A lane is handed out although somebody holds it.
    DuplicateLease,
    /// Messages of a push are stored in another order.
    ReorderedLane,
    /// An acknowledgement is confirmed, but its message comes again.
    ResurrectedAck,
    /// Of a transaction only the acknowledgements are stored.
    HalfTransaction,
    /// What was committed after a delivery is passed over when the delivery is acknowledged.
    SkippedLateCommit,
    /// An acknowledgement is taken under a lease that another has replaced.
    StaleAck,
}

/// Whether this race is to happen, for the models in `models/`, which must find each of them. Outside of a model's build the
/// answer is known at compile time, and nothing is left of the question.
#[cfg(not(bugle_model))]
pub(crate) const fn race(_name: &str) -> bool {
    false
}

#[cfg(bugle_model)]
pub(crate) use tokio::model::is_planted as race;

#[cfg(not(feature = "planted-bugs"))]
impl Bug {
    /// Whether it is chosen.
    pub(crate) const fn is_chosen(self) -> bool {
        false
    }

    /// Whether it happens this time.
    pub(crate) const fn strikes(self) -> bool {
        false
    }
}

#[cfg(feature = "planted-bugs")]
mod chosen {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::Bug;

    /// It happens one time in so many.
    const EVERY: u64 = 2;

    static CHOSEN: OnceLock<Option<Bug>> = OnceLock::new();
    static CHANCES: AtomicU64 = AtomicU64::new(0);

    impl Bug {
        /// Whether it is chosen.
        pub(crate) fn is_chosen(self) -> bool {
            *CHOSEN.get_or_init(choose) == Some(self)
        }

        /// Whether it happens this time.
        pub(crate) fn strikes(self) -> bool {
            self.is_chosen() && CHANCES.fetch_add(1, Ordering::Relaxed) % EVERY == EVERY - 1
        }
    }

    fn choose() -> Option<Bug> {
        let name = std::env::var("BUGLE_PLANTED_BUG").ok()?;
        let bug = match &*name {
            "dropped-message" => Bug::DroppedMessage,
            "duplicate-lease" => Bug::DuplicateLease,
            "reordered-lane" => Bug::ReorderedLane,
            "resurrected-ack" => Bug::ResurrectedAck,
            "half-transaction" => Bug::HalfTransaction,
            "skipped-late-commit" => Bug::SkippedLateCommit,
            "stale-ack" => Bug::StaleAck,
            _ => {
                tracing::error!(name, "there is no such planted bug");
                return None;
            }
        };
        tracing::error!(name, "THIS SERVER LOSES AND REPEATS MESSAGES ON PURPOSE");
        Some(bug)
    }
}
