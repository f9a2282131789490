//! Lanes: creation and listing.

use std::sync::Arc;

use super::fixture::{Fixture, MANY, at, up};
use crate::{Engine, Lane, LaneError, LaneId, NewLane, QueueId};

/// A new lane is empty and stamped with its creation.
pub async fn a_new_lane_is_empty(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let lane = f.lane_at("a", at(3)).await;
    let expected = Lane {
        id: LaneId::derive(f.queue.id, "a"),
        queue: f.queue.id,
        name: "a".into(),
        head: 0,
        tail: 0,
        created_at: at(3),
        written_at: at(3),
        greatest: None,
    };
    assert_eq!(lane, expected);
    assert_eq!(f.state(lane.id).await, Some(expected));
}

/// A lane that exists is answered as it is.
pub async fn an_existing_lane_is_answered(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let id = f.lane("a").await;
    f.push(id, &["x", "y"]).await;
    f.trim_one(id, 1).await;
    let again = f.lane_at("a", at(50)).await;
    assert_eq!((again.id, again.head, again.tail), (id, 2, 1));
    assert_eq!((again.created_at, again.written_at), (at(0), at(1)));
    assert_eq!(up(f.lanes(f.queue.id, None, MANY).await), [again]);
}

/// A batch mixes new, existing, repeated and impossible lanes, and answers in the order asked.
pub async fn batches_answer_in_order(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let other = f.neighbour().await;
    f.lane("b").await;
    let new = |queue: QueueId, name: &str| NewLane { queue, name: name.into(), now: at(9) };
    let gone = QueueId::random();
    let asked = [
        new(f.queue.id, "c"),
        new(gone, "a"),
        new(f.queue.id, "b"),
        new(other.queue.id, "b"),
        new(f.queue.id, "a"),
        new(f.queue.id, "c"),
    ];
    let answers = up(f.ensure_lanes(asked.to_vec()).await);
    assert_eq!(answers.len(), 6);
    for (new, answer) in asked.iter().zip(&answers) {
        match answer {
            Ok(lane) => {
                assert_eq!((lane.queue, &lane.name), (new.queue, &new.name));
                assert_eq!(lane.id, LaneId::derive(new.queue, &new.name));
            }
            Err(why) => assert_eq!((new.queue, why), (gone, &LaneError::NoQueue)),
        }
    }
    assert_eq!(answers[0], answers[5]);
    assert_eq!(answers[2].as_ref().map(|lane| lane.created_at), Ok(at(0)));
    let names: Vec<_> =
        up(f.lanes(f.queue.id, None, MANY).await).iter().map(|lane| lane.name.to_string()).collect();
    assert_eq!(names, ["a", "b", "c"]);
}

/// Listing goes by name, page by page.
pub async fn lanes_are_listed_by_name(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let mut names = ["b", "B", "a", "10", "9", "_", "é", "Z", "z", "a b", "ab"];
    for name in names {
        f.lane(name).await;
    }
    names.sort_unstable();
    let mut listed: Vec<Arc<str>> = Vec::new();
    loop {
        let page = up(f.lanes(f.queue.id, listed.last().cloned(), 4).await);
        assert_eq!(page.len(), 4.min(names.len() - listed.len()));
        if page.is_empty() {
            break;
        }
        listed.extend(page.into_iter().map(|lane| lane.name));
    }
    assert_eq!(listed, names.map(Arc::from));
    assert_eq!(up(f.lanes(f.queue.id, None, 0).await), []);
}

/// Listing goes on after a name whether or not that lane is still, or ever was, there.
pub async fn listing_goes_on_after_any_name(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    for name in ["b", "d", "f"] {
        f.lane(name).await;
    }
    for (after, expected) in
        [("a", vec!["b", "d"]), ("b", vec!["d", "f"]), ("c", vec!["d", "f"]), ("f", vec![])]
    {
        let page = up(f.lanes(f.queue.id, Some(after.into()), 2).await);
        assert_eq!(page.iter().map(|lane| &*lane.name).collect::<Vec<_>>(), expected, "after {after}");
    }
}

/// Of many who create one lane at the same time all get the same one.
pub async fn concurrent_creation_agrees(engine: Arc<dyn Engine>) {
    let f = Arc::new(Fixture::new(engine).await);
    let tasks: Vec<_> = (0..16)
        .map(|i| {
            let f = f.clone();
            // Opposite orders must not block each other.
            let order: Vec<usize> = if i % 2 == 0 { (0..20).collect() } else { (0..20).rev().collect() };
            tokio::spawn(async move {
                let new = |n: &usize| NewLane { queue: f.queue.id, name: n.to_string().into(), now: at(i) };
                let mut lanes = up(f.ensure_lanes(order.iter().map(new).collect()).await);
                lanes.sort_by_key(|lane| lane.as_ref().map(|lane| lane.id).ok());
                lanes
            })
        })
        .collect();
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.expect("a creation"));
    }
    assert!(answers[0].iter().all(Result::is_ok));
    assert!(answers.iter().all(|lanes| *lanes == answers[0]));
    assert_eq!(up(f.lanes(f.queue.id, None, MANY).await).len(), 20);
}
