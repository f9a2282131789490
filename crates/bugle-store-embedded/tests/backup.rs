//! Backups: what is copied while changes go on is the state of the moment at which it was begun, and lives on by itself.
#![allow(clippy::unwrap_used)]

mod support;

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use bugle_store::{Backup, BackupError, BackupPiece, Engine, Store};
use bugle_store_embedded::{EmbeddedOptions, EmbeddedStore, OpenError, examine};
use fastrand::Rng;
use support::model::Pair;
use support::picture::try_look;

fn options(dir: &Path, background: bool) -> EmbeddedOptions {
    EmbeddedOptions {
        file_size: 64 << 10,
        checkpoint_every: 200 << 10,
        cache_bytes: 0,
        recycle: 2,
        background,
        ..EmbeddedOptions::new(dir)
    }
}

/// Where a copy is written to, piece by piece.
struct Target<'a> {
    dir: &'a Path,
    file: Option<(File, u64)>,
}

impl<'a> Target<'a> {
    fn new(dir: &'a Path) -> Self {
        fs::create_dir(dir).unwrap();
        Self { dir, file: None }
    }

    fn take(&mut self, piece: BackupPiece) {
        match piece {
            BackupPiece::File { name, size } => {
                assert!(
                    self.file.take().is_none_or(|(_, left)| left == 0),
                    "the file before {name} is whole"
                );
                self.file = Some((File::create_new(self.dir.join(name)).unwrap(), size));
            }
            BackupPiece::Bytes(bytes) => {
                let (file, left) = self.file.as_mut().unwrap();
                file.write_all(&bytes).unwrap();
                *left = left.checked_sub(bytes.len() as u64).expect("no more than was announced");
            }
        }
    }
}

/// Take all of a copy, with changes of the store in between.
async fn take(
    mut copy: Box<dyn Backup>,
    to: &Path,
    store: &EmbeddedStore,
    pair: &mut Pair,
    rng: &mut Rng,
) -> usize {
    let mut target = Target::new(to);
    let mut pieces = 0;
    while let Some(piece) = copy.next().unwrap() {
        target.take(piece);
        pieces += 1;
        for _ in 0..rng.usize(..4) {
            pair.change(store, rng).await.unwrap();
        }
    }
    assert!(target.file.take().is_none_or(|(_, left)| left == 0));
    pieces
}

/// Rounds of: change, begin a copy, change on while it is taken, open the copy.
async fn copies_are_whole(background: bool, seed: u64) {
    let dir = tempfile::tempdir().unwrap();
    let mut rng = Rng::with_seed(seed);
    let mut pair = Pair::new();
    let store = EmbeddedStore::open(options(&dir.path().join("data"), background)).unwrap();
    let mut most = 0;
    for round in 0..4 {
        for _ in 0..rng.usize(40..90) {
            pair.change(&*store, &mut rng).await.unwrap();
        }
        let to = dir.path().join(format!("copy-{round}"));
        let copy = store.backup().await.ok().unwrap();
        let (then, lanes) = (pair.picture.clone(), pair.lanes());
        most = most.max(take(copy, &to, &store, &mut pair, &mut rng).await);
        let found = examine(&to);
        assert_eq!(found.worst(), None, "{found:?}");
        let restored = EmbeddedStore::open(options(&to, background)).unwrap();
        assert!(try_look(&*restored, &lanes).await.unwrap() == then.blank(), "round {round}");
        // It lives on as the original would have, from that moment.
        let mut on = pair.as_of(then);
        on.verify(&*restored, &mut rng).await;
        for _ in 0..40 {
            on.change(&*restored, &mut rng).await.unwrap();
        }
        restored.close().await.unwrap();
        let again = EmbeddedStore::open(options(&to, background)).unwrap();
        on.verify(&*again, &mut rng).await;
        // And the original does not notice.
        pair.verify(&*store, &mut rng).await;
    }
    assert!(most > 20, "copies of several files were taken: {most}");
}

#[tokio::test]
async fn a_copy_is_the_state_of_the_moment_it_was_begun() {
    copies_are_whole(false, 1).await;
}

#[tokio::test]
async fn a_copy_is_whole_with_background_threads() {
    copies_are_whole(true, 3).await;
}

#[tokio::test]
async fn there_is_one_copy_at_a_time_and_files_are_given_back_after_it() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let store = EmbeddedStore::open(options(&data, false)).unwrap();
    let mut rng = Rng::with_seed(5);
    let mut pair = Pair::new();
    let logs = || fs::read_dir(&data).unwrap().filter(|e| log_name(&e.as_ref().unwrap().path())).count();
    let copy = store.backup().await.ok().unwrap();
    assert_eq!(store.backup().await.err(), Some(BackupError::Running));
    for _ in 0..400 {
        pair.change(&*store, &mut rng).await.unwrap();
    }
    let held = logs();
    drop(copy);
    for _ in 0..200 {
        pair.change(&*store, &mut rng).await.unwrap();
    }
    assert!(logs() < held, "{} files while a copy is taken, {held} after it", logs());
    assert!(store.backup().await.is_ok());
    store.close().await.unwrap();
    assert!(matches!(store.backup().await.err(), Some(BackupError::Failed(_))));
}

fn log_name(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "log")
}

#[tokio::test]
async fn a_copy_that_was_broken_off_does_not_open() {
    let dir = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(options(&dir.path().join("data"), false)).unwrap();
    let mut rng = Rng::with_seed(6);
    let mut pair = Pair::new();
    for _ in 0..200 {
        pair.change(&*store, &mut rng).await.unwrap();
    }
    let to = dir.path().join("all");
    let copy = store.backup().await.ok().unwrap();
    let all = take(copy, &to, &store, &mut pair, &mut rng).await;
    for pieces in [3, all / 2, all - 2] {
        let to = dir.path().join(pieces.to_string());
        let mut target = Target::new(&to);
        let mut copy = store.backup().await.ok().unwrap();
        (0..pieces).for_each(|_| target.take(copy.next().unwrap().unwrap()));
        match EmbeddedStore::open(options(&to, false)) {
            Err(OpenError::Damaged { file, .. }) => assert_eq!(file, "FORMAT", "{pieces} of {all}"),
            other => panic!("{:?} with {pieces} of {all}", other.err()),
        }
    }
}

#[tokio::test]
async fn damage_is_not_copied() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let store = EmbeddedStore::open(options(&data, false)).unwrap();
    let mut rng = Rng::with_seed(7);
    let mut pair = Pair::new();
    for _ in 0..60 {
        pair.change(&*store, &mut rng).await.unwrap();
    }
    let mut logs: Vec<_> = fs::read_dir(&data).unwrap().map(|e| e.unwrap().path()).collect();
    logs.retain(|path| log_name(path));
    logs.sort();
    let mut bytes = fs::read(&logs[0]).unwrap();
    bytes[2 * 4096 + 100] ^= 1;
    fs::write(&logs[0], bytes).unwrap();
    let mut copy = store.backup().await.ok().unwrap();
    let error = loop {
        match copy.next() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the damage was copied"),
            Err(error) => break error.to_string(),
        }
    };
    let name = logs[0].file_name().unwrap().to_str().unwrap();
    assert!(error.contains(name) && error.contains(" at "), "{error}");
    assert!(store.append(Vec::new()).await.is_ok(), "and the server goes on");
}
