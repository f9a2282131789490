//! The history checker against a server that breaks its promises on purpose: under the same load it names the promise that
//! was broken, and none if nothing was planted.
//!
//! Needs the feature `planted-bugs`, which `cargo xtask test tests` switches on.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bugle_history::{Load, Report, Rule, Terms, check, drive};
use bugle_pg::testdb;

/// How long there is load. Every fault strikes dozens of times in it.
const TIME: Duration = Duration::from_secs(2);

/// A server on data of its own; killed when dropped.
struct Server {
    process: Child,
    url: String,
    _dir: tempfile::TempDir,
}

impl Server {
    fn start(bug: Option<&str>, store: &[String]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_bugle"));
        command.env_clear().current_dir(dir.path()).stdin(Stdio::null()).stdout(Stdio::piped());
        command.envs(bug.map(|bug| ("BUGLE_PLANTED_BUG", bug)));
        command.args(["serve", "--listen=127.0.0.1:0", "--log-level=warn"]).args(store);
        let mut process = command.spawn().unwrap();
        let (mut lines, mut line) = (BufReader::new(process.stdout.take().unwrap()), String::new());
        lines.read_line(&mut line).unwrap();
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        let url = line.trim().strip_prefix("Bugle is ready at ").expect("the server greets").to_owned();
        Self { process, url, _dir: dir }
    }

    fn embedded(bug: Option<&str>) -> Self {
        Self::start(bug, &["--store=embedded".to_owned(), "--data-dir=data".to_owned()])
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What the checker says of a server.
async fn judge(server: &Server) -> Report {
    let history = drive(&Load::new([&server.url]), TIME).await.unwrap();
    let report = check(&history, &Terms::default());
    eprintln!("{report}");
    assert!(report.operations > 200, "too little was done to say anything: {report}");
    report
}

/// The checker names the rule that `bug` breaks.
async fn caught(bug: &str, rule: Rule) {
    let report = judge(&Server::embedded(Some(bug))).await;
    assert!(report.counts.contains_key(&rule), "{bug} breaks {rule:?}: {report}");
}

#[tokio::test]
async fn nothing_planted_nothing_found() {
    let report = judge(&Server::embedded(None)).await;
    assert!(report.is_clean() && report.unknown == 0, "{report}");
}

#[tokio::test]
async fn nothing_planted_nothing_found_on_postgres() {
    let store =
        [format!("--store={}", testdb::server().await), format!("--pg-schema={}", testdb::fresh_schema())];
    let report = judge(&Server::start(None, &store)).await;
    assert!(report.is_clean() && report.unknown == 0, "{report}");
}

#[tokio::test]
async fn a_dropped_message() {
    caught("dropped-message", Rule::Lost).await;
}

#[tokio::test]
async fn a_duplicate_lease() {
    caught("duplicate-lease", Rule::TwoLeases).await;
}

#[tokio::test]
async fn a_reordered_lane() {
    caught("reordered-lane", Rule::Order).await;
}

#[tokio::test]
async fn a_resurrected_ack() {
    caught("resurrected-ack", Rule::AfterAck).await;
}

#[tokio::test]
async fn a_half_transaction() {
    caught("half-transaction", Rule::Transaction).await;
}

#[tokio::test]
async fn a_skipped_late_commit() {
    caught("skipped-late-commit", Rule::Skipped).await;
}
