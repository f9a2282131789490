//! Clearing a queue: its messages go, the queue, its partitions and its groups stay.

use std::sync::Arc;
use std::time::Duration;

use bugle_store::{Aged, AgedLane, LaneId, Offset, QUEUE_MODE, QueueId, Timestamp, Trim};

use crate::api::{Cleared, Refused};
use crate::inner::Inner;

/// Lanes looked for at a time.
const LANES: usize = 500;
/// Messages removed by one call, roughly: a lane may hold millions, and a call must not hold the store for long.
const MESSAGES: u64 = 50_000;
/// Stamps of other servers may lie ahead of the present here.
const AHEAD: Duration = Duration::from_secs(86_400);

impl Inner {
    /// See [`crate::Broker::clear_queue`].
    pub(crate) async fn clear_queue(
        self: &Arc<Self>,
        name: &str,
        partition: Option<&str>,
    ) -> Result<Cleared, Refused> {
        let missing = |what: &str| Refused::NotFound(format!("{what} not found"));
        let queue = self.known_queue(name).await.ok_or_else(|| missing("Queue"))?;
        let mut cleared = Cleared::default();
        if let Some(partition) = partition {
            let id = LaneId::derive(queue.id, partition);
            let timeline = self.timeline();
            let found = self.load_one(id, &QUEUE_MODE.into()).await?.ok_or_else(|| missing("Partition"))?;
            self.remove_all(vec![(id, found.lane.tail, found.lane.head)], &mut cleared, timeline).await?;
            return Ok(cleared);
        }
        let before = self.engine.now().latest.plus(AHEAD);
        let mut after = None;
        loop {
            let timeline = self.timeline();
            let lanes = self.filled_lanes(queue.id, before, after).await?;
            let Some(last) = lanes.last() else { return Ok(cleared) };
            after = Some(last.lane.id);
            let bounds = lanes.iter().map(|aged| (aged.lane.id, aged.lane.tail, aged.lane.head)).collect();
            self.remove_all(bounds, &mut cleared, timeline).await?;
        }
    }

    async fn filled_lanes(
        &self,
        queue: QueueId,
        before: Timestamp,
        after: Option<LaneId>,
    ) -> Result<Vec<AgedLane>, Refused> {
        let query = Aged { queue, before, after, limit: LANES };
        Ok(self.watch(self.engine.aged(vec![query]).await)?.pop().unwrap_or_default())
    }

    /// Remove what lies between these bounds, in steps.
    async fn remove_all(
        &self,
        mut lanes: Vec<(LaneId, Offset, Offset)>,
        cleared: &mut Cleared,
        timeline: u64,
    ) -> Result<(), Refused> {
        cleared.partitions += lanes.iter().filter(|(_, tail, head)| head > tail).count() as u64;
        loop {
            let trims = step(&mut lanes, MESSAGES);
            if trims.is_empty() {
                return Ok(());
            }
            let removed = self.watch(self.change(timeline, self.engine.trim(trims.clone())).await)?;
            cleared.messages += removed.iter().sum::<u64>();
            self.trimmed(&trims);
        }
    }
}

/// The next trims, of about so many messages; the lanes' tails move on.
fn step(lanes: &mut Vec<(LaneId, Offset, Offset)>, most: u64) -> Vec<Trim> {
    let (mut left, mut trims) = (most, Vec::new());
    for (lane, tail, head) in lanes.iter_mut() {
        if left == 0 {
            break;
        }
        let to = (*head).min(tail.saturating_add(left));
        if to > *tail {
            left -= to - *tail;
            trims.push(Trim { lane: *lane, to });
            *tail = to;
        }
    }
    lanes.retain(|(_, tail, head)| tail < head);
    trims
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_bounded_and_reach_every_head() {
        let queue = QueueId::random();
        let lane = |name: &str| LaneId::derive(queue, name);
        let mut lanes = vec![(lane("a"), 5, 25), (lane("b"), 3, 3), (lane("c"), 0, 7)];
        let mut steps = Vec::new();
        loop {
            let trims = step(&mut lanes, 12);
            if trims.is_empty() {
                break;
            }
            steps.push(trims);
        }
        let trim = |name: &str, to| Trim { lane: lane(name), to };
        assert_eq!(steps, [vec![trim("a", 17)], vec![trim("a", 25), trim("c", 4)], vec![trim("c", 7)]]);
    }
}
