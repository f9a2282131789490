//! Consumer groups as operators see them: sent elsewhere, deleted, looked at.
//!
//! Where a group reads is told by its cursors, and by its record where it has none. Both are changed in the store first. Then
//! the record is stored once more as another one ([`seek::restated`]): that a cursor went back can be seen by nobody
//! who does not look at exactly that lane, but a changed record is found by every server, at the latest by its floor. Who
//! finds it forgets the group's channel, and those who wait there ask the store again.

mod lag;
mod preview;
mod walk;

use std::sync::Arc;

use bugle_store::{
    Cursor, Group, Lane, LaneCursor, LaneId, Load, Offset, Position, Queue, Start, SwapError, Timestamp,
};

use crate::Broker;
use crate::api::{GroupDeleted, GroupQueue, Refused, SeekTo, Sought};
use crate::catalog::first_contact;
use crate::inner::{Inner, to_its_end};
use crate::news::News;
use crate::pop::plain_swap;
use crate::semantics::{seek, subscribe};

use walk::Walk;

/// Exchanges of one cursor, or of one record, that may be lost in a row.
const MAX_TRIES: u32 = 16;

/// A cursor on its way.
struct Moving {
    lane: LaneId,
    cursor: Cursor,
    to: Offset,
}

impl Broker {
    /// Send a consumer group elsewhere, on all partitions of a queue or on one. Leases end; nothing is removed.
    pub async fn seek(
        &self,
        queue: &str,
        group: &Group,
        partition: Option<&str>,
        to: SeekTo,
    ) -> Result<Sought, Refused> {
        let (inner, queue, group) = (self.0.clone(), queue.to_owned(), group.clone());
        let partition = partition.map(str::to_owned);
        to_its_end(async move {
            match partition {
                None => inner.seek_queue(&queue, &group, to).await,
                Some(partition) => inner.seek_lane(&queue, &group, &partition, to).await,
            }
        })
        .await
    }

    /// Forget how far a consumer group has come, on one queue or on all, and, if asked, how it reads. Its dead letters
    /// stay.
    pub async fn delete_group(
        &self,
        group: &Group,
        queue: Option<&str>,
        metadata: bool,
    ) -> Result<GroupDeleted, Refused> {
        let (inner, group, queue) = (self.0.clone(), group.clone(), queue.map(str::to_owned));
        to_its_end(async move { inner.delete_group(&group, queue.as_deref(), metadata).await }).await
    }

    /// Let a consumer group begin behind `from` in all partitions it has not met. Answers the number of queues.
    pub async fn subscription(&self, group: &Group, from: Timestamp) -> Result<u64, Refused> {
        let (inner, group) = (self.0.clone(), group.clone());
        to_its_end(async move { inner.subscription(&group, from).await }).await
    }

    /// How far a consumer group has come, by queue; empty if nobody knows it.
    pub async fn group(&self, group: &Group) -> Result<Vec<GroupQueue>, Refused> {
        self.0.group_lag(group).await
    }
}

impl Inner {
    /// See [`crate::Broker::seek`]: all partitions of a queue.
    pub(crate) async fn seek_queue(
        self: &Arc<Self>,
        queue: &str,
        group: &Group,
        to: SeekTo,
    ) -> Result<Sought, Refused> {
        let queue = self.existing_queue(queue).await?;
        // The record first: from now on new cursors begin where they should.
        let start = seek::start(to, self.engine.now().latest);
        let known = self.restate(&queue, group, Some(start)).await?;
        let moved = self.seek_lanes(&queue, group, to, known).await;
        // Even if not all were moved, those that were must be found.
        self.restate(&queue, group, None).await?;
        let partitions = moved?;
        tracing::info!(queue = %queue.name, %group, ?to, partitions, "consumer group sought");
        Ok(Sought { partitions, position: None })
    }

    /// Move all cursors of a group. Somebody who has not heard of the new record yet may still make one by the old one: so
    /// if there was an old one, cursors are made wherever there are messages.
    async fn seek_lanes(
        &self,
        queue: &Queue,
        group: &Group,
        to: SeekTo,
        known: bool,
    ) -> Result<u64, Refused> {
        let mut walk = Walk::of(queue.id);
        let mut moved = 0;
        loop {
            let lanes = walk.next(self).await?;
            if lanes.is_empty() {
                return Ok(moved);
            }
            let timeline = self.timeline();
            let mut found = self.load_group(&lanes, group).await?;
            moved += found.iter().filter(|found| found.cursor.is_some()).count() as u64;
            found.retain(|found| found.cursor.is_some() || (known && found.lane.head > found.lane.tail));
            self.move_cursors(found, group, to, timeline).await?;
        }
    }

    /// See [`crate::Broker::seek`]: one partition.
    pub(crate) async fn seek_lane(
        self: &Arc<Self>,
        queue: &str,
        group: &Group,
        partition: &str,
        to: SeekTo,
    ) -> Result<Sought, Refused> {
        let queue = self.existing_queue(queue).await?;
        let timeline = self.timeline();
        let Some(found) = self.load_one(LaneId::derive(queue.id, partition), group).await? else {
            return Err(Refused::NotFound("Partition not found".into()));
        };
        let moved = self.move_cursors(vec![found], group, to, timeline).await;
        self.restate(&queue, group, None).await?;
        let position = moved?.pop();
        tracing::info!(queue = %queue.name, partition, %group, ?to, "consumer group sought");
        Ok(Sought { partitions: 1, position })
    }

    /// Send these cursors where they should be; they are made where there are none. Answers their positions.
    async fn move_cursors(
        &self,
        found: Vec<LaneCursor>,
        group: &Group,
        to: SeekTo,
        timeline: u64,
    ) -> Result<Vec<Offset>, Refused> {
        let targets = self.targets(&found, to).await?;
        let mut open: Vec<Moving> =
            found.into_iter().zip(&targets).map(|(f, to)| Moving::new(f, *to)).collect();
        for _ in 0..MAX_TRIES {
            let now = self.engine.now();
            let (mut swaps, mut moving) = (Vec::new(), Vec::new());
            for cursor in open {
                if let Some(next) = seek::moved(&cursor.cursor, cursor.to, now) {
                    swaps.push(plain_swap(cursor.lane, group, &cursor.cursor, next));
                    moving.push(cursor);
                }
            }
            if swaps.is_empty() {
                return Ok(targets);
            }
            let outcomes = self.watch(self.change(timeline, self.engine.swap(swaps)).await)?;
            open = Vec::new();
            for (mut cursor, outcome) in moving.into_iter().zip(outcomes) {
                if let Err(SwapError::Moved(row)) = outcome {
                    cursor.cursor = row.unwrap_or_else(|| Cursor::fresh(cursor.to));
                    open.push(cursor);
                }
            }
        }
        if open.is_empty() {
            Ok(targets)
        } else {
            Err(self.busy("the group's cursors are changed by too many"))
        }
    }

    async fn targets(&self, found: &[LaneCursor], to: SeekTo) -> Result<Vec<Offset>, Refused> {
        if let SeekTo::Time(at) = to {
            let positions = found.iter().map(|found| Position { lane: found.lane.id, at }).collect();
            return self.watch(self.engine.position(positions).await);
        }
        Ok(found.iter().map(|found| seek::target(to, &found.lane).unwrap_or(found.lane.head)).collect())
    }

    /// These lanes with a group's cursors; those that are gone are left out.
    pub(crate) async fn load_group(&self, lanes: &[Lane], group: &Group) -> Result<Vec<LaneCursor>, Refused> {
        let loads = lanes.iter().map(|lane| Load::Lane(lane.id, group.clone())).collect();
        Ok(self.watch(self.engine.load(loads).await)?.into_iter().flatten().collect())
    }

    /// See [`crate::Broker::delete_group`].
    pub(crate) async fn delete_group(
        self: &Arc<Self>,
        group: &Group,
        queue: Option<&str>,
        metadata: bool,
    ) -> Result<GroupDeleted, Refused> {
        let queues = match queue {
            Some(queue) => vec![self.existing_queue(queue).await?],
            None => {
                self.latest_catalog().await?;
                self.catalog.queues_of(group)
            }
        };
        let mut deleted = GroupDeleted::default();
        for queue in queues {
            let known = self.catalog.group(queue.id, group).is_some();
            let removed = self.watch(self.engine.delete_group(queue.id, group.clone(), metadata).await);
            if removed.is_ok() && known && !metadata {
                self.restate(&queue, group, None).await?;
            } else if removed.is_ok() {
                self.catalog.forget_group(queue.id, group);
            }
            // Also if the outcome is not known: what is remembered may be old.
            self.renew_channel(queue.id, group);
            self.tell(News::Catalog);
            deleted.partitions += removed?;
            deleted.metadata |= metadata && known;
        }
        tracing::info!(%group, queue, ?deleted, "consumer group deleted");
        Ok(deleted)
    }

    /// See [`crate::Broker::subscription`].
    pub(crate) async fn subscription(
        self: &Arc<Self>,
        group: &Group,
        from: Timestamp,
    ) -> Result<u64, Refused> {
        self.latest_catalog().await?;
        let queues = self.catalog.queues_of(group);
        for queue in &queues {
            self.restate(queue, group, Some(Start::From(from))).await?;
        }
        tracing::info!(%group, ?from, queues = queues.len(), "subscription changed");
        Ok(queues.len() as u64)
    }

    /// Store a group's record as another one, with this start or the one it has, and let everybody know. It is made if
    /// there is none. Answers whether there was one.
    async fn restate(
        self: &Arc<Self>,
        queue: &Queue,
        group: &Group,
        start: Option<Start>,
    ) -> Result<bool, Refused> {
        for _ in 0..MAX_TRIES {
            let now = self.engine.now().latest;
            let known = self.catalog.group(queue.id, group);
            let stored = if let Some(known) = &known {
                let next = seek::restated(known, start, now);
                let stored = self.watch(self.engine.update_group(next.clone()).await)?;
                if stored {
                    self.catalog.learn_group(next);
                } else {
                    self.catalog.forget_group(queue.id, group);
                }
                stored
            } else {
                self.introduce(queue, group, start, now).await?
            };
            if stored {
                self.renew_channel(queue.id, group);
                self.tell(News::Catalog);
                return Ok(known.is_some());
            }
        }
        Err(self.busy("the consumer group is changed by too many"))
    }

    /// A group's first contact with a queue, made for it. `false` = somebody else was first.
    async fn introduce(
        self: &Arc<Self>,
        queue: &Queue,
        group: &Group,
        start: Option<Start>,
        now: Timestamp,
    ) -> Result<bool, Refused> {
        let start = match start {
            Some(start) => start,
            None => subscribe::start(group, None, None, &self.config.default_subscription_mode, now)
                .map_err(Refused::Invalid)?,
        };
        let record = first_contact(queue.id, group, start, false, now);
        let Some(stored) = self.watch(self.catalog.ensure_group(record.clone()).await)? else {
            self.forget_queue(queue.id);
            return Err(no_queue());
        };
        Ok(*stored == record)
    }

    /// A queue as the store has it now.
    async fn existing_queue(self: &Arc<Self>, name: &str) -> Result<Arc<Queue>, Refused> {
        self.latest_catalog().await?;
        self.catalog.queue(name).ok_or_else(no_queue)
    }
}

fn no_queue() -> Refused {
    Refused::NotFound("Queue not found".into())
}

impl Moving {
    fn new(found: LaneCursor, to: Offset) -> Self {
        let cursor = found.cursor.unwrap_or_else(|| Cursor::fresh(to));
        Self { lane: found.lane.id, cursor, to }
    }
}
