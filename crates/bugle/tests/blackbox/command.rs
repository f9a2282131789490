//! The command line: what is refused, what is printed.

use std::process::{Command, Output};

use crate::common::{On, command};

fn run(change: impl FnOnce(&mut Command)) -> (Output, String, String) {
    let dir = tempfile::tempdir().unwrap();
    let mut command = command(dir.path());
    change(&mut command);
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    (output, out, err)
}

#[test]
fn listening_beyond_loopback_needs_a_word() {
    let (output, _, error) = run(|c| {
        c.args(["serve", "--listen=0.0.0.0:0"]);
    });
    assert!(!output.status.success());
    assert!(error.contains("--insecure") && error.contains("0.0.0.0:0"), "{error}");
}

#[tokio::test]
async fn listening_beyond_loopback_works_when_asked_for() {
    let on = On::embedded();
    let server = on.start_with(&["--listen=0.0.0.0:0", "--insecure"]).await;
    assert_eq!(server.get("/health/live").await.status, 200);
}

#[test]
fn flags_beat_environment_beats_file_beats_old_names() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("bugle.toml");
    std::fs::write(&file, "max-batch = 3\ndefault-batch = 3\nmax-queued = 3\n").unwrap();
    let (output, shown, error) = run(|c| {
        c.args(["serve", "--print-config", "--max-batch=1", "--config"]).arg(&file);
        c.envs([("BUGLE_MAX_BATCH", "2"), ("BUGLE_DEFAULT_BATCH", "2")]);
        c.envs([("DEFAULT_BATCH_SIZE", "4"), ("DEFAULT_TIMEOUT", "4000")]);
    });
    assert!(output.status.success(), "{error}");
    for line in ["max-batch = 1", "default-batch = 2", "max-queued = 3", "default-timeout = \"4s\""] {
        assert!(shown.lines().any(|l| l == line), "{line} not in {shown}");
    }
}

#[test]
fn secrets_are_not_printed() {
    let key = "ab".repeat(32);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("address");
    std::fs::write(&file, "postgres://me:s3cret@db/x\n").unwrap();
    let (output, shown, error) = run(|c| {
        c.args(["serve", "--print-config"]).env("QUEEN_ENCRYPTION_KEY", &key).env("BUGLE_STORE_FILE", &file);
    });
    assert!(output.status.success(), "{error}");
    assert!(shown.contains("postgres://me:<redacted>@db/x"), "{shown}");
    assert!(!shown.contains(&key) && !shown.contains("s3cret"));
    let (_, shown, error) = run(|c| {
        c.args(["serve", "--help"]).env("BUGLE_ENCRYPTION_KEY", &key);
    });
    assert!(!shown.contains(&key) && shown.contains("BUGLE_ENCRYPTION_KEY"), "{error}");
}

#[test]
fn a_wrong_setting_is_refused_by_name_without_its_value() {
    let (output, _, error) = run(|c| {
        c.arg("serve").env("BUGLE_ENCRYPTION_KEY", "nonsense-key");
    });
    assert!(!output.status.success());
    assert!(error.contains("encryption-key") && !error.contains("nonsense-key"), "{error}");
}

#[test]
fn the_version_is_told() {
    let (output, shown, _) = run(|c| {
        c.arg("--version");
    });
    assert!(output.status.success());
    assert_eq!(shown, format!("bugle {}\n", env!("CARGO_PKG_VERSION")));
}
