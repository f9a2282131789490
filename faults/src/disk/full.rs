//! The disk is full, and after a while it is not: a file system of its own, in memory, that a file fills and leaves.
//!
//! It is mounted in a mount namespace of its own, which ends with the round. The engine has its log files made before it needs them,
//! so that a full disk is not noticed for a while; most times are made long enough for that by messages that nobody reads.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use bugle_history::Terms;

use crate::database::is_root;
use crate::http;
use crate::scenario::{Engine, Outcome, Scenario};
use crate::servers::Server;
use crate::stage::{Stage, embedded};

/// Where the messages go that fill the files which the engine has in stock, and how they go again.
const WEIGHTS: &str = r#"{"queue":"weights","options":{"retentionEnabled":true,"retentionSeconds":4}}"#;
const WEIGHT: usize = 1 << 20;
/// More than the engine can have in stock.
const MOST_WEIGHTS: usize = 1000;

/// See the module.
pub(crate) struct Full;

#[async_trait]
impl Scenario for Full {
    fn name(&self) -> &'static str {
        "disk-full"
    }

    fn about(&self) -> &'static str {
        "a file system without space for a while; kill -9 of the server in some of these times"
    }

    fn engine(&self) -> Engine {
        Engine::Embedded
    }

    async fn run(&self, stage: &mut Stage) -> Result<Outcome> {
        let disk = SmallDisk::mount(&stage.dir.join("disk"))?;
        let mut manner = embedded();
        manner.flags.retain(|flag| !flag.starts_with("--data-dir"));
        manner.flags.push(format!("--data-dir={}", disk.dir.join("data").display()));
        // What all groups have read goes soon: the disk is to be filled by us and not by the round's own messages.
        manner.flags.extend(["--retention-interval=2s", "--completed-retention=5s"].map(str::to_owned));
        manner.before = disk.inside();
        let mut server = stage.server("server", manner).await?;
        http::post(server.address(), "/api/v1/configure", WEIGHTS).await?;
        let mut trial = stage.begin(&stage.load([server.url()]))?;
        let mut restarted = 0;
        while trial.goes_on() {
            let more = stage.rng.usize(200..800);
            trial.traffic(more).await?;
            restarted += u64::from(revive(&mut server).await?);
            disk.fill()?;
            trial.injected += 1;
            if stage.rng.u8(..4) > 0 {
                weigh_down(&server).await;
            }
            trial.traffic(100).await?;
            if stage.rng.u8(..4) == 0 {
                server.kill()?;
                disk.empty()?;
                server.begin().await?;
            } else {
                disk.empty()?;
            }
            // What was under way meets the space that there is again.
            trial.traffic(50).await?;
            restarted += u64::from(revive(&mut server).await?);
            trial.healed();
        }
        trial.figures.push(format!("{restarted} restarts of a store that had stopped"));
        trial.judge(stage, &Terms::default()).await
    }
}

/// Push until that is refused, or for as long as retention makes room as fast as we fill it.
async fn weigh_down(server: &Server) {
    let payload = "w".repeat(WEIGHT);
    let body = format!(r#"{{"items":[{{"queue":"weights","payload":"{payload}"}}]}}"#);
    for _ in 0..MOST_WEIGHTS {
        if http::post(server.address(), "/api/v1/push", &body).await.is_err() {
            return;
        }
    }
}

/// A store that met the full disk has stopped for good: whoever watches `/health/ready` starts it again. Whether that
/// was necessary.
async fn revive(server: &mut Server) -> Result<bool> {
    let stopped = http::get(server.address(), "/health/ready").await.is_err();
    if stopped {
        server.end_somehow().await?;
        server.begin().await?;
    }
    Ok(stopped)
}

/// A file system that only a process of ours can see.
struct SmallDisk {
    holder: Child,
    dir: PathBuf,
}

impl SmallDisk {
    fn mount(dir: &Path) -> Result<Self> {
        std::fs::create_dir(dir).context("a place to mount at")?;
        let mut command = Command::new("unshare");
        command.arg(if is_root() { "-m" } else { "-rm" }).args(["sh", "-c"]);
        command.arg("mount -t tmpfs -o size=4g tmpfs \"$1\" && echo mounted && exec cat").arg("sh").arg(dir);
        // It ends when its input does: with us.
        let mut holder = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("unshare")?;
        let mut line = String::new();
        let output = holder.stdout.take().context("no output")?;
        let disk = Self { holder, dir: dir.to_owned() };
        BufReader::new(output).read_line(&mut line).context("wait for the file system")?;
        ensure!(line.trim() == "mounted", "no file system could be mounted in a namespace of its own");
        Ok(disk)
    }

    /// Words before a program that is to see it.
    fn inside(&self) -> Vec<String> {
        let target = self.holder.id().to_string();
        let user = if is_root() { vec![] } else { vec!["--user", "--preserve-credentials"] };
        let words = ["nsenter", "--target", &target, "--mount"];
        words.into_iter().chain(user).map(str::to_owned).collect()
    }

    fn ballast(&self) -> PathBuf {
        let inside = self.dir.strip_prefix("/").unwrap_or(&self.dir);
        PathBuf::from(format!("/proc/{}/root", self.holder.id())).join(inside).join("ballast")
    }

    /// Leave no space.
    fn fill(&self) -> Result<()> {
        let mut file = File::create(self.ballast()).context("make the ballast")?;
        let (mut bytes, mut all) = (&[0; 1 << 20][..], 0);
        // Smaller and smaller pieces, until not even a byte fits.
        while !bytes.is_empty() {
            match file.write(bytes) {
                Ok(count) => all += count,
                Err(_) => bytes = &bytes[..bytes.len() / 16],
            }
        }
        ensure!(all > 0, "the disk was full already");
        Ok(())
    }

    /// Leave all of it.
    fn empty(&self) -> Result<()> {
        std::fs::remove_file(self.ballast()).context("remove the ballast")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // The namespace and its file system end with the last process in it.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
