//! Upkeep: retention, eviction and the collection of what is no longer used, in small steps.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use bugle_store::{Aged, AgedLane, Expire, Load, Offset, Queue, QueueId, Start, Timestamp, Trim};

use crate::api::Refused;
use crate::inner::Inner;
use crate::is_system;
use crate::semantics::retention::{self, Rule};

/// Lanes per step.
const STEP: usize = 500;
/// Rows per step of expiring catalog rows.
const EXPIRE_STEP: usize = 1000;
/// What expires is kept for days: to look for it more often than this finds nothing.
const EXPIRE_INTERVAL: Duration = Duration::from_secs(3600);

/// A queue, a rule, and the moment before which its messages are old.
type Due = (Arc<Queue>, Rule, Timestamp);

/// What a rule did to lanes.
#[derive(Clone, Copy, Default)]
struct Trimmed {
    removed: u64,
    /// Old messages that stayed.
    kept: u64,
}

impl Inner {
    /// Background task: retention and eviction, each at its own interval, and expiry with the first retention and then
    /// once an hour at most.
    pub(crate) async fn run_upkeep(self: Arc<Self>) {
        let mut retention_at = Instant::now() + self.config.retention_interval;
        let mut eviction_at = Instant::now() + self.config.eviction_interval;
        let mut expire_at = Instant::now();
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
                if now >= expire_at {
                    expire_at = now + EXPIRE_INTERVAL;
                    report("expiry", self.expire().await);
                }
            }
        }
    }

    /// Remove unread messages that waited longer than their queue allows.
    pub(crate) async fn evict(&self) -> Result<u64, Refused> {
        let now = self.engine.now().earliest;
        let queues = self.catalog.queues_where(|q| q.options.max_wait_time_seconds > 0).into_iter();
        let due = queues.filter_map(|q| retention::eviction(&q.options, now).map(|at| (q, Rule::Unread, at)));
        self.trim_due(due.collect()).await
    }

    /// Remove messages that are past their time.
    pub(crate) async fn retain(&self) -> Result<u64, Refused> {
        let now = self.engine.now().earliest;
        let mut due: Vec<Due> = Vec::new();
        for queue in self.catalog.queues_where(|_| true) {
            let rules = retention::rules(&queue.options, self.config.completed_retention, now);
            due.extend(rules.into_iter().map(|(rule, before)| (queue.clone(), rule, before)));
        }
        self.trim_due(due).await
    }

    /// Remove dead letters, traces and idle lanes that are past their time.
    pub(crate) async fn expire(&self) -> Result<u64, Refused> {
        let now = self.engine.now().earliest;
        let age = |keep: Duration| (!keep.is_zero()).then(|| now.minus(keep));
        let expiries = [
            age(self.config.dead_letter_retention).map(Expire::DeadLetters),
            age(self.config.trace_retention).map(Expire::Traces),
            age(self.config.lane_retention).map(Expire::Lanes),
        ];
        let mut removed = 0;
        for what in expiries.into_iter().flatten() {
            let lanes =
                if matches!(what, Expire::Lanes(_)) { self.lanes_by_queue().await? } else { Vec::new() };
            let before = removed;
            loop {
                let step = self.watch(self.engine.expire(what, EXPIRE_STEP).await)?;
                removed += step;
                if step < EXPIRE_STEP as u64 {
                    break;
                }
            }
            if removed > before && !lanes.is_empty() {
                self.count_collected(&lanes, removed - before).await?;
            }
        }
        Ok(removed)
    }

    /// Queues and how many lanes they have.
    async fn lanes_by_queue(&self) -> Result<Vec<(QueueId, u64)>, Refused> {
        let tallies = self.watch(self.engine.tallies(None, self.engine.now().earliest).await)?;
        Ok(tallies.into_iter().map(|tally| (tally.queue, tally.lanes)).collect())
    }

    /// Count collected lanes by queue: a store says only how many there were in all, so by what is left. Lanes made or
    /// collected elsewhere at the same moment may shift the count between queues, never beyond the sum.
    async fn count_collected(&self, before: &[(QueueId, u64)], mut collected: u64) -> Result<(), Refused> {
        let after: HashMap<QueueId, u64> = self.lanes_by_queue().await?.into_iter().collect();
        for (queue, lanes) in before {
            let gone = lanes.saturating_sub(after.get(queue).copied().unwrap_or(0)).min(collected);
            let own = self.catalog.queue_by_id(*queue).is_some_and(|queue| is_system(&queue.name));
            collected -= gone;
            if gone > 0 && !own {
                self.meters.queues.of(*queue).lanes_deleted.add(gone);
                self.meters.stir();
            }
        }
        Ok(())
    }

    /// Ask for all queues together, in one call however many there are; only those with old lanes cost more.
    async fn trim_due(&self, due: Vec<Due>) -> Result<u64, Refused> {
        if due.is_empty() {
            return Ok(0);
        }
        // The answer is bounded: with many queues each tells little at first.
        let limit = (STEP / due.len()).max(1);
        let ask = |(queue, _, before): &Due| Aged { queue: queue.id, before: *before, after: None, limit };
        let timeline = self.timeline();
        let first = self.watch(self.engine.aged(due.iter().map(ask).collect()).await)?;
        let mut removed = 0;
        for ((queue, rule, before), lanes) in due.iter().zip(first) {
            let trimmed = self.trim_queue(queue, *rule, *before, (lanes, limit), timeline).await?;
            removed += trimmed.removed;
            self.count_removed(queue, *rule, trimmed.removed);
            if *rule == Rule::Consumed {
                self.meters.queues.set_overdue(queue.id, trimmed.kept);
            }
        }
        Ok(removed)
    }

    /// Trim these lanes of a queue, and those that follow if there were as many as asked for.
    async fn trim_queue(
        &self,
        queue: &Queue,
        rule: Rule,
        before: Timestamp,
        (mut lanes, mut limit): (Vec<AgedLane>, usize),
        timeline: u64,
    ) -> Result<Trimmed, Refused> {
        let mut trimmed = Trimmed::default();
        loop {
            let Some(last) = lanes.last() else { return Ok(trimmed) };
            let (after, full) = (Some(last.lane.id), lanes.len() == limit);
            let step = self.trim_lanes(queue, rule, lanes, timeline).await?;
            trimmed.removed += step.removed;
            trimmed.kept += step.kept;
            if !full {
                return Ok(trimmed);
            }
            limit = STEP;
            let query = Aged { queue: queue.id, before, after, limit };
            lanes = self.watch(self.engine.aged(vec![query]).await)?.pop().unwrap_or_default();
        }
    }

    async fn trim_lanes(
        &self,
        queue: &Queue,
        rule: Rule,
        mut lanes: Vec<AgedLane>,
        timeline: u64,
    ) -> Result<Trimmed, Refused> {
        if matches!(rule, Rule::Consumed | Rule::Unread) {
            self.count_silent_groups(queue, &mut lanes).await?;
        }
        let old =
            |lane: &AgedLane| lane.cut - retention::target(rule, lane).max(lane.lane.tail).min(lane.cut);
        let kept = lanes.iter().map(old).sum();
        let targets = lanes.iter().map(|lane| (lane.lane.tail, lane.lane.id, retention::target(rule, lane)));
        let trims: Vec<Trim> =
            targets.filter(|(tail, _, to)| to > tail).map(|(_, lane, to)| Trim { lane, to }).collect();
        if trims.is_empty() {
            return Ok(Trimmed { removed: 0, kept });
        }
        let trim = self.change(timeline, self.engine.trim(trims.clone())).await;
        let removed = self.watch(trim)?.iter().sum();
        self.trimmed(&trims);
        Ok(Trimmed { removed, kept })
    }

    /// Lanes were trimmed: remember it.
    pub(crate) fn trimmed(&self, trims: &[Trim]) {
        for trim in trims {
            if let Some(lane) = self.lanes.get(trim.lane) {
                let mut inner = lane.inner.lock();
                inner.lane.tail = inner.lane.tail.max(trim.to.min(inner.lane.head));
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
            // As loaded just now: other queues were worked on since this lane was found.
            let read = cursors.iter().filter_map(|c| c.cursor.as_ref()).map(|c| c.committed);
            let slowest: Option<Offset> = starts.chain(read).min();
            lane.slowest = slowest;
        }
        Ok(())
    }
}

fn report(what: &str, outcome: Result<u64, Refused>) {
    match outcome {
        Ok(0) => (),
        Ok(removed) => tracing::info!(removed, "{what} removed what was past its time"),
        Err(error) => tracing::warn!(%error, "{what} could not finish"),
    }
}

#[cfg(test)]
mod tests {
    use bugle_store::{
        Append, Catalog, Guard, LaneId, MemoryStore, NewLane, NewSegment, QueueId, QueueOptions, Store,
    };

    use super::*;
    use crate::{Broker, BrokerConfig};

    const NOW: Timestamp = Timestamp(1_000_000_000_000);

    /// A queue that keeps messages for ten seconds, with lanes written `age` seconds ago.
    async fn queue(store: &MemoryStore, name: &str, lanes: usize, age: u64) -> Vec<LaneId> {
        let options =
            QueueOptions { retention_enabled: true, retention_seconds: 10, ..QueueOptions::default() };
        let queue = Queue {
            id: QueueId::random(),
            name: name.into(),
            namespace: "".into(),
            task: "".into(),
            created_at: Timestamp(1),
            version: 1,
            options,
        };
        store.put_queue(queue.clone()).await.unwrap();
        let now = NOW.minus(Duration::from_secs(age));
        let new = (0..lanes).map(|n| NewLane { queue: queue.id, name: n.to_string().into(), now });
        let made = store.ensure_lanes(new.collect()).await.unwrap();
        let lanes: Vec<LaneId> = made.into_iter().map(|lane| lane.unwrap().id).collect();
        let segment = NewSegment { id: 1, fingerprints: Arc::new([1]), greatest: None, body: "x".into() };
        let append = |lane| Append { lane, known_head: 0, guard: Guard::Free, segment: segment.clone(), now };
        store.append(lanes.iter().copied().map(append).collect()).await.unwrap();
        lanes
    }

    #[tokio::test]
    async fn retention_reaches_every_lane_of_every_queue() {
        let store = Arc::new(MemoryStore::with_clock(Arc::new(|| NOW)));
        // More lanes than one answer for three queues tells of each, and than one step takes.
        let (many, one) = (queue(&store, "many", 1200, 20).await, queue(&store, "one", 1, 20).await);
        let young = queue(&store, "young", 3, 5).await;
        let broker = Broker::open(store.clone(), BrokerConfig::default()).await.unwrap();
        assert_eq!(broker.0.retain().await.unwrap(), 1201);
        assert_eq!(broker.0.retain().await.unwrap(), 0);
        for (lanes, kept) in [(many, 0), (one, 0), (young, 1)] {
            let loads = lanes.iter().map(|lane| Load::Lane(*lane, "g".into())).collect();
            let loaded = store.load(loads).await.unwrap();
            assert!(loaded.iter().flatten().all(|found| found.lane.head - found.lane.tail == kept));
        }
    }

    #[tokio::test]
    async fn idle_lanes_go_with_expiry_and_not_with_retention() {
        let store = Arc::new(MemoryStore::with_clock(Arc::new(|| NOW)));
        let lanes = queue(&store, "idle", 3, 200).await;
        let config = BrokerConfig { lane_retention: Duration::from_secs(100), ..BrokerConfig::default() };
        let broker = Broker::open(store.clone(), config).await.unwrap();
        let id = store.snapshot(None).await.unwrap().unwrap().queues[0].id;
        let left = async || store.lanes(id, None, 9).await.unwrap().len();
        assert_eq!(broker.0.retain().await.unwrap(), 3);
        assert_eq!(left().await, lanes.len());
        assert_eq!(broker.0.expire().await.unwrap(), 3);
        assert_eq!(broker.0.meters.queues.of(id).lanes_deleted.get(), 3);
        assert_eq!(left().await, 0);
    }
}
