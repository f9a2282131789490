use bugle_store::{LaneId, Lease, QueueId};
use uuid::Uuid;

use super::*;

fn queue(lanes: u64, filled: u64, kept: u64) -> QueueTally {
    QueueTally { lanes, filled, kept, ..QueueTally::empty(QueueId(Uuid::nil())) }
}

fn group(cursors: u64, passed: u64, finished: u64) -> GroupTally {
    GroupTally { cursors, passed, finished, ..GroupTally::empty("g".into()) }
}

fn lane(tail: Offset, head: Offset) -> Lane {
    let queue = QueueId(Uuid::nil());
    Lane {
        id: LaneId::derive(queue, "p"),
        queue,
        name: "p".into(),
        head,
        tail,
        created_at: Timestamp(1),
        written_at: Timestamp(2),
        greatest: None,
    }
}

#[test]
fn a_backlog_is_what_is_kept_and_not_passed() {
    let whole = Backlog::whole(&queue(3, 2, 10), &group(2, 4, 1));
    assert_eq!(whole, Backlog { messages: 6, lanes: 1 });
    assert_eq!(whole.without(Backlog { messages: 5, lanes: 1 }), Backlog { messages: 1, lanes: 0 });
    // Both were counted at different moments.
    assert_eq!(whole.without(Backlog { messages: 9, lanes: 9 }), Backlog::default());
}

#[test]
fn where_a_group_began_matters_only_if_it_may_have_missed_something() {
    let at = Timestamp(100);
    let (open, started) = (queue(3, 2, 10), Timestamp(50));
    assert_eq!(began(Start::New(at), &open, &group(2, 4, 1), started), Some(at));
    assert_eq!(began(Start::From(at), &open, &group(0, 0, 0), at), Some(at));
    assert_eq!(began(Start::All, &open, &group(2, 4, 1), started), None);
    assert_eq!(began(Start::New(at), &open, &group(3, 4, 1), started), None, "a cursor everywhere");
    assert_eq!(began(Start::New(at), &open, &group(2, 10, 2), started), None, "all is done");
    assert_eq!(began(Start::New(at), &open, &group(2, 4, 1), Timestamp(101)), None, "the queue is newer");
}

#[test]
fn what_lies_before_the_start_is_skipped() {
    for (first, messages, lanes) in [(0, 0, 0), (4, 0, 0), (7, 3, 0), (10, 6, 1)] {
        assert_eq!(skipped(&lane(4, 10), first), Backlog { messages, lanes }, "{first}");
    }
}

#[test]
fn a_queue_is_judged_by_anonymous_consumers_or_by_the_slowest_group() {
    let of = |groups: &[(&str, u64, u64)]| reference(groups.iter().copied());
    assert_eq!(of(&[]), None);
    assert_eq!(of(&[("a", 0, 9)]), None, "nobody has read");
    assert_eq!(of(&[(QUEUE_MODE, 0, 9), ("a", 0, 9)]), Some(0));
    assert_eq!(of(&[(QUEUE_MODE, 1, 0), ("a", 1, 9)]), Some(0));
    assert_eq!(of(&[(QUEUE_MODE, 0, 9), ("a", 1, 3), ("b", 1, 5)]), Some(2));
    assert_eq!(of(&[("a", 1, 3), ("b", 0, 9)]), Some(1), "a group that has yet to begin is behind too");
    assert_eq!(of(&[("a", 1, 3), ("b", 1, 3)]), Some(0));
}

#[test]
fn counts_add_up_whatever_they_are_made_of() {
    for (kept, lag, leased) in [(10, 6, 2), (10, 10, 0), (10, 0, 0), (10, 6, 9), (10, 20, 3), (0, 0, 5)] {
        let counts = counts(kept, lag, leased, 1);
        assert_eq!(counts.pending + counts.processing + counts.completed, counts.total, "{counts:?}");
    }
    let expected = MessageCounts { total: 10, pending: 4, processing: 2, completed: 4, dead_letter: 1 };
    assert_eq!(counts(10, 6, 2, 1), expected);
}

#[test]
fn only_a_live_lease_counts() {
    let lease = Lease { id: Uuid::nil(), until: Timestamp(100), end: 8 };
    let cursor = Cursor { lease: Some(lease), ..Cursor::fresh(5) };
    assert_eq!(leased(&lane(0, 10), Some(&cursor), Timestamp(99)), 3);
    assert_eq!(leased(&lane(7, 10), Some(&cursor), Timestamp(99)), 1, "what was trimmed is gone");
    assert_eq!(leased(&lane(0, 10), Some(&cursor), Timestamp(100)), 0);
    assert_eq!(leased(&lane(0, 10), Some(&Cursor::fresh(5)), Timestamp(99)), 0);
    assert_eq!(leased(&lane(0, 10), None, Timestamp(99)), 0);
}

#[test]
fn a_group_lags_after_five_minutes_and_is_dead_until_it_reads() {
    let silent = group(1, 0, 0);
    let reads = GroupTally { consumed: 1, ..silent.clone() };
    let served = GroupTally { served_at: Timestamp(1), ..silent.clone() };
    let minutes = |n: u64| Some(Duration::from_secs(60 * n));
    assert_eq!(state(minutes(5), &reads), GroupState::Stable);
    assert_eq!(state(minutes(6), &reads), GroupState::Lagging);
    assert_eq!(state(minutes(6), &silent), GroupState::Lagging);
    assert_eq!(state(None, &served), GroupState::Stable);
    assert_eq!(state(minutes(0), &silent), GroupState::Dead);
}

#[test]
fn numbers_are_spread() {
    assert_eq!(spread(vec![]), Spread::default());
    assert_eq!(spread(vec![7]), Spread { avg: 7.0, median: 7.0, min: 7, max: 7 });
    assert_eq!(spread(vec![9, 1, 2]), Spread { avg: 4.0, median: 2.0, min: 1, max: 9 });
    assert_eq!(spread(vec![4, 1, 2, 9]), Spread { avg: 4.0, median: 3.0, min: 1, max: 9 });
}
