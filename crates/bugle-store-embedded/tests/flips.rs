//! A flipped bit in every region of every file of the engine: what was acknowledged is there, or it is refused with words that
//! name the file. Damage is never served.
//!
//! Every region has the outcomes it may have; the only loss among them is that of the very last record after a crash, which
//! cannot be told from one that was never finished.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bugle_disk::{Disk, Region, SimDisk, some_of_each};
use bugle_store::{Engine, Find, Timestamp, Unavailable};
use bugle_store_embedded::{EmbeddedOptions, EmbeddedStore, OpenError};
use fastrand::Rng;
use support::model::Pair;
use support::picture::{Picture, try_look};
use support::regions::regions;

/// Bytes that are flipped in one region, at most.
const EACH: usize = 6;

/// Changes between two looks at the files, and how often they are looked at.
const CHANGES: usize = 40;
const ROUNDS: usize = 50;

/// Regions that must be there, so that the image cannot become thinner unnoticed.
const EVERYTHING: [&str; 12] = [
    "format",
    "free: unused",
    "log header: salt",
    "record: changes",
    "record frame: body",
    "record padding: unused",
    "sealed record: checksum",
    "sealed record frame: fingerprints",
    "table page: entries",
    "table footer: filter",
    "checkpoint chunk: content",
    "checkpoint footer: end seq",
];

/// What became of a directory with a flipped bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// It is not opened.
    Refused,
    /// It is opened, and a call that needs what is damaged is refused.
    Unread,
    /// Everything is there and right.
    Whole,
    /// Everything but the last record.
    Earlier,
}

use Outcome::{Earlier, Refused, Unread, Whole};

/// What may become of damage in a region.
fn allowed(name: &str) -> &'static [Outcome] {
    let (of, field) = name.split_once(": ").unwrap_or((name, ""));
    match (of, field) {
        // Some other bytes are as good a space, and as good a zero in front of a number.
        ("format", _) => &[Refused, Whole],
        (_, "unused") => &[Whole],
        // Below the checkpoint records are history; only their frames are read, one by one, while they are alive.
        ("sealed record", _) => &[Whole],
        ("sealed record frame", _) => &[Whole, Unread],
        // It may be a copy that was made to empty an old file.
        ("last record" | "last record frame", _) => &[Earlier, Refused, Whole],
        // Built again from the log file.
        ("table header" | "table footer", _) => &[Whole],
        ("table page", _) => &[Whole, Unread],
        _ => &[Refused],
    }
}

fn options() -> EmbeddedOptions {
    let mut options = EmbeddedOptions::new("unused");
    options.file_size = 32 << 10;
    options.checkpoint_every = 96 << 10;
    options.cache_bytes = 0;
    options.recycle = 1;
    options.filter_bytes = 1 << 10;
    options.background = false;
    options
}

fn open(disk: &SimDisk) -> Result<Arc<EmbeddedStore>, OpenError> {
    EmbeddedStore::open_on(Arc::new(disk.clone()), options())
}

/// A directory, what must be in it, and what was in it before the last change.
struct Image {
    disk: SimDisk,
    pair: Pair,
    before: Picture,
}

impl Image {
    /// After a crash: changes until every region is there, and one record is the last.
    async fn crashed() -> Self {
        let (disk, mut pair, mut rng) = (SimDisk::default(), Pair::new(), Rng::with_seed(4));
        for _ in 0..ROUNDS {
            let store = open(&disk).unwrap();
            let mut before = pair.picture.clone();
            // A change that finds nothing to do writes no record, and there is to be one.
            for done in 0.. {
                if done >= CHANGES && before != pair.picture {
                    break;
                }
                before = pair.picture.clone();
                pair.change(&*store, &mut rng).await.unwrap();
            }
            // The upkeep of a change goes on after its answer; files are looked at when nobody touches them.
            drop(store);
            if names(&disk).len() > 50 && missing(&disk).is_empty() {
                return Self { disk: disk.copy(), pair, before };
            }
        }
        panic!("no image has {:?}", missing(&disk));
    }

    /// The same after a good end.
    async fn closed() -> Self {
        let Self { disk, pair, .. } = Self::crashed().await;
        open(&disk).unwrap().close().await.unwrap();
        let before = pair.picture.clone();
        Self { disk: disk.copy(), pair, before }
    }

    /// What becomes of it with this bit flipped.
    async fn with_flipped(&self, region: &Region, bit: usize) -> Outcome {
        let damaged = self.disk.copy();
        damaged.flip(&region.file, bit);
        let named = |said: &str| {
            let format = region.file == "FORMAT" && said.contains("format");
            // Where the log ends too early it may have lost the end of one file or the beginning of the next.
            let end = region.name.contains("record") && said.contains("the log ends at record");
            let plain = said.contains(&region.file) || format || end;
            assert!(plain, "{region:?}, bit {bit}: the refusal does not say where: {said}");
        };
        let store = match open(&damaged) {
            Ok(store) => store,
            Err(error) => {
                named(&error.to_string());
                return Refused;
            }
        };
        let seen = match try_look(&*store, &self.pair.lanes()).await {
            Ok(seen) => seen,
            Err(error) => {
                named(&error.reason);
                return Unread;
            }
        };
        let (truth, outcome) = if seen == self.pair.picture.blank() {
            (&self.pair.picture, Whole)
        } else {
            assert!(seen == self.before.blank(), "{region:?}, bit {bit}: {}", seen.difference(&self.before));
            (&self.before, Earlier)
        };
        match fingerprints(&*store, truth).await {
            Ok(right) => assert!(right, "{region:?}, bit {bit}: a fingerprint is missing or wrong"),
            Err(error) => {
                named(&error.reason);
                return Unread;
            }
        }
        outcome
    }
}

/// Whether all fingerprints are found where they are.
async fn fingerprints(store: &dyn Engine, truth: &Picture) -> Result<bool, Unavailable> {
    let (mut finds, mut expected) = (Vec::new(), Vec::new());
    for (lane, picture) in &truth.lanes {
        for (base, _, prints, _) in &picture.segments {
            let (fingerprints, since) = (prints.clone(), Timestamp::ZERO);
            finds.push(Find { lane: *lane, fingerprints, from: 0, to: u64::MAX, since });
            expected.push(((*base).max(picture.tail)..base + prints.len() as u64).collect::<Vec<u64>>());
        }
    }
    let found = store.find(finds).await?;
    let offsets: Vec<Vec<u64>> = found.iter().map(|f| f.iter().map(|f| f.offset).collect()).collect();
    Ok(offsets == expected)
}

fn names(disk: &SimDisk) -> BTreeSet<String> {
    regions(disk).into_iter().map(|region| region.name).collect()
}

fn missing(disk: &SimDisk) -> Vec<&'static str> {
    let names = names(disk);
    EVERYTHING.into_iter().filter(|name| !names.contains(*name)).collect()
}

/// Flip bits in every region and hold what becomes of it against what may.
async fn flip_everywhere(image: &Image) -> BTreeMap<String, BTreeSet<Outcome>> {
    let (mut outcomes, mut flips) = (BTreeMap::<String, BTreeSet<Outcome>>::new(), 0);
    for region in some_of_each(regions(&image.disk), 1) {
        for bit in region.bits(EACH) {
            let outcome = image.with_flipped(&region, bit).await;
            let allowed = allowed(&region.name);
            assert!(allowed.contains(&outcome), "{region:?}, bit {bit}: {outcome:?}, not of {allowed:?}");
            outcomes.entry(region.name.clone()).or_default().insert(outcome);
            flips += 1;
        }
    }
    println!("{flips} flips in {} kinds of regions", outcomes.len());
    outcomes
}

#[tokio::test]
async fn a_bit_in_every_region_after_a_crash() {
    let outcomes = flip_everywhere(&Image::crashed().await).await;
    let all: BTreeSet<Outcome> = outcomes.values().flatten().copied().collect();
    assert_eq!(all, BTreeSet::from([Refused, Unread, Whole, Earlier]), "every outcome occurs: {outcomes:?}");
}

#[tokio::test]
async fn a_bit_in_every_region_after_a_good_end_loses_nothing() {
    let outcomes = flip_everywhere(&Image::closed().await).await;
    let lost: Vec<_> = outcomes.iter().filter(|(_, o)| o.contains(&Earlier)).collect();
    assert!(lost.is_empty(), "{lost:?}");
}

/// Every byte of what is small: the format, the headers, the checkpoint.
#[tokio::test]
async fn every_byte_of_small_files_and_headers() {
    let image = Image::crashed().await;
    let mut flips = 0;
    for region in regions(&image.disk) {
        let small = region.name == "format"
            || region.name.starts_with("checkpoint")
            || region.name.starts_with("log header:")
            || region.name.starts_with("table header:");
        if !small {
            continue;
        }
        let bits: Vec<usize> = match &*region.name {
            "format" => (0..region.bytes.len() * 8).collect(),
            _ => region.bits(usize::MAX).collect(),
        };
        for bit in bits {
            let outcome = image.with_flipped(&region, bit).await;
            assert!(allowed(&region.name).contains(&outcome), "{region:?}, bit {bit}: {outcome:?}");
            flips += 1;
        }
    }
    println!("{flips} flips");
    assert!(flips > 500, "{flips}");
}

/// What is in LOCK means nothing: it is there to be locked.
#[tokio::test]
async fn whatever_is_in_the_lock_file_is_not_looked_at() {
    let image = Image::crashed().await;
    let lock = Disk::create(&image.disk, "LOCK").unwrap();
    lock.write_at(b"anything", 0).unwrap();
    let store = open(&image.disk).unwrap();
    assert!(try_look(&*store, &image.pair.lanes()).await.unwrap() == image.pair.picture.blank());
}
