//! Starts a server and runs commands against it.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bugle_pg::testdb;
use serde_json::Value;
use tempfile::TempDir;

/// Longest time that anything awaited may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Where a server keeps its data.
pub(crate) struct On {
    dir: TempDir,
    flags: Vec<String>,
}

impl On {
    pub(crate) fn embedded() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let flags =
            vec!["--store=embedded".into(), format!("--data-dir={}", dir.path().join("data").display())];
        Self { dir, flags }
    }

    pub(crate) async fn postgres() -> Self {
        let flags = vec![
            format!("--store={}", testdb::server().await),
            format!("--pg-schema={}", testdb::fresh_schema()),
        ];
        Self { dir: tempfile::tempdir().unwrap(), flags }
    }

    /// As `bugle move` is told of it.
    pub(crate) fn place(&self) -> String {
        let values = self.flags.iter().filter_map(|flag| flag.split_once('='));
        let last = values.filter(|(name, _)| *name != "--pg-schema").map(|(_, value)| value).next_back();
        last.unwrap().to_owned()
    }

    /// Where the tables are, on a database.
    pub(crate) fn schema(&self) -> Option<&str> {
        self.flags.iter().find_map(|flag| flag.strip_prefix("--pg-schema="))
    }

    pub(crate) fn start(&self) -> Server {
        self.start_with(&[])
    }

    pub(crate) fn start_with(&self, more: &[&str]) -> Server {
        let mut command = program(self.dir.path());
        command.args(["serve", "--listen=127.0.0.1:0", "--log-level=warn"]).args(&self.flags).args(more);
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        let url =
            line.trim().strip_prefix("Bugle is ready at ").unwrap_or_else(|| panic!("{line:?}")).to_owned();
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        Server { process, url, dir: tempfile::tempdir().unwrap() }
    }
}

/// Run each test on both engines.
macro_rules! on_both_engines {
    ($(fn $name:ident($on:ident: On) $body:block)*) => {
        $(fn $name($on: crate::support::On) $body)*

        mod embedded {
            $(#[test] fn $name() { super::$name(crate::support::On::embedded()) })*
        }
        mod postgres {
            $(#[tokio::test] async fn $name() {
                let on = crate::support::On::postgres().await;
                tokio::task::spawn_blocking(|| super::$name(on)).await.unwrap();
            })*
        }
    };
}

/// The program, without any setting of ours.
pub(crate) fn program(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bugle"));
    command.env_clear().envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
    command.current_dir(dir).stdin(Stdio::null());
    command
}

/// A running server, killed when dropped, and a place to run commands in.
pub(crate) struct Server {
    process: Child,
    url: String,
    dir: TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) status: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    pub(crate) fn of(mut command: Command, input: &str) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (mut stdin, input) = (child.stdin.take().unwrap(), input.to_owned());
        // A command that does not read its input is none of our business.
        let feed = std::thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
        let output = child.wait_with_output().unwrap();
        feed.join().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { status: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// What was printed by a command that did well.
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.status, 0, "{self:?}");
        self.out
    }

    /// What a command complained about that ended with this status.
    pub(crate) fn fails(self, status: i32) -> String {
        assert_eq!(self.status, status, "{self:?}");
        self.err
    }
}

impl Server {
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Where commands run.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A command that knows the server.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = program(self.dir.path());
        command.env("BUGLE_SERVER", &self.url).args(args);
        command
    }

    pub(crate) fn bugle(&self, args: &[&str]) -> Ran {
        Ran::of(self.command(args), "")
    }

    pub(crate) fn bugle_with(&self, args: &[&str], input: &str) -> Ran {
        Ran::of(self.command(args), input)
    }

    /// What a command prints with `-o json`.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let args: Vec<&str> = args.iter().copied().chain(["-o", "json"]).collect();
        serde_json::from_str(&self.bugle(&args).ok()).unwrap()
    }

    /// What no command does.
    pub(crate) fn post(&self, path: &[&str], body: &Value) -> Value {
        let client = bugle_client::Client::new(&self.url).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(client.send_json(path, body)).unwrap()
    }

    /// Push JSON documents to a partition.
    pub(crate) fn push(&self, queue: &str, partition: &str, payloads: &[&str]) {
        let lines: String = payloads.iter().map(|payload| format!("{payload}\n")).collect();
        self.bugle_with(&["push", queue, "-p", partition], &lines).ok();
    }

    /// Payloads that a group of its own is given.
    pub(crate) fn payloads(&self, queue: &str, group: &str) -> Vec<String> {
        let args = [
            "pop",
            queue,
            "-g",
            group,
            "--subscribe",
            "all",
            "-b",
            "1000",
            "--partitions",
            "100",
            "--ack",
            "-o",
            "ndjson",
        ];
        let ran = self.bugle(&args);
        ran.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["data"].to_string()).collect()
    }
}

/// Look until something is so that tells nobody.
#[expect(clippy::disallowed_methods, reason = "commands and terminals are not awaited, they are looked at")]
pub(crate) fn until(what: &str, mut fits: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !fits() {
        assert!(Instant::now() < deadline, "never so: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
