//! A full disk: writes are refused with a reason that says so, nothing answered is lost, and with space again the next
//! opening goes on, also when there was none for opening in between.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::sync::Arc;

use bugle_disk::SimDisk;
use bugle_store::{Catalog, Engine};
use bugle_store_embedded::{EmbeddedOptions, EmbeddedStore, OpenError};
use fastrand::Rng;
use support::model::Pair;
use support::picture::try_look;

fn open(disk: &SimDisk, background: bool) -> Result<Arc<EmbeddedStore>, OpenError> {
    let mut options = EmbeddedOptions::new("unused");
    options.file_size = 32 << 10;
    options.checkpoint_every = 80 << 10;
    options.cache_bytes = 0;
    options.background = background;
    EmbeddedStore::open_on(Arc::new(disk.clone()), options)
}

async fn fill_up(seed: u64, background: bool) {
    println!("seed {seed}, background: {background}");
    let mut rng = Rng::with_seed(seed);
    let mut pair = Pair::new();
    let disk = SimDisk::default();
    let store = open(&disk, background).unwrap();
    for _ in 0..rng.usize(1..80) {
        pair.change(&*store, &mut rng).await.unwrap();
    }
    let used: usize = disk.files().iter().map(|(_, len)| len).sum();
    disk.limit(Some(used + rng.usize(..200_000)));
    // Trims make files empty, and they are used again; so it is a while before nothing goes any more.
    let mut answered = 0;
    let refused = loop {
        match pair.change(&*store, &mut rng).await {
            Ok(()) if answered < 20_000 => answered += 1,
            Ok(()) => panic!("never full"),
            Err(refused) => break refused,
        }
    };
    assert!(refused.reason.contains("no storage space"), "{}", refused.reason);
    assert!(store.ping().await.is_err(), "shown by the health check too");
    drop(store);

    // Opening needs a little space, and work in the background some more. There it is, or the reason is told.
    let lanes = pair.lanes();
    let seen = match open(&disk, background) {
        Ok(store) => try_look(&*store, &lanes).await.map_err(|e| e.reason),
        Err(e) => Err(e.to_string()),
    };
    match seen {
        Ok(seen) => {
            let possible = [Some(&pair.picture), pair.maybe.as_ref()];
            assert!(possible.iter().flatten().any(|picture| picture.blank() == seen));
        }
        Err(reason) => assert!(reason.contains("no storage space"), "{reason}"),
    }
    disk.limit(None);
    let disk = if rng.bool() { disk.after_cut(&mut rng) } else { disk };
    let store = open(&disk, background).unwrap();
    pair.verify(&*store, &mut rng).await;
    for _ in 0..20 {
        pair.change(&*store, &mut rng).await.unwrap();
    }
    store.close().await.unwrap();
    drop(store);
    pair.verify(&*open(&disk, background).unwrap(), &mut rng).await;
}

#[tokio::test]
async fn a_full_disk_loses_nothing_answered() {
    for seed in 0..40 {
        fill_up(seed, false).await;
    }
}

#[tokio::test]
async fn a_full_disk_loses_nothing_answered_with_background_threads() {
    for seed in 40..60 {
        fill_up(seed, true).await;
    }
}
