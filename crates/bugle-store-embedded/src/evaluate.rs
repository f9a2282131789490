//! What a call may do: guards and compare-and-sets, judged against what is durable plus what the same record already
//! holds. Nothing here touches the disk or the shared state; it stages changes for one record.

use std::collections::HashMap;
use std::sync::Arc;

use bugle_store::{
    Append, AppendError, Appended, Commit, CommitError, Committed, Cursor, DeadLetter, Group, Guard, Lane,
    LaneError, LaneId, NewLane, Offset, Swap, SwapError, Timestamp, Trace, Trim, Unavailable,
};
use bytes::Bytes;

use crate::index::find_older;
use crate::op::Op;
use crate::record::{DEAD_UID, Frame, TRACE_UID};
use crate::rows::{dead_index, encode_dead, encode_trace, trace_index};
use crate::shared::Shared;

/// A lane as the record under construction leaves it.
struct Pending {
    uid: u64,
    lane: Lane,
    /// Segments staged in this record.
    staged: Vec<(Offset, Arc<[u64]>)>,
}

/// One record under construction.
pub(crate) struct Evaluation<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) ops: Vec<Op>,
    pub(crate) frames: Vec<Frame>,
    lanes: HashMap<LaneId, Pending>,
    cursors: HashMap<(u64, Group), Cursor>,
    next_uid: u64,
    next_row: u64,
}

impl<'a> Evaluation<'a> {
    pub(crate) fn new(shared: &'a Shared) -> Self {
        let (next_uid, next_row) = {
            let core = shared.core.read();
            (core.state.next_uid, core.state.next_row)
        };
        let (lanes, cursors) = (HashMap::new(), HashMap::new());
        Self { shared, ops: Vec::new(), frames: Vec::new(), lanes, cursors, next_uid, next_row }
    }

    fn lane(&mut self, id: LaneId) -> Option<&mut Pending> {
        if !self.lanes.contains_key(&id) {
            let core = self.shared.core.read();
            let state = core.state.lane(id)?;
            self.lanes.insert(id, Pending { uid: state.uid, lane: state.lane.clone(), staged: Vec::new() });
        }
        self.lanes.get_mut(&id)
    }

    pub(crate) fn append(&mut self, item: Append) -> Result<Result<Appended, AppendError>, Unavailable> {
        Ok(match self.check_append(&item)? {
            Ok(()) => Ok(self.do_append(item)),
            Err(why) => Err(why),
        })
    }

    fn check_append(&mut self, item: &Append) -> Result<Result<(), AppendError>, Unavailable> {
        let shared = self.shared;
        let Some(pending) = self.lane(item.lane) else { return Ok(Err(AppendError::NoLane)) };
        let head = pending.lane.head;
        let passes = match item.guard {
            Guard::Free => true,
            Guard::Head => head == item.known_head,
            Guard::Fingerprints => {
                head >= item.known_head
                    && !occurs(shared, pending, item.known_head, &item.segment.fingerprints)?
            }
        };
        Ok(if passes { Ok(()) } else { Err(AppendError::Moved(pending.lane.clone())) })
    }

    fn do_append(&mut self, item: Append) -> Appended {
        let pending = self.lane(item.lane).expect("a checked append has a lane");
        let lane = &mut pending.lane;
        let base = lane.head;
        let created_at = item.now.max(lane.written_at);
        let count = item.segment.count();
        lane.head += Offset::from(count);
        lane.written_at = created_at;
        lane.greatest = lane.greatest.max(item.segment.greatest);
        let (id, greatest, fingerprints) =
            (item.segment.id, item.segment.greatest, item.segment.fingerprints);
        pending.staged.push((base, fingerprints.clone()));
        let (uid, body) = (pending.uid, item.segment.body);
        self.frames.push(Frame { uid, base, count, id, created_at, greatest, fingerprints, body });
        Appended { base, created_at }
    }

    pub(crate) fn swap(&mut self, item: Swap) -> Result<(), SwapError> {
        self.check_swap(&item)?;
        self.do_swap(item);
        Ok(())
    }

    fn check_swap(&mut self, item: &Swap) -> Result<(), SwapError> {
        let uid = self.lane(item.lane).ok_or(SwapError::NoLane)?.uid;
        let stored = match self.cursors.get(&(uid, item.group.clone())) {
            Some(cursor) => Some(cursor.clone()),
            None => {
                let core = self.shared.core.read();
                core.state.lanes.get(uid).and_then(|lane| lane.cursor(&item.group)).cloned()
            }
        };
        if stored.as_ref().map_or(0, |c| c.epoch) == item.expect {
            Ok(())
        } else {
            Err(SwapError::Moved(stored))
        }
    }

    fn do_swap(&mut self, item: Swap) {
        let uid = self.lane(item.lane).expect("a checked swap has a lane").uid;
        self.cursors.insert((uid, item.group.clone()), item.next.clone());
        self.ops.push(Op::Cursor { uid, group: item.group, cursor: item.next });
        item.dead.iter().for_each(|dead| self.put_dead(dead));
    }

    pub(crate) fn commit(&mut self, set: Commit) -> Result<Result<Committed, CommitError>, Unavailable> {
        for (i, item) in set.appends.iter().enumerate() {
            if let Err(why) = self.check_append(item)? {
                return Ok(Err(CommitError::Append(i, why)));
            }
        }
        for (i, item) in set.swaps.iter().enumerate() {
            if let Err(why) = self.check_swap(item) {
                return Ok(Err(CommitError::Swap(i, why)));
            }
        }
        set.swaps.into_iter().for_each(|item| self.do_swap(item));
        Ok(Ok(Committed { appended: set.appends.into_iter().map(|item| self.do_append(item)).collect() }))
    }

    pub(crate) fn trim(&mut self, item: Trim) -> u64 {
        let Some(pending) = self.lane(item.lane) else { return 0 };
        let lane = &mut pending.lane;
        let tail = item.to.clamp(lane.tail, lane.head);
        let removed = tail - std::mem::replace(&mut lane.tail, tail);
        let uid = pending.uid;
        if removed > 0 {
            self.ops.push(Op::Trim { uid, tail });
        }
        removed
    }

    pub(crate) fn ensure_lane(&mut self, new: NewLane) -> Result<Lane, LaneError> {
        if !self.shared.core.read().state.queues.contains_key(&new.queue) {
            return Err(LaneError::NoQueue);
        }
        let id = LaneId::derive(new.queue, &new.name);
        if let Some(pending) = self.lane(id) {
            let lane = &pending.lane;
            let same = lane.name == new.name;
            return if same { Ok(lane.clone()) } else { Err(LaneError::Collision(lane.name.clone())) };
        }
        let uid = self.next_uid;
        self.next_uid += 1;
        let (queue, name, created_at) = (new.queue, new.name, new.now);
        let written_at = created_at;
        let lane =
            Lane { id, queue, name: name.clone(), head: 0, tail: 0, created_at, written_at, greatest: None };
        self.ops.push(Op::Lane { uid, id, queue, name, created_at });
        self.lanes.insert(id, Pending { uid, lane: lane.clone(), staged: Vec::new() });
        Ok(lane)
    }

    fn put_dead(&mut self, dead: &DeadLetter) {
        let row = self.put_row(DEAD_UID, dead.failed_at, encode_dead(dead));
        self.ops.push(Op::Dead(row, dead_index(dead)));
    }

    /// A trace of a queue that is gone would never be deleted with it.
    pub(crate) fn put_trace(&mut self, trace: &Trace) {
        if self.shared.core.read().state.queues.contains_key(&trace.queue) {
            let row = self.put_row(TRACE_UID, trace.created_at, encode_trace(trace));
            self.ops.push(Op::Trace(row, trace_index(trace)));
        }
    }

    fn put_row(&mut self, uid: u64, created_at: Timestamp, body: Bytes) -> u64 {
        let base = self.next_row;
        self.next_row += 1;
        let fingerprints = Arc::from([]);
        self.frames.push(Frame {
            uid,
            base,
            count: 1,
            id: 0,
            created_at,
            greatest: None,
            fingerprints,
            body,
        });
        base
    }
}

/// Whether one of the fingerprints is at or above `from` in the lane.
fn occurs(shared: &Shared, pending: &Pending, from: Offset, prints: &[u64]) -> Result<bool, Unavailable> {
    let from = from.max(pending.lane.tail);
    if from >= pending.lane.head {
        return Ok(false);
    }
    for (base, staged) in &pending.staged {
        let kept = staged.iter().zip(*base..).filter(|(_, offset)| *offset >= from);
        if kept.into_iter().any(|(print, _)| prints.contains(print)) {
            return Ok(true);
        }
    }
    let (mut found, older) = {
        let core = shared.core.read();
        (core.index.find_active(pending.uid, prints), core.index.older.clone())
    };
    let reached = |found: &[Vec<Offset>]| found.iter().flatten().any(|offset| *offset >= from);
    if reached(&found) {
        return Ok(true);
    }
    find_older(&older, pending.uid, &(from..pending.lane.head), prints, &mut found)
        .map_err(|e| Unavailable::new(format!("looking up fingerprints: {e}")))?;
    Ok(reached(&found))
}
