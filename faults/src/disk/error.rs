//! The disk fails (EIO): when it is to write, to sync, or to read. The server must not pretend; when the disk is well again
//! it is restarted, and what it has answered is there.
//!
//! The failures come from the server itself, which has to be built with the feature `planted-bugs`: the content of a file is the
//! command.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use async_trait::async_trait;
use bugle_history::Terms;

use crate::scenario::{Engine, Outcome, Scenario};
use crate::stage::{Stage, embedded};

/// What fails.
const COMMANDS: [&str; 3] = ["eio-sync", "eio-write", "eio-read"];

/// See the module.
pub(crate) struct Broken;

#[async_trait]
impl Scenario for Broken {
    fn name(&self) -> &'static str {
        "disk-error"
    }

    fn about(&self) -> &'static str {
        "EIO when the disk is to sync, write or read; a restart when it is well again"
    }

    fn engine(&self) -> Engine {
        Engine::Embedded
    }

    async fn run(&self, stage: &mut Stage) -> Result<Outcome> {
        let commands = stage.dir.join("disk");
        command(&commands, "")?;
        let mut manner = embedded();
        manner.env.push(("BUGLE_PLANTED_DISK".to_owned(), commands.display().to_string()));
        // What is not in memory has to be read.
        manner.flags.push("--segment-cache=64KiB".to_owned());
        let mut server = stage.server("server", manner).await?;
        let mut trial = stage.begin(&stage.load([server.url()]))?;
        while trial.goes_on() {
            let more = stage.rng.usize(200..1000);
            trial.traffic(more).await?;
            command(&commands, COMMANDS[trial.injected as usize % COMMANDS.len()])?;
            trial.traffic(50).await?;
            tokio::time::sleep(Duration::from_millis(200)).await;
            command(&commands, "")?;
            trial.injected += 1;
            // Nothing may be taken back by a later success: it is asked before it is restarted.
            trial.traffic(20).await?;
            if stage.rng.bool() {
                server.kill()?;
            } else {
                server.end_somehow().await?;
            }
            server.begin().await?;
        }
        trial.judge(stage, &Terms::default()).await
    }
}

fn command(file: &Path, text: &str) -> Result<()> {
    // Renamed into place: nobody reads half a word.
    let new = file.with_extension("new");
    std::fs::write(&new, text).context("command the disk")?;
    std::fs::rename(&new, file).context("command the disk")
}
