//! The history checker against a server that breaks its promises on purpose: under the same load it names the promise that
//! was broken, and none if nothing was planted, nor if an honest server is killed again and again.
//!
//! Needs the feature `planted-bugs`, which `cargo xtask test tests` switches on.
#![allow(clippy::unwrap_used)]

mod disk;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bugle_history::{Load, Report, Rule, Running, Terms, check};
use bugle_pg::testdb;

/// Requests under which every fault strikes dozens of times.
const ENOUGH: usize = 1500;

/// File with the command of the disk.
const DISK: &str = "disk-command";

/// A server on data of its own; killed when dropped.
struct Server {
    process: Child,
    url: String,
    dir: tempfile::TempDir,
}

impl Server {
    fn start(bug: Option<&str>, store: &[String]) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), "127.0.0.1:0", bug, store)
    }

    fn start_in(dir: tempfile::TempDir, listen: &str, bug: Option<&str>, store: &[String]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bugle"));
        command.env_clear().current_dir(dir.path()).stdin(Stdio::null()).stdout(Stdio::piped());
        command.envs(bug.map(|bug| ("BUGLE_PLANTED_BUG", bug)));
        command.env("BUGLE_PLANTED_DISK", dir.path().join(DISK));
        command.args(["serve", "--log-level=warn"]).arg(format!("--listen={listen}")).args(store);
        let mut process = command.spawn().unwrap();
        let (mut lines, mut line) = (BufReader::new(process.stdout.take().unwrap()), String::new());
        lines.read_line(&mut line).unwrap();
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        let url = line.trim().strip_prefix("Bugle is ready at ").expect("the server greets").to_owned();
        Self { process, url, dir }
    }

    fn embedded(bug: Option<&str>) -> Self {
        Self::start(bug, &embedded())
    }

    /// Let its disk fail like this from now on; see `bugle_disk::PlantedDisk`.
    fn command_disk(&self, command: &str) {
        std::fs::write(self.dir.path().join(DISK), command).unwrap();
    }

    /// End it as a crash would, and start another on its data and at its address.
    fn crash_and_restart(mut self) -> Self {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        let listen = self.url.strip_prefix("http://").unwrap().to_owned();
        let dir = std::mem::replace(&mut self.dir, tempfile::tempdir().unwrap());
        Self::start_in(dir, &listen, None, &embedded())
    }
}

fn embedded() -> [String; 2] {
    ["--store=embedded".to_owned(), "--data-dir=data".to_owned()]
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// On a database, in a schema of its own.
async fn postgres() -> [String; 2] {
    [format!("--store={}", testdb::server().await), format!("--pg-schema={}", testdb::fresh_schema())]
}

/// What the checker says of a server.
async fn judge(server: &Server) -> Report {
    judge_under(&Load::new([&server.url])).await
}

async fn judge_under(load: &Load) -> Report {
    let running = Running::start(load).unwrap();
    requests(&running, ENOUGH).await;
    let report = check(&running.finish().await.unwrap(), &Terms::default());
    eprintln!("{report}");
    report
}

/// Wait for so many more requests.
async fn requests(running: &Running, more: usize) {
    let enough = running.requests() + more;
    while running.requests() < enough {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The checker names the rule that a bug breaks in a server on this store.
async fn caught(bug: &str, rule: Rule, store: [String; 2]) {
    let server = Server::start(Some(bug), &store);
    let mut load = Load::new([&server.url]);
    if matches!(rule, Rule::StaleAck | Rule::TwoLeases) {
        // Leases have to last, to end and to come again: less haste, and more to be late with.
        (load.careless, load.pause) = (20, Duration::from_millis(10));
    }
    let report = judge_under(&load).await;
    assert!(report.counts.contains_key(&rule), "{bug} breaks {rule:?}: {report}");
}

/// Every planted bug is found on both engines.
macro_rules! caught {
    ($($name:ident: $bug:literal breaks $rule:ident;)*) => {$(
        mod $name {
            use super::*;

            #[tokio::test]
            async fn on_the_embedded_engine() {
                caught($bug, Rule::$rule, embedded()).await;
            }

            #[tokio::test]
            async fn on_postgres() {
                caught($bug, Rule::$rule, postgres().await).await;
            }
        }
    )*};
}

caught! {
    a_dropped_message: "dropped-message" breaks Lost;
    a_duplicate_lease: "duplicate-lease" breaks TwoLeases;
    a_reordered_lane: "reordered-lane" breaks Order;
    a_resurrected_ack: "resurrected-ack" breaks AfterAck;
    a_half_transaction: "half-transaction" breaks Transaction;
    a_skipped_late_commit: "skipped-late-commit" breaks Skipped;
    a_stale_ack: "stale-ack" breaks StaleAck;
}

#[tokio::test]
async fn nothing_planted_nothing_found() {
    let report = judge(&Server::embedded(None)).await;
    assert!(report.is_clean(), "{report}");
}

#[tokio::test]
async fn nothing_planted_nothing_found_on_postgres() {
    let report = judge(&Server::start(None, &postgres().await)).await;
    assert!(report.is_clean(), "{report}");
}

#[tokio::test]
async fn a_server_that_is_killed_breaks_no_promise() {
    let mut server = Server::embedded(None);
    let running = Running::start(&Load::new([&server.url])).unwrap();
    for _ in 0..3 {
        requests(&running, 150).await;
        server = server.crash_and_restart();
    }
    let report = check(&running.finish().await.unwrap(), &Terms::default());
    eprintln!("{report}");
    assert!(report.is_clean(), "{report}");
    assert!(report.unknown + report.not_done > 0, "nobody noticed: {report}");
    drop(server);
}
