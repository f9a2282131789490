//! A queue with one lane, for tests that need no more.

use bugle_store::{Catalog, LaneId, NewLane, Queue, QueueId, QueueOptions, Timestamp};
use bugle_store_postgres::PostgresStore;

/// Make it in an empty store.
pub(crate) async fn one_lane(store: &PostgresStore) -> LaneId {
    let queue = Queue {
        id: QueueId::random(),
        name: "q".into(),
        namespace: "".into(),
        task: "".into(),
        created_at: Timestamp(1),
        version: 1,
        options: QueueOptions::default(),
    };
    store.put_queue(queue.clone()).await.expect("stored");
    let new = NewLane { queue: queue.id, name: "p".into(), now: Timestamp(1) };
    let lanes = store.ensure_lanes(vec![new]).await.expect("answered");
    lanes[0].as_ref().expect("made").id
}
