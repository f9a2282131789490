//! Stores with counted queues in them, for the tests of tallies.

use std::sync::Arc;

use bugle_store::conformance::tally::{assert_tally, recount};
use bugle_store::{
    Append, Catalog, Cursor, Guard, LaneId, NewLane, NewSegment, Queue, QueueId, QueueOptions, Store, Swap,
    Timestamp,
};
use bugle_store_postgres::{PostgresOptions, PostgresStore};
use tokio_postgres::{Client, NoTls};

pub const NOW: Timestamp = Timestamp(1);

pub async fn open(dsn: &str, schema: &str, buckets: u32) -> Arc<PostgresStore> {
    let mut options = PostgresOptions { schema: schema.to_owned(), ..PostgresOptions::new(dsn) };
    // One connection, so that a statement is prepared once.
    options.pool.max = 1;
    options.buckets = buckets;
    PostgresStore::open(options).await.expect("open the store")
}

pub async fn client(dsn: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(dsn, NoTls).await.expect("connect");
    tokio::spawn(connection);
    client
}

/// A queue with `count` lanes, two messages and a group's cursor in each.
pub async fn filled(store: &PostgresStore, count: usize) -> (QueueId, Vec<LaneId>) {
    fill(store, new_queue(QueueId::random()), count).await
}

/// A queue that is not stored yet.
pub fn new_queue(id: QueueId) -> Queue {
    Queue {
        id,
        name: id.to_string().into(),
        namespace: "".into(),
        task: "".into(),
        created_at: NOW,
        version: 1,
        options: QueueOptions::default(),
    }
}

/// The same with this queue.
pub async fn fill(store: &PostgresStore, queue: Queue, count: usize) -> (QueueId, Vec<LaneId>) {
    store.put_queue(queue.clone()).await.expect("stored");
    let new = (0..count).map(|n| NewLane { queue: queue.id, name: n.to_string().into(), now: NOW });
    let made = store.ensure_lanes(new.collect()).await.expect("made");
    let lanes: Vec<LaneId> = made.into_iter().map(|lane| lane.expect("the queue exists").id).collect();
    push(store, &lanes).await;
    let next = Cursor { epoch: 1, ..Cursor::fresh(1) };
    let swap = |lane: &LaneId| Swap {
        lane: *lane,
        group: "g".into(),
        expect: 0,
        next: next.clone(),
        read: None,
        dead: Vec::new(),
    };
    let swapped = store.swap(lanes.iter().map(swap).collect()).await.expect("swapped");
    assert!(swapped.iter().all(Result::is_ok));
    (queue.id, lanes)
}

pub async fn push(store: &PostgresStore, lanes: &[LaneId]) {
    let segment = NewSegment { id: 1, fingerprints: Arc::new([1, 2]), greatest: None, body: "x".into() };
    let now = store.now().latest;
    let append = |lane: &LaneId| Append {
        lane: *lane,
        known_head: 0,
        guard: Guard::Free,
        segment: segment.clone(),
        now,
    };
    let appended = store.append(lanes.iter().map(append).collect()).await.expect("appended");
    assert!(appended.iter().all(Result::is_ok));
}

/// Whether the tally is what is there, asked for alone and with all others.
pub async fn check(store: &PostgresStore, queue: QueueId) {
    let all = store.tallies(None, NOW).await.expect("counted");
    let tally = store.tallies(Some(vec![queue]), NOW).await.expect("counted").remove(0);
    assert_eq!(all.into_iter().find(|other| other.queue == queue).as_ref(), Some(&tally));
    assert_tally(&tally, &recount(store, queue, NOW).await);
}

/// The first cursor of a group on a lane.
pub async fn seed(store: &PostgresStore, lane: LaneId, group: &str) {
    let next = Cursor { epoch: 1, ..Cursor::fresh(0) };
    let swap = Swap { lane, group: group.into(), expect: 0, next, read: None, dead: Vec::new() };
    assert!(store.swap(vec![swap]).await.expect("swapped").remove(0).is_ok());
}
