//! Tallies: after every change they are what counting everything comes to.

use std::sync::Arc;

use uuid::Uuid;

use super::fixture::{Fixture, MANY, at, cursor, free, new_queue, one, segment, swap, up};
use super::retention::{BEFORE, ancient, expire_all};
use crate::{
    Commit, Cursor, DeadLetter, DeadLetterFilter, Engine, Expire, GroupTally, LaneId, Lease, Load, Page,
    QueueId, QueueTally, Swap, Timestamp,
};

/// A queue's tally by reading all of it. For a queue at rest: it takes several calls.
pub async fn recount(engine: &dyn Engine, queue: QueueId, now: Timestamp) -> QueueTally {
    let mut tally = QueueTally::empty(queue);
    for lane in up(engine.lanes(queue, None, MANY).await) {
        let found = one(engine.load(vec![Load::Cursors(lane.id)]).await);
        let cursors = found.iter().filter_map(|found| Some((&found.group, found.cursor.as_ref()?)));
        tally.count(&lane, cursors, now);
    }
    let filter = DeadLetterFilter { queue: Some(queue), ..DeadLetterFilter::default() };
    tally.dead = up(engine.dead_letters(filter, Page { offset: 0, limit: 0 }).await).1;
    tally
}

/// Panics unless `tally` is what was counted by hand. When a group was last served may be later.
pub fn assert_tally(tally: &QueueTally, counted: &QueueTally) {
    let mut tally = tally.clone();
    for (group, by_hand) in tally.groups.iter_mut().zip(&counted.groups) {
        assert!(group.served_at >= by_hand.served_at, "{group:?}");
        group.served_at = by_hand.served_at;
    }
    assert_eq!(&tally, counted);
}

/// The tally of the fixture's queue, which must be what counting comes to, and the same among those of all.
async fn tally(f: &Fixture, now: Timestamp) -> QueueTally {
    let tally = one(f.tallies(Some(vec![f.queue.id]), now).await);
    assert_tally(&tally, &recount(&*f.engine, f.queue.id, now).await);
    assert_eq!(among_all(f, now).await.as_ref(), Some(&tally));
    tally
}

/// The tally of the fixture's queue, asked for with those of all queues.
pub(super) async fn among_all(f: &Fixture, now: Timestamp) -> Option<QueueTally> {
    up(f.tallies(None, now).await).into_iter().find(|tally| tally.queue == f.queue.id)
}

/// One group's tally, and that it is the only group.
async fn only_group(f: &Fixture, now: Timestamp) -> GroupTally {
    let mut groups = tally(f, now).await.groups;
    assert_eq!(groups.len(), 1, "{groups:?}");
    groups.remove(0)
}

/// All queues or some are answered in the order of their ids; those that nobody knows are left out.
pub async fn queues_are_answered_by_id(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let others = [f.neighbour().await, f.neighbour().await];
    f.push(f.lane("a").await, &["x"]).await;
    let mut own = vec![others[0].queue.id, f.queue.id, others[1].queue.id];
    let asked = Some([own.clone(), vec![QueueId::random(), f.queue.id]].concat());
    own.sort_unstable();
    let some = up(f.tallies(asked, at(0)).await);
    assert_eq!(some.iter().map(|tally| tally.queue).collect::<Vec<_>>(), own);
    for tally in some {
        let kept = u64::from(tally.queue == f.queue.id);
        let expected =
            QueueTally { lanes: kept, filled: kept, kept, appended: kept, ..QueueTally::empty(tally.queue) };
        assert_eq!(tally, expected);
    }
    let all = up(f.tallies(None, at(0)).await);
    assert!(all.is_sorted_by_key(|tally| tally.queue));
    assert_eq!(all.iter().filter(|tally| own.contains(&tally.queue)).count(), 3);
    assert_eq!(up(f.tallies(Some(Vec::new()), at(0)).await), []);
}

/// What was pushed is counted as soon as it was answered, whatever its stamp.
pub async fn pushes_count_at_once(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let (a, b) = (f.lane("a").await, f.lane("b").await);
    let now = f.now().latest;
    assert_eq!((tally(&f, now).await.lanes, tally(&f, now).await.filled), (2, 0));
    for (n, stamp) in [at(1), now, at(5), ancient(1), now, Timestamp(1)].into_iter().enumerate() {
        f.put(a, segment(&["x", "y"]), stamp).await;
        let tally = tally(&f, now).await;
        let kept = 2 * (n as u64 + 1);
        assert_eq!((tally.lanes, tally.filled, tally.kept, tally.appended), (2, 1, kept, kept));
    }
    let set = Commit { appends: vec![free(b, segment(&["x"]), at(1))], swaps: Vec::new() };
    f.commit_one(set).await.expect("nothing is guarded");
    assert_eq!((tally(&f, now).await.filled, tally(&f, now).await.kept), (2, 13));
}

/// Trims take from what is kept, and from what groups have passed only where they have passed it.
pub async fn trims_below_and_past_cursors(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lane = f.lane("a").await;
    f.push(lane, &["0", "1", "2", "3", "4", "5"]).await;
    f.seed(lane, "slow", 1).await;
    f.seed(lane, "fast", 6).await;
    for (to, kept, passed) in [(0, 6, (6, 1)), (1, 5, (5, 0)), (4, 2, (2, 0)), (6, 0, (0, 0))] {
        f.trim_one(lane, to).await;
        let tally = tally(&f, at(0)).await;
        assert_eq!((tally.kept, tally.filled, tally.appended), (kept, u64::from(kept > 0), 6));
        let [fast, slow] = &tally.groups[..] else { panic!("two groups by name: {tally:?}") };
        assert_eq!((&*fast.group, &*slow.group), ("fast", "slow"));
        assert_eq!((fast.passed, slow.passed), passed, "trimmed to {to}");
        assert_eq!((fast.finished, slow.finished), (u64::from(kept > 0), 0));
    }
    f.push(lane, &["6"]).await;
    assert!(tally(&f, at(0)).await.groups.iter().all(|group| (group.passed, group.finished) == (0, 0)));
}

/// A cursor that moves forward and back takes its counts along.
pub async fn cursors_move_both_ways(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lanes = [f.lane("a").await, f.lane("b").await];
    for lane in lanes {
        f.push(lane, &["0", "1", "2"]).await;
        f.seed(lane, "g", 0).await;
    }
    let moves = [(3, 1, 3, 7), (1, 0, 1, 7), (0, 0, 0, 2), (3, 1, 3, 9)];
    for (epoch, (committed, finished, passed, consumed)) in (1..).zip(moves) {
        let served_at = at(epoch as i64);
        let next = Cursor { consumed, served_at, ..cursor(epoch, committed) };
        f.swap_one(swap(lanes[0], "g", epoch, next)).await.expect("the epoch is right");
        let group = only_group(&f, at(0)).await;
        let counted = (group.cursors, group.finished, group.passed, group.consumed);
        assert_eq!(counted, (2, finished, passed, consumed));
        assert_eq!(group.served_at, served_at);
    }
    f.push(lanes[0], &["3"]).await;
    assert_eq!(only_group(&f, at(0)).await.finished, 0, "a message it has not seen");
    let (next, append) = (cursor(5, 5), free(lanes[0], segment(&["4"]), at(1)));
    let set = Commit { appends: vec![append], swaps: vec![swap(lanes[0], "g", 5, next)] };
    f.commit_one(set).await.expect("the epoch is right");
    assert_eq!((only_group(&f, at(0)).await.finished, only_group(&f, at(0)).await.passed), (1, 5));
}

/// Leases count until they end, with the messages that are still under them.
pub async fn leases_count_while_they_live(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let (a, b) = (f.lane("a").await, f.lane("b").await);
    for lane in [a, b] {
        f.push(lane, &["0", "1", "2", "3", "4"]).await;
    }
    let lease = |until, end| Some(Lease { id: Uuid::new_v4(), until, end });
    let first = Cursor { lease: lease(at(10), 4), ..cursor(0, 1) };
    f.swap_one(swap(a, "g", 0, first)).await.expect("the first cursor");
    f.swap_one(swap(b, "g", 0, Cursor { lease: lease(at(20), 2), ..cursor(0, 0) })).await.expect("the first");
    let held = async |now| {
        let group = only_group(&f, now).await;
        (group.leases, group.leased)
    };
    assert_eq!(held(at(0)).await, (2, 5));
    assert_eq!((held(at(10)).await, held(at(20)).await), ((1, 2), (0, 0)), "a lease has ended at its end");
    assert_eq!(held(at(9)).await, (2, 5), "the time is the caller's");
    f.trim_one(a, 3).await;
    assert_eq!(held(at(0)).await, (2, 3), "what is gone is not under a lease");
    f.swap_one(swap(a, "g", 1, Cursor { lease: lease(at(30), 4), ..cursor(1, 1) })).await.expect("renewed");
    assert_eq!(held(at(10)).await, (2, 3));
    f.swap_one(swap(a, "g", 2, cursor(2, 4))).await.expect("settled");
    assert_eq!(held(at(0)).await, (1, 2));
}

/// A group that is deleted is gone from the tally of that queue, and counts anew when it comes back.
pub async fn a_deleted_group_is_gone(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let other = f.neighbour().await;
    let (lane, theirs) = (f.lane("a").await, other.lane("a").await);
    f.push(lane, &["x", "y"]).await;
    for (queue, lane) in [(&f, lane), (&other, theirs)] {
        queue.seed(lane, "stays", 0).await;
        let held = Some(Lease { id: Uuid::new_v4(), until: at(9), end: 2 });
        let goes = Cursor { lease: held, consumed: 5, served_at: at(1), ..cursor(0, 1) };
        queue.swap_one(swap(lane, "goes", 0, goes)).await.expect("the first cursor");
    }
    assert_eq!((tally(&f, at(0)).await.groups.len(), tally(&other, at(0)).await.groups.len()), (2, 2));
    up(f.delete_group(f.queue.id, "goes".into(), true).await);
    assert_eq!(&*only_group(&f, at(0)).await.group, "stays");
    assert_eq!(tally(&other, at(0)).await.groups.len(), 2);
    f.seed(lane, "goes", 2).await;
    let again = &tally(&f, at(0)).await.groups[0];
    assert_eq!((&*again.group, again.cursors, again.passed, again.consumed), ("goes", 1, 2, 0));
    // Never counted before it goes.
    f.seed(lane, "unseen", 2).await;
    up(f.delete_group(f.queue.id, "unseen".into(), false).await);
    assert_eq!(tally(&f, at(0)).await.groups.len(), 2);
}

/// Lanes that expire take their counts along, and count anew when they come back.
pub async fn expired_lanes_are_gone(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let stays = f.lane("stays").await;
    f.push(stays, &["x"]).await;
    f.seed(stays, "g", 1).await;
    for seen in [false, true, false] {
        let old = filled_old_lane(&f).await;
        f.seed(old, "h", 1).await;
        if seen {
            assert_eq!(tally(&f, at(0)).await.groups.len(), 2);
        }
        f.trim_one(old, 2).await;
        expire_all(&*f.engine, Expire::Lanes(BEFORE)).await;
        let tally = tally(&f, at(0)).await;
        assert_eq!((tally.lanes, tally.filled, tally.kept, tally.appended), (1, 1, 1, 1));
        assert_eq!(tally.groups.iter().map(|group| &*group.group).collect::<Vec<_>>(), ["g"]);
    }
}

/// A lane with two messages from before 1990. Another case may let it expire while it is still empty.
async fn filled_old_lane(f: &Fixture) -> LaneId {
    loop {
        let old = f.lane_at("old", ancient(5)).await.id;
        if f.append_one(free(old, segment(&["x", "y"]), ancient(4))).await.is_ok() {
            return old;
        }
    }
}

/// A queue that is deleted is gone; one created again with its id begins empty.
pub async fn a_deleted_queue_is_gone(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lane = f.lane("a").await;
    f.push(lane, &["x", "y"]).await;
    let dead = vec![f.letter(lane, "g", "x", 1)];
    f.swap_one(Swap { dead, ..swap(lane, "g", 0, cursor(0, 1)) }).await.expect("the first cursor");
    assert_eq!((tally(&f, at(0)).await.kept, tally(&f, at(0)).await.dead), (2, 1));
    assert!(up(f.delete_queue(f.queue.id).await));
    assert_eq!(up(f.tallies(Some(vec![f.queue.id]), at(0)).await), []);
    assert_eq!(among_all(&f, at(0)).await, None);
    let again = crate::Queue { id: f.queue.id, ..new_queue(&f.queue.name) };
    up(f.put_queue(again).await);
    assert_eq!(tally(&f, at(0)).await, QueueTally::empty(f.queue.id));
    let lane = f.lane("a").await;
    f.push(lane, &["x"]).await;
    assert_eq!(tally(&f, at(0)).await.kept, 1);
}

/// Dead letters count from the exchange that stores them until they are deleted or expire, with or without their lane.
pub async fn dead_letters_are_counted(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lane = f.lane("a").await;
    f.push(lane, &["a", "b"]).await;
    let letter = |n: i64| f.letter(lane, "g", "x", n);
    let (kept, deleted) = (letter(1), letter(2));
    let dead = vec![kept.clone(), deleted.clone()];
    f.swap_one(Swap { dead: dead.clone(), ..swap(lane, "g", 0, cursor(0, 1)) })
        .await
        .expect("the first cursor");
    assert_eq!(tally(&f, at(0)).await.dead, 2);
    // The same letter again is still one letter.
    let swaps = vec![Swap { dead: vec![kept, letter(3)], ..swap(lane, "g", 1, cursor(1, 2)) }];
    f.commit_one(Commit { appends: Vec::new(), swaps }).await.expect("the epoch is right");
    assert_eq!(tally(&f, at(0)).await.dead, 3);
    let refused = Swap { dead: vec![letter(4)], ..swap(lane, "g", 1, cursor(1, 2)) };
    f.swap_one(refused).await.expect_err("the epoch is wrong");
    assert_eq!(up(f.delete_dead_letters(vec![deleted.id, deleted.id, Uuid::new_v4()]).await), 1);
    assert_eq!(tally(&f, at(0)).await.dead, 2);
    let old = |seconds| DeadLetter { failed_at: ancient(seconds), ..letter(0) };
    // One is deleted, the others expire, before anybody asked.
    let dead = vec![old(1), old(2), letter(5), letter(6)];
    let gone = dead[3].id;
    f.swap_one(Swap { dead, ..swap(lane, "g", 2, cursor(2, 2)) }).await.expect("the epoch is right");
    up(f.delete_dead_letters(vec![gone]).await);
    expire_all(&*f.engine, Expire::DeadLetters(BEFORE)).await;
    assert_eq!(tally(&f, at(0)).await.dead, 3);
}
