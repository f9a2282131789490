//! What queues hold, counted as it changes.
//!
//! `state.rs` says here what every change of a lane's ends or of a cursor was before and after. What both add to the
//! counters is computed from that alone ([`Ends`]), so a change that is replayed over itself counts once. Only leases
//! depend on the clock; they are counted when asked for, each one that is held.

use std::collections::BTreeMap;

use bugle_store::{Cursor, Ends, Group, GroupTally, QueueId, QueueTally, Timestamp};

use crate::state::{QueueState, State};

/// Counters of a queue's lanes and of the groups with cursors on them.
#[derive(Default)]
pub(crate) struct QueueCount {
    filled: u64,
    kept: u64,
    appended: u64,
    groups: BTreeMap<Group, GroupCount>,
}

#[derive(Default)]
struct GroupCount {
    cursors: u64,
    passed: u64,
    finished: u64,
    consumed: u64,
    served_at: Timestamp,
}

/// Move a counter. Sums of what changed wrap on the way and are right in the end.
fn shift(counter: &mut u64, before: u64, after: u64) {
    *counter = counter.wrapping_add(after).wrapping_sub(before);
}

impl GroupCount {
    fn shift(&mut self, before: (u64, bool), after: (u64, bool)) {
        shift(&mut self.passed, before.0, after.0);
        shift(&mut self.finished, before.1.into(), after.1.into());
    }
}

/// What a group has passed of a lane with these ends, and whether that is all of it.
fn share(ends: Ends, committed: u64) -> (u64, bool) {
    (ends.passed(committed), ends.finished(committed))
}

impl QueueCount {
    /// A lane's ends moved, below these cursors.
    pub(crate) fn moved(&mut self, before: Ends, after: Ends, cursors: &[(Group, Cursor)]) {
        shift(&mut self.filled, before.filled().into(), after.filled().into());
        shift(&mut self.kept, before.kept(), after.kept());
        shift(&mut self.appended, before.head, after.head);
        for (group, cursor) in cursors {
            let (old, new) = (share(before, cursor.committed), share(after, cursor.committed));
            // Most appends change nothing for most groups: they were not at the end of the lane.
            if old != new {
                self.groups.entry(group.clone()).or_default().shift(old, new);
            }
        }
    }

    /// A cursor on a lane with these ends was made, exchanged or removed.
    pub(crate) fn exchanged(
        &mut self,
        group: &Group,
        ends: Ends,
        before: Option<&Cursor>,
        after: Option<&Cursor>,
    ) {
        if !self.groups.contains_key(group) {
            self.groups.insert(group.clone(), GroupCount::default());
        }
        let Some(count) = self.groups.get_mut(group) else { return };
        let of = |cursor: Option<&Cursor>| cursor.map_or((0, false), |c| share(ends, c.committed));
        count.shift(of(before), of(after));
        shift(&mut count.cursors, before.is_some().into(), after.is_some().into());
        let consumed = |cursor: Option<&Cursor>| cursor.map_or(0, |c| c.consumed);
        shift(&mut count.consumed, consumed(before), consumed(after));
        count.served_at = count.served_at.max(after.map_or(Timestamp::ZERO, |c| c.served_at));
        if count.cursors == 0 {
            self.groups.remove(group);
        }
    }
}

/// Live leases and the messages under them, by queue and group.
type Held<'a> = BTreeMap<(QueueId, &'a Group), (u64, u64)>;

/// Tallies of these queues or of all, in queue id order.
pub(crate) fn tallies(state: &State, queues: Option<Vec<QueueId>>, now: Timestamp) -> Vec<QueueTally> {
    let held = held(state, now);
    match queues {
        None => state.queues.iter().map(|(id, queue)| tally(state, *id, queue, &held)).collect(),
        Some(mut asked) => {
            asked.sort_unstable();
            asked.dedup();
            let known = asked.into_iter().filter_map(|id| Some((id, state.queues.get(&id)?)));
            known.map(|(id, queue)| tally(state, id, queue, &held)).collect()
        }
    }
}

fn held(state: &State, now: Timestamp) -> Held<'_> {
    let mut held = Held::new();
    for (uid, group) in state.leases.values().flatten() {
        let Some(lane) = state.lanes.get(*uid) else { continue };
        let Some(cursor) = lane.cursor(group) else { continue };
        if let Some(lease) = cursor.lease.filter(|lease| now < lease.until) {
            let (leases, leased) = held.entry((lane.lane.queue, group)).or_default();
            *leases += 1;
            *leased += Ends::of(&lane.lane).leased(cursor.committed, &lease);
        }
    }
    held
}

fn tally(state: &State, id: QueueId, queue: &QueueState, held: &Held<'_>) -> QueueTally {
    let count = &queue.count;
    let group = |(group, count): (&Group, &GroupCount)| {
        let (leases, leased) = held.get(&(id, group)).copied().unwrap_or_default();
        GroupTally {
            group: group.clone(),
            cursors: count.cursors,
            passed: count.passed,
            finished: count.finished,
            consumed: count.consumed,
            leases,
            leased,
            served_at: count.served_at,
        }
    };
    QueueTally {
        queue: id,
        lanes: queue.by_id.len() as u64,
        filled: count.filled,
        kept: count.kept,
        appended: count.appended,
        dead: state.dead.count(id),
        groups: count.groups.iter().map(group).collect(),
    }
}
