//! Serving jobs together, in passes, until each is answered or parked.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use bugle_store::{LaneId, Queue};

use crate::api::{PopAnswer, PopTarget, Refused};
use crate::catalog::first_contact;
use crate::inner::Inner;
use crate::planted::race;
use crate::semantics::subscribe;
use crate::waiting::Channel;

use super::PopJob;
use super::plan::{Plan, Terms, terms};

/// Passes over one batch of jobs: lanes that turn out empty or hidden are passed over without using up a job's terms.
const MAX_PASSES: usize = 64;

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
    /// It may have committed what it was not given.
    pub(super) in_doubt: bool,
    /// Times it lost lanes to somebody else.
    pub(super) lost: usize,
    /// It planned something in this pass.
    planned: bool,
    /// It lets its batch grow until then.
    hold: Option<tokio::time::Instant>,
    /// What was claimed for it, to give back if it is gone.
    pub(super) claimed: Vec<(Arc<Channel>, LaneId)>,
}

/// Channels whose claim is running.
struct Claiming {
    inner: Arc<Inner>,
    channels: Vec<u64>,
}

impl Drop for Claiming {
    fn drop(&mut self) {
        let mut claiming = self.inner.claiming.lock();
        for no in &self.channels {
            if let Some(count) = claiming.get_mut(no) {
                *count -= 1;
                if *count == 0 {
                    claiming.remove(no);
                }
            }
        }
    }
}

impl Open {
    fn is_direct(&self) -> bool {
        matches!(self.job.request.target, PopTarget::Lane { .. })
    }
}

impl Inner {
    /// Handler of the pop intake.
    pub(crate) async fn serve_pops(self: Arc<Self>, jobs: Vec<PopJob>) {
        if self.board.pops_paused() {
            return self.turn_away(jobs);
        }
        let mut open = Vec::with_capacity(jobs.len());
        for job in jobs {
            if job.reply.is_closed() {
                if !race("a gone client keeps its wake") {
                    self.pass_on(&job);
                }
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
            in_doubt: false,
            planned: false,
            hold: None,
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
                vec![self.ensure_queue(queue).await?]
            }
            PopTarget::Filter { .. } => self.catalog.queues_where(|q| open.job.wants(q)),
        };
        let mut interests = Vec::new();
        for queue in queues {
            let Some(channel) = self.join(&queue, &open.job).await? else { continue };
            let request = &open.job.request;
            open.answer.conflation |= channel.record.conflation;
            open.answer.conflation_conflict |= channel.record.conflation != request.conflation;
            if open.job.deadline.is_some() && !race("wait without being known to wait") {
                interests.push(channel.interest());
            }
            open.channels.push((queue, channel));
        }
        // Where there is no queue yet nothing contradicts the request, whose sender waits for the echo.
        open.answer.conflation |= open.channels.is_empty() && open.job.request.conflation;
        // Those of an earlier round go last, so that interest does not lapse in between.
        open.job.interests = interests;
        Ok(())
    }

    /// The channel of a job's group; `None` = the queue is gone.
    async fn join(self: &Arc<Self>, queue: &Queue, job: &PopJob) -> Result<Option<Arc<Channel>>, Refused> {
        for _ in 0..MAX_PASSES {
            if let Some(channel) = self.channel(queue.id, &job.request.group) {
                return Ok(Some(channel));
            }
            if !self.subscribe(queue, job).await? {
                return Ok(None);
            }
        }
        Err(self.busy("the consumer group is deleted again and again"))
    }

    /// Record a group's first contact. `false` = the queue is gone.
    async fn subscribe(self: &Arc<Self>, queue: &Queue, job: &PopJob) -> Result<bool, Refused> {
        let request = &job.request;
        let now = self.engine.now().latest;
        let start = subscribe::start(
            &request.group,
            request.subscription_mode.as_deref(),
            request.subscription_from.as_deref(),
            &self.config.default_subscription_mode,
            job.began,
        )
        .map_err(Refused::Invalid)?;
        let record = first_contact(queue.id, &request.group, start, request.conflation, now);
        let stored = self.watch(self.catalog.ensure_group(record).await)?;
        if stored.is_none() {
            self.forget_queue(queue.id);
        }
        Ok(stored.is_some())
    }

    /// One pass: plan in memory, look at what is unknown, exchange cursors, assemble.
    async fn pass(self: &Arc<Self>, open: &mut [Open]) -> Result<(), Refused> {
        let (began, timeline) = (Instant::now(), self.timeline());
        let mut plans = Vec::new();
        for (index, job) in open.iter_mut().enumerate() {
            let before = plans.len();
            // Options may have changed since the job came; a lane must not be hidden by old ones.
            for (queue, _) in &mut job.channels {
                if let Some(now) = self.catalog.queue_by_id(queue.id) {
                    *queue = now;
                }
            }
            job.hold = self.holds_until(job);
            if job.hold.is_none() {
                self.plan(index, job, &mut plans);
            }
            job.planned = plans.len() > before;
            job.answer.phases.candidates += (plans.len() - before) as u32;
        }
        if plans.is_empty() {
            return Ok(());
        }
        let _running = self.count_claiming(&plans);
        if let Err(refused) = self.look(open, &mut plans).await {
            plans.iter().for_each(|plan| self.unknown(plan, None));
            self.recover();
            return Err(refused);
        }
        open.iter_mut().for_each(|job| job.answer.phases.find += began.elapsed());
        self.claim(open, plans, timeline).await
    }

    /// Count the channels of these plans as being claimed from, as long as the answer lives.
    fn count_claiming(self: &Arc<Self>, plans: &[Plan]) -> Claiming {
        let channels: Vec<u64> =
            plans.iter().map(|plan| plan.channel.no).collect::<HashSet<_>>().into_iter().collect();
        let mut claiming = self.claiming.lock();
        for no in &channels {
            *claiming.entry(*no).or_default() += 1;
        }
        drop(claiming);
        Claiming { inner: self.clone(), channels }
    }

    /// After a pass: answer those with messages, ask the store for those without, park or end the rest.
    async fn sort_out(self: &Arc<Self>, open: Vec<Open>) -> Vec<Open> {
        let (mut again, mut asking) = (Vec::new(), Vec::new());
        for job in open {
            if let Some(until) = job.hold {
                self.hold_job(job, until);
            } else if !job.answer.lanes.is_empty() {
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
            let began = Instant::now();
            match self.ask(&mut asking).await {
                Ok(()) => {
                    asking.iter_mut().for_each(|job| job.answer.phases.find += began.elapsed());
                    again.extend(asking);
                }
                Err(refused) => asking.into_iter().for_each(|job| self.store_away(job, &refused)),
            }
        }
        again
    }
}
