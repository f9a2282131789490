//! Copies of a spool taken while it is used, and what the doctor says of them.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use bugle_spool::{FileSpool, SpoolOptions, examine};
use bugle_store::{Backup, BackupPiece, Severity, Spool, Spooled};

fn record(n: u64) -> Spooled {
    Spooled { lane: n % 3, body: format!("message {n} {}", "x".repeat(50)).into() }
}

async fn put(spool: &FileSpool, range: std::ops::Range<u64>) {
    for n in range {
        spool.put(vec![record(n)]).await.unwrap();
    }
}

fn open(dir: &Path) -> Arc<FileSpool> {
    FileSpool::open(SpoolOptions { file_bytes: 500, ..SpoolOptions::new(dir) }).unwrap()
}

fn write(mut copy: Box<dyn Backup>, to: &Path) {
    fs::create_dir(to).unwrap();
    let mut name = String::new();
    while let Some(piece) = copy.next().unwrap() {
        match piece {
            BackupPiece::File { name: next, .. } => {
                name = next;
                fs::write(to.join(&name), b"").unwrap();
            }
            BackupPiece::Bytes(bytes) => {
                let mut whole = fs::read(to.join(&name)).unwrap();
                whole.extend_from_slice(&bytes);
                fs::write(to.join(&name), whole).unwrap();
            }
        }
    }
}

async fn drain(spool: &FileSpool, most: usize) -> Vec<Spooled> {
    let batch = spool.front(most).await.unwrap();
    let records = batch.records.clone();
    if !records.is_empty() {
        spool.done(batch).await.unwrap();
    }
    records
}

#[tokio::test]
async fn a_copy_holds_what_was_put_and_not_done_with() {
    let dir = tempfile::tempdir().unwrap();
    let spool = open(&dir.path().join("spool"));
    put(&spool, 0..20).await;
    for (round, drained) in [0, 1, 600, 100_000].into_iter().enumerate() {
        let begin = if drained > 0 { drain(&spool, drained).await.len() } else { 0 };
        put(&spool, 100..103).await;
        let copy = spool.backup().await.ok().unwrap();
        let state = spool.state();
        // What comes and goes now is not in it.
        put(&spool, 200..205).await;
        let kept = drain(&spool, 100).await;
        let to = dir.path().join(round.to_string());
        write(copy, &to);
        let found = examine(&to);
        assert_eq!(found.worst(), None, "{found:?}");
        let restored = open(&to);
        assert_eq!(restored.state().records, state.records, "after {begin} were drained");
        let all = restored.front(usize::MAX).await.unwrap().records;
        assert_eq!(all.len() as u64, state.records);
        assert_eq!(all[..kept.len()], kept[..], "in order, from the oldest on");
        put(&restored, 300..301).await;
        assert_eq!(examine(&to).worst(), Some(Severity::Unknown), "it is in use");
    }
}

#[tokio::test]
async fn an_empty_spool_has_no_files() {
    let dir = tempfile::tempdir().unwrap();
    let spool = open(&dir.path().join("spool"));
    assert!(spool.backup().await.ok().unwrap().next().unwrap().is_none());
    put(&spool, 0..2).await;
    drain(&spool, usize::MAX).await;
    assert!(spool.backup().await.ok().unwrap().next().unwrap().is_none());
    assert_eq!(examine(&dir.path().join("nowhere")).worst(), None);
}

#[tokio::test]
async fn damage_is_found_where_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("spool");
    let spool = open(&data);
    put(&spool, 0..20).await;
    drop(spool);
    assert_eq!(examine(&data).worst(), None);
    let mut files: Vec<_> = fs::read_dir(&data).unwrap().map(|e| e.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some());
    files.sort();
    assert!(files.len() > 2);
    for (path, at) in [(&files[0], 10), (&files[0], 64 + 40), (&files[1], 64 + 5)] {
        let mut bytes = fs::read(path).unwrap();
        bytes[at] ^= 1;
        fs::write(path, &bytes).unwrap();
        let finding = examine(&data).findings.remove(0);
        assert_eq!(finding.severity, Severity::Damage);
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(finding.place.starts_with(&format!("spool/{name} at ")), "{finding:?}");
        bytes[at] ^= 1;
        fs::write(path, &bytes).unwrap();
    }
}
