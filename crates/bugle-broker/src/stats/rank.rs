//! The partitions with most to be delivered.
//!
//! No partition has more before it than its queue has in all. So queues are looked at from the largest backlog down, until
//! none that is left can have a partition among the first.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::api::{QueueFilter, RankedPartition, Refused};
use crate::inner::Inner;
use crate::semantics::backlog;

use super::behind::{self, Behind};
use super::count::Counted;

/// Queues looked at together.
const QUEUES_AT_ONCE: usize = 16;

impl Inner {
    /// See [`crate::Broker::ranked_partitions`].
    pub(super) async fn ranked_partitions(
        self: &Arc<Self>,
        queue: Option<&Arc<str>>,
        limit: usize,
    ) -> Result<Vec<RankedPartition>, Refused> {
        let counted = match queue {
            Some(queue) => vec![self.count_one(queue).await?],
            None => self.count(&QueueFilter::default()).await?,
        };
        let wanted = behind::most(counted.iter().map(Counted::judge).collect());
        let mut first: Vec<(RankedPartition, Behind)> = Vec::new();
        for some in wanted.chunks(QUEUES_AT_ONCE) {
            let least = first.get(limit.wrapping_sub(1)).map_or(0, |(partition, _)| partition.pending);
            if some.first().is_some_and(|wanted| wanted.backlog.messages < least) {
                break;
            }
            let now = self.engine.now().earliest;
            for (wanted, lanes) in some.iter().zip(self.behind(some).await?) {
                first.extend(
                    lanes.into_iter().map(|behind| (ranked(&wanted.queue.name, &behind, now), behind)),
                );
            }
            first.sort_by(|(a, _), (b, _)| {
                let key = |p: &RankedPartition| Reverse((p.pending, p.processing));
                key(a).cmp(&key(b)).then_with(|| (&a.queue, &a.partition).cmp(&(&b.queue, &b.partition)))
            });
            first.truncate(limit);
        }
        let lanes: Vec<&Behind> = first.iter().map(|(_, behind)| behind).collect();
        let stamps = self.stamps_of(&lanes).await?;
        let now = self.engine.now().latest;
        let dated = |((partition, _), at): ((RankedPartition, Behind), Option<_>)| RankedPartition {
            behind: at.map(|at| now.since(at)),
            ..partition
        };
        Ok(first.into_iter().zip(stamps).map(dated).collect())
    }
}

fn ranked(queue: &Arc<str>, behind: &Behind, now: bugle_store::Timestamp) -> RankedPartition {
    let (lane, lag) = (&behind.found.lane, behind.lag());
    let counts = backlog::counts(lag, lag, backlog::leased(lane, behind.found.cursor.as_ref(), now), 0);
    RankedPartition {
        queue: queue.clone(),
        partition: lane.name.clone(),
        id: lane.id,
        pending: counts.pending,
        processing: counts.processing,
        behind: None,
    }
}
