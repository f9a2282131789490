//! What moved anywhere: one question for everybody who waits.
//!
//! A survey is about the whole store. Cases look at their own queues' lanes only; the one that depends on the limit writes
//! in the far future, at a time of its own, so that hardly anything else is in its way.

use std::sync::Arc;

use super::fixture::{Fixture, at, cursor, new_queue, random, segment, swap, unique, up};
use crate::{Cursor, Engine, LaneId, Lease, QueueId, Survey, Surveyed, Timestamp, WrittenLane};

fn ask(since: Timestamp) -> Survey {
    Survey { since, recheck: Vec::new(), limit: 1_000_000, announce: None }
}

async fn survey(f: &Fixture, question: Survey) -> Surveyed {
    up(f.survey(question).await)
}

/// The written lanes of some queues.
fn of(surveyed: &Surveyed, queues: &[QueueId]) -> Vec<LaneId> {
    surveyed.written.iter().filter(|w| queues.contains(&w.queue)).map(|w| w.id).collect()
}

/// The written lanes of the fixture's queue since a time.
async fn own(f: &Fixture, since: Timestamp) -> Vec<LaneId> {
    of(&survey(f, ask(since)).await, &[f.queue.id])
}

/// A lane appears with its head and stamp once it was written, and not while it is only there.
pub async fn a_written_lane_appears(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lane = f.lane("a").await;
    assert_eq!(own(&f, at(0)).await, [], "a lane without messages was not written");
    for round in 1..=3 {
        f.put(lane, segment(&["x", "y"]), at(10 * round)).await;
        let surveyed = survey(&f, ask(at(10 * round))).await;
        let found: Vec<_> = surveyed.written.iter().filter(|w| w.queue == f.queue.id).collect();
        let head = 2 * round as u64;
        let expected = WrittenLane { id: lane, queue: f.queue.id, head, written_at: at(10 * round) };
        assert_eq!(found, [&expected]);
        assert_eq!(surveyed.rechecked, []);
    }
    f.trim_one(lane, 6).await;
    assert_eq!(own(&f, at(30)).await, [lane], "what was removed was written all the same");
}

/// Lanes of several queues are one answer, in the order of their ids.
pub async fn all_queues_are_one_answer(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let (g, h) = (f.neighbour().await, f.neighbour().await);
    let mut all = Vec::new();
    for queue in [&f, &g, &h] {
        let lanes = queue.sorted_lanes(4).await;
        for lane in &lanes[..3] {
            queue.push(*lane, &["x"]).await;
        }
        all.extend_from_slice(&lanes[..3]);
    }
    all.sort_unstable();
    let surveyed = survey(&f, ask(at(1))).await;
    assert_eq!(of(&surveyed, &[f.queue.id, g.queue.id, h.queue.id]), all);
    assert!(surveyed.written.is_sorted_by_key(|w| w.id), "strangers too");
    let owner = surveyed.written.iter().filter(|w| w.queue == g.queue.id).count();
    assert_eq!(owner, 3, "each lane tells its queue");
}

/// A lane written exactly at the time is reported, one written a microsecond before is not.
pub async fn since_is_inclusive(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lanes = f.sorted_lanes(3).await;
    let moments = [at(10), Timestamp(at(10).0 + 1), at(11)];
    for (lane, moment) in lanes.iter().zip(moments) {
        f.put(*lane, segment(&["x"]), moment).await;
    }
    for (i, moment) in moments.into_iter().enumerate() {
        assert_eq!(own(&f, moment).await, lanes[i..], "since {moment:?}");
    }
    assert_eq!(own(&f, Timestamp(at(11).0 + 1)).await, []);
    assert_eq!(own(&f, Timestamp::ZERO).await, lanes);
}

/// The limit cuts the answer to the lanes written first, and says so; an exact fit is not cut.
pub async fn the_limit_keeps_what_was_written_first(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lanes = f.sorted_lanes(5).await;
    let since = at(1_000_000_000 + i64::from(random() as u32));
    // Written in the opposite order of their ids, half a second apart.
    for (i, lane) in lanes.iter().rev().enumerate() {
        f.put(*lane, segment(&["x"]), Timestamp(since.0 + 500_000 * i as i64)).await;
    }
    for limit in 0..=6 {
        let surveyed = survey(&f, Survey { limit, ..ask(since) }).await;
        let first = lanes.len().saturating_sub(limit);
        assert_eq!(of(&surveyed, &[f.queue.id]), lanes[first..], "limit {limit}");
        // Others may have written even later.
        let all = survey(&f, ask(since)).await.written.len();
        assert!(surveyed.more || limit >= lanes.len(), "limit {limit}");
        assert!(!surveyed.more || limit < all, "an exact fit is not cut short: limit {limit} of {all}");
    }
}

/// Lanes to look at again come with the group's cursor, whenever they were written, in the order asked; lanes that do
/// not exist are passed over.
pub async fn rechecked_lanes_come_with_their_cursor(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let other = f.neighbour().await;
    let lanes = f.sorted_lanes(3).await;
    let foreign = other.lane("a").await;
    for lane in &lanes {
        f.put(*lane, segment(&["x", "y"]), at(10)).await;
    }
    let lease = Some(Lease { id: uuid::Uuid::new_v4(), until: at(99), end: 2 });
    let held = Cursor { lease, ..cursor(0, 1) };
    f.swap_one(swap(lanes[2], "g", 0, held.clone())).await.expect("the first cursor");
    f.seed(lanes[0], "other", 2).await;
    let unknown = LaneId::derive(f.queue.id, "never created");
    let asked = [(lanes[2], "g"), (unknown, "g"), (foreign, "g"), (lanes[0], "other"), (lanes[0], "g")];
    let recheck = asked.map(|(lane, group)| (lane, group.into())).to_vec();
    let surveyed = survey(&f, Survey { recheck, limit: 0, ..ask(at(1_000)) }).await;
    assert_eq!(of(&surveyed, &[f.queue.id]), [], "rechecked is not written");
    let found: Vec<_> = surveyed.rechecked.iter().map(|r| (r.lane.id, &*r.group, r.cursor.clone())).collect();
    let own = f.cursor_of(lanes[0], "other").await;
    let expected =
        [(lanes[2], "g", Some(held)), (foreign, "g", None), (lanes[0], "other", own), (lanes[0], "g", None)];
    assert_eq!(found, expected);
    assert_eq!(Some(&surveyed.rechecked[0].lane), f.state(lanes[2]).await.as_ref());
}

/// One lane may be both: written, and looked at again for several groups.
pub async fn a_lane_may_be_written_and_rechecked(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lane = f.lane("a").await;
    f.push(lane, &["x"]).await;
    let groups = ["a", "b", "__QUEUE_MODE__", "ünï\u{E000}"];
    let recheck = groups.map(|group| (lane, group.into())).to_vec();
    let surveyed = survey(&f, Survey { recheck, ..ask(at(1)) }).await;
    assert_eq!(of(&surveyed, &[f.queue.id]), [lane]);
    let found: Vec<_> = surveyed.rechecked.iter().map(|r| &*r.group).collect();
    assert_eq!(found, groups);
}

/// The version is the snapshot's, and another one after a queue was stored.
pub async fn the_catalog_version_is_the_snapshots(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let mut agreed = None;
    // Others may change the catalog at any moment; two equal snapshots around a survey mean that none did.
    for _ in 0..100 {
        let before = up(f.snapshot(None).await).expect("nothing known is nothing kept back").version;
        let told = survey(&f, ask(at(0))).await.catalog;
        let after = up(f.snapshot(None).await).expect("nothing known is nothing kept back").version;
        assert!((before..=after).contains(&told), "{before} <= {told} <= {after}");
        if before == after {
            agreed = Some(told);
            break;
        }
    }
    let agreed = agreed.expect("a quiet moment");
    up(f.put_queue(new_queue(&unique("another"))).await);
    assert!(survey(&f, ask(at(0))).await.catalog > agreed);
}

/// Lanes of a deleted queue are neither written nor there to look at.
pub async fn a_deleted_queue_is_absent(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lane = f.lane("a").await;
    f.push(lane, &["x"]).await;
    f.seed(lane, "g", 0).await;
    let question = Survey { recheck: vec![(lane, "g".into())], ..ask(at(1)) };
    let surveyed = survey(&f, question.clone()).await;
    assert_eq!((of(&surveyed, &[f.queue.id]), surveyed.rechecked.len()), (vec![lane], 1));
    assert!(up(f.delete_queue(f.queue.id).await));
    let surveyed = survey(&f, question).await;
    assert_eq!((of(&surveyed, &[f.queue.id]), surveyed.rechecked.len()), (vec![], 0));
}

/// What is committed after others with later stamps is found by whoever looks back past it.
pub async fn a_late_commit_is_found_by_looking_back(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let (late, early) = (f.lane("late").await, f.lane("early").await);
    f.put(early, segment(&["x"]), at(20)).await;
    assert_eq!(own(&f, at(10)).await, [early]);
    f.put(late, segment(&["x"]), at(12)).await;
    let mut both = vec![late, early];
    both.sort_unstable();
    assert_eq!(own(&f, at(10)).await, both);
    assert_eq!(own(&f, at(20)).await, [early], "who does not look back misses it");
}

/// An announcement changes nothing for whoever makes it, whether or not the engine has listeners.
pub async fn announcing_changes_nothing(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lane = f.lane("a").await;
    f.push(lane, &["x"]).await;
    let too_long = "x".repeat(2 * Survey::ANNOUNCE_MAX);
    for text in ["", "hello 'wörld'", "a\0b", &too_long] {
        let question = Survey { announce: Some(text.to_owned()), ..ask(at(1)) };
        assert_eq!(of(&survey(&f, question).await, &[f.queue.id]), [lane]);
    }
}
