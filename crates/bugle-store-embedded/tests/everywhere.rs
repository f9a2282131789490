//! Power cuts at every operation, not by chance: while a workload runs that reaches every path of the engine, the disk stops
//! before each operation that changes it, and all that a cut there could leave is opened and compared with the model:
//! everything answered is there, nothing unanswered in part, and the store goes on. Then the same again for cuts while opening.
//!
//! The workload is the same every time; a failure names the operation and what the cut kept.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::collections::BTreeSet;
use std::sync::Arc;

use bugle_disk::{Cuts, Operation, SimDisk, cuts_while_opening};
use bugle_store::Engine;
use bugle_store_embedded::{EmbeddedOptions, EmbeddedStore, OpenError};
use fastrand::Rng;
use support::model::Pair;

/// Changes of the workload, and its seed: with it, every kind of operation occurs (see `EVERYTHING`).
const CHANGES: usize = 110;
const SEED: u64 = 3;

/// Kinds of operations that the workload must contain, so that it cannot become thinner unnoticed.
const EVERYTHING: [&str; 21] = [
    "close",
    "create checkpoint.tmp",
    "create fps.tmp",
    "create idx.tmp",
    "create log.tmp",
    "remove checkpoint",
    "remove fps",
    "remove idx",
    "remove log",
    "rename checkpoint.tmp to checkpoint",
    "rename fps.tmp to fps",
    "rename free to log",
    "rename idx.tmp to idx",
    "rename log to free",
    "rename log.tmp to log",
    "sync checkpoint.tmp",
    "sync directory",
    "sync free",
    "sync log",
    "sync log.tmp",
    "write log",
];

fn options() -> EmbeddedOptions {
    let mut options = EmbeddedOptions::new("unused");
    options.file_size = 32 << 10;
    options.checkpoint_every = 48 << 10;
    options.cache_bytes = 8 << 10;
    options.recycle = 1;
    options.filter_bytes = 1 << 10;
    // One thread does everything, so that operations follow one another in the same order every time.
    options.background = false;
    options
}

fn open(disk: &SimDisk) -> Result<Arc<EmbeddedStore>, OpenError> {
    EmbeddedStore::open_on(Arc::new(disk.clone()), options())
}

/// A name without its number.
fn class(name: &str) -> String {
    let kind = |name: &str| {
        name.split(['-', '.']).filter(|part| part.parse::<u64>().is_err()).fold(String::new(), |all, part| {
            match part {
                "log" | "snap" | "free" if !all.is_empty() => {
                    if all == part || part == "snap" {
                        all
                    } else {
                        all + part
                    }
                }
                "idx" | "fps" => part.to_owned(),
                "tmp" => all + ".tmp",
                part => all + part,
            }
        })
    };
    kind(name)
}

fn describe(operation: &Operation) -> String {
    match operation {
        Operation::Write(name) => format!("write {}", class(name)),
        Operation::Sync(name) => format!("sync {}", class(name)),
        Operation::Create(name) => format!("create {}", class(name)),
        Operation::Rename(from, to) => format!("rename {} to {}", class(from), class(to)),
        Operation::Remove(name) => format!("remove {}", class(name)),
        Operation::SyncDir => "sync directory".to_owned(),
    }
}

/// What a run of the workload has seen.
struct Seen {
    kinds: BTreeSet<String>,
    operations: usize,
    cuts: usize,
    images: usize,
}

/// Run the workload; `judge` every image that a cut could leave, at a share of its operations.
fn tour(
    runtime: &tokio::runtime::Runtime,
    share: (usize, usize),
    mut judge: impl FnMut(&tokio::runtime::Runtime, &SimDisk, Pair, &str),
) -> Seen {
    let disk = SimDisk::default();
    let (mut pair, mut rng) = (Pair::new(), Rng::with_seed(SEED));
    let store = open(&disk).unwrap();
    let mut cuts = Cuts::begin(&disk, share);
    for answered in 0..CHANGES {
        let change = pair.begin(&mut rng);
        let at = |image: &SimDisk, when: &str| judge(runtime, image, pair.fork(), when);
        cuts.during(answered, change.make(&*store), at).unwrap();
        pair.answered();
    }
    let at = |image: &SimDisk, when: &str| judge(runtime, image, pair.fork(), when);
    cuts.during(CHANGES, store.close(), at).unwrap();
    let mut kinds: BTreeSet<String> = cuts.operations().iter().map(describe).collect();
    kinds.insert("close".to_owned());
    let (operations, (cuts, images)) = (cuts.operations().len(), cuts.counts());
    Seen { kinds, operations, cuts, images }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

/// Open what a cut left, and use it.
async fn go_on(image: &SimDisk, mut pair: Pair, when: &str) {
    let mut rng = Rng::with_seed(9);
    let store = open(image).unwrap_or_else(|e| panic!("{when}: refused: {e}; {:?}", image.files()));
    println!("{when}");
    pair.verify(&*store, &mut rng).await;
    for _ in 0..3 {
        pair.change(&*store, &mut rng).await.unwrap();
    }
    store.close().await.unwrap();
    drop(store);
    pair.verify(&*open(image).unwrap(), &mut rng).await;
}

/// A cut at every operation of a share of the workload.
fn cuts(share: usize, shares: usize) {
    let go = |runtime: &tokio::runtime::Runtime, image: &SimDisk, pair, when: &str| {
        runtime.block_on(go_on(image, pair, when));
    };
    let seen = tour(&runtime(), (share, shares), go);
    println!("{} operations, {} cuts, {} other images", seen.operations, seen.cuts, seen.images);
    let missing: Vec<_> = EVERYTHING.iter().filter(|kind| !seen.kinds.contains(**kind)).collect();
    assert!(missing.is_empty(), "not in the workload: {missing:?}; there is {:?}", seen.kinds);
}

#[test]
fn a_cut_at_every_operation_first() {
    cuts(0, 2);
}

#[test]
fn a_cut_at_every_operation_second() {
    cuts(1, 2);
}

#[test]
fn a_second_cut_at_every_operation_of_opening() {
    let (mut rng, mut seconds) = (Rng::with_seed(5), 0);
    let seen = tour(&runtime(), (0, 29), |runtime, image, pair, when| {
        seconds += cuts_while_opening(image, when, &mut rng, open, |second, when, rng| {
            println!("{when}");
            runtime.block_on(async { pair.fork().verify(&*open(second).unwrap(), rng).await });
        });
    });
    println!("{} images, {} second cuts", seen.images, seconds * 3);
    assert!(seconds > 500, "{seconds}");
}
