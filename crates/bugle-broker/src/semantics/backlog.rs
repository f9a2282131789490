//! What numbers of messages mean: whose backlog a queue is judged by, what is pending, processing or completed, and how a
//! group is doing.

use std::time::Duration;

use bugle_store::{Cursor, Ends, GroupTally, Lane, Offset, QUEUE_MODE, QueueTally, Start, Timestamp};

use crate::api::{GroupState, MessageCounts, Spread};

/// A group whose oldest unread message is older than this lags.
const LAGGING: Duration = Duration::from_secs(300);

/// What a group has before it on a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Backlog {
    /// Messages it is not done with.
    pub(crate) messages: u64,
    /// Lanes that have any.
    pub(crate) lanes: u64,
}

impl Backlog {
    /// Everything that is kept and not behind the group's cursors, wherever it begins.
    pub(crate) fn whole(queue: &QueueTally, group: &GroupTally) -> Self {
        Self {
            messages: queue.kept.saturating_sub(group.passed),
            lanes: queue.filled.saturating_sub(group.finished),
        }
    }

    /// Without what the group never gets because it began later.
    pub(crate) fn without(self, skipped: Self) -> Self {
        Self {
            messages: self.messages.saturating_sub(skipped.messages),
            lanes: self.lanes.saturating_sub(skipped.lanes),
        }
    }

    /// One more lane.
    pub(crate) fn add(&mut self, other: Self) {
        self.messages += other.messages;
        self.lanes += other.lanes;
    }
}

/// Since when a group reads whose backlog depends on it, because there are messages it may not get: lanes that it has no
/// cursor on and that may be older than its start. `None` = its backlog is all there is.
pub(crate) fn began(
    start: Start,
    queue: &QueueTally,
    group: &GroupTally,
    created_at: Timestamp,
) -> Option<Timestamp> {
    let (Start::New(at) | Start::From(at)) = start else { return None };
    let open = Backlog::whole(queue, group).messages > 0 && group.cursors < queue.lanes;
    (open && created_at <= at).then_some(at)
}

/// What of a lane without a cursor a group never gets that begins at `first`.
pub(crate) fn skipped(lane: &Lane, first: Offset) -> Backlog {
    let ends = Ends::of(lane);
    Backlog { messages: ends.passed(first), lanes: u64::from(ends.finished(first)) }
}

/// Which of the groups a queue is judged by: that of anonymous consumers if it has a cursor or nobody else has, otherwise
/// the named one that is furthest behind. `None` = anonymous consumers, who have not been there yet.
pub(crate) fn reference<'a>(groups: impl Iterator<Item = (&'a str, u64, u64)> + Clone) -> Option<usize> {
    let anonymous = groups.clone().position(|(name, _, _)| name == QUEUE_MODE);
    let has_cursor = |at: &usize| groups.clone().nth(*at).is_some_and(|(_, cursors, _)| cursors > 0);
    if anonymous.as_ref().is_some_and(has_cursor) || groups.clone().all(|(_, cursors, _)| cursors == 0) {
        return anonymous;
    }
    let named = groups.enumerate().filter(|(_, (name, _, _))| *name != QUEUE_MODE);
    // Of several that are equally far the first by name, so that the choice does not change by itself.
    named.max_by_key(|(i, (_, _, lag))| (*lag, std::cmp::Reverse(*i))).map(|(i, _)| i)
}

/// Counts of messages of which `lag` are not done with, `leased` of those being delivered.
pub(crate) fn counts(kept: u64, lag: u64, leased: u64, dead: u64) -> MessageCounts {
    let lag = lag.min(kept);
    let processing = leased.min(lag);
    MessageCounts {
        total: kept,
        pending: lag - processing,
        processing,
        completed: kept - lag,
        dead_letter: dead,
    }
}

/// Messages of a lane that are delivered under a live lease.
pub(crate) fn leased(lane: &Lane, cursor: Option<&Cursor>, now: Timestamp) -> u64 {
    let held = cursor.and_then(|cursor| Some((cursor, cursor.lease.filter(|lease| now < lease.until)?)));
    held.map_or(0, |(cursor, lease)| Ends::of(lane).leased(cursor.committed, &lease))
}

/// How a group is doing. `behind` is the age of its oldest unread message, if it is known.
pub(crate) fn state(behind: Option<Duration>, tally: &GroupTally) -> GroupState {
    if behind.is_some_and(|behind| behind > LAGGING) {
        GroupState::Lagging
    } else if tally.consumed > 0 || tally.served_at > Timestamp::ZERO {
        GroupState::Stable
    } else {
        GroupState::Dead
    }
}

/// How numbers are spread.
pub(crate) fn spread(mut numbers: Vec<u64>) -> Spread {
    numbers.sort_unstable();
    let (Some(min), Some(max)) = (numbers.first(), numbers.last()) else { return Spread::default() };
    let (lower, upper) = (numbers[(numbers.len() - 1) / 2], numbers[numbers.len() / 2]);
    let sum: u128 = numbers.iter().map(|n| u128::from(*n)).sum();
    Spread {
        avg: sum as f64 / numbers.len() as f64,
        median: f64::midpoint(lower as f64, upper as f64),
        min: *min,
        max: *max,
    }
}

#[cfg(test)]
mod tests;
