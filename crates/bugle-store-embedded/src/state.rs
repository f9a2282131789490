//! What is in memory of everything that was made durable, and the one function that changes it.
//!
//! The writer applies a change after its fsync, recovery applies the same changes from disk: one path, so a restart
//! cannot disagree with the life before it. Bounded by lanes and cursors, not by messages.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use bugle_store::{
    Cursor, Ends, Group, GroupRecord, Lane, LaneId, LeaseId, Offset, Queue, QueueId, Switches, Timestamp,
};

use crate::op::Op;
use crate::record::{DEAD_UID, FIRST_UID, Frame, TRACE_UID};
use crate::rows::{DeadRows, TraceRows};
use crate::slots::Slots;
use crate::tally::QueueCount;

/// A lane and the cursors on it.
pub(crate) struct LaneState {
    pub(crate) uid: u64,
    pub(crate) lane: Lane,
    /// Not after the stamp of the oldest kept segment; saves retention a look-up per lane.
    pub(crate) oldest_at: Timestamp,
    pub(crate) cursors: Vec<(Group, Cursor)>,
}

impl LaneState {
    pub(crate) fn cursor(&self, group: &Group) -> Option<&Cursor> {
        self.cursors.iter().find(|(g, _)| g == group).map(|(_, cursor)| cursor)
    }
}

/// A queue and its lanes in the orders they are asked for.
pub(crate) struct QueueState {
    pub(crate) queue: Queue,
    pub(crate) by_id: BTreeMap<LaneId, u64>,
    pub(crate) by_name: BTreeMap<Arc<str>, u64>,
    pub(crate) by_written: BTreeSet<(Timestamp, LaneId)>,
    pub(crate) count: QueueCount,
}

/// Everything.
pub(crate) struct State {
    pub(crate) queues: BTreeMap<QueueId, QueueState>,
    pub(crate) names: HashMap<Arc<str>, QueueId>,
    pub(crate) groups: BTreeMap<(QueueId, Group), GroupRecord>,
    /// By uid, so that a checkpoint can walk them in pieces.
    pub(crate) lanes: Slots<LaneState>,
    pub(crate) ids: HashMap<LaneId, u64, foldhash::fast::RandomState>,
    pub(crate) leases: HashMap<LeaseId, Vec<(u64, Group)>, foldhash::fast::RandomState>,
    pub(crate) dead: DeadRows,
    pub(crate) traces: TraceRows,
    /// Grows with every change of a queue, a group or a switch.
    pub(crate) version: u64,
    pub(crate) switches: Switches,
    pub(crate) next_uid: u64,
    pub(crate) next_row: u64,
    /// Number of the last record applied.
    pub(crate) seq: u64,
    /// Greatest stamp seen.
    pub(crate) stamp: Timestamp,
}

impl Default for State {
    fn default() -> Self {
        Self {
            queues: BTreeMap::new(),
            names: HashMap::new(),
            groups: BTreeMap::new(),
            lanes: Slots::default(),
            ids: HashMap::default(),
            leases: HashMap::default(),
            dead: DeadRows::default(),
            traces: TraceRows::default(),
            version: 0,
            switches: Switches::default(),
            next_uid: FIRST_UID,
            next_row: 1,
            seq: 0,
            stamp: Timestamp::ZERO,
        }
    }
}

/// A segment does not follow the ones before it: something in between is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gap;

impl State {
    pub(crate) fn lane(&self, id: LaneId) -> Option<&LaneState> {
        self.lanes.get(*self.ids.get(&id)?)
    }

    /// Whether a frame is still needed.
    pub(crate) fn is_live(&self, uid: u64, base: Offset, count: u32) -> bool {
        match uid {
            DEAD_UID => self.dead.rows.contains_key(&base),
            TRACE_UID => self.traces.rows.contains_key(&base),
            _ => self.lanes.get(uid).is_some_and(|l| base.saturating_add(Offset::from(count)) > l.lane.tail),
        }
    }

    /// Make a change. Changes of what is gone do nothing: a fuzzy checkpoint may contain the end of a story whose
    /// beginning is replayed.
    pub(crate) fn apply(&mut self, op: Op) {
        match op {
            Op::Lane { uid, id, queue, name, created_at } => self.add_lane(uid, id, queue, name, created_at),
            Op::LaneState { uid, head, written_at, oldest_at, greatest } => {
                if let Some(state) = self.lanes.get_mut(uid) {
                    state.lane.greatest = greatest;
                    state.oldest_at = oldest_at;
                    let ends = Ends { head, ..Ends::of(&state.lane) };
                    self.move_lane(uid, ends, written_at);
                }
            }
            Op::DropLane { uid } => self.drop_lane(uid),
            Op::Cursor { uid, group, cursor } => self.set_cursor(uid, &group, Some(cursor)),
            Op::Trim { uid, tail } => {
                if let Some(LaneState { lane, .. }) = self.lanes.get(uid) {
                    let (ends, written_at) = (Ends::of(lane), lane.written_at);
                    self.move_lane(uid, Ends { tail: ends.tail.max(tail), ..ends }, written_at);
                }
            }
            Op::Dead(row, dead) => {
                self.next_row = self.next_row.max(row.saturating_add(1));
                self.stamp = self.stamp.max(dead.failed_at);
                self.dead.insert(row, dead);
            }
            Op::DropDead(row) => self.dead.remove(row),
            Op::Trace(row, trace) => {
                self.next_row = self.next_row.max(row.saturating_add(1));
                self.traces.insert(row, trace);
            }
            Op::DropTrace(row) => self.traces.remove(row),
            Op::Counters { next_uid, next_row, version, stamp } => {
                self.next_uid = self.next_uid.max(next_uid);
                self.next_row = self.next_row.max(next_row);
                self.version = self.version.max(version);
                self.stamp = self.stamp.max(stamp);
            }
            Op::Queue(_) | Op::DropQueue(_) | Op::Group(_) | Op::DropGroup { .. } | Op::Switches(_) => {
                self.apply_catalog(op);
            }
        }
    }

    fn apply_catalog(&mut self, op: Op) {
        self.version = self.version.saturating_add(1);
        match op {
            Op::Queue(queue) => self.put_queue(queue),
            Op::DropQueue(id) => self.drop_queue(id),
            Op::Switches(switches) => self.switches = switches,
            Op::Group(group) => {
                self.groups.insert((group.queue, group.group.clone()), group);
            }
            Op::DropGroup { queue, group, record } => {
                let lanes = self.queues.get(&queue).map(|q| q.by_id.values().copied().collect::<Vec<_>>());
                lanes.into_iter().flatten().for_each(|uid| self.set_cursor(uid, &group, None));
                if record {
                    self.groups.remove(&(queue, group));
                }
            }
            _ => {}
        }
    }

    /// Count a frame's segment into its lane. Copies of what is known already change nothing.
    pub(crate) fn apply_segment(&mut self, frame: &Frame) -> Result<(), Gap> {
        let Some(state) = self.lanes.get_mut(frame.uid) else { return Ok(()) };
        let lane = &mut state.lane;
        if frame.base < lane.head {
            return Ok(());
        }
        if frame.base > lane.head {
            return Err(Gap);
        }
        if lane.head == lane.tail {
            state.oldest_at = frame.created_at;
        }
        lane.greatest = lane.greatest.max(frame.greatest);
        let ends = Ends { head: frame.base.saturating_add(Offset::from(frame.count)), tail: lane.tail };
        self.stamp = self.stamp.max(frame.created_at);
        self.move_lane(frame.uid, ends, frame.created_at);
        Ok(())
    }

    /// Move a lane's ends and stamp: the one place where they change, so that what is ordered and counted by them follows.
    fn move_lane(&mut self, uid: u64, ends: Ends, written_at: Timestamp) {
        let Some(LaneState { lane, cursors, .. }) = self.lanes.get_mut(uid) else { return };
        let old_ends = Ends::of(lane);
        (lane.head, lane.tail) = (ends.head, ends.tail);
        let old = std::mem::replace(&mut lane.written_at, written_at);
        let Some(queue) = self.queues.get_mut(&lane.queue) else { return };
        queue.count.moved(old_ends, ends, cursors);
        if old != written_at {
            queue.by_written.remove(&(old, lane.id));
            queue.by_written.insert((written_at, lane.id));
        }
    }

    fn add_lane(&mut self, uid: u64, id: LaneId, queue: QueueId, name: Arc<str>, created_at: Timestamp) {
        self.next_uid = self.next_uid.max(uid.saturating_add(1));
        if self.lanes.contains(uid) {
            return;
        }
        // An earlier life of the lane may be in a fuzzy checkpoint; its end is about to be replayed.
        if let Some(old) = self.ids.get(&id).copied() {
            self.drop_lane(old);
        }
        let Some(of) = self.queues.get_mut(&queue) else { return };
        of.by_id.insert(id, uid);
        of.by_name.insert(name.clone(), uid);
        of.by_written.insert((created_at, id));
        self.ids.insert(id, uid);
        let written_at = created_at;
        let lane = Lane { id, queue, name, head: 0, tail: 0, created_at, written_at, greatest: None };
        self.lanes.insert(uid, LaneState { uid, lane, oldest_at: created_at, cursors: Vec::new() });
    }

    fn drop_lane(&mut self, uid: u64) {
        let groups: Vec<Group> =
            self.lanes.get(uid).into_iter().flat_map(|l| l.cursors.iter().map(|(g, _)| g.clone())).collect();
        groups.iter().for_each(|group| self.set_cursor(uid, group, None));
        let Some(LaneState { lane, .. }) = self.lanes.remove(uid) else { return };
        self.ids.remove(&lane.id);
        if let Some(queue) = self.queues.get_mut(&lane.queue) {
            queue.count.moved(Ends::of(&lane), Ends::default(), &[]);
            queue.by_id.remove(&lane.id);
            queue.by_name.remove(&lane.name);
            queue.by_written.remove(&(lane.written_at, lane.id));
        }
    }

    fn set_cursor(&mut self, uid: u64, group: &Group, cursor: Option<Cursor>) {
        let Some(state) = self.lanes.get_mut(uid) else { return };
        let at = state.cursors.iter().position(|(g, _)| g == group);
        let new_lease = cursor.as_ref().and_then(|c| c.lease).map(|lease| lease.id);
        if at.is_none() && cursor.is_none() {
            return;
        }
        if let Some(queue) = self.queues.get_mut(&state.lane.queue) {
            let before = at.map(|at| &state.cursors[at].1);
            queue.count.exchanged(group, Ends::of(&state.lane), before, cursor.as_ref());
        }
        let old = match (at, cursor) {
            (Some(at), Some(cursor)) => Some(std::mem::replace(&mut state.cursors[at].1, cursor)),
            (Some(at), None) => Some(state.cursors.swap_remove(at).1),
            (None, Some(cursor)) => {
                // Most lanes are read by one group, and there may be a million of them.
                state.cursors.reserve_exact(1);
                state.cursors.push((group.clone(), cursor));
                None
            }
            (None, None) => None,
        };
        let old_lease = old.and_then(|c| c.lease).map(|lease| lease.id);
        if old_lease == new_lease {
            return;
        }
        if let Some(id) = old_lease
            && let Some(held) = self.leases.get_mut(&id)
        {
            if let Some(at) = held.iter().position(|(u, g)| (*u, g) == (uid, group)) {
                held.remove(at);
            }
            if held.is_empty() {
                self.leases.remove(&id);
            }
        }
        if let Some(id) = new_lease {
            self.leases.entry(id).or_default().push((uid, group.clone()));
        }
    }

    fn put_queue(&mut self, queue: Queue) {
        self.names.insert(queue.name.clone(), queue.id);
        match self.queues.get_mut(&queue.id) {
            Some(state) => {
                if state.queue.name != queue.name && self.names.get(&state.queue.name) == Some(&queue.id) {
                    self.names.remove(&state.queue.name);
                }
                state.queue = queue;
            }
            None => {
                let (by_id, by_name, by_written) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
                let count = QueueCount::default();
                self.queues.insert(queue.id, QueueState { queue, by_id, by_name, by_written, count });
            }
        }
    }

    fn drop_queue(&mut self, id: QueueId) {
        if let Some(state) = self.queues.get(&id) {
            if self.names.get(&state.queue.name) == Some(&id) {
                let name = state.queue.name.clone();
                self.names.remove(&name);
            }
            let uids: Vec<u64> = state.by_id.values().copied().collect();
            uids.into_iter().for_each(|uid| self.drop_lane(uid));
            self.queues.remove(&id);
        }
        // Also without the queue: a checkpoint taken after its end is replayed over from before, rows included.
        self.groups.retain(|(queue, _), _| *queue != id);
        self.dead.of_queue(id).into_iter().for_each(|row| self.dead.remove(row));
        self.traces.of_queue(id).into_iter().for_each(|row| self.traces.remove(row));
    }
}
