//! One queue, partition by partition.

use std::collections::HashMap;
use std::sync::Arc;

use bugle_store::{
    DeadLetterFilter, Ends, Group, Lane, LaneCursor, LaneId, Offset, Page, QUEUE_MODE, Start, Timestamp,
};

use crate::api::{Depth, PartitionStats, QueueDetail, Refused};
use crate::inner::Inner;
use crate::semantics::backlog::{self, Backlog};

use super::PartitionPage;
use super::behind::Behind;
use super::count::Counted;

/// Partitions looked at by one call.
const AT_ONCE: usize = 500;
/// Dead letters up to which all of a queue are looked at, so many at a time; if there are more, they are counted partition
/// by partition.
const MAX_LETTERS: u64 = 10_000;
const LETTERS_AT_ONCE: usize = 256;

/// Partitions with a group's cursors, and where it goes on in each.
struct Walked {
    lanes: Vec<(LaneCursor, Offset)>,
    truncated: bool,
}

impl Inner {
    /// See [`crate::Broker::queue_detail`].
    pub(super) async fn queue_detail(
        self: &Arc<Self>,
        queue: &str,
        page: PartitionPage,
    ) -> Result<QueueDetail, Refused> {
        let counted = self.count_one(queue).await?;
        let judge = counted.judge();
        let walked = self.walk(&counted, &judge.group, judge.start, page).await?;
        let dead = self.dead_by_lane(&counted, &walked.lanes).await?;
        let oldest = self.oldest_kept(&walked.lanes).await?;
        let now = self.engine.now().earliest;
        let partitions = walked.lanes.into_iter().zip(oldest).map(|((found, next), oldest)| {
            let dead = dead.get(&found.lane.id).copied().unwrap_or(0);
            partition(found, next, dead, oldest, now)
        });
        Ok(QueueDetail {
            partitions: partitions.collect(),
            stats: counted.stats(),
            truncated: walked.truncated,
        })
    }

    /// See [`crate::Broker::depth`].
    pub(super) async fn depth(
        self: &Arc<Self>,
        queue: &str,
        group: Option<&Group>,
        page: PartitionPage,
    ) -> Result<Depth, Refused> {
        let counted = self.count_one(queue).await?;
        let reader = match group {
            Some(group) => counted.reader(group),
            None => counted.reference(),
        };
        let nobody = Backlog { messages: counted.tally.kept, lanes: counted.tally.filled };
        let backlog = reader.map_or(nobody, |reader| reader.backlog);
        let start = reader.map_or(Start::All, |reader| reader.start());
        let record = reader.and_then(|reader| reader.record.as_ref());
        let anonymous: Group = QUEUE_MODE.into();
        let name = group.or(reader.map(|reader| &reader.group)).unwrap_or(&anonymous);
        let walked = self.walk(&counted, name, start, page).await?;
        let pending = |(found, next): &(LaneCursor, Offset)| {
            (found.lane.name.clone(), found.lane.head.saturating_sub(*next))
        };
        Ok(Depth {
            queue: counted.queue.name.clone(),
            group: group.cloned(),
            pending: backlog.messages,
            partitions_pending: backlog.lanes,
            // A property of a group, not of a queue.
            conflation: group.is_some() && record.is_some_and(|record| record.conflation),
            partitions: walked.lanes.iter().map(pending).collect(),
            truncated: walked.truncated,
        })
    }

    async fn walk(
        &self,
        counted: &Counted,
        group: &Group,
        start: Start,
        page: PartitionPage,
    ) -> Result<Walked, Refused> {
        let mut lanes = Vec::new();
        let mut after = page.after;
        let mut room = page.limit;
        loop {
            // One more than there is room for tells whether there are more.
            let limit = AT_ONCE.min(room + 1);
            let mut some: Vec<Lane> =
                self.watch(self.engine.lanes(counted.queue.id, after.clone(), limit).await)?;
            let last = some.len() < limit;
            let truncated = some.len() > room;
            some.truncate(room);
            room -= some.len();
            after = some.last().map(|lane| lane.name.clone());
            let found = self.load_group(&some, group).await?;
            let next = self.next_offsets(&found, start).await?;
            lanes.extend(found.into_iter().zip(next));
            if last || truncated {
                return Ok(Walked { lanes, truncated });
            }
        }
    }

    /// Dead letters of these partitions.
    async fn dead_by_lane(
        &self,
        counted: &Counted,
        lanes: &[(LaneCursor, Offset)],
    ) -> Result<HashMap<LaneId, u64>, Refused> {
        let mut dead = HashMap::new();
        if counted.tally.dead > MAX_LETTERS {
            for (found, _) in lanes {
                let lane = Some(found.lane.id);
                let filter = DeadLetterFilter { lane, ..DeadLetterFilter::default() };
                let page = Page { offset: 0, limit: 1 };
                let (_, letters) = self.watch(self.engine.dead_letters(filter, page).await)?;
                dead.insert(found.lane.id, letters);
            }
            return Ok(dead);
        }
        let filter = DeadLetterFilter { queue: Some(counted.queue.id), ..DeadLetterFilter::default() };
        let mut after = None;
        // Letters that come in meanwhile must not keep this going.
        let mut left = counted.tally.dead;
        while left > 0 {
            let letters = self.engine.dead_letters_after(filter.clone(), after, LETTERS_AT_ONCE).await;
            let letters = self.watch(letters)?;
            let Some(last) = letters.last() else { break };
            after = Some((last.failed_at, last.id));
            left = left.saturating_sub(letters.len() as u64);
            for letter in letters {
                *dead.entry(letter.lane).or_default() += 1;
            }
        }
        Ok(dead)
    }

    /// When the oldest message of each partition was pushed that is kept.
    async fn oldest_kept(&self, lanes: &[(LaneCursor, Offset)]) -> Result<Vec<Option<Timestamp>>, Refused> {
        let filled: Vec<Behind> = lanes
            .iter()
            .filter(|(found, _)| Ends::of(&found.lane).filled())
            .map(|(found, _)| Behind { next: found.lane.tail, found: found.clone() })
            .collect();
        let mut stamps = self.stamps_of(&filled.iter().collect::<Vec<_>>()).await?.into_iter();
        let stamp = |(found, _): &(LaneCursor, Offset)| {
            Ends::of(&found.lane).filled().then(|| stamps.next().flatten()).flatten()
        };
        Ok(lanes.iter().map(stamp).collect())
    }
}

fn partition(
    found: LaneCursor,
    next: Offset,
    dead: u64,
    oldest: Option<Timestamp>,
    now: Timestamp,
) -> PartitionStats {
    let LaneCursor { lane, cursor, .. } = found;
    let leased = backlog::leased(&lane, cursor.as_ref(), now);
    let kept = Ends::of(&lane).kept();
    let served_at = cursor.as_ref().map_or(Timestamp::ZERO, |cursor| cursor.served_at);
    PartitionStats {
        messages: backlog::counts(kept, lane.head.saturating_sub(next), leased, dead),
        consumed: cursor.map_or(0, |cursor| cursor.consumed),
        active_at: lane.written_at.max(served_at),
        oldest,
        newest: (kept > 0).then_some(lane.written_at),
        id: lane.id,
        name: lane.name,
        created_at: lane.created_at,
    }
}
