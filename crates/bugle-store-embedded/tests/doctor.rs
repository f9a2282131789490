//! The doctor: finds nothing where nothing is wrong, finds every damage that is planted, says where, and changes nothing.
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use bugle_store::{Engine, Severity};
use bugle_store_embedded::{EmbeddedOptions, EmbeddedStore, examine};
use fastrand::Rng;
use support::model::Pair;
use tempfile::TempDir;

fn options(dir: &Path) -> EmbeddedOptions {
    EmbeddedOptions {
        file_size: 64 << 10,
        checkpoint_every: 200 << 10,
        cache_bytes: 0,
        background: false,
        ..EmbeddedOptions::new(dir)
    }
}

/// A directory with sealed files, a checkpoint, and records after it.
async fn filled(clean: bool) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let store = EmbeddedStore::open(options(&data)).unwrap();
    let mut rng = Rng::with_seed(21);
    let mut pair = Pair::new();
    for _ in 0..250 {
        pair.change(&*store, &mut rng).await.unwrap();
    }
    if clean {
        store.close().await.unwrap();
    }
    drop(store);
    (dir, data)
}

fn content(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    files.map(|path| (name(&path), fs::read(&path).unwrap())).collect()
}

fn named(files: &BTreeMap<String, Vec<u8>>, start: &str, end: &str) -> Vec<String> {
    files.keys().filter(|name| name.starts_with(start) && name.ends_with(end)).cloned().collect()
}

/// What is found after one byte of a file was changed, as (worst, places).
fn after_flip(dir: &Path, name: &str, at: usize) -> (Option<Severity>, Vec<String>) {
    let path = dir.join(name);
    let mut bytes = fs::read(&path).unwrap();
    bytes[at] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let found = examine(dir);
    bytes[at] ^= 1;
    fs::write(&path, &bytes).unwrap();
    (found.worst(), found.findings.into_iter().map(|finding| finding.place).collect())
}

#[tokio::test]
async fn nothing_is_found_where_nothing_is_wrong_and_nothing_is_changed() {
    for clean in [true, false] {
        let (_keep, data) = filled(clean).await;
        let before = content(&data);
        let found = examine(&data);
        assert_eq!(found.worst(), None, "{found:?}");
        assert_eq!(content(&data), before);
        let fact = |name: &str| found.facts.iter().find(|fact| fact.0 == name).unwrap().1.clone();
        for name in ["messages", "lanes", "queues", "cursors", "records", "log files"] {
            assert!(fact(name).parse::<u64>().unwrap() > 0, "{name}");
        }
        assert!(fact("format").starts_with("1 "));
        // It opens afterwards as it would have before.
        EmbeddedStore::open(options(&data)).unwrap();
    }
}

#[tokio::test]
async fn every_flipped_byte_of_what_counts_is_found_where_it_is() {
    let (_keep, data) = filled(true).await;
    let files = content(&data);
    let mut rng = Rng::with_seed(22);
    let mut looked = 0;
    for name in named(&files, "log-", ".log") {
        // The first record and the header of the file.
        let length =
            u32::from_le_bytes(files[&name].get(4104..4108).map_or([0; 4], |b| b.try_into().unwrap()));
        for at in [rng.usize(..64), 4096 + rng.usize(..64), 4096 + rng.usize(64..(length as usize).max(65))] {
            if length == 0 && at >= 4096 {
                continue;
            }
            let (worst, places) = after_flip(&data, &name, at);
            assert_eq!(worst, Some(Severity::Damage), "{name} at {at}");
            assert!(places[0].starts_with(&format!("{name} at ")), "{name} at {at}: {places:?}");
            looked += 1;
        }
    }
    let tables = [("log-", ".idx"), ("log-", ".fps"), ("checkpoint-", ".snap")];
    for name in tables.iter().flat_map(|(start, end)| named(&files, start, end)) {
        for _ in 0..4 {
            let at = rng.usize(..files[&name].len());
            let (worst, places) = after_flip(&data, &name, at);
            assert_eq!(worst, Some(Severity::Damage), "{name} at {at}");
            assert!(places.iter().any(|place| place.starts_with(&name)), "{name} at {at}: {places:?}");
            looked += 1;
        }
    }
    assert!(looked > 20, "{looked}");
}

#[tokio::test]
async fn what_is_missing_is_found() {
    let (_keep, data) = filled(true).await;
    let files = content(&data);
    let (logs, tables) = (named(&files, "log-", ".log"), named(&files, "log-", ".fps"));
    let hidden = |name: &str| {
        fs::rename(data.join(name), data.with_extension("hidden")).unwrap();
        let found = examine(&data);
        fs::rename(data.with_extension("hidden"), data.join(name)).unwrap();
        found
    };
    let damaged = logs.iter().filter(|name| hidden(name).worst() == Some(Severity::Damage)).count();
    assert!(damaged > 0 && damaged >= logs.len() - 1, "{damaged} of {}", logs.len());
    let lane = hidden(&logs[0]).findings.remove(0);
    assert!(lane.place.contains("partition p") && lane.what.contains("is in no log file"), "{lane:?}");
    assert_eq!(hidden(&tables[0]).worst(), Some(Severity::Warning));
    let format = hidden("FORMAT").findings.remove(0);
    assert_eq!((format.severity, format.place.as_str()), (Severity::Damage, "FORMAT at 0"));
}

#[tokio::test]
async fn what_cannot_be_told_is_said() {
    let (_keep, data) = filled(true).await;
    let store = EmbeddedStore::open(options(&data)).unwrap();
    let found = examine(&data);
    assert_eq!(found.worst(), Some(Severity::Unknown));
    assert!(found.findings[0].what.contains("a server uses it"), "{found:?}");
    store.close().await.unwrap();
    fs::write(data.join("FORMAT"), "bugle-embedded 2\n").unwrap();
    let found = examine(&data);
    assert_eq!(found.worst(), Some(Severity::Unknown));
    assert!(
        found.findings[0].what.contains("format 2") && found.findings[0].what.contains("up to 1"),
        "{found:?}"
    );
    assert_eq!(examine(&data.join("nowhere")).worst(), Some(Severity::Unknown));
    let empty = tempfile::tempdir().unwrap();
    assert_eq!(examine(empty.path()).worst(), None);
}

#[tokio::test]
async fn an_unfinished_last_record_is_no_damage() {
    let (_keep, data) = filled(false).await;
    let files = content(&data);
    let last = named(&files, "log-", ".log").pop().unwrap();
    // The end of the last record: what a crash in the middle of a write leaves.
    let mut at = 4096;
    let mut records = Vec::new();
    while files[&last][at..].starts_with(b"BGLR") {
        let length = u32::from_le_bytes(files[&last][at + 8..at + 12].try_into().unwrap()) as usize;
        records.push((at, length));
        at += length.next_multiple_of(4096);
    }
    let (at, length) = *records.last().unwrap();
    let (worst, places) = after_flip(&data, &last, at + length - 1);
    assert_eq!(worst, Some(Severity::Warning));
    assert_eq!(places, [format!("{last} at {at}")]);
    let (at, length) = records[records.len() - 2];
    assert_eq!(after_flip(&data, &last, at + length - 1).0, Some(Severity::Damage));
}
