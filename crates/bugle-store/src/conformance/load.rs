//! Lanes and cursors as they are now.

use std::sync::Arc;

use uuid::Uuid;

use super::fixture::{Fixture, at, cursor, swap, up};
use crate::{Cursor, Engine, LaneCursor, LaneId, Lease, Load, lease_id};

fn keys(mut found: Vec<LaneCursor>) -> Vec<(LaneId, String)> {
    found.sort_by(|a, b| (a.lane.id, &a.group).cmp(&(b.lane.id, &b.group)));
    found.iter().map(|row| (row.lane.id, row.group.to_string())).collect()
}

/// One lane with one group's cursor, or without it, or nothing.
pub async fn a_lane_with_a_cursor(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lane = f.lane("a").await;
    f.push(lane, &["1", "2"]).await;
    f.trim_one(lane, 1).await;
    let stored = f.seed(lane, "g", 1).await;
    let with = f.load_one(Load::Lane(lane, "g".into())).await;
    assert_eq!(with.len(), 1);
    assert_eq!((&*with[0].group, &with[0].cursor), ("g", &Some(stored)));
    let found = &with[0].lane;
    assert_eq!((found.id, found.queue, &*found.name), (lane, f.queue.id, "a"));
    assert_eq!((found.head, found.tail), (2, 1));
    assert_eq!((found.created_at, found.written_at, found.greatest), (at(0), at(1), None));
    let without = f.load_one(Load::Lane(lane, "h".into())).await;
    let expected = LaneCursor { lane: found.clone(), group: "h".into(), cursor: None };
    assert_eq!(without, [expected]);
    let unknown = LaneId::derive(f.queue.id, "never created");
    assert_eq!(f.load_one(Load::Lane(unknown, "g".into())).await, []);
}

/// Everything that one lease holds, across lanes and groups, expired or not.
pub async fn everything_a_lease_holds(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lanes = f.sorted_lanes(4).await;
    let (ours, theirs) = (Uuid::new_v4(), Uuid::new_v4());
    let held = |id, seconds| Cursor { lease: Some(Lease { id, until: at(seconds), end: 3 }), ..cursor(0, 1) };
    let rows = [
        (0, "g", held(ours, 1_000_000_000)),
        (1, "g", held(theirs, 5)),
        (2, "g", held(ours, -1_000_000)),
        (2, "h", held(ours, 5)),
        (3, "g", cursor(0, 1)),
    ];
    for (lane, group, row) in &rows {
        f.swap_one(swap(lanes[*lane], group, 0, row.clone())).await.expect("the first cursor");
    }
    let found = f.load_one(Load::Lease(ours)).await;
    for row in &found {
        let stored =
            rows.iter().find(|(lane, group, _)| lanes[*lane] == row.lane.id && **group == *row.group);
        assert_eq!(row.cursor.as_ref(), stored.map(|(_, _, cursor)| cursor));
        assert_eq!(Some(&row.lane), f.state(row.lane.id).await.as_ref());
    }
    let expected = [(lanes[0], "g"), (lanes[2], "g"), (lanes[2], "h")].map(|(l, g)| (l, g.to_owned()));
    assert_eq!(keys(found), expected);
    assert_eq!(f.load_one(Load::Lease(Uuid::new_v4())).await, []);
    // A lease that was given back, or replaced by another, holds nothing.
    f.swap_one(swap(lanes[0], "g", 1, cursor(1, 2))).await.expect("the epoch is right");
    let taken = Cursor { epoch: 2, ..held(theirs, 9) };
    f.swap_one(swap(lanes[2], "g", 1, taken)).await.expect("the epoch is right");
    assert_eq!(keys(f.load_one(Load::Lease(ours)).await), [(lanes[2], "h".to_owned())]);
    let expected = [lanes[1], lanes[2]].map(|lane| (lane, "g".to_owned()));
    assert_eq!(keys(f.load_one(Load::Lease(theirs)).await), expected);
}

/// Leases are found by ids that say where they are, before and after a change of what they hold.
pub async fn leases_are_found_where_their_ids_say(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lanes = f.sorted_lanes(4).await;
    let now = f.now().latest;
    let (one, several) = (lease_id(now, Some(lanes[0])), lease_id(now, None));
    let held = |id, expect| Cursor {
        lease: Some(Lease { id, until: at(1_000_000_000), end: 3 }),
        ..cursor(expect, 1)
    };
    f.swap_one(swap(lanes[0], "g", 0, held(one, 0))).await.expect("the first cursor");
    for lane in &lanes[1..] {
        f.swap_one(swap(*lane, "g", 0, held(several, 0))).await.expect("the first cursor");
    }
    let row = |lane: LaneId| (lane, "g".to_owned());
    assert_eq!(keys(f.load_one(Load::Lease(one)).await), [row(lanes[0])]);
    assert_eq!(keys(f.load_one(Load::Lease(several)).await), [row(lanes[1]), row(lanes[2]), row(lanes[3])]);
    let longer = Cursor { attempts: 1, ..held(several, 1) };
    f.swap_one(swap(lanes[1], "g", 1, longer)).await.expect("the epoch is right");
    f.swap_one(swap(lanes[2], "g", 1, cursor(1, 2))).await.expect("the epoch is right");
    f.swap_one(swap(lanes[0], "g", 1, cursor(1, 2))).await.expect("the epoch is right");
    assert_eq!(keys(f.load_one(Load::Lease(several)).await), [row(lanes[1]), row(lanes[3])]);
    assert_eq!(f.load_one(Load::Lease(one)).await, []);
}

/// Every group's cursor on a lane.
pub async fn all_cursors_of_a_lane(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let (a, b) = (f.lane("a").await, f.lane("b").await);
    assert_eq!(f.load_one(Load::Cursors(a)).await, []);
    for (i, group) in ["x", "y", "z"].into_iter().enumerate() {
        f.seed(a, group, i as u64).await;
    }
    f.seed(b, "x", 9).await;
    let found = f.load_one(Load::Cursors(a)).await;
    let mut committed: Vec<_> =
        found.iter().filter_map(|row| row.cursor.as_ref()).map(|c| c.committed).collect();
    committed.sort_unstable();
    assert_eq!(committed, [0, 1, 2]);
    assert_eq!(keys(found), ["x", "y", "z"].map(|group| (a, group.to_owned())));
    assert_eq!(f.load_one(Load::Cursors(LaneId::derive(f.queue.id, "never created"))).await, []);
}

/// A batch mixes all forms and answers in the order asked.
pub async fn batches_answer_in_order(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lanes = f.sorted_lanes(2).await;
    let id = Uuid::new_v4();
    let held = Cursor { lease: Some(Lease { id, until: at(9), end: 3 }), ..cursor(0, 1) };
    f.swap_one(swap(lanes[0], "g", 0, held)).await.expect("the first cursor");
    f.seed(lanes[1], "h", 0).await;
    let batch = vec![
        Load::Cursors(lanes[1]),
        Load::Lane(LaneId::derive(f.queue.id, "never created"), "g".into()),
        Load::Lane(lanes[1], "g".into()),
        Load::Lease(id),
        Load::Lane(lanes[0], "g".into()),
        Load::Lane(lanes[0], "g".into()),
        Load::Lease(Uuid::new_v4()),
    ];
    let answers: Vec<_> = up(f.load(batch).await).into_iter().map(keys).collect();
    let row = |lane: usize, group: &str| vec![(lanes[lane], group.to_owned())];
    assert_eq!(answers, [row(1, "h"), vec![], row(1, "g"), row(0, "g"), row(0, "g"), row(0, "g"), vec![]]);
}
