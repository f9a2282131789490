//! Groups that are behind, lane by lane: where they are, and since when the oldest message waits for them.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use bugle_store::{Group, LaneCursor, LaneId, Offset, Probe, Queue, Start, Timestamp};

use crate::api::Refused;
use crate::inner::Inner;
use crate::semantics::backlog::Backlog;

/// Groups on queues looked for in one request.
pub(super) const MAX_PAIRS: usize = 1000;
/// Lanes of their queues.
pub(super) const MAX_LANES: u64 = 20_000;
/// Segments read in one request for the sake of their stamps.
pub(super) const MAX_READS: usize = 1000;
/// Questions in one call, and lanes answered to each.
const PROBES_AT_ONCE: usize = 64;
const LANES_AT_ONCE: usize = 1000;
/// Stamps remembered.
const MAX_STAMPS: usize = 50_000;

/// A group on a queue, to be looked for.
#[derive(Clone)]
pub(super) struct Wanted {
    pub(super) queue: Arc<Queue>,
    pub(super) group: Group,
    pub(super) start: Start,
    /// Lanes of the queue.
    pub(super) lanes: u64,
    pub(super) backlog: Backlog,
}

/// A lane on which a group is behind.
pub(super) struct Behind {
    pub(super) found: LaneCursor,
    /// What it gets next.
    pub(super) next: Offset,
}

impl Behind {
    /// Messages that the group is not done with.
    pub(super) fn lag(&self) -> u64 {
        self.found.lane.head.saturating_sub(self.next)
    }
}

/// When messages were pushed: that never changes.
#[derive(Default)]
pub(super) struct Stamps(Mutex<HashMap<(LaneId, Offset), Timestamp>>);

impl Stamps {
    fn get(&self, behind: &Behind) -> Option<Timestamp> {
        let lane = &behind.found.lane;
        if behind.lag() == 1 {
            return Some(lane.written_at);
        }
        // A lane that was collected and made again begins with the same offsets.
        self.0.lock().get(&(lane.id, behind.next)).copied().filter(|at| *at >= lane.created_at)
    }

    fn put(&self, lane: LaneId, offset: Offset, at: Timestamp) {
        let mut stamps = self.0.lock();
        if stamps.len() >= MAX_STAMPS {
            stamps.clear();
        }
        stamps.insert((lane, offset), at);
    }
}

/// Of very many those with the largest backlog, so that no more is looked at than one request may.
pub(super) fn most(wanted: Vec<Wanted>) -> Vec<Wanted> {
    within(wanted, MAX_PAIRS, MAX_LANES)
}

/// The same with other bounds.
pub(super) fn within(mut wanted: Vec<Wanted>, pairs: usize, lanes: u64) -> Vec<Wanted> {
    wanted.retain(|wanted| wanted.backlog.messages > 0);
    wanted.sort_by_key(|wanted| Reverse(wanted.backlog.messages));
    let mut room = lanes;
    let fits = |wanted: &Wanted| {
        let left = room.checked_sub(wanted.lanes);
        room = left.unwrap_or(room);
        left.is_some()
    };
    wanted.into_iter().filter(fits).take(pairs).collect()
}

impl Inner {
    /// For each, the lanes on which it is behind.
    pub(super) async fn behind(&self, wanted: &[Wanted]) -> Result<Vec<Vec<Behind>>, Refused> {
        let mut out = Vec::with_capacity(wanted.len());
        for (wanted, lanes) in wanted.iter().zip(self.lanes_with_messages(wanted).await?) {
            let mut behind = Vec::with_capacity(lanes.len());
            let mut lanes = lanes.into_iter().peekable();
            while lanes.peek().is_some() {
                let some: Vec<LaneCursor> = lanes.by_ref().take(LANES_AT_ONCE).collect();
                let next = self.next_offsets(&some, wanted.start).await?;
                behind.extend(some.into_iter().zip(next).map(|(found, next)| Behind { found, next }));
            }
            behind.retain(|behind| behind.lag() > 0);
            out.push(behind);
        }
        Ok(out)
    }

    /// For each, the lanes with messages behind its cursor, or with any where it has none.
    pub(super) async fn lanes_with_messages(
        &self,
        wanted: &[Wanted],
    ) -> Result<Vec<Vec<LaneCursor>>, Refused> {
        let mut out: Vec<Vec<LaneCursor>> = wanted.iter().map(|_| Vec::new()).collect();
        let mut open: Vec<(usize, Option<LaneId>)> = (0..wanted.len()).map(|i| (i, None)).collect();
        while !open.is_empty() {
            let some: Vec<_> = open.drain(..open.len().min(PROBES_AT_ONCE)).collect();
            let probes = some.iter().map(|(i, after)| Probe {
                queue: wanted[*i].queue.id,
                group: wanted[*i].group.clone(),
                since: None,
                recheck: Vec::new(),
                after: *after,
                limit: LANES_AT_ONCE,
            });
            let probed = self.watch(self.engine.probe(probes.collect()).await)?;
            for ((i, _), probed) in some.into_iter().zip(probed) {
                let last = probed.lanes.last().map(|found| found.lane.id);
                if let Some(last) = last.filter(|_| probed.more) {
                    open.push((i, Some(last)));
                }
                out[i].extend(probed.lanes);
            }
        }
        Ok(out)
    }

    /// For each list of lanes, when the oldest message was pushed that is not done with, as far as was looked.
    pub(super) async fn oldest(&self, lists: &[Vec<Behind>]) -> Result<Vec<Option<Timestamp>>, Refused> {
        let mut oldest: Vec<Option<Timestamp>> = Vec::with_capacity(lists.len());
        let mut unknown: Vec<(usize, &Behind)> = Vec::new();
        for (i, list) in lists.iter().enumerate() {
            let known = list.iter().filter_map(|behind| self.stats.stamps.get(behind));
            oldest.push(known.min());
            unknown.extend(list.iter().filter(|b| self.stats.stamps.get(b).is_none()).map(|b| (i, b)));
        }
        // What was not written to for long is likely to hold what is old.
        unknown.sort_by_key(|(_, behind)| behind.found.lane.written_at);
        // A lane that is younger than the oldest message found has nothing older.
        unknown.retain(|(i, behind)| oldest[*i].is_none_or(|at| behind.found.lane.created_at < at));
        unknown.truncate(MAX_READS);
        let wanted: Vec<&Behind> = unknown.iter().map(|(_, behind)| *behind).collect();
        for ((i, _), at) in unknown.iter().zip(self.stamps_of(&wanted).await?) {
            oldest[*i] = oldest[*i].into_iter().chain(at).min();
        }
        Ok(oldest)
    }

    /// When the message was pushed that comes next in each lane; `None` = it is gone.
    pub(super) async fn stamps_of(&self, lanes: &[&Behind]) -> Result<Vec<Option<Timestamp>>, Refused> {
        let mut stamps: Vec<Option<Timestamp>> =
            lanes.iter().map(|behind| self.stats.stamps.get(behind)).collect();
        let missing: Vec<usize> = (0..lanes.len()).filter(|i| stamps[*i].is_none()).collect();
        let wanted: Vec<(LaneId, Offset)> =
            missing.iter().map(|i| (lanes[*i].found.lane.id, lanes[*i].next)).collect();
        for (i, at) in missing.into_iter().zip(self.stamps(&wanted).await?) {
            if let Some(at) = at {
                self.stats.stamps.put(lanes[i].found.lane.id, lanes[i].next, at);
            }
            stamps[i] = at;
        }
        Ok(stamps)
    }
}
