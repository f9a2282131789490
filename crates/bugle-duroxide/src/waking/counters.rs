//! What the waiting room counts.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of a provider since it was made; clones share them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Questions to the database for something to do.
    pub looks: u64,
    /// Those that found nothing.
    pub empty_looks: u64,
    /// Fetches that were spared a question because nothing had happened since the last one found nothing.
    pub looks_spared: u64,
    /// Waiting fetches got up because of an event on this node.
    pub wakes_local: u64,
    /// Because another node told of one.
    pub wakes_remote: u64,
    /// Because an instant came.
    pub wakes_timed: u64,
    /// Because one that got up found more than it could take.
    pub wakes_chained: u64,
    /// Because something may have been missed.
    pub wakes_recheck: u64,
    /// Times that something may have been missed.
    pub rechecks: u64,
    /// Looks made because nobody tells while the listener is down.
    pub polls: u64,
    /// Looks of the fallback.
    pub fallbacks: u64,
    /// Messages inserted by hand that the fallback found.
    pub adopted: u64,
    /// Hints given to other nodes.
    pub hints: u64,
    /// Background tasks that panicked and were started again.
    pub restarts: u64,
    /// Fetches that sit and wait now.
    pub waiting: u64,
}

macro_rules! counters {
    ($($name:ident),*) => {
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: AtomicU64),*
        }

        impl Counters {
            pub(crate) fn stats(&self) -> Stats {
                Stats { $($name: self.$name.load(Ordering::Relaxed),)* waiting: 0 }
            }
        }
    };
}

counters!(
    looks,
    empty_looks,
    looks_spared,
    wakes_local,
    wakes_remote,
    wakes_timed,
    wakes_chained,
    wakes_recheck,
    rechecks,
    polls,
    fallbacks,
    adopted,
    hints,
    restarts
);

/// One more.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
