//! What the engine does when its files are damaged, taken, too new, or the disk refuses.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::io::{BufRead, BufReader};
use std::sync::Arc;

use bugle_disk::{Fault, SimDisk};
use bugle_store::{
    Append, Catalog, Cursor, Engine, Guard, LaneId, NewLane, NewSegment, Queue, QueueId, QueueOptions, Read,
    Span, Store, Swap, Swapped, Timestamp, Trim,
};
use bugle_store_embedded::{EmbeddedOptions, EmbeddedStore, OpenError};
use fastrand::Rng;
use support::model::Pair;
use support::picture::Picture;

fn options() -> EmbeddedOptions {
    let mut options = EmbeddedOptions::new("unused");
    options.file_size = 64 << 10;
    options.checkpoint_every = 256 << 10;
    options.cache_bytes = 0;
    options.filter_bytes = 4 << 10;
    options.background = false;
    options
}

fn open(disk: &SimDisk) -> Result<Arc<EmbeddedStore>, OpenError> {
    EmbeddedStore::open_on(Arc::new(disk.clone()), options())
}

async fn filled(changes: usize, rng: &mut Rng) -> (SimDisk, Pair, Vec<Picture>) {
    let disk = SimDisk::default();
    let store = open(&disk).unwrap();
    let mut pair = Pair::new();
    let mut history = Vec::new();
    for _ in 0..changes {
        pair.change(&*store, rng).await.unwrap();
        history.push(pair.picture.clone());
    }
    drop(store);
    (disk, pair, history)
}

/// A flipped bit leads to a refusal (when opening or when reading), to a repair, or to the loss of the very last record,
/// which cannot be told from one that was never finished. It never leads to a wrong answer.
#[tokio::test]
async fn a_flipped_bit_is_refused_or_repaired() {
    let mut rng = Rng::with_seed(7);
    let (disk, pair, mut history) = filled(150, &mut rng).await;
    let lanes = pair.lanes();
    let (mut refused, mut repaired) = (0, 0);
    let files: Vec<_> = disk.files().into_iter().filter(|(_, len)| *len > 0).collect();
    for round in 0..300 {
        let damaged = disk.copy();
        let (name, len) = &files[round % files.len()];
        // Pages in use are at the front; most flips should hit something.
        let bit = if rng.bool() { rng.usize(..len * 8) } else { rng.usize(..len.min(&12_288) * 8) };
        damaged.flip(name, bit);
        let Ok(store) = open(&damaged) else {
            refused += 1;
            continue;
        };
        match support::picture::try_look(&*store, &lanes).await {
            Err(_) => refused += 1,
            Ok(seen) => {
                let whole = history.last().unwrap().blank();
                let without_last = history[history.len() - 2].blank();
                assert!(seen == whole || seen == without_last, "round {round}: {name}, bit {bit}");
                repaired += 1;
            }
        }
    }
    history.clear();
    assert!(refused > 20 && repaired > 20, "refused {refused}, harmless or repaired {repaired}");
}

#[tokio::test]
async fn a_flipped_bit_after_a_clean_close_loses_nothing() {
    let mut rng = Rng::with_seed(8);
    let (disk, pair, _) = filled(100, &mut rng).await;
    open(&disk).unwrap().close().await.unwrap();
    let files: Vec<_> = disk.files().into_iter().filter(|(_, len)| *len > 0).collect();
    for round in 0..300 {
        let damaged = disk.copy();
        let (name, len) = &files[round % files.len()];
        let bit = rng.usize(..len * 8);
        damaged.flip(name, bit);
        let Ok(store) = open(&damaged) else { continue };
        if let Ok(seen) = support::picture::try_look(&*store, &pair.lanes()).await {
            assert!(seen == pair.picture.blank(), "round {round}: {name}, bit {bit}");
        }
    }
}

#[tokio::test]
async fn damage_is_named_with_file_and_offset() {
    let mut rng = Rng::with_seed(9);
    let (disk, ..) = filled(10, &mut rng).await;
    let log = disk.files().into_iter().map(|f| f.0).find(|name| name.ends_with(".log")).unwrap();
    disk.flip(&log, (2 * 4096 + 100) * 8);
    match open(&disk) {
        Err(OpenError::Damaged { file, offset, .. }) => assert_eq!((file, offset % 4096), (log, 0)),
        other => panic!("{:?}", other.err()),
    }
}

/// A flipped bit in a file that is being served: the lane gets what lies before it and nothing else, the others go on, and so
/// does the store, also when it wants to copy what is damaged.
#[tokio::test]
async fn damage_while_serving_stops_its_lane_alone() {
    let disk = SimDisk::default();
    let store = open(&disk).unwrap();
    let (id, name): (_, Arc<str>) = (QueueId::random(), "q".into());
    let (now, options) = (Timestamp(1_700_000_000_000_000), QueueOptions::default());
    let (namespace, task) = (name.clone(), name.clone());
    let queue = Queue { id, name, namespace, task, created_at: now, version: 1, options };
    store.put_queue(queue).await.unwrap();
    let new = ["damaged", "whole", "busy"].map(|name| NewLane { queue: id, name: name.into(), now });
    let lanes: Vec<LaneId> =
        store.ensure_lanes(new.into()).await.unwrap().into_iter().map(|lane| lane.unwrap().id).collect();
    let append = |lane, byte: u8, len| Append {
        lane,
        known_head: 0,
        guard: Guard::Free,
        segment: NewSegment {
            id: 1,
            fingerprints: Arc::from([u64::from(byte)]),
            greatest: None,
            body: vec![byte; len].into(),
        },
        now,
    };
    for (lane, byte) in [(lanes[0], 1), (lanes[0], 2), (lanes[1], 3)] {
        store.append(vec![append(lane, byte, 500)]).await.unwrap().remove(0).unwrap();
    }
    let log = disk.files().into_iter().map(|f| f.0).find(|name| name.ends_with(".log")).unwrap();
    let at = disk.content(&log).windows(400).position(|window| window.iter().all(|byte| *byte == 2)).unwrap();
    disk.flip(&log, at * 8 + 3);
    let read = Read { lane: lanes[0], from: 0, to: 2, max_bytes: usize::MAX };
    let refused = store.read(vec![read]).await.unwrap_err().reason;
    assert!(refused.contains(&log) && refused.contains("frame checksum"), "{refused}");
    let swaps = |epoch| {
        let claim = |lane| Swap {
            lane,
            group: "g".into(),
            expect: epoch,
            next: Cursor { epoch: epoch + 1, ..Cursor::fresh(0) },
            read: Some(Span { from: 0, to: 9, max_bytes: usize::MAX }),
            dead: Vec::new(),
        };
        vec![claim(lanes[0]), claim(lanes[1])]
    };
    let bodies = |claimed: &Swapped| claimed.segments.iter().map(|s| s.body[0]).collect::<Vec<u8>>();
    let claimed: Vec<Swapped> = store.swap(swaps(0)).await.unwrap().into_iter().map(Result::unwrap).collect();
    assert_eq!(claimed.iter().map(bodies).collect::<Vec<_>>(), [vec![1], vec![3]]);
    // Files fill up and are trimmed, so that the damaged one is to be emptied by copying.
    for _ in 0..1500 {
        let to = store.append(vec![append(lanes[2], 9, 3000)]).await.unwrap().remove(0).unwrap().base;
        store.trim(vec![Trim { lane: lanes[2], to }]).await.unwrap();
    }
    store.ping().await.unwrap();
    assert!(disk.files().iter().any(|(name, _)| *name == log), "what could not be copied is still there");
    let claimed: Vec<Swapped> = store.swap(swaps(1)).await.unwrap().into_iter().map(Result::unwrap).collect();
    assert_eq!(claimed.iter().map(bodies).collect::<Vec<_>>(), [vec![1], vec![3]]);
}

#[tokio::test]
async fn lost_indexes_are_rebuilt() {
    let mut rng = Rng::with_seed(10);
    let (disk, mut pair, _) = filled(400, &mut rng).await;
    open(&disk).unwrap().close().await.unwrap();
    let tables = |disk: &SimDisk| {
        let names = disk.files().into_iter().map(|f| f.0);
        names.filter(|n| n.ends_with(".idx") || n.ends_with(".fps")).collect::<Vec<_>>()
    };
    let names = tables(&disk);
    assert!(names.len() > 4);
    names.iter().for_each(|name| disk.overwrite(name, b""));
    let store = open(&disk).unwrap();
    pair.verify(&*store, &mut rng).await;
    assert_eq!(tables(&disk), names);
}

#[tokio::test]
async fn a_failed_sync_poisons_the_engine() {
    let mut rng = Rng::with_seed(11);
    let disk = SimDisk::default();
    let store = open(&disk).unwrap();
    let mut pair = Pair::new();
    for _ in 0..20 {
        pair.change(&*store, &mut rng).await.unwrap();
    }
    disk.fail(Fault::Sync, 0, u64::MAX, 1);
    while pair.change(&*store, &mut rng).await.is_ok() {}
    disk.heal();
    let reason = store.ping().await.unwrap_err().reason;
    assert!(reason.contains("sync failed"), "{reason}");
    let lanes = pair.lanes();
    assert!(support::picture::try_look(&*store, &lanes).await.is_err(), "reads are refused too");
    assert!(store.close().await.is_err());
    drop(store);
    let again = open(&disk).unwrap();
    pair.verify(&*again, &mut rng).await;
}

#[tokio::test]
async fn a_newer_format_is_refused() {
    let mut rng = Rng::with_seed(12);
    let (disk, ..) = filled(3, &mut rng).await;
    let before = disk.files();
    disk.overwrite("FORMAT", b"bugle-embedded 2\n");
    assert!(matches!(open(&disk), Err(OpenError::NewerFormat { found: 2, supported: 1 })));
    assert_eq!(disk.files(), before, "nothing was touched");
}

#[tokio::test]
async fn a_second_opener_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = EmbeddedOptions::new(dir.path().join("data"));
    options.file_size = 1 << 20;
    let first = EmbeddedStore::open(options.clone()).unwrap();
    match EmbeddedStore::open(options.clone()) {
        Err(e @ OpenError::Locked(_)) => assert!(e.to_string().contains("in use by another process")),
        other => panic!("{:?}", other.err()),
    }
    first.close().await.unwrap();
    EmbeddedStore::open(options).unwrap();
}

#[tokio::test]
async fn what_was_answered_is_there_after_reopening_real_files() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = EmbeddedOptions::new(dir.path().join("data"));
    options.file_size = 64 << 10;
    options.checkpoint_every = 200 << 10;
    let mut rng = Rng::with_seed(13);
    let mut pair = Pair::new();
    for life in 0..6 {
        let store = EmbeddedStore::open(options.clone()).unwrap();
        pair.verify(&*store, &mut rng).await;
        for _ in 0..60 {
            pair.change(&*store, &mut rng).await.unwrap();
        }
        if life % 2 == 0 {
            store.close().await.unwrap();
        }
    }
    let store = EmbeddedStore::open(options).unwrap();
    pair.verify(&*store, &mut rng).await;
}

#[tokio::test]
async fn calls_after_close_are_unavailable() {
    let disk = SimDisk::default();
    let store = open(&disk).unwrap();
    store.close().await.unwrap();
    store.close().await.unwrap();
    assert!(store.ping().await.is_err());
    assert!(store.append(Vec::new()).await.is_err());
}

/// Run by the test below in a process of its own: pushes until it is killed, and says how far it was answered.
#[tokio::test]
#[ignore = "not a test by itself"]
async fn child_pushes_until_killed() {
    let Ok(dir) = std::env::var("BUGLE_CHILD_DIR") else { return };
    let mut options = EmbeddedOptions::new(dir);
    options.file_size = 64 << 10;
    options.checkpoint_every = 200 << 10;
    let store = EmbeddedStore::open(options).unwrap();
    let mut rng = Rng::with_seed(14);
    let mut pair = Pair::new();
    for answered in 1.. {
        pair.change(&*store, &mut rng).await.unwrap();
        println!("answered {answered}");
    }
}

#[tokio::test]
async fn a_killed_process_loses_nothing_answered() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_pushes_until_killed", "--ignored", "--nocapture"])
        .env("BUGLE_CHILD_DIR", &data)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut answers = lines.filter_map(|l| l.strip_prefix("answered ").map(|n| n.parse::<usize>().unwrap()));
    let seen = answers.by_ref().find(|n| *n >= 120).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let answered = answers.last().unwrap_or(seen);
    // The same changes made elsewhere say what must be there: all that was answered, and perhaps one more.
    let mut rng = Rng::with_seed(14);
    let (_, pair, history) = filled(answered + 1, &mut rng).await;
    let store =
        EmbeddedStore::open(EmbeddedOptions { file_size: 64 << 10, ..EmbeddedOptions::new(data) }).unwrap();
    let found = support::picture::try_look(&*store, &pair.lanes()).await.unwrap();
    let fits = found == history[answered - 1].blank() || found == history[answered].blank();
    assert!(fits, "answered {answered}");
}
