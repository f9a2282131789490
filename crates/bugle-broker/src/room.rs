//! `maxSize`, where a queue enforces it: how many messages wait, counted by a probe now and then and by our own pushes
//! in between. What other servers push between two counts is not seen, so the bound may be overshot by that much.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use bugle_store::{Enforced, Group, Probe, Queue, QueueId};

use crate::api::Refused;
use crate::inner::Inner;

/// How long a count is trusted.
const COUNT_FOR: Duration = Duration::from_millis(200);
const PAGE: usize = 10_000;

/// Counts by queue.
#[derive(Default)]
pub(crate) struct Rooms(Mutex<HashMap<QueueId, (Instant, u64)>>);

impl Inner {
    /// Refuse a push that would exceed an enforced `maxSize`.
    pub(crate) async fn check_room(&self, queue: &Queue, adding: usize) -> Result<(), Refused> {
        let options = &queue.options;
        if options.max_size == 0 || !options.enforces(Enforced::MaxSize) {
            return Ok(());
        }
        let counted = self.rooms.0.lock().get(&queue.id).filter(|(at, _)| at.elapsed() < COUNT_FOR).copied();
        let (at, waiting) = match counted {
            Some(counted) => counted,
            None => (Instant::now(), self.count_waiting(queue).await?),
        };
        let total = waiting + adding as u64;
        if total > options.max_size {
            self.rooms.0.lock().insert(queue.id, (at, waiting));
            return Err(Refused::Busy {
                reason: format!(
                    "queue {:?} is full: {waiting} of maxSize {} messages wait",
                    queue.name, options.max_size
                ),
                retry_after: Duration::from_secs(1),
            });
        }
        self.rooms.0.lock().insert(queue.id, (at, total));
        Ok(())
    }

    /// Messages the slowest group has yet to read; all kept ones if nobody reads.
    async fn count_waiting(&self, queue: &Queue) -> Result<u64, Refused> {
        let mut groups: Vec<Group> = self.catalog.groups(queue.id).iter().map(|g| g.group.clone()).collect();
        if groups.is_empty() {
            groups.push(bugle_store::QUEUE_MODE.into());
        }
        let mut most = 0;
        for group in groups {
            let mut after = None;
            let mut total = 0;
            loop {
                let probe = Probe {
                    queue: queue.id,
                    group: group.clone(),
                    since: None,
                    recheck: Vec::new(),
                    after,
                    limit: PAGE,
                };
                let page = self.watch(self.engine.probe(vec![probe]).await)?.pop().unwrap_or_default();
                for found in &page.lanes {
                    let read =
                        found.cursor.as_ref().map_or(found.lane.tail, |c| c.committed.max(found.lane.tail));
                    total += found.lane.head.saturating_sub(read);
                }
                after = page.lanes.last().map(|l| l.lane.id);
                if !page.more {
                    break;
                }
            }
            most = most.max(total);
        }
        Ok(most)
    }
}
