//! What a seek would do, without doing it.

use std::sync::Arc;

use bugle_store::{Group, LaneCursor, LaneId};

use crate::Broker;
use crate::api::{Refused, SeekPreview, SeekTo};
use crate::inner::Inner;
use crate::semantics::seek;
use crate::stats::PartitionPage;

use super::walk::Walk;

impl Broker {
    /// What [`Broker::seek`] with the same arguments would deliver. Nothing is changed.
    pub async fn preview_seek(
        &self,
        queue: &str,
        group: &Group,
        partition: Option<&str>,
        to: SeekTo,
    ) -> Result<SeekPreview, Refused> {
        let mut preview = match partition {
            None => self.0.preview_queue(queue, group, to).await?,
            Some(partition) => self.0.preview_lane(queue, group, partition, to).await?,
        };
        if partition.is_none() {
            let page = PartitionPage { after: None, limit: 1 };
            preview.pending = self.depth(queue, Some(group), page).await?.effective_pending();
        }
        Ok(preview)
    }
}

impl Inner {
    async fn preview_queue(
        self: &Arc<Self>,
        queue: &str,
        group: &Group,
        to: SeekTo,
    ) -> Result<SeekPreview, Refused> {
        let queue = self.existing_queue(queue).await?;
        let conflation = self.catalog.group(queue.id, group).is_some_and(|record| record.conflation);
        let mut walk = Walk::of(queue.id);
        let mut preview = SeekPreview::default();
        loop {
            let lanes = walk.next(self).await?;
            if lanes.is_empty() {
                return Ok(preview);
            }
            let found = self.load_group(&lanes, group).await?;
            self.add(&mut preview, &found, to, conflation).await?;
        }
    }

    async fn preview_lane(
        self: &Arc<Self>,
        queue: &str,
        group: &Group,
        partition: &str,
        to: SeekTo,
    ) -> Result<SeekPreview, Refused> {
        let queue = self.existing_queue(queue).await?;
        let conflation = self.catalog.group(queue.id, group).is_some_and(|record| record.conflation);
        let Some(found) = self.load_one(LaneId::derive(queue.id, partition), group).await? else {
            return Err(Refused::NotFound("Partition not found".into()));
        };
        let now = found.cursor.as_ref().map_or(found.lane.tail, |cursor| cursor.committed);
        let pending = seek::ahead(&found.lane, now, conflation);
        let mut preview = SeekPreview { pending, ..SeekPreview::default() };
        self.add(&mut preview, &[found], to, conflation).await?;
        Ok(preview)
    }

    async fn add(
        &self,
        preview: &mut SeekPreview,
        found: &[LaneCursor],
        to: SeekTo,
        conflation: bool,
    ) -> Result<(), Refused> {
        let targets = self.targets(found, to).await?;
        for (found, to) in found.iter().zip(targets) {
            let messages = seek::ahead(&found.lane, to, conflation);
            preview.messages += messages;
            preview.partitions += u64::from(messages > 0);
        }
        Ok(())
    }
}
