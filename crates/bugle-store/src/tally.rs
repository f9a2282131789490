//! Tallies: what queues hold, counted.
//!
//! Stores keep them as counters that move with each change, so that asking costs what changed since the last time and not
//! what exists. What is counted is said here once: [`Ends`] tells what a lane and a cursor on it add, and
//! [`QueueTally::count`] adds lane by lane, which is what every counter must come to.

use crate::cursor::{Cursor, Lease};
use crate::lane::Lane;
use crate::name::{Group, QueueId};
use crate::segment::Offset;
use crate::time::Timestamp;

/// What a queue holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueTally {
    /// The queue.
    pub queue: QueueId,
    /// Lanes it has.
    pub lanes: u64,
    /// Of those, lanes with a message in them.
    pub filled: u64,
    /// Messages kept in its lanes.
    pub kept: u64,
    /// Messages ever stored in the lanes it has.
    pub appended: u64,
    /// Its dead letters.
    pub dead: u64,
    /// Groups with a cursor on one of its lanes at least, by name.
    pub groups: Vec<GroupTally>,
}

/// How far a group has come in a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupTally {
    /// The group.
    pub group: Group,
    /// Lanes it has a cursor on.
    pub cursors: u64,
    /// Kept messages it is done with, in the lanes it has a cursor on.
    pub passed: u64,
    /// Lanes with messages in them, all of which it is done with.
    pub finished: u64,
    /// Messages its cursors have consumed, see [`Cursor::consumed`].
    pub consumed: u64,
    /// Leases that have not ended.
    pub leases: u64,
    /// Messages under those.
    pub leased: u64,
    /// Not before it was last given messages through a cursor it has: it may still be that of a cursor which is gone,
    /// with its lane or by a change. [`Timestamp::ZERO`] = never.
    pub served_at: Timestamp,
}

/// Where a lane ends, which is all of it that tallies depend on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// See [`Lane::head`].
    pub head: Offset,
    /// See [`Lane::tail`].
    pub tail: Offset,
}

impl Ends {
    /// The ends of a lane.
    pub fn of(lane: &Lane) -> Self {
        Self { head: lane.head, tail: lane.tail }
    }

    /// Messages in between.
    pub fn kept(self) -> u64 {
        self.head.saturating_sub(self.tail)
    }

    /// Whether there are any.
    pub fn filled(self) -> bool {
        self.head > self.tail
    }

    /// Kept messages below `committed`.
    pub fn passed(self, committed: Offset) -> u64 {
        committed.min(self.head).saturating_sub(self.tail)
    }

    /// Whether there are messages, and all of them are below `committed`.
    pub fn finished(self, committed: Offset) -> bool {
        self.filled() && committed >= self.head
    }

    /// Messages from `committed` on that are still kept and delivered under this lease.
    pub fn leased(self, committed: Offset, lease: &Lease) -> u64 {
        lease.end.saturating_sub(committed.max(self.tail))
    }
}

impl QueueTally {
    /// A queue without anything in it.
    pub fn empty(queue: QueueId) -> Self {
        Self { queue, lanes: 0, filled: 0, kept: 0, appended: 0, dead: 0, groups: Vec::new() }
    }

    /// Add a lane and all cursors on it.
    pub fn count<'a>(
        &mut self,
        lane: &Lane,
        cursors: impl IntoIterator<Item = (&'a Group, &'a Cursor)>,
        now: Timestamp,
    ) {
        let ends = Ends::of(lane);
        self.lanes += 1;
        self.filled += u64::from(ends.filled());
        self.kept += ends.kept();
        self.appended += ends.head;
        for (group, cursor) in cursors {
            self.group(group).count(ends, cursor, now);
        }
    }

    /// A group's tally, added if it was not there.
    pub fn group(&mut self, group: &Group) -> &mut GroupTally {
        let at = match self.groups.binary_search_by(|tally| tally.group.cmp(group)) {
            Ok(at) => at,
            Err(at) => {
                self.groups.insert(at, GroupTally::empty(group.clone()));
                at
            }
        };
        &mut self.groups[at]
    }
}

impl GroupTally {
    /// A group without cursors.
    pub fn empty(group: Group) -> Self {
        Self {
            group,
            cursors: 0,
            passed: 0,
            finished: 0,
            consumed: 0,
            leases: 0,
            leased: 0,
            served_at: Timestamp::ZERO,
        }
    }

    fn count(&mut self, ends: Ends, cursor: &Cursor, now: Timestamp) {
        self.cursors += 1;
        self.passed += ends.passed(cursor.committed);
        self.finished += u64::from(ends.finished(cursor.committed));
        self.consumed = self.consumed.wrapping_add(cursor.consumed);
        self.served_at = self.served_at.max(cursor.served_at);
        if let Some(lease) = cursor.lease.filter(|lease| now < lease.until) {
            self.leases += 1;
            self.leased += ends.leased(cursor.committed, &lease);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn a_cursor_counts_between_tail_and_head() {
        let ends = Ends { head: 10, tail: 4 };
        for (committed, passed, finished) in
            [(0, 0, false), (4, 0, false), (7, 3, false), (10, 6, true), (12, 6, true)]
        {
            assert_eq!((ends.passed(committed), ends.finished(committed)), (passed, finished), "{committed}");
        }
    }

    #[test]
    fn nobody_has_finished_an_empty_lane() {
        let ends = Ends { head: 4, tail: 4 };
        assert_eq!((ends.passed(4), ends.finished(4), ends.kept(), ends.filled()), (0, false, 0, false));
    }

    #[test]
    fn a_lease_covers_what_is_kept_of_its_range() {
        let lease = Lease { id: Uuid::nil(), until: Timestamp(1), end: 8 };
        let leased = |tail, committed| Ends { head: 10, tail }.leased(committed, &lease);
        assert_eq!((leased(0, 3), leased(5, 3), leased(9, 3)), (5, 3, 0));
    }
}
