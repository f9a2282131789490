//! A store with one queue and one lane in it, for the tests of this crate's own parts.

use std::sync::Arc;

use bugle_pg::testdb;
use bugle_store::{
    Append, Catalog, Guard, LaneId, NewLane, NewSegment, Queue, QueueId, QueueOptions, Timestamp,
};

use crate::{PostgresOptions, PostgresStore};

pub(crate) struct Fixture {
    pub(crate) store: Arc<PostgresStore>,
    pub(crate) schema: String,
    pub(crate) queue: QueueId,
    pub(crate) lane: LaneId,
}

pub(crate) async fn fixture() -> Fixture {
    let schema = testdb::fresh_schema();
    let mut options =
        PostgresOptions { schema: schema.clone(), ..PostgresOptions::new(testdb::server().await) };
    options.pool.max = 12;
    let store = PostgresStore::open(options).await.unwrap();
    let queue = Queue {
        id: QueueId::random(),
        name: "q".into(),
        namespace: "".into(),
        task: "".into(),
        created_at: Timestamp(1),
        version: 1,
        options: QueueOptions::default(),
    };
    store.put_queue(queue.clone()).await.unwrap();
    let new = NewLane { queue: queue.id, name: "p".into(), now: Timestamp(1) };
    let lane = store.ensure_lanes(vec![new]).await.unwrap().remove(0).unwrap().id;
    Fixture { store, schema, queue: queue.id, lane }
}

/// An append of a segment with these fingerprints, stamped `at`.
pub(crate) fn append(lane: LaneId, id: u64, fingerprints: Arc<[u64]>, at: i64) -> Append {
    let segment = NewSegment { id, fingerprints, greatest: None, body: bytes::Bytes::new() };
    Append { lane, known_head: 0, guard: Guard::Free, segment, now: Timestamp(at) }
}
