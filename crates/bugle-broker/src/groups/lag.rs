//! How far a group has come: every partition of every queue it has met, up to a bound.

use std::sync::Arc;
use std::time::Duration;

use bugle_store::{Group, GroupRecord, LaneCursor, LaneId, Offset, Position, Queue, Read, Start, Timestamp};

use crate::api::{GroupPartition, GroupQueue, Refused};
use crate::inner::Inner;
use crate::semantics::subscribe;

use super::walk::Walk;

/// Partitions in one answer.
const MOST: usize = 10_000;
/// Segments read in one call, for the sake of their stamps: each comes whole.
const READ_AT_ONCE: usize = 32;

impl Inner {
    /// See [`crate::Broker::group`].
    pub(crate) async fn group_lag(self: &Arc<Self>, group: &Group) -> Result<Vec<GroupQueue>, Refused> {
        self.latest_catalog().await?;
        let mut room = MOST;
        let mut queues = Vec::new();
        for queue in self.catalog.queues_of(group) {
            if let Some(record) = self.catalog.group(queue.id, group) {
                queues.push(self.queue_lag(&queue, &record, &mut room).await?);
            }
        }
        Ok(queues)
    }

    async fn queue_lag(
        &self,
        queue: &Queue,
        record: &GroupRecord,
        room: &mut usize,
    ) -> Result<GroupQueue, Refused> {
        let mut walk = Walk::of(queue.id);
        let mut answer = GroupQueue { queue: queue.name.clone(), partitions: Vec::new(), truncated: false };
        loop {
            let mut lanes = walk.next(self).await?;
            if lanes.is_empty() {
                return Ok(answer);
            }
            answer.truncated = lanes.len() > *room;
            lanes.truncate(*room);
            *room -= lanes.len();
            if !lanes.is_empty() {
                let found = self.load_group(&lanes, &record.group).await?;
                answer.partitions.extend(self.partitions(found, record.start).await?);
            }
            if answer.truncated {
                return Ok(answer);
            }
        }
    }

    async fn partitions(&self, found: Vec<LaneCursor>, start: Start) -> Result<Vec<GroupPartition>, Refused> {
        let next = self.next_offsets(&found, start).await?;
        let lagging: Vec<(LaneId, Offset)> = found
            .iter()
            .zip(&next)
            .filter(|(found, next)| found.lane.head > **next)
            .map(|(found, next)| (found.lane.id, *next))
            .collect();
        let mut stamps = self.stamps(&lagging).await?.into_iter();
        let now = self.engine.now().latest;
        let partition = |(found, next): (LaneCursor, Offset)| {
            let lag = found.lane.head.saturating_sub(next);
            let oldest = if lag > 0 { stamps.next().flatten() } else { None };
            let cursor = found.cursor.as_ref();
            let held = cursor.and_then(|c| c.lease).filter(|lease| now < lease.until);
            GroupPartition {
                partition: found.lane.name.clone(),
                lease: held.map(|lease| lease.id),
                served_at: cursor.map(|c| c.served_at).filter(|at| *at > Timestamp::ZERO),
                consumed: cursor.map_or(0, |c| c.consumed),
                lag,
                behind: oldest.map_or(Duration::ZERO, |at| now.since(at)),
            }
        };
        Ok(found.into_iter().zip(next).map(partition).collect())
    }

    /// What the group would be given next in each lane.
    pub(crate) async fn next_offsets(
        &self,
        found: &[LaneCursor],
        start: Start,
    ) -> Result<Vec<Offset>, Refused> {
        let mut next = Vec::with_capacity(found.len());
        let (mut positions, mut position_for) = (Vec::new(), Vec::new());
        for (i, found) in found.iter().enumerate() {
            let (cursor, lane) = (&found.cursor, &found.lane);
            next.push(cursor.as_ref().map_or(lane.tail, |cursor| cursor.committed.max(lane.tail)));
            if let Some(at) = subscribe::begins_after(start, lane).filter(|_| cursor.is_none()) {
                positions.push(Position { lane: lane.id, at });
                position_for.push(i);
            }
        }
        if !positions.is_empty() {
            let offsets = self.watch(self.engine.position(positions).await)?;
            for (i, offset) in position_for.into_iter().zip(offsets) {
                next[i] = offset;
            }
        }
        Ok(next)
    }

    /// When the messages at these offsets were pushed, from memory where possible.
    pub(crate) async fn stamps(
        &self,
        wanted: &[(LaneId, Offset)],
    ) -> Result<Vec<Option<Timestamp>>, Refused> {
        let remembered = |(lane, at): &(LaneId, Offset)| {
            let segments = self.lanes.get(*lane)?.cached(*at, *at + 1)?;
            segments.first().map(|segment| segment.created_at)
        };
        let mut stamps: Vec<Option<Timestamp>> = wanted.iter().map(remembered).collect();
        let missing: Vec<usize> = (0..wanted.len()).filter(|i| stamps[*i].is_none()).collect();
        for some in missing.chunks(READ_AT_ONCE) {
            let read = |i: &usize| {
                let (lane, from) = wanted[*i];
                Read { lane, from, to: from + 1, max_bytes: 1 }
            };
            let segments = self.watch(self.engine.read(some.iter().map(read).collect()).await)?;
            for (i, segments) in some.iter().zip(segments) {
                stamps[*i] = segments.first().map(|segment| segment.created_at);
            }
        }
        Ok(stamps)
    }
}
