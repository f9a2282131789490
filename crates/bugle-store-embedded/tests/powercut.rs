//! Power cuts by chance, over several lives of a store. Files are so small that rotation, sealing, checkpoints, recycling and
//! copying forward happen all the time. After each cut: every answered change is there, no change is there in part, offsets have
//! no gap, and the store goes on. `everywhere.rs` has the cuts that are not by chance.
//!
//! A failure names its seed; `BUGLE_SEED=<seed>` runs that one alone. `cargo xtask powercuts --minutes N` runs new ones for so
//! long (`BUGLE_POWERCUT_MINUTES`).
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::sync::Arc;

use bugle_disk::SimDisk;
use bugle_store::Engine;
use bugle_store_embedded::{EmbeddedOptions, EmbeddedStore, OpenError};
use fastrand::Rng;
use support::model::Pair;

fn options(background: bool) -> EmbeddedOptions {
    let mut options = EmbeddedOptions::new("unused");
    options.file_size = 32 << 10;
    options.checkpoint_every = 48 << 10;
    options.cache_bytes = 8 << 10;
    options.recycle = 2;
    options.filter_bytes = 1 << 10;
    options.background = background;
    options
}

/// Open, losing power now and then during recovery.
fn open(disk: &mut SimDisk, rng: &mut Rng, background: bool) -> Arc<EmbeddedStore> {
    loop {
        if rng.f64() < 0.3 {
            disk.cut_after(rng.u64(1..12));
        }
        match EmbeddedStore::open_on(Arc::new(disk.clone()), options(background)) {
            Ok(store) => {
                if disk.keep_on() {
                    return store;
                }
                drop(store);
                *disk = disk.after_cut(rng);
            }
            Err(OpenError::Io(e)) if e.to_string().ends_with("power cut") => *disk = disk.after_cut(rng),
            Err(e) => panic!("refused after a power cut: {e}; {:?}", disk.files()),
        }
    }
}

async fn one_seed(seed: u64, background: bool) {
    let mut rng = Rng::with_seed(seed);
    let mut disk = SimDisk::default();
    let mut pair = Pair::new();
    for _ in 0..rng.usize(1..4) {
        let store = open(&mut disk, &mut rng, background);
        pair.verify(&*store, &mut rng).await;
        disk.cut_after(rng.u64(1..250));
        while pair.maybe.is_none() && pair.change(&*store, &mut rng).await.is_ok() {}
        disk.cut_now();
        drop(store);
        // A kill leaves the page cache, in which things look done that are not durable yet.
        disk = if rng.f64() < 0.3 { disk.after_kill() } else { disk.after_cut(&mut rng) };
    }
    disk = disk.after_cut(&mut rng);
    let last = EmbeddedStore::open_on(Arc::new(disk.clone()), options(background)).unwrap();
    pair.verify(&*last, &mut rng).await;
    for _ in 0..3 {
        pair.change(&*last, &mut rng).await.unwrap();
    }
    drop(last);
    let again = EmbeddedStore::open_on(Arc::new(disk.clone()), options(background)).unwrap();
    pair.verify(&*again, &mut rng).await;
    again.close().await.unwrap();
    drop(again);
    let closed = EmbeddedStore::open_on(Arc::new(disk), options(background)).unwrap();
    pair.verify(&*closed, &mut rng).await;
}

/// Run seeds one after the other. Without background threads a seed is the same run every time.
fn seeds(range: std::ops::Range<u64>, background: bool) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let tries = bugle_disk::run_seeds(range, |seed| runtime.block_on(one_seed(seed, background)));
    println!("{tries} seeds (background: {background})");
}

#[test]
fn cuts_with_work_between_commits() {
    seeds(0..200, false);
}

#[test]
fn cuts_with_background_threads() {
    seeds(800..900, true);
}
