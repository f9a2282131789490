//! Upkeep: retention, eviction and the collection of what is no longer used, in small steps.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use bugle_store::{Aged, AgedLane, Expire, Load, Offset, Queue, Start, Timestamp, Trim};

use crate::api::Refused;
use crate::inner::Inner;
use crate::semantics::retention::{self, Rule};

/// Lanes per step.
const STEP: usize = 500;
/// Rows per step of expiring catalog rows.
const EXPIRE_STEP: usize = 1000;

impl Inner {
    /// Background task: retention and eviction, each at its own interval.
    pub(crate) async fn run_upkeep(self: Arc<Self>) {
        let mut retention_at = Instant::now() + self.config.retention_interval;
        let mut eviction_at = Instant::now() + self.config.eviction_interval;
        loop {
            tokio::select! {
                () = sleep_until(retention_at.min(eviction_at)) => (),
                () = self.stop.cancelled() => return,
            }
            let now = Instant::now();
            if now >= eviction_at {
                eviction_at = now + self.config.eviction_interval;
                report("eviction", self.evict().await);
            }
            if now >= retention_at {
                retention_at = now + self.config.retention_interval;
                report("retention", self.retain().await);
            }
        }
    }

    /// Remove unread messages that waited longer than their queue allows.
    pub(crate) async fn evict(&self) -> Result<u64, Refused> {
        let now = self.engine.now().earliest;
        let mut removed = 0;
        for queue in self.catalog.queues_where(|q| q.options.max_wait_time_seconds > 0) {
            if let Some(before) = retention::eviction(&queue.options, now) {
                removed += self.trim_queue(&queue, Rule::Unread, before).await?;
            }
        }
        Ok(removed)
    }

    /// Remove messages, dead letters, traces and idle lanes that are past their time.
    pub(crate) async fn retain(&self) -> Result<u64, Refused> {
        if !self.engine.exclusive() {
            self.refresh_catalog().await;
        }
        let now = self.engine.now().earliest;
        let mut removed = 0;
        for queue in self.catalog.queues_where(|_| true) {
            for (rule, before) in retention::rules(&queue.options, self.config.completed_retention, now) {
                removed += self.trim_queue(&queue, rule, before).await?;
            }
        }
        let age = |keep: Duration| (!keep.is_zero()).then(|| now.minus(keep));
        let expiries = [
            age(self.config.dead_letter_retention).map(Expire::DeadLetters),
            age(self.config.trace_retention).map(Expire::Traces),
            age(self.config.lane_retention).map(Expire::Lanes),
        ];
        for what in expiries.into_iter().flatten() {
            while self.watch(self.engine.expire(what, EXPIRE_STEP).await)? == EXPIRE_STEP as u64 {}
        }
        Ok(removed)
    }

    async fn trim_queue(&self, queue: &Queue, rule: Rule, before: Timestamp) -> Result<u64, Refused> {
        let mut after = None;
        let mut removed = 0;
        loop {
            let aged = self.engine.aged(Aged { queue: queue.id, before, after, limit: STEP }).await;
            let mut lanes = self.watch(aged)?;
            let Some(last) = lanes.last() else { return Ok(removed) };
            after = Some(last.lane.id);
            let full = lanes.len() == STEP;
            if matches!(rule, Rule::Consumed | Rule::Unread) {
                self.count_silent_groups(queue, &mut lanes).await?;
            }
            let trims: Vec<Trim> = lanes
                .iter()
                .map(|lane| Trim { lane: lane.lane.id, to: retention::target(rule, lane) })
                .filter(|trim| lanes.iter().any(|l| l.lane.id == trim.lane && trim.to > l.lane.tail))
                .collect();
            if !trims.is_empty() {
                removed += self.watch(self.engine.trim(trims.clone()).await)?.iter().sum::<u64>();
                for trim in trims {
                    if let Some(lane) = self.lanes.get(trim.lane) {
                        let mut inner = lane.inner.lock();
                        inner.lane.tail = inner.lane.tail.max(trim.to.min(inner.lane.head));
                    }
                }
            }
            if !full {
                return Ok(removed);
            }
        }
    }

    /// A group that has subscribed but never read a lane has no cursor there; it counts as being at its start.
    async fn count_silent_groups(&self, queue: &Queue, lanes: &mut [AgedLane]) -> Result<(), Refused> {
        let groups = self.catalog.groups(queue.id);
        let loads = lanes.iter().map(|l| Load::Cursors(l.lane.id)).collect();
        let cursors = self.watch(self.engine.load(loads).await)?;
        for (lane, cursors) in lanes.iter_mut().zip(cursors) {
            let silent = groups.iter().filter(|g| !cursors.iter().any(|c| c.group == g.group));
            let starts = silent.map(|g| match g.start {
                // Older than the subscription: not for this group.
                Start::New(at) | Start::From(at) if lane.lane.written_at <= at => lane.lane.head,
                _ => lane.lane.tail,
            });
            let slowest: Option<Offset> = starts.chain(lane.slowest).min();
            lane.slowest = slowest;
        }
        Ok(())
    }
}

fn report(what: &str, outcome: Result<u64, Refused>) {
    match outcome {
        Ok(0) => (),
        Ok(removed) => tracing::info!(removed, "{what} removed messages"),
        Err(error) => tracing::warn!(%error, "{what} could not finish"),
    }
}
