//! Planning: which lanes a job should try to claim, from memory alone.

use std::sync::Arc;

use bugle_store::{Cursor, Enforced, LaneId, Offset, Queue, Segment, Timestamp};

use crate::api::{PopRequest, PopTarget};
use crate::config::BrokerConfig;
use crate::inner::Inner;
use crate::lanes::LaneState;
use crate::opened::Opened;
use crate::semantics::{priority, subscribe};
use crate::waiting::{Channel, Entry, Place};

use super::serve::Open;

/// Filters whose turns are counted.
const MAX_TURNS: usize = 10_000;

/// One lane a job tries to claim. While the plan lives the lane's place is *Claiming*.
pub(super) struct Plan {
    /// Index of the job in the pass.
    pub(super) job: usize,
    pub(super) channel: Arc<Channel>,
    pub(super) queue: Arc<Queue>,
    pub(super) lane: Arc<LaneState>,
    pub(super) cursor: Option<Cursor>,
    pub(super) from: Offset,
    pub(super) to: Offset,
    /// Messages that were looked at before the claim.
    pub(super) segments: Option<Vec<Segment>>,
    /// Everything below `from` and at or above this expired and goes with the claim.
    pub(super) expired_from: Offset,
}

/// What a message takes in an answer beside its payload, roughly.
pub(super) const MESSAGE_OVERHEAD: usize = 256;

/// A job's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    pub(super) batch: u64,
    pub(super) partitions: usize,
}

/// What a request asks for, with defaults and bounds applied.
pub(super) fn terms(request: &PopRequest, config: &BrokerConfig) -> Terms {
    let default = |auto, plain| if request.autopilot { auto } else { plain };
    let batch = request.batch.unwrap_or_else(|| default(config.autopilot_batch, config.default_batch));
    let partitions = request.partitions.unwrap_or_else(|| default(config.autopilot_partitions, 1));
    Terms {
        batch: u64::from(batch.clamp(1, config.pop_max_batch)),
        partitions: if partitions == 0 { usize::MAX } else { partitions as usize },
    }
}

impl Inner {
    /// Queues of a filter pop that have ready lanes, in the order to try them.
    fn filter_order(&self, open: &Open) -> Vec<usize> {
        let mut candidates = Vec::new();
        let mut which = Vec::new();
        for (i, (queue, channel)) in open.channels.iter().enumerate() {
            let state = channel.state.lock();
            let Some(front) = state.front() else { continue };
            let enforced = queue.options.enforces(Enforced::Priority);
            let priority = if enforced { queue.options.priority } else { 0 };
            candidates.push(priority::Candidate { priority, oldest: oldest(front) });
            which.push(i);
        }
        // A look that finds no choice is no turn: a filter would lose its turns to its own second looks.
        let turn = if candidates.len() > 1 { self.next_turn(&open.job.request) } else { 0 };
        priority::order(&candidates, turn).into_iter().map(|i| which[i]).collect()
    }

    /// Count the turns of one filter and group by themselves; see [`priority::order`].
    fn next_turn(&self, request: &PopRequest) -> u64 {
        let mut turns = self.turns.lock();
        // A count that is forgotten starts again, which costs a lower priority seven turns at most.
        if turns.len() >= MAX_TURNS {
            turns.clear();
        }
        let turn = turns.entry((request.target.clone(), request.group.clone())).or_default();
        *turn += 1;
        *turn - 1
    }

    /// Take lanes for a job from memory. `turn` rotates filter pops over their queues.
    pub(super) fn plan(&self, index: usize, open: &mut Open, plans: &mut Vec<Plan>) {
        let mut rest = Terms { batch: open.terms.batch, partitions: open.terms.partitions };
        match &open.job.request.target {
            PopTarget::Lane { partition, .. } => {
                let Some((queue, channel)) = open.channels.first() else { return };
                let lane = LaneId::derive(queue.id, partition);
                plans.extend(take_lane(index, queue, channel, lane));
            }
            PopTarget::Queue { .. } => {
                let Some((queue, channel)) = open.channels.first() else { return };
                take_ready(index, queue, channel, &mut rest, self.config.max_candidates, plans);
            }
            PopTarget::Filter { .. } => {
                for i in self.filter_order(open) {
                    let (queue, channel) = &open.channels[i];
                    take_ready(index, queue, channel, &mut rest, self.config.max_candidates, plans);
                    if rest.batch == 0 || rest.partitions == 0 {
                        break;
                    }
                }
            }
        }
    }
}

/// Stamp of the oldest message that waits in a lane, where memory holds it; its newest stamp otherwise.
fn oldest(entry: &Entry) -> Timestamp {
    let (head, tail) = entry.lane.bounds();
    let from = entry.cursor.as_ref().map_or(tail, |cursor| cursor.committed.max(tail)).min(head);
    let cached = entry.lane.cached(from, from + 1);
    cached.and_then(|s| s.first().map(|s| s.created_at)).unwrap_or_else(|| entry.lane.view().written_at)
}

/// One named lane, if it is not known to be held or empty-handed.
fn take_lane(job: usize, queue: &Arc<Queue>, channel: &Arc<Channel>, lane: LaneId) -> Option<Plan> {
    let mut state = channel.state.lock();
    let entry = state.entries.get_mut(&lane)?;
    if entry.place == Place::Claiming {
        return None;
    }
    let head = entry.lane.bounds().0;
    forget_foreign(entry, head);
    if entry.place == Place::Idle && entry.cursor.as_ref().is_some_and(|cursor| head <= cursor.committed) {
        return None;
    }
    entry.place = Place::Claiming;
    Some(Plan::new(job, queue, channel, entry.lane.clone(), entry.cursor.clone()))
}

/// Lanes from the ring until the terms are met.
fn take_ready(
    job: usize,
    queue: &Arc<Queue>,
    channel: &Arc<Channel>,
    rest: &mut Terms,
    most: usize,
    plans: &mut Vec<Plan>,
) {
    let mut state = channel.state.lock();
    for _ in 0..most {
        if rest.batch == 0 || rest.partitions == 0 {
            return;
        }
        let Some(id) = state.next_ready() else { return };
        let Some(entry) = state.entries.get_mut(&id) else { continue };
        let (head, tail) = entry.lane.bounds();
        forget_foreign(entry, head);
        let read = entry.cursor.as_ref().map_or(tail, |cursor| cursor.committed.max(tail));
        let available = head.saturating_sub(read);
        if available == 0 {
            entry.place = Place::Idle;
            continue;
        }
        rest.batch = rest.batch.saturating_sub(available);
        rest.partitions -= 1;
        plans.push(Plan::new(job, queue, channel, entry.lane.clone(), entry.cursor.clone()));
    }
}

/// A cursor beyond the head belongs to an earlier incarnation of the lane: it must be asked for again.
fn forget_foreign(entry: &mut Entry, head: Offset) {
    if entry.cursor.as_ref().is_some_and(|cursor| cursor.committed > head) {
        entry.cursor = None;
    }
}

impl Plan {
    /// The cursor of a group that comes to a lane which this server began: there is none yet, unless another server was
    /// faster, which the exchange would tell. Saves asking for it.
    pub(super) fn first_cursor(&self) -> Option<Cursor> {
        let lane = {
            let inner = self.lane.inner.lock();
            inner.begun_here.then(|| inner.lane.clone())?
        };
        // After a claim whose outcome is not known there may be one of our own.
        let met = !self.channel.state.lock().entry(&self.lane).orphans.is_empty();
        let begins = subscribe::begins_after(self.channel.record.start, &lane);
        (!met && begins.is_none()).then(|| Cursor::fresh(lane.tail))
    }

    /// A cursor as loaded, free of a lease that was taken in a call whose answer was lost.
    pub(super) fn without_orphan(&self, cursor: Option<Cursor>) -> Option<Cursor> {
        let mut cursor = cursor?;
        let mut state = self.channel.state.lock();
        let orphans = &state.entry(&self.lane).orphans;
        if cursor.lease.is_some_and(|lease| orphans.contains(&lease.id)) {
            cursor.lease = None;
            cursor.deliveries = cursor.deliveries.saturating_sub(1);
        }
        Some(cursor)
    }

    /// Shorten the claim to what fits into `bytes`, which the messages then use up.
    pub(super) fn cut_to(&mut self, bytes: &mut usize, opened: &Opened) {
        let segments = self.segments.as_deref().unwrap_or_default();
        let most: usize = segments.iter().map(|s| s.plain_len() + s.count as usize * MESSAGE_OVERHEAD).sum();
        let whole = segments.last().is_some_and(|last| last.end() >= self.to);
        // Those that are opened here are opened for the delivery.
        let readable = |s: &Segment| opened.open(self.lane.id, s).is_ok();
        if whole && most <= *bytes && segments.iter().all(readable) {
            *bytes -= most;
            return;
        }
        let mut end = self.from;
        for popped in super::deliver::messages_in(opened, self.lane.id, segments, self.from, self.to) {
            let size = popped.message.payload.len() + MESSAGE_OVERHEAD;
            if size > *bytes && end > self.from {
                break;
            }
            *bytes = bytes.saturating_sub(size);
            end = popped.offset + 1;
        }
        if end > self.from {
            self.to = end;
        }
    }

    fn new(
        job: usize,
        queue: &Arc<Queue>,
        channel: &Arc<Channel>,
        lane: Arc<LaneState>,
        cursor: Option<Cursor>,
    ) -> Self {
        let (queue, channel) = (queue.clone(), channel.clone());
        Self { job, channel, queue, lane, cursor, from: 0, to: 0, segments: None, expired_from: 0 }
    }
}
