//! All groups on all queues, and the partitions in which they are behind.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bugle_store::{Group, Position, QueueId, Timestamp};

use crate::api::{GroupStats, LaggingPartition, QueueFilter, Refused};
use crate::inner::Inner;
use crate::semantics::backlog;

use super::behind::{self, Behind, Wanted};
use super::count::{Counted, Reader};

/// Who asks for lagging partitions wants them found: more is looked at than for a list.
const LAGGING_PAIRS: usize = 10_000;
const LAGGING_LANES: u64 = 100_000;
/// Lanes asked about by one call.
const AT_ONCE: usize = 1000;

impl Inner {
    /// See [`crate::Broker::group_stats`].
    pub(super) async fn group_stats(self: &Arc<Self>) -> Result<Vec<GroupStats>, Refused> {
        let counted = self.count(&QueueFilter::default()).await?;
        let wanted = behind::most(late(&counted));
        let lanes = self.behind(&wanted).await?;
        let now = self.engine.now().latest;
        let ages = self.oldest(&lanes).await?.into_iter().map(|at| at.map(|at| now.since(at)));
        let key = |wanted: Wanted| (wanted.queue.id, wanted.group);
        let ages: HashMap<(QueueId, Group), Option<Duration>> =
            wanted.into_iter().map(key).zip(ages).collect();
        let mut groups: Vec<GroupStats> = Vec::new();
        for queue in counted {
            for reader in queue.readers {
                let looked = ages.get(&(queue.queue.id, reader.group.clone())).copied().flatten();
                let none = (reader.backlog.messages == 0).then_some(Duration::ZERO);
                groups.push(group(queue.queue.clone(), reader, looked.or(none)));
            }
        }
        groups.sort_by(|a, b| (&a.group, &a.queue.name).cmp(&(&b.group, &b.queue.name)));
        Ok(groups)
    }

    /// See [`crate::Broker::lagging`].
    pub(super) async fn lagging(
        self: &Arc<Self>,
        seconds: u64,
        limit: usize,
    ) -> Result<Vec<LaggingPartition>, Refused> {
        let counted = self.count(&QueueFilter::default()).await?;
        let wanted = behind::within(late(&counted), LAGGING_PAIRS, LAGGING_LANES);
        let lanes = self.behind(&wanted).await?;
        let all = wanted.iter().zip(lanes).flat_map(|(w, lanes)| lanes.into_iter().map(move |b| (w, b)));
        let mut lagging = self.older(all.collect(), Duration::from_secs(seconds)).await?;
        lagging.sort_by_key(|(_, behind)| Reverse(behind.lag()));
        lagging.truncate(limit);
        let lanes: Vec<&Behind> = lagging.iter().map(|(_, behind)| behind).collect();
        let stamps = self.stamps_of(&lanes).await?;
        let now = self.engine.now().latest;
        let mut partitions: Vec<LaggingPartition> = lagging
            .into_iter()
            .zip(stamps)
            .filter_map(|((wanted, behind), oldest)| Some(partition(wanted, behind, oldest?, now)))
            .collect();
        partitions.sort_by_key(|partition| partition.oldest);
        Ok(partitions)
    }

    /// Those whose next message is at least so old.
    async fn older<'w>(
        &self,
        all: Vec<(&'w Wanted, Behind)>,
        age: Duration,
    ) -> Result<Vec<(&'w Wanted, Behind)>, Refused> {
        let before = self.engine.now().latest.minus(age);
        if age.is_zero() {
            return Ok(all);
        }
        let mut older = Vec::new();
        let mut all = all.into_iter().peekable();
        while all.peek().is_some() {
            let some: Vec<_> = all.by_ref().take(AT_ONCE).collect();
            let ask = some.iter().map(|(_, behind)| Position { lane: behind.found.lane.id, at: before });
            let first_young = self.watch(self.engine.position(ask.collect()).await)?;
            let old = some.into_iter().zip(first_young).filter(|((_, behind), young)| behind.next < *young);
            older.extend(old.map(|(behind, _)| behind));
        }
        Ok(older)
    }
}

/// Groups that have something before them.
fn late(counted: &[Counted]) -> Vec<Wanted> {
    let all = counted.iter().flat_map(|queue| queue.readers.iter().map(move |reader| (queue, reader)));
    let late = all.filter(|(_, reader)| reader.backlog.messages > 0);
    late.map(|(queue, reader)| queue.wanted(reader)).collect()
}

fn group(queue: Arc<bugle_store::Queue>, reader: Reader, behind: Option<Duration>) -> GroupStats {
    GroupStats {
        state: backlog::state(behind, &reader.tally),
        group: reader.group,
        queue,
        record: reader.record,
        cursors: reader.tally.cursors,
        partitions_behind: reader.backlog.lanes,
        lag: reader.backlog.messages,
        at_most: reader.at_most,
        behind,
        consumed: reader.tally.consumed,
    }
}

fn partition(wanted: &Wanted, behind: Behind, oldest: Timestamp, now: Timestamp) -> LaggingPartition {
    let lag = behind.lag();
    let cursor = behind.found.cursor;
    let held = cursor.as_ref().and_then(|c| c.lease).filter(|lease| now < lease.until);
    LaggingPartition {
        group: wanted.group.clone(),
        queue: wanted.queue.name.clone(),
        partition: behind.found.lane.name,
        id: behind.found.lane.id,
        lease: held.map(|lease| lease.id),
        lag,
        oldest,
        behind: now.since(oldest),
        served_at: cursor.map(|c| c.served_at).filter(|at| *at > Timestamp::ZERO),
    }
}
