//! The example program as a child process: started, listened to, killed.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

/// Nothing takes this long: who waits longer waits for something that will not come.
const HOPELESS: Duration = Duration::from_secs(120);

/// Where the program works.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) address: String,
    pub(crate) schema: String,
}

/// One life of the program.
pub(crate) struct Program {
    child: Child,
    output: Lines<BufReader<ChildStdout>>,
    lines: Vec<String>,
}

impl Program {
    pub(crate) fn start(place: &Place, words: &[&str]) -> Self {
        let mut command = Command::new(binary());
        command.args(words).env("DATABASE_URL", &place.address).env("SCHEMA", &place.schema);
        let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, output, lines: Vec::new() }
    }

    /// The next line it prints; `None` when it prints no more.
    pub(crate) async fn line(&mut self) -> Option<String> {
        let line = tokio::time::timeout(HOPELESS, self.output.next_line()).await;
        let line = line.unwrap_or_else(|_| panic!("silent after {:#?}", self.lines)).unwrap();
        self.lines.extend(line.clone());
        line
    }

    /// Let it run until it prints this.
    pub(crate) async fn until(&mut self, beginning: &str) {
        while let Some(line) = self.line().await {
            if line.starts_with(beginning) {
                return;
            }
        }
        panic!("it ended before {beginning:?}: {:#?}", self.lines);
    }

    /// `kill -9`. What it printed in its life.
    pub(crate) async fn kill(mut self) -> Vec<String> {
        self.child.kill().await.unwrap();
        while self.line().await.is_some() {}
        self.lines
    }

    /// Let it run to its end. What it printed in its life.
    pub(crate) async fn end(mut self) -> Vec<String> {
        while self.line().await.is_some() {}
        let status = self.child.wait().await.unwrap();
        assert!(status.success(), "{status} after {:#?}", self.lines);
        self.lines
    }
}

/// Cargo builds the examples of a package along with all of its tests, beside them.
fn binary() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let binary = test.parent().and_then(|deps| deps.parent()).unwrap().join("examples/order");
    assert!(binary.exists(), "no {}: `cargo build -p bugle-duroxide --example order`", binary.display());
    binary
}
