//! A disk that fails once, at every operation: the failure poisons the store, whatever it was doing, and no later success
//! pretends. After a restart, and after a restart and a power cut, everything answered is there. A failed sync drops what was to
//! be written, reads still see it, and the next sync succeeds: who believed that one would lose.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::sync::Arc;

use bugle_disk::{Fault, Keep, SimDisk};
use bugle_store::{Catalog, Engine};
use bugle_store_embedded::{EmbeddedOptions, EmbeddedStore, OpenError};
use fastrand::Rng;
use support::model::Pair;
use support::picture::try_look;

/// Enough for rotation, sealing, two checkpoints, recycling.
const CHANGES: usize = 45;

fn open(disk: &SimDisk) -> Result<Arc<EmbeddedStore>, OpenError> {
    let mut options = EmbeddedOptions::new("unused");
    options.file_size = 32 << 10;
    options.checkpoint_every = 48 << 10;
    options.cache_bytes = 8 << 10;
    options.recycle = 1;
    options.background = false;
    EmbeddedStore::open_on(Arc::new(disk.clone()), options)
}

/// Make changes until the disk fails at the n-th occasion. `None` = there are not so many.
async fn until_it_fails(fault: Fault, occasion: u64) -> Option<(SimDisk, Pair)> {
    let disk = SimDisk::default();
    let (mut pair, mut rng) = (Pair::new(), Rng::with_seed(3));
    let store = open(&disk).unwrap();
    disk.fail(fault, occasion, 1, occasion);
    let mut refused = None;
    for _ in 0..CHANGES {
        if let Err(e) = pair.change(&*store, &mut rng).await {
            refused = Some(e.reason);
            break;
        }
    }
    // The last change may have been answered before the work behind it failed.
    let stopped = store.ping().await.err().map(|e| e.reason);
    if !disk.heal() {
        return None;
    }
    let reason = stopped.expect("a failure is never passed over");
    assert!(
        ["sync failed", "input/output error", "no storage space"].iter().any(|e| reason.contains(e)),
        "{reason}"
    );
    assert!(refused.is_none_or(|refused| refused == reason));
    // The disk is well again. Nothing may pretend that the store is.
    let maybe = pair.maybe.take();
    assert!(pair.change(&*store, &mut rng).await.is_err());
    pair.maybe = maybe;
    assert!(try_look(&*store, &pair.lanes()).await.is_err());
    assert!(store.close().await.is_err());
    Some((disk, pair))
}

/// Open again, go on, lose power, open again.
async fn go_on(disk: &SimDisk, mut pair: Pair, when: &str) {
    let mut rng = Rng::with_seed(17);
    let store = open(disk).unwrap_or_else(|e| panic!("{when}: {e}"));
    pair.verify(&*store, &mut rng).await;
    for _ in 0..6 {
        pair.change(&*store, &mut rng).await.unwrap();
    }
    drop(store);
    for keep in [Keep::Nothing, Keep::Any] {
        let after = disk.image(keep, &mut rng);
        let again = open(&after).unwrap_or_else(|e| panic!("{when}, then a cut: {e}"));
        pair.fork().verify(&*again, &mut rng).await;
    }
}

async fn everywhere(fault: Fault, least: u64) {
    for occasion in 0.. {
        let Some((disk, pair)) = until_it_fails(fault, occasion).await else {
            println!("{fault:?}: {occasion} occasions");
            assert!(occasion >= least, "{fault:?} occurs only {occasion} times");
            return;
        };
        let when = format!("{fault:?} at its occasion {occasion}");
        println!("{when}");
        let mut rng = Rng::with_seed(occasion);
        go_on(&disk.after_cut(&mut rng), pair.fork(), &when).await;
        go_on(&disk.after_kill(), pair, &when).await;
    }
}

#[tokio::test]
async fn a_failed_sync_poisons_and_loses_nothing_answered() {
    everywhere(Fault::Sync, 70).await;
}

#[tokio::test]
async fn a_failed_sync_of_the_directory_poisons_and_loses_nothing_answered() {
    everywhere(Fault::SyncDir, 20).await;
}

#[tokio::test]
async fn a_failed_write_poisons_and_loses_nothing_answered() {
    everywhere(Fault::Write, 80).await;
}

#[tokio::test]
async fn a_failed_change_of_a_name_poisons_and_loses_nothing_answered() {
    everywhere(Fault::Create, 20).await;
    everywhere(Fault::Name, 20).await;
}

#[tokio::test]
async fn no_space_poisons_and_loses_nothing_answered() {
    everywhere(Fault::Full, 100).await;
}

/// Opening on a disk that fails is refused, and the next opening finds everything.
#[tokio::test]
async fn a_disk_that_fails_while_opening_is_refused_and_nothing_is_lost() {
    let (full, mut pair, mut rng) = (SimDisk::default(), Pair::new(), Rng::with_seed(4));
    let store = open(&full).unwrap();
    for _ in 0..60 {
        pair.change(&*store, &mut rng).await.unwrap();
    }
    drop(store);
    for fault in
        [Fault::Read, Fault::Write, Fault::Sync, Fault::SyncDir, Fault::Create, Fault::Name, Fault::Full]
    {
        for occasion in 0.. {
            let disk = full.after_cut(&mut rng);
            disk.fail(fault, occasion, 1, occasion);
            let opened = open(&disk);
            let failed = disk.heal();
            match opened {
                Ok(_) if !failed => break,
                Ok(_) => panic!("{fault:?} at its occasion {occasion} of opening was passed over"),
                Err(OpenError::Io(_) | OpenError::Damaged { .. }) => (),
                Err(e) => panic!("{e}"),
            }
            let when = format!("{fault:?} at its occasion {occasion} of opening");
            go_on(&disk.after_kill(), pair.fork(), &when).await;
        }
    }
}
