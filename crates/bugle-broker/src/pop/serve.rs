//! Serving jobs together, in passes, until each is answered or parked.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use uuid::Uuid;

use bugle_store::{
    Cursor, DeadLetter, LaneId, Queue, Read, Segment, Span, Swap, SwapError, Swapped, Timestamp,
};

use crate::api::{Autopilot, PopAnswer, PopTarget, Refused};
use crate::catalog::first_contact;
use crate::inner::Inner;
use crate::semantics::{lease, subscribe, visible};
use crate::waiting::{Channel, Place};

use super::PopJob;
use super::plan::{Plan, Terms, terms};

/// Passes over one batch of jobs: lanes that turn out empty or hidden are passed over without using up a job's terms.
const MAX_PASSES: usize = 64;

/// Claims of one lane with unknown outcomes that are remembered.
const MAX_ORPHANS: usize = 8;

/// A job being served.
pub(super) struct Open {
    pub(super) job: PopJob,
    pub(super) terms: Terms,
    /// Where it may take lanes from; one, except for filter pops.
    pub(super) channels: Vec<(Arc<Queue>, Arc<Channel>)>,
    pub(super) answer: PopAnswer,
    /// What may still go into the answer.
    pub(super) bytes: usize,
    pub(super) messages: u64,
    /// Times it lost lanes to somebody else.
    lost: usize,
    /// It planned something in this pass.
    planned: bool,
    /// What was claimed for it, to give back if it is gone.
    pub(super) claimed: Vec<(Arc<Channel>, LaneId)>,
}

impl Open {
    fn is_direct(&self) -> bool {
        matches!(self.job.request.target, PopTarget::Lane { .. })
    }
}

impl Inner {
    /// Handler of the pop intake.
    pub(crate) async fn serve_pops(self: Arc<Self>, jobs: Vec<PopJob>) {
        let mut open = Vec::with_capacity(jobs.len());
        for job in jobs {
            if job.reply.is_closed() {
                self.pass_on(&job);
            } else {
                open.push(self.open_job(job).await);
            }
        }
        let mut open: Vec<Open> = open.into_iter().flatten().collect();
        for _ in 0..MAX_PASSES {
            if open.is_empty() {
                return;
            }
            if let Err(refused) = self.pass(&mut open).await {
                for job in open {
                    self.store_away(job, &refused);
                }
                return;
            }
            open = self.sort_out(open).await;
        }
        for job in open {
            self.conclude(job);
        }
    }

    /// A job was woken and its client is gone: wake the next one for the lanes it would have taken.
    fn pass_on(&self, gone: &PopJob) {
        let queues = match &gone.request.target {
            PopTarget::Lane { queue, .. } | PopTarget::Queue { queue } => {
                self.catalog.queue(queue).into_iter().collect()
            }
            PopTarget::Filter { .. } => self.catalog.queues_where(|q| gone.wants(q)),
        };
        for queue in queues {
            let Some(channel) = self.channels.get(queue.id, &gone.request.group) else { continue };
            let own = match &gone.request.target {
                PopTarget::Lane { partition, .. } => Some(LaneId::derive(queue.id, partition)),
                _ => None,
            };
            self.wake_next(&queue, &channel, own);
        }
    }

    /// Find a job's channels; a group's first contact is recorded here, also by a pop that will wait.
    async fn open_job(self: &Arc<Self>, job: PopJob) -> Option<Open> {
        let terms = terms(&job.request, &self.config);
        let mut open = Open {
            terms,
            channels: Vec::new(),
            answer: PopAnswer::default(),
            bytes: self.config.pop_max_bytes,
            messages: terms.batch,
            lost: 0,
            planned: false,
            claimed: Vec::new(),
            job,
        };
        match self.attach(&mut open).await {
            Ok(()) => Some(open),
            Err(refused @ Refused::Unavailable(_)) => {
                self.store_away(open, &refused);
                None
            }
            Err(refused) => {
                let _ = open.job.reply.send(Err(refused));
                None
            }
        }
    }

    async fn attach(self: &Arc<Self>, open: &mut Open) -> Result<(), Refused> {
        let queues = match &open.job.request.target {
            PopTarget::Lane { queue, .. } | PopTarget::Queue { queue } => {
                vec![self.watch(self.catalog.ensure_queue(queue).await)?]
            }
            PopTarget::Filter { .. } => self.catalog.queues_where(|q| open.job.wants(q)),
        };
        for queue in queues {
            let record = match self.catalog.group(queue.id, &open.job.request.group) {
                Some(record) => record,
                None => match self.subscribe(&queue, &open.job).await? {
                    Some(record) => record,
                    None => continue,
                },
            };
            let request = &open.job.request;
            open.answer.conflation |= record.conflation;
            open.answer.conflation_conflict |= record.conflation != request.conflation;
            open.channels.push((queue, self.channels.get_or_make(&record)));
        }
        Ok(())
    }

    async fn subscribe(
        self: &Arc<Self>,
        queue: &Queue,
        job: &PopJob,
    ) -> Result<Option<Arc<bugle_store::GroupRecord>>, Refused> {
        let request = &job.request;
        let start = subscribe::start(
            &request.group,
            request.subscription_mode.as_deref(),
            request.subscription_from.as_deref(),
            &self.config.default_subscription_mode,
            job.began,
        )
        .map_err(Refused::Invalid)?;
        let record = first_contact(queue.id, &request.group, start, request.conflation, job.began);
        let stored = self.watch(self.catalog.ensure_group(record).await)?;
        if stored.is_none() {
            self.forget_queue(queue.id);
        }
        Ok(stored)
    }

    /// One pass: plan in memory, look at what is unknown, exchange cursors, assemble.
    async fn pass(self: &Arc<Self>, open: &mut [Open]) -> Result<(), Refused> {
        let mut plans = Vec::new();
        for (index, job) in open.iter_mut().enumerate() {
            let before = plans.len();
            self.plan(index, job, &mut plans);
            job.planned = plans.len() > before;
        }
        if plans.is_empty() {
            return Ok(());
        }
        if let Err(refused) = self.look(open, &mut plans).await {
            plans.iter().for_each(|plan| self.unknown(plan, None));
            self.recover();
            return Err(refused);
        }
        self.claim(open, plans).await
    }

    /// Load what the plans lack, then keep only those with something to deliver now.
    async fn look(self: &Arc<Self>, open: &mut [Open], plans: &mut Vec<Plan>) -> Result<(), Refused> {
        self.resolve(plans).await?;
        let mut rest: Vec<u64> = open.iter().map(|o| o.messages).collect();
        plans.retain_mut(|plan| self.fit(plan, &mut rest[plan.job]));
        self.look_inside(open, plans).await?;
        plans.retain_mut(|plan| {
            plan.segments.is_none() || !visible::hides(&plan.queue.options) || self.unhide(plan)
        });
        let mut bytes: Vec<usize> = open.iter().map(|o| o.bytes).collect();
        for plan in plans.iter_mut().filter(|plan| open[plan.job].job.request.auto_ack) {
            // Committed at delivery: what does not fit must not be part of the claim.
            plan.cut_to(&mut bytes[plan.job]);
        }
        Ok(())
    }

    /// Read the messages of plans whose claim depends on them: hidden by time, or committed at delivery.
    async fn look_inside(&self, open: &[Open], plans: &mut [Plan]) -> Result<(), Refused> {
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
            return Ok(());
        }
        let reads = looking
            .iter()
            .map(|i| &plans[*i])
            .map(|p| Read {
                lane: p.lane.id,
                from: p.from,
                to: p.to.max(p.from + 101),
                max_bytes: self.config.pop_max_bytes,
            })
            .collect();
        let looked = self.watch(self.engine.read(reads).await)?;
        for (i, segments) in looking.into_iter().zip(looked) {
            plans[i].segments = Some(segments);
        }
        Ok(())
    }

    /// Is the lane free, and what lies there? `false` puts it where it belongs.
    fn fit(self: &Arc<Self>, plan: &mut Plan, rest: &mut u64) -> bool {
        let cursor = plan.cursor.as_ref().expect("resolved above");
        if let Err(at) = lease::free_at(cursor, self.engine.now()) {
            self.put(plan, Place::Leased);
            self.wake_at(&plan.channel, plan.lane.id, at);
            return false;
        }
        let mut state = plan.channel.state.lock();
        let entry = state.entry(&plan.lane);
        let (head, tail) = plan.lane.bounds();
        plan.from = cursor.committed.max(tail);
        if head <= plan.from {
            entry.place = Place::Idle;
            entry.cursor = plan.cursor.clone().filter(|c| c.epoch > 0);
            return false;
        }
        if *rest == 0 {
            drop(state);
            self.put(plan, Place::Idle);
            self.ring(&plan.channel, plan.lane.id);
            return false;
        }
        plan.expired_from = plan.from;
        if plan.channel.record.conflation && !visible::hides(&plan.queue.options) {
            // Only the newest counts; claiming it passes over what it replaces.
            plan.from = head - 1;
            plan.expired_from = plan.from;
        }
        plan.to = head.min(plan.from + *rest);
        *rest -= plan.to - plan.from;
        true
    }

    /// Apply delay, window and ttl to a lane of a queue that hides messages by time.
    fn unhide(self: &Arc<Self>, plan: &mut Plan) -> bool {
        let now = self.engine.now().earliest;
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
                }
                true
            }
            _ if plan.from > plan.expired_from => {
                plan.to = plan.from;
                true
            }
            visible::Visible::NotBefore(at) => {
                self.put(plan, Place::Later);
                self.wake_at(&plan.channel, plan.lane.id, at);
                false
            }
            visible::Visible::Nothing => {
                self.put(plan, Place::Idle);
                false
            }
        }
    }

    /// Exchange the cursors of all plans in one call and hand out what was won.
    async fn claim(self: &Arc<Self>, open: &mut [Open], plans: Vec<Plan>) -> Result<(), Refused> {
        if plans.is_empty() {
            return Ok(());
        }
        let mut leases: HashMap<usize, (Uuid, Timestamp)> = HashMap::new();
        let mut swaps = Vec::with_capacity(plans.len());
        for plan in &plans {
            let (id, until) =
                *leases.entry(plan.job).or_insert_with(|| self.lease_for(&open[plan.job], plan));
            swaps.push(self.swap_for(&open[plan.job], plan, id, until));
        }
        let nexts: Vec<Cursor> = swaps.iter().map(|s| s.next.clone()).collect();
        let outcomes = match self.watch(self.engine.swap(swaps).await) {
            Ok(outcomes) => outcomes,
            Err(refused) => {
                for plan in &plans {
                    self.unknown(plan, leases.get(&plan.job).map(|(id, _)| *id));
                }
                self.recover();
                return Err(refused);
            }
        };
        let mut cuts = Vec::new();
        for ((plan, next), outcome) in plans.into_iter().zip(nexts).zip(outcomes) {
            match outcome {
                Ok(Swapped { segments }) => {
                    let lease = leases.get(&plan.job).copied();
                    cuts.extend(self.won(&mut open[plan.job], plan, next, segments, lease));
                }
                Err(SwapError::Moved(row)) => {
                    open[plan.job].lost += 1;
                    self.lost(&plan, row);
                }
                Err(SwapError::NoLane) => {
                    self.lanes.forget(plan.lane.id);
                    plan.channel.state.lock().entries.remove(&plan.lane.id);
                }
            }
        }
        self.cut(cuts).await;
        Ok(())
    }

    fn lease_for(&self, open: &Open, plan: &Plan) -> (Uuid, Timestamp) {
        let asked = open.job.request.lease_seconds.filter(|s| *s > 0);
        let seconds = asked.unwrap_or(match plan.queue.options.lease_time {
            0 => 60,
            seconds => seconds,
        });
        (Uuid::now_v7(), self.engine.now().latest.plus(std::time::Duration::from_secs(seconds)))
    }

    fn swap_for(&self, open: &Open, plan: &Plan, lease: Uuid, until: Timestamp) -> Swap {
        let cursor = plan.cursor.as_ref().expect("resolved before the claim");
        let now = self.engine.now();
        let claim = if open.job.request.auto_ack || plan.from == plan.to {
            lease::deliver_and_commit(cursor, plan.from, plan.to, now)
        } else {
            lease::claim(cursor, plan.from, plan.to, lease, until, now)
        };
        let cached = plan.segments.is_some() || plan.lane.cached(plan.from, plan.to).is_some();
        let read = (!cached).then_some(Span { from: plan.from, to: plan.to, max_bytes: open.bytes });
        let dead = self.expired(plan);
        Swap {
            lane: plan.lane.id,
            group: plan.channel.group.clone(),
            expect: cursor.epoch,
            next: claim.next,
            read,
            dead,
        }
    }

    /// Dead letters for what expired in front of a claim.
    fn expired(&self, plan: &Plan) -> Vec<DeadLetter> {
        if plan.from == plan.expired_from || !plan.queue.options.keeps_dead_letters() {
            return Vec::new();
        }
        let now = self.engine.now().latest;
        let segments = plan.segments.as_deref().unwrap_or_default();
        super::deliver::messages_in(segments, plan.expired_from, plan.from)
            .map(|popped| DeadLetter {
                id: Uuid::now_v7(),
                queue: plan.queue.id,
                lane: plan.lane.id,
                partition: plan.lane.name.clone(),
                group: plan.channel.group.clone(),
                offset: popped.offset,
                transaction_id: popped.message.transaction().to_owned(),
                message: popped.message.to_bytes(),
                error: "expired: older than the queue's ttl".into(),
                attempts: plan.cursor.as_ref().map_or(0, |c| c.attempts),
                created_at: popped.created_at,
                failed_at: now,
            })
            .collect()
    }

    /// Somebody else changed the cursor: take over theirs.
    fn lost(self: &Arc<Self>, plan: &Plan, row: Option<Cursor>) {
        let free = row.as_ref().map_or(Ok(()), |c| lease::free_at(c, self.engine.now()));
        plan.channel.state.lock().entry(&plan.lane).cursor = row;
        match free {
            Ok(()) => {
                self.put(plan, Place::Idle);
                self.ring(&plan.channel, plan.lane.id);
            }
            Err(at) => {
                self.put(plan, Place::Leased);
                self.wake_at(&plan.channel, plan.lane.id, at);
            }
        }
    }

    /// The outcome of an exchange is not known: the cursor must be loaded before the next one.
    fn unknown(&self, plan: &Plan, lease: Option<Uuid>) {
        let mut state = plan.channel.state.lock();
        let entry = state.entry(&plan.lane);
        entry.cursor = None;
        // If the claim did happen nobody holds its lease: whoever comes next may take it over.
        if entry.orphans.len() < MAX_ORPHANS {
            entry.orphans.extend(lease);
        }
        // Nobody is woken: recovery dispatches everybody once the store is back.
        state.put_in_ring(plan.lane.id);
    }

    pub(super) fn put(&self, plan: &Plan, place: Place) {
        let mut state = plan.channel.state.lock();
        let entry = state.entry(&plan.lane);
        if entry.place == Place::Claiming {
            entry.place = place;
        }
        if entry.cursor.is_none() {
            entry.cursor = plan.cursor.clone().filter(|c| c.epoch > 0);
        }
    }

    /// After a pass: answer those with messages, ask the store for those without, park or end the rest.
    async fn sort_out(self: &Arc<Self>, open: Vec<Open>) -> Vec<Open> {
        let (mut again, mut asking) = (Vec::new(), Vec::new());
        for job in open {
            if !job.answer.lanes.is_empty() {
                self.conclude(job);
            } else if job.planned && job.lost <= self.config.claim_rounds && !job.is_direct() {
                again.push(job);
            } else if self.should_ask(&job) {
                asking.push(job);
            } else {
                self.conclude(job);
            }
        }
        if !asking.is_empty() {
            match self.ask(&mut asking).await {
                Ok(()) => again.extend(asking),
                Err(refused) => asking.into_iter().for_each(|job| self.store_away(job, &refused)),
            }
        }
        again
    }

    /// Answer a job, or park it if it has nothing and may wait.
    fn conclude(self: &Arc<Self>, open: Open) {
        if open.answer.lanes.is_empty() && open.job.may_wait() && !self.draining.load(Ordering::Acquire) {
            self.park(open);
            if self.draining.load(Ordering::Acquire) {
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
        let lease = answer.lease_id;
        if job.reply.send(Ok(answer)).is_err()
            && let Some(lease) = lease
        {
            self.give_back(claimed, lease);
        }
        for (queue, channel) in channels {
            self.wake_next(&queue, &channel, None);
        }
    }

    /// Wake chain: lanes are left in the ring, so another pop that waits should have them.
    fn wake_next(&self, queue: &Queue, channel: &Channel, first: Option<LaneId>) {
        let mut state = channel.state.lock();
        let in_ring = |id: &LaneId| state.entries.get(id).is_some_and(|e| e.place == Place::Ring);
        let Some(ready) = first.filter(in_ring).or_else(|| state.front().map(|e| e.lane.id)) else { return };
        let next = state.make_ready(ready);
        drop(state);
        let next = next.or_else(|| self.channels.wake_filter(queue, &channel.group));
        self.pops().offer_urgent(next);
    }

    fn park(self: &Arc<Self>, open: Open) {
        let Open { job, channels, .. } = open;
        match (&job.request.target, channels.first()) {
            (PopTarget::Lane { partition, .. }, Some((queue, channel))) => {
                let lane = LaneId::derive(queue.id, partition);
                let mut state = channel.state.lock();
                if state.closed || state.entries.get(&lane).is_some_and(|e| e.place == Place::Ring) {
                    drop(state);
                    self.pops().offer_urgent([job]);
                } else {
                    state.park_on(lane, job);
                }
            }
            (PopTarget::Queue { .. }, Some((_, channel))) => {
                let mut state = channel.state.lock();
                if state.closed || state.front().is_some() {
                    drop(state);
                    self.pops().offer_urgent([job]);
                } else {
                    state.park(job);
                }
            }
            _ => {
                let (seq, request) = (job.seq, job.request.clone());
                let wants = |queue: &Queue| request.target.wants(queue);
                self.channels.park_filter(job);
                // A lane or queue that came before the pop was parked woke nobody.
                let ready = channels.iter().any(|(_, c)| c.state.lock().front().is_some());
                let known = |queue: &Queue| channels.iter().any(|(q, _)| q.id == queue.id);
                if ready || !self.catalog.queues_where(|q| wants(q) && !known(q)).is_empty() {
                    self.pops().offer_urgent(self.channels.unpark_filter(seq));
                }
            }
        }
    }

    /// The store cannot be asked: a waiting pop stays parked until it answers again, another one is told.
    fn store_away(self: &Arc<Self>, open: Open, refused: &Refused) {
        if !open.answer.lanes.is_empty() {
            return self.conclude(open);
        }
        tracing::debug!(%refused, "pop could not be served");
        if open.job.may_wait() && !self.draining.load(Ordering::Acquire) {
            self.park_for_recovery(open);
        } else {
            let answer = PopAnswer { store_unavailable: true, ..open.answer };
            let _ = open.job.reply.send(Ok(answer));
        }
    }

    fn park_for_recovery(self: &Arc<Self>, open: Open) {
        let Open { job, channels, .. } = open;
        match (&job.request.target, channels.first()) {
            (PopTarget::Lane { partition, .. }, Some((queue, channel))) => {
                channel.state.lock().park_on(LaneId::derive(queue.id, partition), job);
            }
            (PopTarget::Queue { .. }, Some((_, channel))) => channel.state.lock().park(job),
            _ => self.channels.park_filter(job),
        }
        self.recover();
    }
}

/// The segments a plan delivers from: looked at before, remembered, or read with the exchange.
pub(super) fn segments_of(plan: &mut Plan, read: Vec<Segment>) -> Vec<Segment> {
    plan.segments.take().or_else(|| plan.lane.cached(plan.from, plan.to)).unwrap_or(read)
}
