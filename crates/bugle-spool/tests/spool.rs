//! A spool on a disk that works, and on one that is damaged, full or fails.
#![allow(clippy::unwrap_used)]

mod support;

use std::sync::Arc;

use bugle_disk::{Fault, SimDisk};
use bugle_spool::{FileSpool, OpenError, SpoolOptions};
use bugle_store::{Spool, SpoolError, SpoolState};

use support::{drain, number, open, record};

#[tokio::test]
async fn records_come_out_in_the_order_they_were_put_also_after_reopening() {
    let disk = SimDisk::default();
    let spool = open(&disk).unwrap();
    for n in 0..40 {
        spool.put(vec![record(2 * n), record(2 * n + 1)]).await.unwrap();
    }
    assert!(disk.files().len() > 4, "several files: {:?}", disk.files());
    let state = spool.state();
    assert_eq!((state.records, state.failed), (80, None));
    for round in 0..3 {
        let batch = spool.front(60).await.unwrap();
        assert_eq!(number(&batch.records[0]), round * 2, "whole puts, until there are enough bytes");
        assert_eq!((batch.records.len(), batch.last), (2, false));
        spool.done(batch).await.unwrap();
    }
    drop(spool);
    let again = open(&disk).unwrap();
    assert_eq!(again.state().records, 74);
    assert!((0..5).all(|lane| again.holds(lane)) && !again.holds(5));
    again.put(vec![record(80)]).await.unwrap();
    assert_eq!(drain(&again).await, (6..=80).collect::<Vec<u64>>());
    assert_eq!(again.state(), SpoolState { max_bytes: 1 << 30, ..SpoolState::default() });
    assert!(!(0..5).any(|lane| again.holds(lane)));
    assert!(disk.files().iter().all(|(name, _)| !name.ends_with(".log")), "{:?}", disk.files());
    again.put(vec![record(81)]).await.unwrap();
    drop(again);
    assert_eq!(drain(&open(&disk).unwrap()).await, [81]);
}

#[tokio::test]
async fn what_is_not_done_with_comes_again_and_the_last_batch_says_so() {
    let disk = SimDisk::default();
    let spool = open(&disk).unwrap();
    spool.put(vec![record(1)]).await.unwrap();
    let batch = spool.front(1000).await.unwrap();
    assert!(batch.last && batch.records.len() == 1);
    assert_eq!(spool.front(1000).await.unwrap(), batch, "it was not done with");
    spool.put(vec![record(2)]).await.unwrap();
    let both = spool.front(1000).await.unwrap();
    assert_eq!((both.records.len(), both.last), (2, true));
    assert!(spool.done(batch).await.is_err(), "another was taken since");
    let both = spool.front(1000).await.unwrap();
    spool.done(both).await.unwrap();
    assert!(spool.front(1000).await.unwrap().records.is_empty());
}

#[tokio::test]
async fn many_who_put_at_once_share_syncs() {
    let disk = SimDisk::default();
    let options = SpoolOptions::new("unused");
    let spool = FileSpool::open_on(Arc::new(disk.clone()), options).unwrap();
    let puts: Vec<_> = (0..500).map(|n| spool.put(vec![record(n)])).collect();
    for put in puts {
        put.await.unwrap();
    }
    assert!(disk.syncs() < 100, "{} syncs", disk.syncs());
    assert_eq!(drain(&spool).await, (0..500).collect::<Vec<u64>>());
}

#[tokio::test]
async fn nothing_is_made_before_it_is_needed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("spool");
    let spool = FileSpool::open(SpoolOptions::new(&path)).unwrap();
    assert!(spool.front(1).await.unwrap().records.is_empty());
    assert!(!path.exists());
    spool.put(vec![record(7)]).await.unwrap();
    assert!(path.exists());
    let other = FileSpool::open(SpoolOptions::new(&path));
    assert!(matches!(other, Err(OpenError::Locked(_))), "one process at a time");
    drop(spool);
    assert_eq!(drain(&FileSpool::open(SpoolOptions::new(&path)).unwrap()).await, [7]);
}

#[tokio::test]
async fn a_full_spool_refuses_and_takes_again_when_drained() {
    let disk = SimDisk::default();
    let options = SpoolOptions { max_bytes: 50, ..SpoolOptions::new("unused") };
    let spool = FileSpool::open_on(Arc::new(disk), options).unwrap();
    spool.put(vec![record(1), record(2)]).await.unwrap();
    assert_eq!(spool.put(vec![record(3)]).await, Err(SpoolError::Full { bytes: 40, max: 50 }));
    assert_eq!(drain(&spool).await, [1, 2]);
    spool.put(vec![record(3)]).await.unwrap();
    assert_eq!(drain(&spool).await, [3]);
}

#[tokio::test]
async fn a_full_disk_is_told_and_forgotten_when_there_is_room() {
    let disk = SimDisk::default();
    let spool = open(&disk).unwrap();
    spool.put(vec![record(1)]).await.unwrap();
    let used: usize = disk.files().iter().map(|(_, size)| size).sum();
    disk.limit(Some(used + 10));
    assert!(matches!(spool.put(vec![record(2)]).await, Err(SpoolError::Failed(_))));
    assert!(spool.state().failed.is_some());
    assert_eq!(spool.state().records, 1);
    disk.limit(None);
    spool.put(vec![record(3)]).await.unwrap();
    assert_eq!(spool.state().failed, None);
    drop(spool);
    assert_eq!(drain(&open(&disk).unwrap()).await, [1, 3]);
}

#[tokio::test]
async fn a_failed_sync_ends_it() {
    let disk = SimDisk::default();
    let spool = open(&disk).unwrap();
    spool.put(vec![record(1)]).await.unwrap();
    disk.fail(Fault::Sync, 0, u64::MAX, 1);
    assert!(matches!(spool.put(vec![record(2)]).await, Err(SpoolError::Failed(_))));
    disk.heal();
    assert!(
        matches!(spool.put(vec![record(3)]).await, Err(SpoolError::Failed(_))),
        "nobody knows what is there"
    );
    assert!(spool.state().failed.is_some());
    drop(spool);
    let again = open(&disk).unwrap();
    let out = drain(&again).await;
    assert!(out == [1] || out == [1, 2], "{out:?}");
}

#[tokio::test]
async fn damage_is_refused_and_named_or_was_never_promised() {
    'sizes: for size in [3, 30] {
        let disk = SimDisk::default();
        let spool = open(&disk).unwrap();
        for n in 0..size {
            spool.put(vec![record(n)]).await.unwrap();
        }
        drop(spool);
        let files = disk.files();
        let last =
            files.iter().map(|(name, _)| name).filter(|name| name.ends_with(".log")).max().unwrap().clone();
        for (name, bytes) in files.into_iter().filter(|(name, _)| name.ends_with(".log")) {
            for bit in (0..bytes * 8).step_by(3) {
                disk.flip(&name, bit);
                match open(&disk) {
                    Err(OpenError::Damaged { file, offset, .. }) => {
                        assert!(
                            file == name && offset <= (bit / 8) as u64,
                            "{file} at {offset}, was {name} bit {bit}"
                        );
                    }
                    Err(other) => panic!("{other}"),
                    // Only the very last group cannot be told from one that was never finished.
                    Ok(spool) => {
                        let out = drain(&spool).await;
                        assert!(
                            name == last && out == (0..size - 1).collect::<Vec<u64>>(),
                            "{name} bit {bit}: {out:?}"
                        );
                        continue 'sizes;
                    }
                }
                disk.flip(&name, bit);
            }
        }
    }
}

#[tokio::test]
async fn a_lost_file_is_noticed() {
    let disk = SimDisk::default();
    let spool = open(&disk).unwrap();
    for n in 0..40 {
        spool.put(vec![record(n)]).await.unwrap();
    }
    drop(spool);
    let logs: Vec<String> =
        disk.files().into_iter().map(|f| f.0).filter(|name| name.ends_with(".log")).collect();
    bugle_disk::Disk::remove(&disk, &logs[1]).unwrap();
    assert!(matches!(open(&disk), Err(OpenError::Damaged { .. })));
}
