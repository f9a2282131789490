//! Following the store into another history.
//!
//! After a failover or a restore the store may know less than this broker has seen of it: heads that were higher, ids that
//! were stored, cursors that had moved on. Offsets and epochs are then given out a second time, for something else. So
//! everything that memory holds of lanes, cursors and the catalog is dropped the moment another timeline is noticed, which is
//! with the first answer from it at the latest; and what was computed from memory before is not stored after.
//!
//! The order makes it exact: the store's count changes first, then memory is emptied, lock by lock. Who looks at the count
//! before he reads memory ([`Inner::timeline`]), and again when the call that changes the store is made but has not begun
//! ([`Inner::change`]), has made it for the history that he read of.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use bugle_store::{Answer, Unavailable};

use crate::inner::Inner;

/// The history that memory is of.
pub(crate) struct Followed {
    seen: AtomicU64,
    turn: Mutex<()>,
    changed: Notify,
}

impl Followed {
    pub(crate) fn new(timeline: u64) -> Self {
        Self { seen: AtomicU64::new(timeline), turn: Mutex::default(), changed: Notify::new() }
    }
}

impl Inner {
    /// The timeline that goes on now; memory holds nothing of an earlier one when this returns.
    pub(crate) fn timeline(&self) -> u64 {
        let now = self.engine.timeline();
        if self.followed.seen.load(Ordering::Acquire) != now {
            self.forget_all(now);
        }
        now
    }

    /// Make a change that was computed from what memory held on this timeline.
    pub(crate) async fn change<T>(&self, timeline: u64, call: Answer<'_, T>) -> Result<T, Unavailable> {
        // The call is for the timeline on which it was made. The count only grows: if it is still the one from before the
        // call was made, it was the same then.
        if self.engine.timeline() != timeline {
            return Err(Unavailable::new("the store went on on another timeline"));
        }
        call.await
    }

    fn forget_all(&self, now: u64) {
        let _turn = self.followed.turn.lock();
        if self.followed.seen.load(Ordering::Acquire) >= now {
            return;
        }
        self.lanes.forget_all();
        self.channels.all().iter().for_each(|channel| channel.state.lock().forget());
        self.catalog.distrust();
        self.floor.start_over();
        self.followed.seen.store(now, Ordering::Release);
        self.meters.timelines.one();
        self.meters.stir();
        tracing::warn!("the store went on on another timeline: everything is asked for again");
        self.followed.changed.notify_one();
    }

    /// Background task: after memory was emptied, read the catalog and let everybody who waits ask.
    pub(crate) async fn run_timelines(self: Arc<Self>) {
        loop {
            tokio::select! {
                () = self.followed.changed.notified() => (),
                () = self.stop.cancelled() => return,
            }
            self.stale_catalog();
            self.recover();
        }
    }
}
