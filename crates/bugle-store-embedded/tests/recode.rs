//! Messages written anew: all of them, once, and nothing else; power may fail at any moment meanwhile.
#![allow(clippy::unwrap_used)]

mod support;

use std::sync::Arc;

use bugle_disk::SimDisk;
use bugle_store::{Engine, LaneId, Recoded};
use bugle_store_embedded::{EmbeddedOptions, EmbeddedStore, RecodeError, recode_on};
use bytes::Bytes;
use fastrand::Rng;
use support::model::Pair;
use support::picture::{Picture, try_look};

fn options() -> EmbeddedOptions {
    let mut options = EmbeddedOptions::new("unused");
    options.file_size = 32 << 10;
    options.checkpoint_every = 48 << 10;
    options.cache_bytes = 0;
    options.recycle = 2;
    options.background = false;
    options
}

fn open(disk: &SimDisk) -> Arc<EmbeddedStore> {
    EmbeddedStore::open_on(Arc::new(disk.clone()), options()).unwrap()
}

async fn filled(changes: usize, rng: &mut Rng) -> (SimDisk, Pair) {
    let (disk, mut pair) = (SimDisk::default(), Pair::new());
    let store = open(&disk);
    // There is a dead letter at the end: they come and go.
    for change in 0.. {
        if change >= changes && !pair.picture.dead.is_empty() {
            break;
        }
        pair.change(&*store, rng).await.unwrap();
    }
    drop(store);
    (disk, pair)
}

const DONE: &[u8] = b"written anew for ";

/// Another body, of another length, that tells for which lane it was made.
fn anew(lane: LaneId, body: &[u8]) -> Option<Bytes> {
    (!body.starts_with(DONE)).then(|| [DONE, lane.0.as_bytes(), body].concat().into())
}

fn change(lane: LaneId, body: &Bytes) -> Result<Option<Bytes>, String> {
    Ok(anew(lane, body))
}

async fn run(disk: &SimDisk, write: bool) -> Result<Recoded, RecodeError> {
    recode_on(Arc::new(disk.clone()), options(), &change, write, &mut |_| {}).await
}

/// The picture once everything in it is written anew. Dead letters name no lane here: theirs is cut out.
fn changed(picture: &Picture) -> Picture {
    let mut picture = picture.blank();
    for (lane, content) in &mut picture.lanes {
        for (_, _, _, body) in &mut content.segments {
            *body = anew(*lane, body).unwrap_or_else(|| body.clone());
        }
    }
    picture
}

/// Put the bodies of dead letters back as they were.
fn without_letters(mut picture: Picture, done: &mut usize) -> Picture {
    let letters = std::mem::take(&mut picture.dead);
    let back = |(id, body): (uuid::Uuid, Bytes)| {
        if !body.starts_with(DONE) {
            return (id, body);
        }
        *done += 1;
        (id, body.slice(DONE.len() + 16..))
    };
    picture.dead = letters.into_iter().map(back).collect();
    picture
}

async fn assert_all_done(disk: &SimDisk, pair: &Pair) {
    let store = open(disk);
    let mut letters = 0;
    let seen = without_letters(try_look(&*store, &pair.lanes()).await.unwrap(), &mut letters);
    assert!(seen == changed(&pair.picture), "everything is written anew, and nothing else is touched");
    assert_eq!(letters, pair.picture.dead.len());
    store.close().await.unwrap();
}

#[tokio::test]
async fn everything_alive_is_written_anew_once() {
    let mut rng = Rng::with_seed(1);
    let (disk, mut pair) = filled(300, &mut rng).await;
    let before = disk.files();
    let counted = run(&disk, false).await.unwrap();
    pair.verify(&*open(&disk), &mut rng).await;
    assert!(counted.changed > 10 && counted.changed == counted.seen, "{counted:?} {before:?}");
    assert!(!pair.picture.dead.is_empty());
    assert!(run(&disk, true).await.unwrap().changed >= counted.changed);
    assert_all_done(&disk, &pair).await;
    assert_eq!(run(&disk, true).await.unwrap().changed, 0, "nothing is left to do");
    assert_all_done(&disk, &pair).await;
}

/// The cut moves on by one operation until there is none in the way any more.
#[tokio::test]
async fn power_fails_at_every_moment() {
    let mut rng = Rng::with_seed(2);
    let (filled, pair) = filled(80, &mut rng).await;
    let (before, after) = (pair.picture.blank(), changed(&pair.picture));
    let mut cuts = 0;
    for operation in 1.. {
        let disk = filled.copy();
        disk.cut_after(operation);
        let outcome = run(&disk, true).await;
        if disk.keep_on() {
            outcome.unwrap();
            assert_all_done(&disk, &pair).await;
            break;
        }
        cuts += 1;
        let disk = if rng.bool() { disk.after_cut(&mut rng) } else { disk.after_kill() };
        let store = open(&disk);
        let seen = try_look(&*store, &pair.lanes()).await.unwrap();
        for (lane, content) in &seen.lanes {
            let wanted = before.lanes[lane].segments.iter().zip(&after.lanes[lane].segments);
            for (segment, (old, new)) in content.segments.iter().zip(wanted) {
                assert!(segment == old || segment == new, "cut {operation}: a segment of neither state");
            }
            assert_eq!(content.cursors, before.lanes[lane].cursors);
        }
        drop(store);
        run(&disk, true).await.unwrap();
        assert_all_done(&disk, &pair).await;
    }
    assert!(cuts > 20, "{cuts}");
}

#[tokio::test]
async fn what_cannot_be_changed_is_named_and_nothing_is_damaged() {
    let mut rng = Rng::with_seed(3);
    let (disk, mut pair) = filled(60, &mut rng).await;
    let refuse = |_: LaneId, _: &Bytes| Err("no such key".to_owned());
    let error = recode_on(Arc::new(disk.clone()), options(), &refuse, true, &mut |_| {})
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("log-") && error.ends_with("no such key"), "{error}");
    pair.verify(&*open(&disk), &mut rng).await;
}

#[tokio::test]
async fn a_directory_in_use_is_left_alone() {
    let mut rng = Rng::with_seed(4);
    let (disk, mut pair) = filled(30, &mut rng).await;
    let store = open(&disk);
    let error = run(&disk, true).await.unwrap_err().to_string();
    assert!(error.contains("in use"), "{error}");
    pair.verify(&*store, &mut rng).await;
}
