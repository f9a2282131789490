//! `bugle config`.

use serde_json::Value;

use crate::support::{Ran, program};

#[test]
fn every_setting_is_told_with_its_source_and_no_secret() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("bugle.toml"), "max-batch = 3\nmax-queued = 3\n").unwrap();
    std::fs::write(dir.path().join("address"), "postgres://me:s3cret@db/x\n").unwrap();
    let mut command = program(dir.path());
    command.args(["config", "print", "-o", "ndjson", "--config=bugle.toml", "--max-waiters=7"]);
    command.envs([("BUGLE_MAX_BATCH", "2"), ("DEFAULT_TIMEOUT", "4000"), ("BUGLE_STORE_FILE", "address")]);
    let shown = Ran::of(command, "").ok();
    let told = |name: &str| {
        let all = shown.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let one = all
            .into_iter()
            .find(|entry| entry["name"] == name)
            .unwrap_or_else(|| panic!("{name} in {shown}"));
        let text = |at: &str| one[at].as_str().map_or_else(|| one[at].to_string(), str::to_owned);
        (text("value"), text("source"))
    };
    assert_eq!(told("max-waiters"), ("7".into(), "flag".into()));
    assert_eq!(told("max-batch"), ("2".into(), "environment".into()));
    assert_eq!(told("max-queued"), ("3".into(), "file bugle.toml".into()));
    assert_eq!(told("default-timeout"), ("4s".into(), "environment, an older name".into()));
    assert_eq!(told("store"), ("postgres://me:<redacted>@db/x".into(), "environment".into()));
    assert_eq!(told("listen").1, "default");
    assert!(!shown.contains("s3cret"));
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = program(dir.path());
    command.args(["config", "print", "--max-batch=0"]);
    assert!(Ran::of(command, "").fails(1).contains("max-batch"));
}

#[test]
fn the_document_of_all_settings_is_current() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = program(dir.path());
    command.args(["config", "document"]);
    let made = Ran::of(command, "").ok();
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/config.md");
    if std::env::var_os("BUGLE_BLESS").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap();
    assert!(
        made == kept,
        "docs/config.md is not what `bugle config document` prints; BUGLE_BLESS=1 writes it anew"
    );
}
