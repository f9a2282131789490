//! A flipped bit in every byte of every file of the spool: what was answered is there, or it is refused with file and offset.
//!
//! Two things cannot be told apart from what a power cut may leave, and have an outcome of their own: the very last group, which
//! may never have been finished, and the latest position, without which what was done with last comes again (it is
//! recognised by its message ids when it is drained).
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::collections::{BTreeMap, BTreeSet};

use bugle_disk::{Disk, Region, Ruler, SimDisk};
use bugle_spool::OpenError;
use bugle_store::Spool;

use support::{drain, look, number, open, record};

/// Records that were put, one by one.
const PUT: u64 = 30;

/// What became of a spool with a flipped bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// It is not opened.
    Refused,
    /// Everything is there.
    Whole,
    /// Everything but the last group.
    Earlier,
    /// Everything, and what was done with last.
    Again,
}

use Outcome::{Again, Earlier, Refused, Whole};

fn allowed(name: &str) -> &'static [Outcome] {
    let (of, field) = name.split_once(": ").unwrap();
    match (of, field) {
        (_, "unused") | ("done group" | "older position", _) => &[Whole],
        ("last group", _) => &[Earlier],
        ("latest position", _) => &[Again, Refused],
        _ => &[Refused],
    }
}

/// Every byte of every file, as `docs/format.md` describes them.
fn regions(disk: &SimDisk) -> Vec<Region> {
    let mut all = Vec::new();
    let position = disk.content("POSITION");
    let read = |at: usize| u64::from_le_bytes(position[at..at + 8].try_into().unwrap());
    let latest = if read(8) > read(4096 + 8) { 0 } else { 4096 };
    let (file, offset) = (format!("spool-{:016}.log", read(latest + 24)), read(latest + 32) as usize);
    for (name, _) in disk.files().into_iter().filter(|(_, len)| *len > 0) {
        let mut ruler = Ruler::new(disk, &name);
        if name == "POSITION" {
            for at in [0, 4096] {
                let role = if at == latest { "latest position" } else { "older position" };
                ruler.fields(role, &[("magic", 8), ("generation", 8), ("number", 8), ("file", 8)]);
                ruler.fields(role, &[("offset", 8), ("zeroes", 16), ("checksum", 8)]);
                let gap = ruler.rest().len().min(4096 - 64);
                ruler.field("between positions: unused", gap);
            }
            all.extend(ruler.finish("position: unused"));
            continue;
        }
        ruler.fields("header", &[("magic", 8), ("version", 4), ("zero", 4), ("id", 8), ("salt", 8)]);
        ruler.fields("header", &[("first group", 8), ("zeroes", 16), ("checksum", 8)]);
        while !ruler.rest().is_empty() {
            let done = name == file && ruler.at() < offset;
            group(&mut ruler, done);
        }
        all.extend(ruler.finish("nothing: unused"));
    }
    all
}

fn group(ruler: &mut Ruler, done: bool) {
    let number = u64::from_le_bytes(ruler.rest()[8..16].try_into().unwrap());
    let role = match (done, number == PUT) {
        (true, _) => "done group",
        (false, true) => "last group",
        (false, false) => "group",
    };
    ruler.field(&format!("{role}: magic"), 4);
    let length = ruler.number(&format!("{role}: length"), 4);
    ruler.field(&format!("{role}: number"), 8);
    let records = ruler.number(&format!("{role}: count of records"), 4);
    ruler.fields(role, &[("zero", 4), ("checksum", 8)]);
    let mut left = length - 32;
    for _ in 0..records {
        ruler.field(&format!("{role}: lane"), 8);
        let body = ruler.number(&format!("{role}: length of body"), 4);
        ruler.field(&format!("{role}: body"), body);
        left -= 12 + body;
    }
    assert_eq!(left, 0, "a group is as long as it says");
}

/// A spool of which a part was drained, then left without a goodbye; what is done with, and what was before the last time.
async fn filled() -> (SimDisk, u64, u64) {
    let disk = SimDisk::default();
    let spool = open(&disk).unwrap();
    for n in 0..PUT {
        spool.put(vec![record(n)]).await.unwrap();
    }
    let (mut done, mut before) = (0, 0);
    // Until the first file left has a group that is done with and one that is not, and both positions are written.
    for round in 0.. {
        let batch = spool.front(30).await.unwrap();
        (before, done) = (done, number(batch.records.last().unwrap()) + 1);
        spool.done(batch).await.unwrap();
        if round > 2 && regions(&disk).iter().any(|region| region.name.starts_with("done group")) {
            break;
        }
    }
    drop(spool);
    (disk.copy(), before, done)
}

#[tokio::test]
async fn a_bit_in_every_byte() {
    let (disk, before, done) = filled().await;
    let mut outcomes: BTreeMap<String, BTreeSet<Outcome>> = BTreeMap::new();
    let mut flips = 0;
    for region in regions(&disk) {
        let most = if region.name.ends_with("unused") { 20 } else { usize::MAX };
        for bit in region.bits(most) {
            let damaged = disk.copy();
            damaged.flip(&region.file, bit);
            let outcome = match open(&damaged) {
                Err(OpenError::Damaged { file, offset, .. }) => {
                    let named = file == region.file && offset <= (bit / 8) as u64;
                    assert!(named || region.file == "POSITION", "{file} at {offset}: {region:?}, bit {bit}");
                    Refused
                }
                Err(other) => panic!("{region:?}, bit {bit}: {other}"),
                Ok(spool) => {
                    let out = look(&spool).await;
                    let is = |range: std::ops::Range<u64>| out == range.collect::<Vec<u64>>();
                    match () {
                        () if is(done..PUT) => Whole,
                        () if is(done..PUT - 1) => Earlier,
                        () if is(before..PUT) => Again,
                        () => panic!("{region:?}, bit {bit}: {out:?}"),
                    }
                }
            };
            let allowed = allowed(&region.name);
            assert!(allowed.contains(&outcome), "{region:?}, bit {bit}: {outcome:?}, not of {allowed:?}");
            outcomes.entry(region.name.clone()).or_default().insert(outcome);
            flips += 1;
        }
    }
    println!("{flips} flips in {} kinds of regions", outcomes.len());
    for region in ["header: salt", "group: body", "done group: body", "last group: checksum"] {
        assert!(outcomes.contains_key(region), "{region} is not in {:?}", outcomes.keys());
    }
    let all: BTreeSet<Outcome> = outcomes.values().flatten().copied().collect();
    assert_eq!(all, BTreeSet::from([Refused, Whole, Earlier, Again]));
}

/// What is in LOCK means nothing: it is there to be locked.
#[tokio::test]
async fn whatever_is_in_the_lock_file_is_not_looked_at() {
    let (disk, _, done) = filled().await;
    let lock = Disk::create(&disk, "LOCK").unwrap();
    lock.write_at(b"anything", 0).unwrap();
    assert_eq!(drain(&open(&disk).unwrap()).await, (done..PUT).collect::<Vec<u64>>());
}
