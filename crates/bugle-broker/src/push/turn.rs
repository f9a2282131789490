//! A lane's turn to append. However it ends, the lane must be free for the next one: a handler that panics takes its own
//! pushes and those that wait behind them along (they are told that their outcome is unknown), not the lane.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use crate::lanes::LaneState;
use crate::planted::race;

use super::PushJob;

/// Held while an append of the lane is in flight; there is one at a time (`pushing`).
pub(crate) struct Turn {
    /// `None` = it has ended.
    lane: Option<Arc<LaneState>>,
}

impl Turn {
    /// The turn of a lane whose `pushing` was just set.
    pub(super) fn new(lane: Arc<LaneState>) -> Self {
        Self { lane: Some(lane) }
    }

    /// Whose turn it is.
    pub(super) fn lane(&self) -> &Arc<LaneState> {
        self.lane.as_ref().expect("a turn that has ended is not reachable")
    }

    /// End it. Answers the lane if more waits there: then it is its turn again.
    pub(super) fn end(mut self) -> Option<Arc<LaneState>> {
        let lane = self.lane.take()?;
        let more = {
            let mut inner = lane.inner.lock();
            inner.pushing = !inner.waiting.is_empty() && !race("end a turn over those who wait");
            inner.pushing
        };
        more.then_some(lane)
    }

    /// End it and take all that waits.
    pub(super) fn end_all(mut self) -> impl IntoIterator<Item = PushJob> {
        let lane = self.lane.take().expect("a turn that has ended is not reachable");
        let mut inner = lane.inner.lock();
        inner.pushing = false;
        std::mem::take(&mut inner.waiting)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(lane) = self.lane.take() else { return };
        let abandoned = {
            let mut inner = lane.inner.lock();
            (inner.pushing, inner.stale) = (false, true);
            std::mem::take(&mut inner.waiting)
        };
        // Their requests see the answer's sender go away.
        drop(abandoned);
    }
}

/// Run a handler. If it panics, that ends here, so that whoever called goes on with what else there is to do.
pub(super) async fn guarded(handler: impl Future<Output = ()>) {
    let mut handler = pin!(handler);
    let panicked = poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| handler.as_mut().poll(cx))) {
        Ok(poll) => poll.map(|()| false),
        Err(_) => Poll::Ready(true),
    });
    if panicked.await {
        tracing::error!("an append panicked; its pushes were answered as interrupted");
    }
}
