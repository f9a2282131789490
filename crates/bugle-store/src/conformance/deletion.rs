//! Deleting queues: everything goes, and nothing that races the deletion comes back.

use std::sync::Arc;

use uuid::Uuid;

use super::fixture::{ALL, Fixture, MANY, at, cursor, free, join, new_queue, segment, swap, unique, up};
use crate::{
    Cursor, Engine, GroupRecord, LaneError, LaneId, Lease, Load, NewLane, PutQueue, Queue, QueueId, Start,
    Swap, SwapError, Trace, TraceFilter,
};

fn record(queue: QueueId) -> GroupRecord {
    GroupRecord { queue, group: "g".into(), start: Start::All, conflation: false, created_at: at(1) }
}

fn trace(f: &Fixture, lane: LaneId, name: &str) -> Trace {
    Trace {
        id: Uuid::now_v7(),
        queue: f.queue.id,
        lane,
        transaction_id: "tx".into(),
        event_type: "info".into(),
        data: "{}".into(),
        group: "g".into(),
        names: vec![name.to_owned()],
        worker: None,
        created_at: at(1),
    }
}

/// A deleted queue takes lanes, segments, cursors, groups, dead letters and traces with it.
pub async fn deletion_takes_everything(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let bystander = f.neighbour().await;
    let name = unique("trace").to_string();
    let lease = Uuid::new_v4();
    let mut lanes = Vec::new();
    for owner in [&f, &bystander] {
        let lane = owner.lane("a").await;
        owner.push(lane, &["x"]).await;
        let next = Cursor { lease: Some(Lease { id: lease, until: at(9), end: 1 }), ..cursor(0, 0) };
        let dead = vec![owner.letter(lane, "g", "dead", 1)];
        owner.swap_one(Swap { dead, ..swap(lane, "g", 0, next) }).await.expect("the first cursor");
        let group = record(owner.queue.id);
        assert_eq!(up(owner.put_group(group.clone()).await), Some(group));
        up(owner.put_trace(trace(owner, lane, &name)).await);
        lanes.push(lane);
    }
    assert!(up(f.delete_queue(f.queue.id).await));
    assert!(!up(f.delete_queue(f.queue.id).await), "gone already");
    assert!(!up(f.delete_queue(QueueId::random()).await));

    let now = up(f.snapshot(None).await).expect("a snapshot is given to who knows none");
    for (owner, lane, left) in [(&f, lanes[0], 0), (&bystander, lanes[1], 1)] {
        let id = owner.queue.id;
        assert_eq!(now.queues.iter().filter(|queue| queue.id == id).count(), left);
        assert_eq!(now.groups.iter().filter(|group| group.queue == id).count(), left);
        assert_eq!(up(owner.lanes(id, None, MANY).await).len(), left);
        assert_eq!(owner.read_all(lane).await.len(), left);
        assert_eq!(owner.load_one(Load::Lane(lane, "g".into())).await.len(), left);
        assert_eq!(owner.load_one(Load::Cursors(lane)).await.len(), left);
        assert_eq!(owner.letters().await.len(), left);
        assert_eq!(up(owner.traces(TraceFilter::Message(lane, "tx".into()), ALL).await).1, left as u64);
    }
    assert_eq!(f.load_one(Load::Lease(lease)).await.len(), 1);
    assert_eq!(up(f.traces(TraceFilter::Name(name), ALL).await).1, 1);
    let lane = NewLane { queue: f.queue.id, name: "a".into(), now: at(1) };
    assert_eq!(up(f.ensure_lanes(vec![lane]).await), [Err(LaneError::NoQueue)]);
    let update = Queue { version: 2, ..f.queue.clone() };
    assert_eq!(up(f.put_queue(update).await), PutQueue::Exists(None));
    assert_eq!(up(f.put_group(record(f.queue.id)).await), None);
}

/// A queue created again under its old name is a new one, without lanes, cursors or groups.
pub async fn a_queue_created_again_is_empty(engine: Arc<dyn Engine>) {
    let f = Fixture::new(engine).await;
    let old = f.lane("a").await;
    f.push(old, &["x"]).await;
    f.seed(old, "g", 1).await;
    assert!(up(f.delete_queue(f.queue.id).await));
    let queue = new_queue(&f.queue.name);
    assert_eq!(up(f.put_queue(queue.clone()).await), PutQueue::Stored(queue.clone()));
    let again = Fixture { engine: f.engine.clone(), queue };
    assert_eq!(up(again.lanes(again.queue.id, None, MANY).await), []);
    let new = again.lane("a").await;
    assert_ne!(new, old);
    assert_eq!(again.ends(new).await, (0, 0));
    assert_eq!(again.cursor_of(new, "g").await, None);
    assert_eq!(again.state(old).await, None);
    assert_eq!(again.push(new, &["y"]).await.base, 0);
}

/// Lanes cannot be created in a queue while it goes away: what was created is deleted with it.
pub async fn no_lane_survives_its_queue(engine: Arc<dyn Engine>) {
    for _ in 0..5 {
        let f = Arc::new(Fixture::new(engine.clone()).await);
        let creator = {
            let f = f.clone();
            tokio::spawn(async move {
                for i in 0..50 {
                    let new = NewLane { queue: f.queue.id, name: format!("{i}").into(), now: at(0) };
                    if up(f.ensure_lanes(vec![new]).await)[0].is_err() {
                        return;
                    }
                }
            })
        };
        tokio::task::yield_now().await;
        assert!(up(f.delete_queue(f.queue.id).await));
        creator.await.expect("the creator ends");
        assert_eq!(up(f.lanes(f.queue.id, None, MANY).await), []);
        for i in 0..50 {
            assert_eq!(f.state(LaneId::derive(f.queue.id, &i.to_string())).await, None);
        }
    }
}

/// An append that races the deletion of its queue is either deleted with it or refused: nothing comes back.
pub async fn no_append_survives_its_queue(engine: Arc<dyn Engine>) {
    for _ in 0..5 {
        let f = Arc::new(Fixture::new(engine.clone()).await);
        let lanes = f.sorted_lanes(4).await;
        let writer = |lane: LaneId| {
            let f = f.clone();
            tokio::spawn(async move {
                for epoch in 0..100 {
                    let stored = f.append_one(free(lane, segment(&["x"]), at(1))).await;
                    let swapped = f.swap_one(swap(lane, "g", epoch, cursor(epoch, 0))).await;
                    if stored.is_err() || swapped.is_err() {
                        assert_eq!(swapped.map(|_| ()), Err(SwapError::NoLane));
                        return;
                    }
                }
            })
        };
        let writers: Vec<_> = lanes.iter().copied().map(writer).collect();
        tokio::task::yield_now().await;
        assert!(up(f.delete_queue(f.queue.id).await));
        join(writers).await;
        for lane in lanes {
            assert_eq!(f.state(lane).await, None);
            assert_eq!(f.read_all(lane).await, []);
            assert_eq!(f.load_one(Load::Cursors(lane)).await, []);
        }
    }
}
