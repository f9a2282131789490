//! Power cuts at every operation, not by chance: while a workload runs that reaches every path of the engine, the disk stops
//! before each operation that changes it, and all that a cut there could leave is opened and compared with the model:
//! everything answered is there, nothing unanswered in part, and the store goes on. Then the same again for cuts while opening.
//!
//! The workload is the same every time; a failure names the operation and what the cut kept.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::collections::{BTreeSet, HashSet};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bugle_disk::{Keep, Operation, SimDisk};
use bugle_store::Engine;
use bugle_store_embedded::{EmbeddedOptions, EmbeddedStore, OpenError};
use fastrand::Rng;
use support::model::Pair;

/// Changes of the workload, and its seed: with it, every kind of operation occurs (see `EVERYTHING`).
const CHANGES: usize = 110;
const SEED: u64 = 3;

/// What a cut may keep, tried at every operation. Before the operation begins, and in the middle of it.
const OUTCOMES: [Keep; 6] = [Keep::Nothing, Keep::Everything, Keep::Data, Keep::Names, Keep::Any, Keep::Any];

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

/// Waits for an answer and calls `at` before each operation of the disk until it is there.
fn stepping<T>(disk: &SimDisk, answer: impl Future<Output = T>, mut at: impl FnMut(&Operation)) -> T {
    let mut answer = pin!(answer);
    loop {
        let asked = disk.asked();
        // An answer given before the operation was asked for is seen here.
        if let Poll::Ready(answer) = answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return answer;
        }
        match asked {
            Some(operation) => {
                at(&operation);
                disk.grant();
            }
            None => std::thread::yield_now(),
        }
    }
}

/// While it lives, operations wait. A test that fails must not leave the store waiting.
struct Running<'a>(&'a SimDisk);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.step(false);
    }
}

/// The workload, with a look at every operation.
struct Tour {
    runtime: tokio::runtime::Runtime,
    seen: BTreeSet<String>,
    images: HashSet<(u64, usize)>,
    operations: usize,
    cuts: usize,
    answered: usize,
    /// Of how many tours this is which one: each looks at its share of the operations.
    share: (usize, usize),
}

impl Tour {
    fn new(share: (usize, usize)) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (seen, images) = (BTreeSet::new(), HashSet::new());
        Self { runtime, seen, images, operations: 0, cuts: 0, answered: 0, share }
    }

    /// Run the workload; `judge` every image that a cut could leave.
    fn run(&mut self, mut judge: impl FnMut(&tokio::runtime::Runtime, SimDisk, Pair, &str)) {
        let disk = SimDisk::default();
        let (mut pair, mut rng) = (Pair::new(), Rng::with_seed(SEED));
        let store = open(&disk).unwrap();
        disk.step(true);
        let running = Running(&disk);
        for _ in 0..CHANGES {
            let change = pair.begin(&mut rng);
            let at = |operation: &Operation| self.stop(&disk, &pair, operation, &mut judge);
            stepping(&disk, change.make(&*store), at).unwrap();
            pair.answered();
            self.answered += 1;
        }
        self.seen.insert("close".to_owned());
        let at = |operation: &Operation| self.stop(&disk, &pair, operation, &mut judge);
        stepping(&disk, store.close(), at).unwrap();
        drop(running);
    }

    fn stop(
        &mut self,
        disk: &SimDisk,
        pair: &Pair,
        operation: &Operation,
        judge: &mut impl FnMut(&tokio::runtime::Runtime, SimDisk, Pair, &str),
    ) {
        self.operations += 1;
        self.seen.insert(describe(operation));
        if self.operations % self.share.1 != self.share.0 {
            return;
        }
        for (number, keep) in OUTCOMES.into_iter().enumerate() {
            for during in [false, true] {
                let mut rng =
                    Rng::with_seed((self.operations * 100 + number * 2 + usize::from(during)) as u64);
                let image =
                    if during { disk.image_during(keep, &mut rng) } else { disk.image(keep, &mut rng) };
                self.cuts += 1;
                if self.images.insert((image.digest(), self.answered)) {
                    let when = format!(
                        "operation {} ({operation:?}), {keep:?} kept, during: {during}",
                        self.operations
                    );
                    judge(&self.runtime, image, pair.fork(), &when);
                }
            }
        }
    }
}

/// Open what a cut left, and use it.
async fn go_on(image: SimDisk, mut pair: Pair, when: &str) {
    let mut rng = Rng::with_seed(9);
    let store = open(&image).unwrap_or_else(|e| panic!("{when}: refused: {e}; {:?}", image.files()));
    println!("{when}");
    pair.verify(&*store, &mut rng).await;
    for _ in 0..3 {
        pair.change(&*store, &mut rng).await.unwrap();
    }
    store.close().await.unwrap();
    drop(store);
    pair.verify(&*open(&image).unwrap(), &mut rng).await;
}

/// A cut at every operation of a share of the workload.
fn cuts(share: usize, shares: usize) {
    let mut tour = Tour::new((share, shares));
    tour.run(|runtime, image, pair, when| runtime.block_on(go_on(image, pair, when)));
    println!("{} operations, {} cuts, {} other images", tour.operations, tour.cuts, tour.images.len());
    let missing: Vec<_> = EVERYTHING.iter().filter(|kind| !tour.seen.contains(**kind)).collect();
    assert!(missing.is_empty(), "not in the workload: {missing:?}; there is {:?}", tour.seen);
}

#[test]
fn a_cut_at_every_operation_first() {
    cuts(0, 2);
}

#[test]
fn a_cut_at_every_operation_second() {
    cuts(1, 2);
}

/// Cuts while opening after a cut, at each operation of that.
fn double_cuts(
    image: &SimDisk,
    pair: &Pair,
    rng: &mut Rng,
    runtime: &tokio::runtime::Runtime,
    when: &str,
) -> usize {
    for operation in 1.. {
        let disk = image.copy();
        disk.cut_after(operation);
        let whole = match open(&disk) {
            Ok(store) => disk.keep_on().then_some(store),
            Err(OpenError::Io(e)) if e.to_string().contains("power cut") => None,
            Err(e) => panic!("{when}, then operation {operation} of opening: refused: {e}"),
        };
        if whole.is_some() {
            return operation as usize - 1;
        }
        for keep in [Keep::Nothing, Keep::Everything, Keep::Any] {
            let second = disk.image(keep, rng);
            println!("{when}, then operation {operation} of opening, {keep:?} kept");
            runtime.block_on(async {
                pair.fork().verify(&*open(&second).unwrap(), rng).await;
            });
        }
    }
    unreachable!("there are not so many operations")
}

#[test]
fn a_second_cut_at_every_operation_of_opening() {
    let mut tour = Tour::new((0, 29));
    let (mut rng, mut seconds) = (Rng::with_seed(5), 0);
    tour.run(|runtime, image, pair, when| seconds += double_cuts(&image, &pair, &mut rng, runtime, when));
    println!("{} images, {} second cuts", tour.images.len(), seconds * 3);
    assert!(seconds > 500, "{seconds}");
}
