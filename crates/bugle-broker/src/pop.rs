//! Pop: one code path for its three ways of access (one partition, a queue, a namespace/task filter).
//!
//! A pop is a job. The dispatcher gathers jobs and serves them together in passes ([`serve`]): find candidate lanes in
//! memory ([`plan`]), look at what is unknown or hidden ([`look`]), exchange all cursors in one store call ([`claim`]),
//! assemble the answers ([`deliver`]). A job that got nothing asks the store once ([`ask`]); if there is really nothing
//! it parks ([`park`]), and whoever makes a lane ready dispatches it again.

mod ask;
mod claim;
mod deliver;
mod look;
mod park;
mod plan;
mod serve;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use bugle_store::{LaneId, Queue, Timestamp};

use crate::api::{PopAnswer, PopRequest, PopTarget, Refused};
use crate::inner::Inner;

pub(crate) use deliver::plain_swap;

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
    pub(crate) reply: oneshot::Sender<Result<PopAnswer, Refused>>,
}

impl PopJob {
    /// Whether a filter pop wants messages of this queue.
    pub(crate) fn wants(&self, queue: &Queue) -> bool {
        self.request.target.wants(queue)
    }

    /// Whether this job may wait (again) now.
    fn may_wait(&self) -> bool {
        self.deadline.is_some_and(|at| Instant::now() < at)
    }
}

impl PopTarget {
    /// Whether this is a filter that a queue passes.
    fn wants(&self, queue: &Queue) -> bool {
        match self {
            Self::Filter { namespace, task } => {
                namespace.as_ref().is_none_or(|n| *n == queue.namespace)
                    && task.as_ref().is_none_or(|t| *t == queue.task)
            }
            _ => false,
        }
    }
}

impl Inner {
    /// See [`crate::Broker::pop`].
    pub(crate) async fn pop(self: &Arc<Self>, request: PopRequest) -> Result<PopAnswer, Refused> {
        self.keep_catalog_fresh();
        let _counted = self.count_waiter(request.wait.is_some())?;
        let (reply, answer) = oneshot::channel();
        let draining = self.draining.load(Ordering::Acquire);
        let mut job = PopJob {
            seq: self.next_pop.fetch_add(1, Ordering::Relaxed),
            request: Arc::new(request),
            began: self.engine.now().latest,
            deadline: None,
            asked: false,
            reply,
        };
        job.deadline = job.request.wait.filter(|_| !draining).map(|wait| Instant::now() + wait);
        let mut leave = Leave { inner: self.clone(), seq: job.seq, request: job.request.clone(), answer };
        let deadline = job.deadline;
        self.pops().offer(job).map_err(|_| self.busy("too many pops wait for the store"))?;
        let Some(deadline) = deadline else {
            return (&mut leave.answer).await.unwrap_or_else(|_| Ok(PopAnswer::default()));
        };
        tokio::select! {
            biased;
            answer = &mut leave.answer => return answer.unwrap_or_else(|_| Ok(PopAnswer::default())),
            () = tokio::time::sleep_until(deadline) => (),
        }
        if leave.unpark().is_some() {
            return Ok(self.nothing());
        }
        // A claim is in flight for it: its outcome is not far.
        match tokio::time::timeout(IN_FLIGHT, &mut leave.answer).await {
            Ok(Ok(answer)) => answer,
            _ => Ok(self.nothing()),
        }
    }

    /// The empty answer.
    pub(crate) fn nothing(&self) -> PopAnswer {
        PopAnswer { store_unavailable: self.store_health().away, ..PopAnswer::default() }
    }

    fn count_waiter(self: &Arc<Self>, waits: bool) -> Result<Option<Counted>, Refused> {
        if !waits {
            return Ok(None);
        }
        if self.waiters.fetch_add(1, Ordering::AcqRel) >= self.config.max_waiters {
            self.waiters.fetch_sub(1, Ordering::AcqRel);
            return Err(self.busy("too many consumers wait on this server"));
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
        drop(self.unpark());
        self.answer.close();
        if let Ok(Ok(answer)) = self.answer.try_recv()
            && let Some(lease) = answer.lease_id
        {
            let home = |lane: &crate::api::PoppedLane| {
                let queue = self.inner.lanes.get(lane.lane)?.queue;
                Some((self.inner.channels.get(queue, &self.request.group)?, lane.lane))
            };
            self.inner.give_back(answer.lanes.iter().filter_map(home).collect(), lease);
        }
    }
}
