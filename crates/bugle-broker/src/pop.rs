//! Pop: one code path for its three ways of access (one partition, a queue, a namespace/task filter).
//!
//! A pop is a job. The dispatcher gathers jobs and serves them together in passes ([`serve`]): find candidate lanes in
//! memory ([`plan`]), look at what is unknown or hidden ([`look`]), exchange all cursors in one store call ([`claim`]),
//! assemble the answers ([`deliver`]). A job that got nothing asks the store once ([`ask`]); if there is really nothing
//! it parks ([`park`]), and whoever makes a lane ready dispatches it again.

mod ask;
mod claim;
mod deliver;
mod hold;
mod look;
mod park;
mod pause;
mod plan;
mod serve;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use bugle_store::{Group, LaneId, LeaseId, Queue, Timestamp};

use crate::api::{PopAnswer, PopRequest, PopTarget, Refused};
use crate::inner::Inner;
use crate::is_system;
use crate::meters::WakeSource;
use crate::waiting::Interest;

pub(crate) use deliver::plain_swap;

/// Longest delay of a deadline.
const MAX_TICK: Duration = Duration::from_millis(50);

/// How long after its deadline a pop waits for a claim that is in flight for it.
const IN_FLIGHT: Duration = Duration::from_secs(5);

/// A pop on its way.
pub(crate) struct PopJob {
    /// Order of arrival.
    pub(crate) seq: u64,
    pub(crate) request: Arc<PopRequest>,
    /// Store time at arrival: a group that subscribes to what is new starts here.
    pub(crate) began: Timestamp,
    pub(crate) deadline: Option<Instant>,
    /// The store was asked on behalf of this job.
    pub(crate) asked: bool,
    /// When it came.
    pub(crate) came: Instant,
    /// What dispatched it last, and when.
    woken: Option<(WakeSource, Instant)>,
    /// It lets a batch grow, see [`hold`]: since when, in milliseconds after it came, plus one. Small, as all of this must be.
    held: Option<NonZeroU32>,
    /// Channels it waits at.
    interests: Vec<Interest>,
    pub(crate) reply: oneshot::Sender<Result<PopAnswer, Refused>>,
}

impl PopJob {
    /// Whether a filter pop wants messages of this queue.
    pub(crate) fn wants(&self, queue: &Queue) -> bool {
        self.request.target.wants(queue)
    }

    /// Something may be there for it.
    pub(crate) fn wake(&mut self, source: WakeSource) {
        self.woken = Some((source, Instant::now()));
        tracing::debug!(request = self.seq, source = source.name(), "waiting pop woken");
    }

    /// What dispatched it last, and when.
    pub(crate) fn woken(&self) -> Option<(WakeSource, Instant)> {
        self.woken
    }

    /// Whether this job may wait (again) now.
    pub(crate) fn may_wait(&self) -> bool {
        self.deadline.is_some_and(|at| Instant::now() < at)
    }
}

impl PopTarget {
    /// Whether this is a filter that a queue passes.
    fn wants(&self, queue: &Queue) -> bool {
        match self {
            Self::Filter { namespace, task } => {
                !is_system(&queue.name)
                    && namespace.as_ref().is_none_or(|n| *n == queue.namespace)
                    && task.as_ref().is_none_or(|t| *t == queue.task)
            }
            _ => false,
        }
    }
}

/// The end of a wait, a little late: long waits end together, on ticks that all of them share, so that many of them cost
/// few wake-ups. Never later than a 500th of the wait, 50 ms at most.
fn deadline(epoch: Instant, now: Instant, wait: Duration) -> Instant {
    let tick = (wait / 500).min(MAX_TICK).as_millis() as u64;
    let end = now + wait;
    if tick < 2 {
        return end;
    }
    let since = end.duration_since(epoch).as_micros() as u64;
    epoch + Duration::from_millis(since.div_ceil(tick * 1000) * tick)
}

impl Inner {
    /// See [`crate::Broker::pop`].
    pub(crate) async fn pop(self: &Arc<Self>, request: &Arc<PopRequest>) -> Result<PopAnswer, Refused> {
        if self.keep_catalog_fresh() {
            Box::pin(self.catch_up_with_catalog()).await;
        }
        let _counted = self.count_waiter(request.wait.is_some())?;
        let came = Instant::now();
        if self.board.pops_paused()
            && let Some(answer) = Box::pin(self.wait_out_pause(request, came)).await
        {
            return Ok(answer);
        }
        let (reply, answer) = oneshot::channel();
        let draining = self.draining.load(Ordering::Acquire);
        let mut job = PopJob {
            seq: self.next_pop.fetch_add(1, Ordering::Relaxed),
            request: request.clone(),
            began: self.engine.now().latest,
            deadline: None,
            asked: false,
            came,
            woken: None,
            held: None,
            interests: Vec::new(),
            reply,
        };
        job.deadline =
            job.request.wait.filter(|_| !draining).map(|wait| deadline(self.started, job.came, wait));
        let deadline = job.deadline;
        let mut leave = Leave {
            inner: self.clone(),
            seq: job.seq,
            request: job.request.clone(),
            answer,
            waits: deadline.is_some(),
        };
        if leave.waits {
            self.meters.registered.one();
            tracing::debug!(request = job.seq, target = ?job.request.target, group = %job.request.group,
                "waiting pop registered");
        }
        if let Err(job) = self.park_at_once(job) {
            self.pops().offer(job).map_err(|_| self.busy("too many pops wait for the store"))?;
        } else if self.turns_away() {
            self.answer_waiting();
        }
        let Some(deadline) = deadline else {
            return (&mut leave.answer).await.unwrap_or_else(|_| Ok(self.nothing_for(request)));
        };
        let mut answer = tokio::select! {
            biased;
            answer = &mut leave.answer => answer.ok(),
            () = tokio::time::sleep_until(deadline) => None,
        };
        if answer.is_none() && !self.end_wait(leave.unpark()) {
            // A claim may be in flight for it: its outcome is not far.
            answer = tokio::time::timeout(IN_FLIGHT, &mut leave.answer).await.ok().and_then(Result::ok);
        }
        leave.waits = false;
        let answer = answer.unwrap_or_else(|| Ok(self.nothing_for(request)));
        if answer.as_ref().is_ok_and(|answer| answer.lanes.is_empty()) {
            self.meters.expired.one();
            tracing::debug!(request = leave.seq, "waiting pop expired");
        }
        answer
    }

    /// The empty answer. A conflating consumer is told of its policy even when there is nothing for it.
    pub(crate) fn nothing_for(&self, request: &PopRequest) -> PopAnswer {
        let mut answer = PopAnswer { store_unavailable: self.store_health().away, ..PopAnswer::default() };
        let queues = match &request.target {
            PopTarget::Lane { queue, .. } | PopTarget::Queue { queue } => {
                self.catalog.queue(queue).into_iter().collect()
            }
            PopTarget::Filter { .. } => self.catalog.queues_where(|queue| request.target.wants(queue)),
        };
        let records = queues.iter().map(|queue| self.catalog.group(queue.id, &request.group));
        let stored: Vec<bool> = records.flatten().map(|record| record.conflation).collect();
        answer.conflation = stored.contains(&true) || (stored.is_empty() && request.conflation);
        answer.conflation_conflict = stored.iter().any(|conflates| *conflates != request.conflation);
        answer
    }

    fn count_waiter(self: &Arc<Self>, waits: bool) -> Result<Option<Counted>, Refused> {
        if !waits {
            return Ok(None);
        }
        let before = self.waiters.fetch_add(1, Ordering::AcqRel);
        if before >= self.config.max_waiters {
            self.waiters.fetch_sub(1, Ordering::AcqRel);
            return Err(self.busy("too many consumers wait on this server"));
        }
        if before == 0 {
            self.floor.changed();
        }
        Ok(Some(Counted(self.clone())))
    }
}

/// A waiting pop, counted.
struct Counted(Arc<Inner>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.waiters.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Takes a pop out of wherever it is when its caller goes away: parked, or answered but not received.
struct Leave {
    inner: Arc<Inner>,
    seq: u64,
    request: Arc<PopRequest>,
    answer: oneshot::Receiver<Result<PopAnswer, Refused>>,
    /// It waits and was not answered yet.
    waits: bool,
}

impl Leave {
    fn unpark(&self) -> Option<PopJob> {
        self.unpark_by_target().or_else(|| self.inner.channels.unpark_filter(self.seq))
    }

    fn unpark_by_target(&self) -> Option<PopJob> {
        let (queue, partition) = match &self.request.target {
            PopTarget::Filter { .. } => return self.inner.channels.unpark_filter(self.seq),
            PopTarget::Queue { queue } => (queue, None),
            PopTarget::Lane { queue, partition } => (queue, Some(partition)),
        };
        let queue = self.inner.catalog.queue(queue)?;
        let channel = self.inner.channels.get(queue.id, &self.request.group)?;
        let lane = partition.map(|name| LaneId::derive(queue.id, name));
        channel.state.lock().unpark(lane, self.seq)
    }
}

impl Drop for Leave {
    fn drop(&mut self) {
        if let Some(job) = self.unpark()
            && job.held.is_some()
        {
            // What it let grow is for the next one.
            self.inner.pass_on(&job);
        }
        self.answer.close();
        if self.waits {
            self.inner.meters.cancelled.one();
            tracing::debug!(request = self.seq, "waiting pop cancelled");
        }
        if let Ok(Ok(answer)) = self.answer.try_recv() {
            drop(Receipt::new(&self.inner, &answer, &self.request.group));
        }
    }
}

/// Proof that an answer reached its consumer. Dropped without it, what was claimed is given back and counts as no
/// delivery.
pub struct Receipt {
    inner: Arc<Inner>,
    group: Group,
    lease: Option<LeaseId>,
    lanes: Vec<LaneId>,
}

impl Receipt {
    pub(crate) fn new(inner: &Arc<Inner>, answer: &PopAnswer, group: &Group) -> Self {
        let lanes = answer.lanes.iter().map(|lane| lane.lane).collect();
        Self { inner: inner.clone(), group: group.clone(), lease: answer.lease_id, lanes }
    }

    /// The whole answer was sent.
    pub fn sent(mut self) {
        self.lease = None;
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        let Some(lease) = self.lease else { return };
        let home = |lane: &LaneId| {
            let queue = self.inner.lanes.get(*lane)?.queue;
            Some((self.inner.channels.get(queue, &self.group)?, *lane))
        };
        self.inner.give_back(self.lanes.iter().filter_map(home).collect(), lease);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_waits_end_together_and_a_little_late_short_ones_on_time() {
        let epoch = Instant::now();
        let end = |now: u64, wait: u64| {
            let now = epoch + Duration::from_micros(now);
            deadline(epoch, now, Duration::from_millis(wait)).duration_since(epoch).as_micros() as u64
        };
        assert_eq!(end(1_234, 500), 501_234);
        for now in [0, 1, 49_999, 777_777] {
            for wait in [1_000, 5_000, 30_000, 120_000] {
                let (exact, late) = (now + wait * 1000, end(now, wait));
                assert!(late >= exact && late - exact <= (wait * 2).min(50_000), "{now} {wait} {late}");
            }
        }
        assert_eq!(end(1, 30_000), end(40_000, 30_000));
    }
}
