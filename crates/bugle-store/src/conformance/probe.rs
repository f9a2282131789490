//! Which lanes have messages for a group.

use std::sync::Arc;

use super::fixture::{Fixture, at, one, segment, up};
use crate::{Engine, LaneId, Probe, Probed, QueueId, Timestamp};

fn ask(queue: QueueId, group: &str) -> Probe {
    Probe { queue, group: group.into(), since: None, recheck: Vec::new(), after: None, limit: 1000 }
}

fn ids(probed: &Probed) -> Vec<LaneId> {
    probed.lanes.iter().map(|found| found.lane.id).collect()
}

async fn probe(f: &Fixture, query: Probe) -> Probed {
    one(f.probe(vec![query]).await)
}

/// Ready means: the head is above what the group committed, or above the tail where it has no cursor.
pub async fn ready_is_head_above_committed(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lanes = f.sorted_lanes(5).await;
    for lane in &lanes[1..] {
        f.push(*lane, &["1", "2"]).await;
    }
    f.seed(lanes[2], "g", 1).await;
    f.seed(lanes[3], "g", 2).await;
    f.seed(lanes[4], "other", 2).await;
    // Empty; no cursor; behind; at the head; only another group's cursor.
    let probed = probe(&f, ask(f.queue.id, "g")).await;
    assert_eq!(ids(&probed), [lanes[1], lanes[2], lanes[4]]);
    assert!(!probed.more);
    assert!(probed.lanes.iter().all(|found| &*found.group == "g"));
    assert_eq!(probed.lanes[0].cursor, None);
    assert_eq!(probed.lanes[1].cursor, f.cursor_of(lanes[2], "g").await);
    assert_eq!(probed.lanes[2].cursor, None);
    assert_eq!(Some(probed.lanes[0].lane.clone()), f.state(lanes[1]).await);
    assert_eq!(ids(&probe(&f, ask(f.queue.id, "other")).await), lanes[1..4]);
}

/// A lane that someone holds is reported like any other, with its lease.
pub async fn leased_lanes_are_reported(engine: Arc<dyn Engine>) {
    use super::fixture::{cursor, swap};
    let f = Fixture::new(engine).await;
    let lane = f.lane("a").await;
    f.push(lane, &["1"]).await;
    let lease = Some(crate::Lease { id: uuid::Uuid::new_v4(), until: at(1_000_000_000), end: 1 });
    let held = crate::Cursor { lease, ..cursor(0, 0) };
    f.swap_one(swap(lane, "g", 0, held.clone())).await.expect("the first cursor");
    let probed = probe(&f, ask(f.queue.id, "g")).await;
    assert_eq!(ids(&probed), [lane]);
    assert_eq!(probed.lanes[0].cursor, Some(held));
}

/// What was trimmed is not there to be delivered: an empty lane is not ready, wherever the cursor is.
pub async fn trimmed_messages_do_not_count(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lanes = f.sorted_lanes(3).await;
    for lane in &lanes {
        f.push(*lane, &["1", "2", "3"]).await;
    }
    f.seed(lanes[0], "g", 1).await;
    f.trim_one(lanes[0], 3).await;
    f.trim_one(lanes[1], 3).await;
    f.seed(lanes[2], "g", 0).await;
    f.trim_one(lanes[2], 2).await;
    assert_eq!(ids(&probe(&f, ask(f.queue.id, "g")).await), [lanes[2]]);
}

/// `since` leaves out lanes written before it, and keeps one written exactly then.
pub async fn since_skips_what_was_written_before(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lanes = f.sorted_lanes(3).await;
    for (i, lane) in lanes.iter().enumerate() {
        f.put(*lane, segment(&["x"]), at(10 * (i as i64 + 1))).await;
    }
    for (since, expected) in [
        (at(0), &lanes[..]),
        (at(10), &lanes[..]),
        (at(11), &lanes[1..]),
        (at(20), &lanes[1..]),
        (Timestamp(at(20).0 + 1), &lanes[2..]),
        (at(31), &[]),
    ] {
        let query = Probe { since: Some(since), ..ask(f.queue.id, "g") };
        assert_eq!(ids(&probe(&f, query).await), expected, "since {since:?}");
    }
    f.put(lanes[0], segment(&["y"]), at(40)).await;
    let query = Probe { since: Some(at(35)), ..ask(f.queue.id, "g") };
    assert_eq!(ids(&probe(&f, query).await), [lanes[0]]);
}

/// Lanes to recheck are reported whenever they were written, once, if they are ready and of this queue.
pub async fn rechecked_lanes_ignore_since(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let foreign = f.neighbour().await;
    let lanes = f.sorted_lanes(4).await;
    for (lane, seconds) in [(0, 10), (1, 10), (2, 30), (3, 10)] {
        f.put(lanes[lane], segment(&["x"]), at(seconds)).await;
    }
    f.seed(lanes[3], "g", 1).await;
    let elsewhere = foreign.lane("a").await;
    foreign.push(elsewhere, &["x"]).await;
    let unknown = LaneId::derive(f.queue.id, "never created");
    let recheck = vec![lanes[2], unknown, lanes[3], elsewhere, lanes[1]];
    let query = Probe { since: Some(at(20)), recheck, ..ask(f.queue.id, "g") };
    assert_eq!(ids(&probe(&f, query).await), [lanes[1], lanes[2]]);
}

/// The limit cuts the answer short and says so; `after` continues it, with and without `since`.
pub async fn pages_cover_everything_once(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lanes = f.sorted_lanes(7).await;
    for lane in &lanes {
        f.push(*lane, &["x"]).await;
    }
    for since in [None, Some(at(0))] {
        for limit in [1, 2, 3, 6] {
            let mut query = Probe { since, limit, ..ask(f.queue.id, "g") };
            let mut seen = Vec::new();
            loop {
                let page = probe(&f, query.clone()).await;
                assert!(page.lanes.len() <= limit);
                seen.extend(ids(&page));
                assert_eq!(page.more, seen.len() < lanes.len(), "limit {limit} after {}", seen.len());
                if !page.more {
                    break;
                }
                query.after = seen.last().copied();
            }
            assert_eq!(seen, lanes);
        }
        let whole = probe(&f, Probe { since, limit: 7, ..ask(f.queue.id, "g") }).await;
        assert_eq!((ids(&whole), whole.more), (lanes.clone(), false), "an exact fit is not cut short");
    }
}

/// Only lanes of the queue asked for; a batch answers each question in the order asked.
pub async fn queues_are_separate(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let other = f.neighbour().await;
    let (a, b) = (f.lane("a").await, other.lane("a").await);
    f.push(a, &["x"]).await;
    other.push(b, &["x"]).await;
    f.seed(a, "done", 1).await;
    let batch = vec![
        ask(other.queue.id, "g"),
        ask(f.queue.id, "done"),
        ask(QueueId::random(), "g"),
        ask(f.queue.id, "g"),
        ask(other.queue.id, "done"),
    ];
    let probed: Vec<_> = up(f.probe(batch).await).iter().map(ids).collect();
    assert_eq!(probed, [vec![b], vec![], vec![], vec![a], vec![b]]);
}

/// A confirmed append is seen by the next probe, a confirmed exchange too.
pub async fn confirmed_changes_are_seen_at_once(engine: Arc<dyn Engine>) {
    use super::fixture::{cursor, swap};
    let f = Fixture::new(engine).await;
    let lane = f.lane("a").await;
    for round in 0..5 {
        assert_eq!(ids(&probe(&f, ask(f.queue.id, "g")).await), []);
        f.push(lane, &["x"]).await;
        assert_eq!(ids(&probe(&f, ask(f.queue.id, "g")).await), [lane]);
        f.swap_one(swap(lane, "g", round, cursor(round, round + 1))).await.expect("the epoch is right");
    }
}
