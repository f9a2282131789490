//! Whether a transaction must be refused, before the partitions are made that it names and that are not there yet: a refused
//! one leaves nothing behind. Where all are there, nothing of this is done.

use std::sync::Arc;

use bugle_store::{LaneId, Load, QUEUE_MODE};

use crate::api::{PushItem, Refused};
use crate::inner::Inner;
use crate::push::{Work, bundle};

use super::{Parts, Setback, duplicates};

impl Inner {
    /// Why it is refused, if it would make partitions and is refused in any case.
    pub(super) async fn refused_beforehand(
        self: &Arc<Self>,
        parts: &Parts,
    ) -> Result<Option<Setback>, Refused> {
        if self.knows_all_lanes(parts) {
            return Ok(None);
        }
        let Some(known) = self.pushes_to_known(parts).await? else { return Ok(None) };
        // In this order, as where nothing is made: who repeats a transaction that happened is told of the duplicate.
        if let Some(setback) = self.duplicates_among(known).await? {
            return Ok(Some(setback));
        }
        Ok(self.settlement(parts).await?.err())
    }

    /// Whether all partitions are in memory, which is the usual case and must cost next to nothing.
    fn knows_all_lanes(&self, parts: &Parts) -> bool {
        let mut before: Option<&PushItem> = None;
        parts.pushes().all(|item| {
            let same = |other: &PushItem| other.queue == item.queue && other.partition == item.partition;
            before.replace(item).is_some_and(same) || {
                let queue = self.catalog.queue(&item.queue);
                queue.is_some_and(|queue| self.lanes.get(LaneId::derive(queue.id, &item.partition)).is_some())
            }
        })
    }

    /// The pushes to partitions that are there, if there are others.
    async fn pushes_to_known(self: &Arc<Self>, parts: &Parts) -> Result<Option<Vec<PushItem>>, Refused> {
        let (mut known, mut unknown) = (Vec::new(), Vec::new());
        let mut new = false;
        for item in parts.pushes() {
            let Some(queue) = self.known_queue(&item.queue).await else {
                new = true;
                continue;
            };
            let lane = LaneId::derive(queue.id, &item.partition);
            if self.lanes.get(lane).is_some() {
                known.push(item.clone());
            } else {
                unknown.push((lane, item));
            }
        }
        if !unknown.is_empty() {
            let loads = unknown.iter().map(|(lane, _)| Load::Lane(*lane, QUEUE_MODE.into())).collect();
            let found = self.watch(self.engine.load(loads).await)?;
            for ((_, item), found) in unknown.into_iter().zip(found) {
                if found.is_empty() {
                    new = true;
                } else {
                    known.push(item.clone());
                }
            }
        }
        Ok(new.then_some(known))
    }

    async fn duplicates_among(self: &Arc<Self>, pushes: Vec<PushItem>) -> Result<Option<Setback>, Refused> {
        let mut bundles = bundle(pushes);
        let routes = self.route(&bundles).await?;
        let mut works: Vec<Work> = bundles
            .iter_mut()
            .zip(routes)
            .map(|(bundle, (_, lane))| Work::alone(lane, std::mem::take(&mut bundle.messages), self, 0))
            .collect();
        self.catch_up(&mut works).await?;
        self.screen(&mut works).await?;
        Ok(duplicates(&works))
    }
}
