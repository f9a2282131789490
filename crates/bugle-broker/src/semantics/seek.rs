//! Seeking: what it does to a cursor, and to the record of a group, which says where lanes without a cursor begin.
//!
//! A seek moves everything a group has on a queue, also what it has not met yet: the record follows, or a group that once
//! subscribed to what is new could never be sent back before that (hazard q).

use bugle_store::{Cursor, GroupRecord, Lane, Now, Offset, Start, Timestamp};

use super::lease::next_epoch;
use crate::api::SeekTo;

/// Where the group begins in lanes it has no cursor on, from now on. The future is not asked for twice: until it comes,
/// its beginning is the end of what there is.
pub(crate) fn start(to: SeekTo, now: Timestamp) -> Start {
    match to {
        SeekTo::Beginning => Start::All,
        SeekTo::End => Start::New(now),
        SeekTo::Time(at) => Start::From(at.min(now)),
    }
}

/// The offset a cursor on this lane goes to; `None` = the store must be asked for the position of a time.
pub(crate) fn target(to: SeekTo, lane: &Lane) -> Option<Offset> {
    match to {
        SeekTo::Beginning => Some(lane.tail),
        SeekTo::End => Some(lane.head),
        SeekTo::Time(_) => None,
    }
}

/// Messages of a lane that a cursor at `to` has before it. Who conflates gets one.
pub(crate) fn ahead(lane: &Lane, to: Offset, conflation: bool) -> u64 {
    let messages = lane.head.saturating_sub(to.max(lane.tail));
    if conflation { messages.min(1) } else { messages }
}

/// The cursor at `to`, free, with nothing held against what lies there. The epoch goes on, so that whoever held the lane
/// cannot settle any more. `None` = it is like that already.
pub(crate) fn moved(cursor: &Cursor, to: Offset, now: Now) -> Option<Cursor> {
    let epoch = next_epoch(cursor, now);
    let Cursor { served_at, consumed, .. } = *cursor;
    let next = Cursor { epoch, served_at, consumed, ..Cursor::fresh(to) };
    let same = Cursor { epoch: cursor.epoch, ..next.clone() } == *cursor;
    (cursor.epoch == 0 || !same).then_some(next)
}

/// The record of a group that was sent elsewhere. It is always another one than before: this is how other servers learn
/// that what they remember of the group's cursors is old, even if they missed every hint.
pub(crate) fn restated(record: &GroupRecord, start: Option<Start>, now: Timestamp) -> GroupRecord {
    GroupRecord {
        start: start.unwrap_or(record.start),
        created_at: now.max(Timestamp(record.created_at.0.saturating_add(1))),
        ..record.clone()
    }
}

#[cfg(test)]
mod tests {
    use bugle_store::{Lease, LeaseId, QueueId};

    use super::*;

    const NOW: Now = Now { earliest: Timestamp(1_000_000), latest: Timestamp(1_005_000) };

    fn held() -> Cursor {
        let lease = Some(Lease { id: LeaseId::from_u128(1), until: Timestamp(9_000_000), end: 20 });
        let (attempts, deliveries, not_before) = (2, 3, Timestamp(5_000_000));
        let (served_at, consumed) = (Timestamp(7), 10);
        Cursor { epoch: 4, committed: 10, lease, attempts, deliveries, not_before, served_at, consumed }
    }

    #[test]
    fn a_moved_cursor_is_free_and_forgets_what_was_held_against_its_messages() {
        let served_at = Timestamp(7);
        for to in [0, 10, 30] {
            let expected = Cursor { epoch: 5, served_at, consumed: 10, ..Cursor::fresh(to) };
            assert_eq!(moved(&held(), to, NOW), Some(expected), "{to}");
        }
    }

    #[test]
    fn a_cursor_that_is_there_already_stays_and_a_first_one_is_made() {
        let there = Cursor { epoch: 4, consumed: 3, served_at: Timestamp(7), ..Cursor::fresh(10) };
        assert_eq!(moved(&there, 10, NOW), None);
        assert!(moved(&Cursor { attempts: 1, ..there.clone() }, 10, NOW).is_some());
        assert!(moved(&Cursor { not_before: Timestamp(1), ..there }, 10, NOW).is_some());
        let first = moved(&Cursor::fresh(10), 10, NOW).unwrap();
        assert_eq!((first.epoch, first.committed), (NOW.latest.0 as u64, 10));
    }

    #[test]
    fn targets_are_the_ends_of_the_lane_or_asked_for() {
        let lane = Lane {
            id: bugle_store::LaneId::derive(QueueId::random(), "p"),
            queue: QueueId::random(),
            name: "p".into(),
            head: 9,
            tail: 3,
            created_at: Timestamp(1),
            written_at: Timestamp(2),
            greatest: None,
        };
        assert_eq!(target(SeekTo::Beginning, &lane), Some(3));
        assert_eq!(target(SeekTo::End, &lane), Some(9));
        assert_eq!(target(SeekTo::Time(Timestamp(2)), &lane), None);
        assert_eq!([0, 3, 8, 9, 20].map(|to| ahead(&lane, to, false)), [6, 6, 1, 0, 0]);
        assert_eq!([0, 8, 9].map(|to| ahead(&lane, to, true)), [1, 1, 0]);
    }

    #[test]
    fn hazard_q_the_beginning_overrides_what_the_group_subscribed_to() {
        let record = GroupRecord {
            queue: QueueId::random(),
            group: "g".into(),
            start: Start::New(Timestamp(500)),
            conflation: true,
            created_at: Timestamp(500),
        };
        let next = restated(&record, Some(start(SeekTo::Beginning, NOW.latest)), NOW.latest);
        assert_eq!(next, GroupRecord { start: Start::All, created_at: NOW.latest, ..record });
        assert_eq!(start(SeekTo::End, NOW.latest), Start::New(NOW.latest));
        let early = Timestamp(3);
        assert_eq!(start(SeekTo::Time(early), NOW.latest), Start::From(early));
        assert_eq!(start(SeekTo::Time(Timestamp::MAX), NOW.latest), Start::From(NOW.latest));
    }

    #[test]
    fn a_restated_record_is_never_the_same_whatever_the_clock_says() {
        let record = GroupRecord {
            queue: QueueId::random(),
            group: "g".into(),
            start: Start::All,
            conflation: false,
            created_at: Timestamp(2_000_000),
        };
        let next = restated(&record, None, NOW.latest);
        assert_eq!((next.start, next.created_at), (Start::All, Timestamp(2_000_001)));
    }
}
