//! Ringing: whatever makes work visible puts the lane into the rings of its groups and hands waiting pops to the
//! dispatcher, as many as there are lanes ready.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use bugle_store::{Lane, LaneId, Timestamp};

use crate::inner::Inner;
use crate::lanes::LaneState;
use crate::meters::WakeSource;
use crate::news::News;
use crate::planted::race;
use crate::pop::PopJob;
use crate::waiting::{Channel, Place};

impl Inner {
    /// Hand waiting pops to the dispatcher.
    pub(crate) fn dispatch(&self, jobs: impl IntoIterator<Item = PopJob>, source: WakeSource) {
        let woken = jobs.into_iter().map(|mut job| {
            job.wake(source);
            // What the floor finds is counted when it is delivered: it also dispatches on suspicion.
            if source != WakeSource::Floor {
                self.meters.woken(source);
            }
            job
        });
        if self.config.priority_dispatch {
            self.pops().offer_urgent(woken);
        } else {
            self.pops().offer_again(woken);
        }
    }

    /// Have waiting pops ask the store, whatever they know.
    pub(crate) fn ask_again(&self, mut jobs: Vec<PopJob>, source: WakeSource) {
        jobs.iter_mut().for_each(|job| job.asked = false);
        self.dispatch(jobs, source);
    }

    /// This server committed something to a lane: it and the others have something to read.
    pub(crate) fn lane_committed(self: &Arc<Self>, lane: &Arc<LaneState>) {
        self.lane_written(lane, WakeSource::Local);
        self.tell(News::Written { queue: lane.queue, lane: lane.id });
    }

    /// There is something new in a lane: every group of its queue may read it.
    pub(crate) fn lane_written(self: &Arc<Self>, lane: &Arc<LaneState>, source: WakeSource) {
        let queue = self.catalog.queue_by_id(lane.queue);
        let window = queue.as_ref().is_some_and(|q| q.options.window_buffer > 0);
        let mut woken = Vec::new();
        for channel in self.channels.of_queue(lane.queue) {
            let mut state = channel.state.lock();
            let most = self.config.max_cached_lanes;
            state.shrink(most);
            let place = state.entry(lane).place;
            let may_be_ready = match place {
                Place::Idle | Place::Ring => true,
                Place::Later => window,
                Place::Claiming | Place::Leased => false,
            };
            if !may_be_ready {
                continue;
            }
            let job = state.make_ready(lane.id);
            drop(state);
            woken.extend(job.or_else(|| self.channels.wake_filter(queue.as_deref()?, &channel.group)));
        }
        if let Some(queue) = &queue {
            let known = |group: &str| self.channels.get(queue.id, group).is_some();
            woken.extend(self.channels.wake_filters_new_to(queue, known));
        }
        self.dispatch(woken, source);
    }

    /// A lane as the store answered it. If it has grown unseen, its consumers are told.
    pub(crate) fn learn_lane(self: &Arc<Self>, lane: &Lane, source: WakeSource) -> Arc<LaneState> {
        let (state, grown) = self.lanes.absorb(lane);
        if grown {
            self.lane_written(&state, source);
        }
        state
    }

    /// Put a lane into a channel's ring and dispatch a pop that waited for it.
    pub(crate) fn ring(self: &Arc<Self>, channel: &Arc<Channel>, lane: LaneId, source: WakeSource) {
        let mut job = {
            let mut state = channel.state.lock();
            // Taken since the caller looked: whoever has it in hand puts it where it belongs.
            if state.is_claimed(lane) && !race("ring a lane that is in hand") {
                return;
            }
            state.make_ready(lane)
        };
        if job.is_none()
            && let Some(queue) = self.catalog.queue_by_id(channel.queue)
        {
            job = self.channels.wake_filter(&queue, &channel.group);
        }
        self.dispatch(job, source);
    }

    /// Wake a lane of a channel at a time of the store's clock.
    pub(crate) fn wake_at(&self, channel: &Channel, lane: LaneId, at: Timestamp) {
        let wait = at.since(self.engine.now().earliest) + Duration::from_millis(1);
        self.timers.set((channel.no, lane), Instant::now() + wait);
    }

    /// Background task: lanes that become ready by the clock.
    pub(crate) async fn run_timers(self: Arc<Self>) {
        loop {
            let due = tokio::select! {
                due = self.timers.due() => due,
                () = self.stop.cancelled() => return,
            };
            for (no, lane) in due {
                let Some(channel) = self.channels.by_no(no) else { continue };
                let ripe = channel
                    .state
                    .lock()
                    .entries
                    .get(&lane)
                    .is_some_and(|e| matches!(e.place, Place::Leased | Place::Later));
                if ripe {
                    self.ring(&channel, lane, WakeSource::Timer);
                }
            }
        }
    }
}
