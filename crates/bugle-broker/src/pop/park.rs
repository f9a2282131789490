//! The end of a pop: answered, parked until a lane is ready, or parked until the store is back.

use std::sync::Arc;

use bugle_store::{LaneId, Queue};

use crate::api::{Autopilot, PopAnswer, PopTarget, Refused};
use crate::inner::Inner;
use crate::meters::WakeSource;
use crate::planted::race;
use crate::waiting::{Channel, Place};

use super::PopJob;
use super::ask::named_lane;
use super::serve::Open;

impl Inner {
    /// Answer a job, or park it if it has nothing and may wait.
    pub(super) fn conclude(self: &Arc<Self>, open: Open) {
        if open.answer.lanes.is_empty() && open.job.may_wait() && !self.turns_away() {
            self.park(open);
            if self.turns_away() {
                self.answer_waiting();
            }
            return;
        }
        let Open { job, mut answer, claimed, terms, channels, .. } = open;
        if job.request.autopilot {
            answer.autopilot = Some(Autopilot {
                partitions: u32::try_from(terms.partitions).unwrap_or(u32::MAX),
                batch: u32::try_from(terms.batch).unwrap_or(u32::MAX),
                wait_ms: self.engine.now().latest.since(job.began).as_millis() as u64,
            });
        }
        answer.conflation_conflict &= answer.conflation || job.request.conflation;
        if job.deadline.is_some() && !answer.lanes.is_empty() {
            self.meters.delivered(job.came.elapsed(), job.woken.map(|(_, at)| at.elapsed()));
            if job.woken.is_some_and(|(source, _)| source == WakeSource::Floor) {
                self.meters.woken(WakeSource::Floor);
                self.floor.found();
            }
            if self.witness.is_there() {
                self.witness_served(&job, &answer);
            }
            tracing::debug!(request = job.seq, count = answer.count(), "waiting pop served");
        }
        let lease = answer.lease_id;
        if job.reply.send(Ok(answer)).is_err()
            && let Some(lease) = lease
            && !race("keep what a gone client was given")
        {
            self.give_back(claimed, lease);
        }
        for (queue, channel) in channels {
            self.wake_next(&queue, &channel, None);
        }
    }

    /// Wake chain: lanes are left in the ring, so another pop that waits should have them.
    pub(super) fn wake_next(&self, queue: &Queue, channel: &Channel, first: Option<LaneId>) {
        let mut state = channel.state.lock();
        let in_ring = |id: &LaneId| state.entries.get(id).is_some_and(|e| e.place == Place::Ring);
        let Some(ready) = first.filter(in_ring).or_else(|| state.front().map(|e| e.lane.id)) else { return };
        let next = state.make_ready(ready);
        drop(state);
        let next = next.or_else(|| self.channels.wake_filter(queue, &channel.group));
        self.dispatch(next, WakeSource::Local);
    }

    /// A job was woken and its client is gone: wake the next one for the lanes it would have taken.
    pub(super) fn pass_on(&self, gone: &PopJob) {
        let queues = match &gone.request.target {
            PopTarget::Lane { queue, .. } | PopTarget::Queue { queue } => {
                self.catalog.queue(queue).into_iter().collect()
            }
            PopTarget::Filter { .. } => self.catalog.queues_where(|q| gone.wants(q)),
        };
        for queue in queues {
            let Some(channel) = self.channels.get(queue.id, &gone.request.group) else { continue };
            self.wake_next(&queue, &channel, named_lane(&gone.request.target, &queue));
        }
    }

    /// Park a pop that comes where all is known and nothing is there: most of those that come again and again. Gives it
    /// back if it must be served.
    pub(super) fn park_at_once(&self, mut job: PopJob) -> Result<(), PopJob> {
        let (PopTarget::Lane { queue, .. } | PopTarget::Queue { queue }) = &job.request.target else {
            return Err(job);
        };
        if job.deadline.is_none() {
            return Err(job);
        }
        let Some(queue) = self.catalog.queue(queue) else { return Err(job) };
        let Some(channel) = self.channels.get(queue.id, &job.request.group) else { return Err(job) };
        // Before the channel is looked at, see `Channel::heed`.
        job.interests.push(channel.interest());
        let lane = named_lane(&job.request.target, &queue);
        let period = self.period();
        let mut state = channel.state.lock();
        let known = match period {
            Some(period) => state.is_quiet(lane, period),
            None => self.engine.exclusive() && lane.is_none() && state.knows_all(),
        };
        let ready = match lane {
            Some(lane) => state.entries.get(&lane).is_some_and(|e| e.place != Place::Idle),
            None => state.front().is_some(),
        };
        if !known || ready || state.closed {
            return Err(job);
        }
        state.park(lane, job);
        Ok(())
    }

    pub(super) fn park(self: &Arc<Self>, open: Open) {
        let Open { job, channels, .. } = open;
        match (&job.request.target, channels.first()) {
            (PopTarget::Lane { .. } | PopTarget::Queue { .. }, Some((queue, channel))) => {
                let lane = named_lane(&job.request.target, queue);
                let mut state = channel.state.lock();
                let ready = match lane {
                    Some(lane) => state.entries.get(&lane).is_some_and(|e| e.place == Place::Ring),
                    None => state.front().is_some(),
                };
                if state.closed || (ready && !race("park without a last look")) {
                    drop(state);
                    self.dispatch([job], WakeSource::Local);
                } else if job.may_wait() {
                    state.park(lane, job);
                } else {
                    drop(state);
                    self.too_late(job);
                }
            }
            _ => {
                let (seq, request) = (job.seq, job.request.clone());
                let wants = |queue: &Queue| request.target.wants(queue);
                if let Err(job) = self.channels.park_filter(job) {
                    return self.too_late(job);
                }
                // A lane or queue that came before the pop was parked woke nobody.
                let ready = channels.iter().any(|(_, channel)| {
                    let state = channel.state.lock();
                    state.closed || state.front().is_some()
                });
                let known = |queue: &Queue| channels.iter().any(|(q, _)| q.id == queue.id);
                if ready || !self.catalog.queues_where(|q| wants(q) && !known(q)).is_empty() {
                    self.dispatch(self.channels.unpark_filter(seq), WakeSource::Local);
                }
            }
        }
    }

    /// The store cannot be asked: a waiting pop stays parked until it answers again, another one is told. So is one that may
    /// have committed messages by a delivery that cannot be made: served later with others, it would never know.
    pub(super) fn store_away(self: &Arc<Self>, open: Open, refused: &Refused) {
        if !open.answer.lanes.is_empty() {
            return self.conclude(open);
        }
        tracing::debug!(%refused, "pop could not be served");
        if !open.in_doubt && open.job.may_wait() && !self.turns_away() {
            self.park_for_recovery(open);
            if self.turns_away() {
                self.answer_waiting();
            }
        } else {
            let answer = PopAnswer { store_unavailable: true, ..self.nothing_for(&open.job.request) };
            let _ = open.job.reply.send(Ok(answer));
        }
    }

    pub(super) fn park_for_recovery(self: &Arc<Self>, open: Open) {
        let Open { job, channels, .. } = open;
        match (&job.request.target, channels.first()) {
            (PopTarget::Lane { .. } | PopTarget::Queue { .. }, Some((queue, channel))) => {
                let mut state = channel.state.lock();
                if state.closed {
                    // Nobody would find it here: it comes back with the channel's successor.
                    drop(state);
                    self.dispatch([job], WakeSource::Local);
                } else if job.may_wait() {
                    state.park(named_lane(&job.request.target, queue), job);
                } else {
                    drop(state);
                    self.too_late(job);
                }
            }
            _ => {
                if let Err(job) = self.channels.park_filter(job) {
                    self.too_late(job);
                }
            }
        }
        self.recover();
    }

    /// The time of a pop was over when it was about to park: its caller has looked for it here, and will not look again. That
    /// is why the time is looked at under the same lock.
    fn too_late(&self, job: PopJob) {
        let answer = self.nothing_for(&job.request);
        let _ = job.reply.send(Ok(answer));
    }
}
