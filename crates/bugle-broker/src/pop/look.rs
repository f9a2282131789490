//! Looking before claiming: is a planned lane free, what lies there, and is it visible yet?

use std::sync::Arc;

use bugle_store::{Read, Segment};

use crate::api::Refused;
use crate::inner::Inner;
use crate::meters::WakeSource;
use crate::planted::Bug;
use crate::semantics::{lease, visible};
use crate::waiting::Place;

use super::deliver::UNREADABLE_PAUSE;
use super::plan::Plan;
use super::serve::Open;

impl Inner {
    /// Load what the plans lack, then keep only those with something to deliver now.
    pub(super) async fn look(
        self: &Arc<Self>,
        open: &mut [Open],
        plans: &mut Vec<Plan>,
    ) -> Result<(), Refused> {
        // Who does not wait asks, always: another server may have done anything since.
        let waits = |plan: &Plan| plan.cursor.is_none() && open[plan.job].job.deadline.is_some();
        // Where other servers are heard, one of them may have been faster; to lose to it costs more than to ask.
        let alone = || self.bell.status().iter().all(|carrier| carrier.peers.is_empty());
        if plans.iter().any(waits) && alone() {
            plans.iter_mut().filter(|plan| waits(plan)).for_each(|plan| plan.cursor = plan.first_cursor());
        }
        self.resolve(plans).await?;
        plans.retain(|plan| !plan.queue.options.paused || !self.set_aside(plan));
        let mut rest: Vec<u64> = open.iter().map(|o| o.messages).collect();
        plans.retain_mut(|plan| self.fit(plan, &mut rest[plan.job]));
        let unreadable = self.look_inside(open, plans).await?;
        let mut index = 0..;
        plans.retain(|plan| {
            let readable = index.next().is_some_and(|i| !unreadable.contains(&i));
            if !readable {
                self.meters.store_errors.one();
                let epoch = plan.cursor.as_ref().map_or(0, |cursor| cursor.epoch);
                if self.put(plan, Place::Later, epoch) {
                    let at = self.engine.now().latest.plus(UNREADABLE_PAUSE);
                    self.wake_at(&plan.channel, plan.lane.id, at);
                }
            }
            readable
        });
        plans.retain_mut(|plan| {
            plan.segments.is_none() || !visible::hides(&plan.queue.options) || self.unhide(plan)
        });
        let mut bytes: Vec<usize> = open.iter().map(|o| o.bytes).collect();
        for plan in plans.iter_mut().filter(|plan| open[plan.job].job.request.auto_ack) {
            // Committed at delivery: what does not fit must not be part of the claim.
            plan.cut_to(&mut bytes[plan.job], &self.opened);
        }
        Ok(())
    }

    /// The queue is paused: its lanes are hidden until its options change. `false` = they did.
    fn set_aside(self: &Arc<Self>, plan: &Plan) -> bool {
        let now = self.catalog.queue_by_id(plan.queue.id);
        if now.as_ref().is_some_and(|queue| !queue.options.paused) {
            return false;
        }
        let epoch = plan.cursor.as_ref().map_or(0, |cursor| cursor.epoch);
        if self.put(plan, Place::Later, epoch) {
            self.ring_if_changed(plan);
        }
        true
    }

    /// Options that changed meanwhile found the lane being claimed and passed it over.
    fn ring_if_changed(self: &Arc<Self>, plan: &Plan) {
        let now = self.catalog.queue_by_id(plan.queue.id);
        if now.is_some_and(|queue| queue.version != plan.queue.version && !queue.options.paused) {
            self.ring(&plan.channel, plan.lane.id, WakeSource::Local);
        }
    }

    /// Read the messages of plans whose claim depends on them: hidden by time, or committed at delivery. Answers those that
    /// cannot be read.
    async fn look_inside(&self, open: &[Open], plans: &mut [Plan]) -> Result<Vec<usize>, Refused> {
        let mut looking = Vec::new();
        for (i, plan) in plans.iter_mut().enumerate() {
            if visible::hides(&plan.queue.options) {
                looking.push(i);
            } else if open[plan.job].job.request.auto_ack {
                plan.segments = plan.lane.cached(plan.from, plan.to);
                if plan.segments.is_none() {
                    looking.push(i);
                }
            }
        }
        if looking.is_empty() {
            return Ok(Vec::new());
        }
        let reads: Vec<Read> = looking
            .iter()
            .map(|i| &plans[*i])
            .map(|p| Read {
                lane: p.lane.id,
                from: p.from,
                to: p.to.max(p.from + 101),
                max_bytes: self.config.pop_max_bytes,
            })
            .collect();
        let (looked, mut unreadable) = (self.read_each(reads).await?, Vec::new());
        for (i, segments) in looking.into_iter().zip(looked) {
            let first = segments.as_ref().map(|segments| segments.first());
            let opens = |first: &Segment| self.opened.open(plans[i].lane.id, first).is_ok();
            if first.is_some_and(|first| first.is_none_or(opens)) {
                plans[i].segments = segments;
            } else {
                unreadable.push(i);
            }
        }
        Ok(unreadable)
    }

    /// Read; one that cannot be read does not take the others along.
    async fn read_each(&self, reads: Vec<Read>) -> Result<Vec<Option<Vec<Segment>>>, Refused> {
        let whole = match self.engine.read(reads.clone()).await {
            Err(error) if self.engine.ping().await.is_ok() => error,
            answer => return self.watch(answer).map(|all| all.into_iter().map(Some).collect()),
        };
        tracing::error!(reason = %whole.reason, "messages cannot be read; their lanes stay where they are");
        let mut out = Vec::with_capacity(reads.len());
        for read in reads {
            out.push(self.engine.read(vec![read]).await.ok().and_then(|mut one| one.pop()));
        }
        Ok(out)
    }

    /// Is the lane free, and what lies there? `false` puts it where it belongs.
    pub(super) fn fit(self: &Arc<Self>, plan: &mut Plan, rest: &mut u64) -> bool {
        let cursor = plan.cursor.as_ref().expect("resolved above");
        let epoch = cursor.epoch;
        if let Err(at) = lease::free_at(cursor, self.engine.now())
            && !Bug::DuplicateLease.is_chosen()
        {
            if self.put(plan, Place::Leased, epoch) {
                self.wake_at(&plan.channel, plan.lane.id, at);
            }
            return false;
        }
        let mut state = plan.channel.state.lock();
        let entry = state.entry(&plan.lane);
        let (head, tail) = plan.lane.bounds();
        plan.from = cursor.committed.max(tail);
        if head <= plan.from {
            if entry.knows_better(epoch) {
                drop(state);
                self.claim_overtaken(plan);
                return false;
            }
            entry.place = Place::Idle;
            entry.cursor = plan.cursor.clone().filter(|c| c.epoch > 0);
            return false;
        }
        if *rest == 0 {
            drop(state);
            self.put(plan, Place::Idle, epoch);
            self.ring(&plan.channel, plan.lane.id, WakeSource::Local);
            return false;
        }
        plan.expired_from = plan.from;
        if plan.channel.record.conflation {
            // Only the newest counts; claiming it passes over what it replaces. Which one that is, time may decide.
            if !visible::hides(&plan.queue.options) {
                plan.from = head - 1;
                plan.expired_from = plan.from;
            }
            plan.to = head;
            *rest -= 1;
            return true;
        }
        plan.to = head.min(plan.from + *rest);
        *rest -= plan.to - plan.from;
        true
    }

    /// Apply delay, window and ttl to a lane of a queue that hides messages by time.
    pub(super) fn unhide(self: &Arc<Self>, plan: &mut Plan) -> bool {
        let now = self.engine.now().earliest;
        let epoch = plan.cursor.as_ref().map_or(0, |cursor| cursor.epoch);
        let segments = plan.segments.as_deref().unwrap_or_default();
        let pending: Vec<_> = segments.iter().map(|s| (s.base, s.count, s.created_at)).collect();
        let options = &plan.queue.options;
        plan.from = visible::expired_until(options, plan.from, &pending, now);
        plan.to = plan.to.max(plan.from);
        match visible::visible(options, &plan.lane.view(), plan.from, &pending, now) {
            visible::Visible::Until(end) => {
                plan.to = plan.to.min(end).max(plan.from);
                if plan.channel.record.conflation && plan.to > plan.from {
                    (plan.expired_from, plan.from) = (plan.to - 1, plan.to - 1);
                    // The look may not have reached so far; then it is read with the claim.
                    let reached = segments.last().is_some_and(|last| last.end() >= plan.to);
                    plan.segments = plan.segments.take().filter(|_| reached);
                }
                true
            }
            _ if plan.from > plan.expired_from => {
                plan.to = plan.from;
                true
            }
            visible::Visible::NotBefore(at) => {
                if !self.put(plan, Place::Later, epoch) {
                    return false;
                }
                self.wake_at(&plan.channel, plan.lane.id, at);
                self.ring_if_changed(plan);
                false
            }
            visible::Visible::Nothing => {
                self.put(plan, Place::Idle, epoch);
                false
            }
        }
    }
}
