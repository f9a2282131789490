//! The options of the commands with a fixed rate: `open` and `curve`.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Args;

use crate::cli::{Common, seconds_ok};
use crate::cli_servers::Servers;

/// Options of `open`.
#[derive(Debug, Clone, Args)]
pub struct OpenArgs {
    /// Options shared with the other commands. Connections bound how many requests are under way at once.
    #[command(flatten)]
    pub common: Common,
    /// Messages per second, due evenly whatever the server does.
    #[arg(long)]
    pub rate: f64,
    /// Length of the measured window.
    #[arg(long, default_value_t = 10.0)]
    pub seconds: f64,
    /// Load applied before the window opens.
    #[arg(long, default_value_t = 1.0)]
    pub warmup_seconds: f64,
}

impl OpenArgs {
    pub(crate) fn check(&self) -> Result<()> {
        self.common.check()?;
        ensure!(self.rate > 0.0 && self.rate <= 1e8, "--rate must be above 0 and at most 100,000,000");
        ensure!(seconds_ok(self.seconds), "--seconds must be above 0 and at most a day");
        ensure!(
            self.warmup_seconds == 0.0 || seconds_ok(self.warmup_seconds),
            "--warmup-seconds must be 0 to a day"
        );
        Ok(())
    }
}

/// Options of `curve`.
#[derive(Debug, Clone, Args)]
pub struct CurveArgs {
    /// The servers under test: the embedded engine, and PostgreSQL if there is a DSN.
    #[command(flatten)]
    pub servers: Servers,
    /// Leave the embedded engine out.
    #[arg(long)]
    pub only_postgres: bool,
    /// Messages per request; a curve for each.
    #[arg(long, value_delimiter = ',', default_value = "1,100")]
    pub batches: Vec<usize>,
    /// The most requests under way at once.
    #[arg(long, default_value_t = 256)]
    pub connections: usize,
    /// Lanes the messages are spread over.
    #[arg(long, default_value_t = 100)]
    pub partitions: u32,
    /// Exact size of each message's JSON payload.
    #[arg(long, default_value_t = 256)]
    pub payload_bytes: usize,
    /// Length of each measured window.
    #[arg(long, default_value_t = 4.0)]
    pub seconds: f64,
    /// Load applied before each window.
    #[arg(long, default_value_t = 0.5)]
    pub warmup_seconds: f64,
    /// File for the curves as a drawing.
    #[arg(long)]
    pub svg: Option<PathBuf>,
}

impl CurveArgs {
    pub(crate) fn check(&self) -> Result<()> {
        ensure!(!self.batches.is_empty() && !self.batches.contains(&0), "--batches must be at least 1 each");
        ensure!(self.connections > 0, "--connections must be at least 1");
        ensure!(self.partitions > 0, "--partitions must be at least 1");
        ensure!(seconds_ok(self.seconds), "--seconds must be above 0 and at most a day");
        ensure!(
            self.warmup_seconds == 0.0 || seconds_ok(self.warmup_seconds),
            "--warmup-seconds must be 0 to a day"
        );
        ensure!(!self.only_postgres || self.servers.pg.is_some(), "--only-postgres needs --pg");
        Ok(())
    }
}
