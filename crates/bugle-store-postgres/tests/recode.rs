//! Messages written anew beside whoever works with them: all of them, once, also after it was interrupted.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicUsize, Ordering};

use bugle_pg::testdb;
use bugle_store::{
    Append, Catalog, Guard, LaneId, NewLane, NewSegment, Queue, QueueId, QueueOptions, Read, Store, Timestamp,
};
use bugle_store_postgres::{PostgresOptions, PostgresStore, RecodeError};
use bytes::Bytes;
use uuid::Uuid;

const LANES: usize = 6;
const DONE: &[u8] = b"anew ";

fn anew(_: LaneId, body: &Bytes) -> Result<Option<Bytes>, String> {
    Ok((!body.starts_with(DONE)).then(|| [DONE, body].concat().into()))
}

async fn append(store: &PostgresStore, lane: LaneId, body: Bytes) {
    let segment = NewSegment { id: random(), fingerprints: [1].into(), greatest: None, body };
    let item = Append { lane, segment, guard: Guard::Free, known_head: 0, now: Timestamp(1) };
    assert!(store.append(vec![item]).await.unwrap()[0].is_ok());
}

fn random() -> u64 {
    Uuid::new_v4().as_u64_pair().0
}

async fn bodies(store: &PostgresStore, lane: LaneId) -> Vec<(u64, Bytes)> {
    let read = Read { lane, from: 0, to: u64::MAX, max_bytes: usize::MAX };
    let segments = store.read(vec![read]).await.unwrap().remove(0);
    segments.iter().map(|segment| (segment.id, segment.body.clone())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_written_anew_once_also_after_an_interruption() {
    let schema = testdb::fresh_schema();
    let options = PostgresOptions { schema, buckets: 4, ..PostgresOptions::new(testdb::server().await) };
    let store = PostgresStore::open(options).await.unwrap();
    let queue = QueueId(Uuid::new_v4());
    let (namespace, task, created_at) = ("".into(), "".into(), Timestamp(1));
    let options = QueueOptions::default();
    let record = Queue { id: queue, name: "q".into(), namespace, task, created_at, version: 1, options };
    store.put_queue(record).await.unwrap();
    let mut lanes = Vec::new();
    for n in 0..LANES {
        let new = NewLane { queue, name: format!("lane {n}").into(), now: Timestamp(1) };
        lanes.push(store.ensure_lanes(vec![new]).await.unwrap().remove(0).unwrap().id);
    }
    for lane in &lanes {
        for n in 0..5u8 {
            // The largest do not fit into one batch together.
            let length = if n == 4 { 5 << 20 } else { 10 };
            append(&store, *lane, vec![n; length].into()).await;
        }
    }
    let mut before = Vec::new();
    for lane in &lanes {
        before.push(bodies(&store, *lane).await);
    }

    let counted = store.recode(&anew, false, &mut |_| {}).await.unwrap();
    assert_eq!((counted.seen, counted.changed), (30, 30));
    assert_eq!(bodies(&store, lanes[0]).await, before[0], "counting changes nothing");
    let calls = AtomicUsize::new(0);
    let interrupted = |lane: LaneId, body: &Bytes| match calls.fetch_add(1, Ordering::Relaxed) {
        20 => Err("interrupted".to_owned()),
        _ => anew(lane, body),
    };
    let outcome = store.recode(&interrupted, true, &mut |_| {}).await;
    assert!(matches!(outcome, Err(RecodeError::Refused { .. })));
    let rest = store.recode(&anew, true, &mut |_| {}).await.unwrap();
    assert!(0 < rest.changed && rest.changed < 30, "{rest:?}: what was done is passed by");

    for (lane, before) in lanes.iter().zip(&before) {
        let after = bodies(&store, *lane).await;
        assert_eq!(after.len(), before.len());
        for ((old_id, old), (new_id, new)) in before.iter().zip(&after) {
            assert_eq!(*new, [DONE, old].concat());
            assert_ne!(old_id, new_id, "another content is another segment");
        }
    }
    assert_eq!(store.recode(&anew, true, &mut |_| {}).await.unwrap().changed, 0);
}
