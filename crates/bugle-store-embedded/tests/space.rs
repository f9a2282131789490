//! Space comes back: what was trimmed does not fill the disk, also when a little of every file stays alive, and memory
//! does not grow with messages.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bugle_disk::SimDisk;
use bugle_store::{
    Append, Commit, Engine, Find, Guard, LaneId, NewLane, NewSegment, Queue, QueueId, QueueOptions, Read,
    Store, Timestamp, Trim,
};
use bugle_store_embedded::{EmbeddedOptions, EmbeddedStore};

const T: Timestamp = Timestamp(1_700_000_000_000_000);

async fn lanes(store: &dyn Engine, names: &[&str]) -> Vec<LaneId> {
    let (id, name): (_, Arc<str>) = (QueueId::random(), "q".into());
    let (namespace, task, options) = (name.clone(), name.clone(), QueueOptions::default());
    store.put_queue(Queue { id, name, namespace, task, created_at: T, version: 1, options }).await.unwrap();
    let new = names.iter().map(|name| NewLane { queue: id, name: (*name).into(), now: T }).collect();
    store.ensure_lanes(new).await.unwrap().into_iter().map(|lane| lane.unwrap().id).collect()
}

fn append(lane: LaneId, prints: Vec<u64>, body: Vec<u8>) -> Append {
    let segment = NewSegment { id: 1, fingerprints: prints.into(), greatest: None, body: body.into() };
    Append { lane, known_head: 0, guard: Guard::Free, segment, now: T }
}

fn options() -> EmbeddedOptions {
    let mut options = EmbeddedOptions::new("unused");
    options.file_size = 64 << 10;
    options.checkpoint_every = 128 << 10;
    options.cache_bytes = 0;
    options.background = false;
    options
}

#[tokio::test]
async fn trimmed_files_are_recycled() {
    let disk = SimDisk::default();
    let store = EmbeddedStore::open_on(Arc::new(disk.clone()), options()).unwrap();
    let lane = lanes(&*store, &["x"]).await[0];
    let mut recycled = false;
    for i in 0..600 {
        let head =
            store.append(vec![append(lane, vec![i], vec![7; 3000])]).await.unwrap().remove(0).unwrap().base;
        store.trim(vec![Trim { lane, to: head.saturating_sub(10) }]).await.unwrap();
        recycled |= disk.files().iter().any(|(name, _)| name.starts_with("free-"));
        let logs = disk.files().iter().filter(|(name, _)| name.ends_with(".log")).count();
        assert!(logs <= 8, "{logs} log files after {i} pushes");
    }
    assert!(recycled);
}

#[tokio::test]
async fn sparsely_filled_files_are_emptied() {
    let disk = SimDisk::default();
    let store = EmbeddedStore::open_on(Arc::new(disk.clone()), options()).unwrap();
    let lane = lanes(&*store, &["kept", "busy"]).await;
    let (kept, busy) = (lane[0], lane[1]);
    for i in 0..2000u64 {
        let mut batch = vec![append(busy, vec![i], vec![7; 3000])];
        if i % 20 == 0 {
            batch.push(append(kept, vec![i + 1_000_000], i.to_le_bytes().to_vec()));
        }
        let head = store.append(batch).await.unwrap().remove(0).unwrap().base;
        store.trim(vec![Trim { lane: busy, to: head }]).await.unwrap();
    }
    let logs = disk.files().iter().filter(|(name, _)| name.ends_with(".log")).count();
    // 2,000 pushes of a page each fill 200 files, every one of which holds something that is kept.
    assert!(logs < 60, "{logs} log files");
    let check = async |store: &EmbeddedStore| {
        let read = Read { lane: kept, from: 0, to: 1000, max_bytes: usize::MAX };
        let segments = store.read(vec![read]).await.unwrap().remove(0);
        let values: Vec<u64> =
            segments.iter().map(|s| u64::from_le_bytes(s.body[..].try_into().unwrap())).collect();
        assert_eq!(values, (0..100).map(|i| i * 20).collect::<Vec<_>>());
        let fingerprints = vec![1_000_000, 1_000_000 + 60 * 20];
        let query = Find { lane: kept, fingerprints, from: 0, to: 1000, since: T };
        let found = store.find(vec![query]).await.unwrap().remove(0);
        assert_eq!(found.iter().map(|f| (f.index, f.offset)).collect::<Vec<_>>(), [(0, 0), (1, 60)]);
    };
    check(&store).await;
    drop(store);
    check(&*EmbeddedStore::open_on(Arc::new(disk), options()).unwrap()).await;
}

/// Readers are never shown a file's next life, and never see less than they should, while files are sealed, emptied and
/// recycled under them.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn readers_are_not_disturbed_by_recycling() {
    let disk = SimDisk::default();
    let options = EmbeddedOptions { background: true, ..options() };
    let store = EmbeddedStore::open_on(Arc::new(disk), options).unwrap();
    let lane = lanes(&*store, &["kept", "busy"]).await;
    let (kept, busy) = (lane[0], lane[1]);
    let first = (0..50u64).map(|i| {
        let body = i.to_le_bytes().repeat(100);
        Commit { appends: vec![append(kept, vec![i], body)], swaps: Vec::new() }
    });
    store.commit(first.collect()).await.unwrap();
    let writing = {
        let store = store.clone();
        tokio::spawn(async move {
            for i in 0..1500u64 {
                let batch = vec![append(busy, vec![i], i.to_le_bytes().repeat(300))];
                let base = store.append(batch).await.unwrap().remove(0).unwrap().base;
                store.trim(vec![Trim { lane: busy, to: base.saturating_sub(40) }]).await.unwrap();
            }
        })
    };
    let mut looks = 0;
    while !writing.is_finished() {
        for (lane, whole) in [(kept, true), (busy, false)] {
            let read = Read { lane, from: 0, to: u64::MAX, max_bytes: usize::MAX };
            let segments = store.read(vec![read]).await.unwrap().remove(0);
            assert!(!whole || segments.len() == 50);
            for segment in &segments {
                assert!(segment.body.chunks(8).all(|value| value == segment.base.to_le_bytes()));
            }
        }
        looks += 1;
    }
    writing.await.unwrap();
    assert!(looks > 10, "{looks}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn callers_that_wait_together_share_a_sync() {
    let disk = SimDisk::default();
    let store = EmbeddedStore::open_on(Arc::new(disk.clone()), options()).unwrap();
    let lane = lanes(&*store, &["x"]).await[0];
    disk.hold_syncs(true);
    let call = |i: u64| {
        let store = store.clone();
        tokio::spawn(async move { store.append(vec![append(lane, vec![i], vec![1; 10])]).await })
    };
    let mut calls = vec![call(0)];
    while disk.held() == 0 {
        tokio::task::yield_now().await;
    }
    calls.extend((1..40).map(call));
    while store.waiting_calls() < 39 {
        tokio::task::yield_now().await;
    }
    let read = Read { lane, from: 0, to: u64::MAX, max_bytes: usize::MAX };
    assert!(store.read(vec![read]).await.unwrap()[0].is_empty(), "seen before it is durable");
    assert!(calls.iter().all(|call| !call.is_finished()), "answered before it is durable");
    let before = disk.syncs();
    disk.hold_syncs(false);
    for call in calls {
        call.await.unwrap().unwrap().remove(0).unwrap();
    }
    assert_eq!(disk.syncs() - before, 2, "one for the first call, one for all that came meanwhile");
}

/// Resident memory of this process in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

async fn look_for(store: &EmbeddedStore, lane: LaneId, count: u64) -> Duration {
    let mut slowest = Duration::ZERO;
    for i in [0, count / 3, count - 1, count + 5] {
        let fingerprints = vec![bugle_store::fingerprint(&i.to_le_bytes())];
        let query = Find { lane, fingerprints, from: 0, to: u64::MAX, since: Timestamp::ZERO };
        let started = Instant::now();
        let found = store.find(vec![query]).await.unwrap().remove(0);
        slowest = slowest.max(started.elapsed());
        let expected: Vec<u64> = (i < count).then_some(i).into_iter().collect();
        assert_eq!(found.iter().map(|f| f.offset).collect::<Vec<_>>(), expected);
    }
    slowest
}

async fn fill(store: &EmbeddedStore, lane: LaneId, messages: u64, per_segment: u64, body: usize) {
    let per_call = 5000 / per_segment;
    for call in 0..messages / per_segment / per_call {
        let set = |segment: u64| {
            let first = (call * per_call + segment) * per_segment;
            let prints = (first..first + per_segment).map(|i| bugle_store::fingerprint(&i.to_le_bytes()));
            Commit { appends: vec![append(lane, prints.collect(), vec![1; body])], swaps: Vec::new() }
        };
        let done = store.commit((0..per_call).map(set).collect()).await.unwrap();
        assert!(done.iter().all(Result::is_ok));
    }
}

async fn find_among(messages: u64, per_segment: u64, body: usize, most_memory: u64) {
    let dir = tempfile::tempdir().unwrap();
    let mut options = EmbeddedOptions::new(dir.path().join("data"));
    options.cache_bytes = 0;
    options.file_size = 32 << 20;
    options.checkpoint_every = 64 << 20;
    let store = EmbeddedStore::open(options).unwrap();
    let lane = lanes(&*store, &["x"]).await[0];
    let before = resident();
    let started = Instant::now();
    fill(&store, lane, messages, per_segment, body).await;
    let grown = resident().saturating_sub(before);
    let slowest = look_for(&store, lane, messages).await;
    println!(
        "{messages} messages by {per_segment}: filled in {:?}, slowest look-up {slowest:?}, {} MB more resident",
        started.elapsed(),
        grown >> 20
    );
    assert!(slowest < Duration::from_millis(50), "{slowest:?}");
    assert!(grown < most_memory, "{grown} bytes");
}

#[tokio::test]
async fn an_id_is_found_among_many_segments() {
    find_among(100_000, 1, 40, 200 << 20).await;
}

#[tokio::test]
#[ignore = "ten seconds"]
async fn an_id_is_found_among_a_million_segments() {
    find_among(1_000_000, 1, 40, 200 << 20).await;
}

#[tokio::test]
#[ignore = "half a minute"]
async fn ten_million_ids_take_little_memory() {
    find_among(10_000_000, 100, 2000, 110 << 20).await;
}
