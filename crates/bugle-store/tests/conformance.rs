//! The reference store passes the suite it is the reference for, and the suite keeps its own promises.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use bugle_store::MemoryStore;
use bugle_store::conformance::{Subject, cases, run_all};

async fn fresh() -> Subject {
    (Arc::new(MemoryStore::new()), Box::new(()))
}

bugle_store::conformance!(fresh);

#[tokio::test(flavor = "multi_thread")]
async fn cases_pass_one_after_the_other_on_one_store() {
    let store = Arc::new(MemoryStore::new().shared());
    run_all(|| async { (store.clone() as _, Box::new(()) as _) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cases_pass_all_at_once_on_one_store() {
    let store = Arc::new(MemoryStore::new().shared());
    // Twice, so that every case also meets itself; but for the one that removes old lanes of everybody, also those that its
    // other self is about to write to.
    let again = cases().into_iter().filter(|case| case.name != "retention::expired_lanes_take_their_cursors");
    let twice = cases().into_iter().chain(again);
    let running: Vec<_> = twice.map(|case| (case.name, tokio::spawn((case.run)(store.clone())))).collect();
    for (name, task) in running {
        task.await.unwrap_or_else(|why| panic!("{name}: {why}"));
    }
}

/// A case that is written but not listed would never run.
#[test]
fn every_case_is_listed() {
    let listed: BTreeSet<String> = cases().iter().map(|case| case.name.to_owned()).collect();
    let mut written = BTreeSet::new();
    for entry in Path::new(env!("CARGO_MANIFEST_DIR")).join("src/conformance").read_dir().unwrap() {
        let path = entry.unwrap().path();
        let topic = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let source = std::fs::read_to_string(&path).unwrap();
        let functions = source.lines().filter_map(|line| line.strip_prefix("pub async fn "));
        let names = functions.filter_map(|line| line.split_once("(engine: Arc<dyn Engine>)"));
        written.extend(names.map(|(name, _)| format!("{topic}::{name}")));
    }
    assert_eq!(listed, written);
}
