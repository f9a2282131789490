//! Holding: a waiting pop of a queue with `minPopWaitTime` that finds too few messages for its batch lets more come, without
//! claiming any. It stands beside those that are parked: each lane that becomes ready has it look again, and its time ends by
//! a timer, or with its own wait. Filter pops are never held.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::api::PopTarget;
use crate::inner::Inner;
use crate::meters::WakeSource;
use crate::semantics::hold::{Found, hold};
use crate::waiting::Channel;

use super::PopJob;
use super::ask::named_lane;
use super::serve::Open;

impl PopJob {
    fn begin_hold(&mut self) {
        let after = u32::try_from(self.came.elapsed().as_millis()).unwrap_or(u32::MAX);
        self.held = self.held.or(NonZeroU32::new(after.saturating_add(1)));
    }

    fn held_since(&self) -> Option<Instant> {
        self.held.map(|after| self.came + Duration::from_millis(u64::from(after.get() - 1)))
    }
}

impl Inner {
    /// Until when to let a job's batch grow; `None` = serve it now.
    pub(super) fn holds_until(&self, open: &mut Open) -> Option<Instant> {
        let (queue, channel) = open.channels.first()?;
        let (min, deadline) = (queue.options.min_pop_wait_time, open.job.deadline?);
        if min == 0 || matches!(open.job.request.target, PopTarget::Filter { .. }) {
            return None;
        }
        let lane = named_lane(&open.job.request.target, queue);
        let available = channel.state.lock().available(lane, open.terms.batch, open.terms.partitions);
        if available == 0 {
            open.job.held = None;
            return None;
        }
        let now = Instant::now();
        let found = Found {
            available,
            batch: open.terms.batch,
            waited: open.job.held_since().map_or(Duration::ZERO, |since| now.duration_since(since)),
            left: deadline.saturating_duration_since(now),
        };
        hold(min, found).map(|rest| now + rest)
    }

    /// Let a job wait for more, unless more came meanwhile.
    pub(super) fn hold_job(self: &Arc<Self>, open: Open, until: Instant) {
        let Open { mut job, channels, terms, .. } = open;
        let Some((queue, channel)) = channels.first() else { return self.dispatch([job], WakeSource::Local) };
        let lane = named_lane(&job.request.target, queue);
        let (seq, first) = (job.seq, job.held.is_none());
        job.begin_hold();
        let mut state = channel.state.lock();
        if state.closed || state.available(lane, terms.batch, terms.partitions) >= terms.batch {
            drop(state);
            return self.dispatch([job], WakeSource::Local);
        }
        state.hold(lane, job);
        drop(state);
        if first {
            tokio::spawn(self.clone().release_at(channel.clone(), seq, until));
        }
        if self.turns_away() {
            self.answer_waiting();
        }
    }

    async fn release_at(self: Arc<Self>, channel: Arc<Channel>, seq: u64, until: Instant) {
        tokio::select! {
            () = sleep_until(until) => (),
            () = self.stop.cancelled() => return,
        }
        let job = channel.state.lock().release(seq);
        self.dispatch(job, WakeSource::Timer);
    }

    /// The wait of a pop is over. `true` = it was parked, and nothing is on its way to it. One that was held takes what there is.
    pub(super) fn end_wait(self: &Arc<Self>, unparked: Option<PopJob>) -> bool {
        match unparked {
            Some(job) if job.held.is_some() => {
                self.dispatch([job], WakeSource::Timer);
                false
            }
            Some(_) => true,
            None => false,
        }
    }
}
