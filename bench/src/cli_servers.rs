//! The options of the commands that start servers themselves: `matrix`, `starve`, `calls` and `lists`.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Args;

use crate::cli::seconds_ok;

/// The servers under test: a program and where they keep their data.
#[derive(Debug, Clone, Args)]
pub struct Servers {
    /// The `bugle` program.
    #[arg(long, value_name = "PATH")]
    pub server: PathBuf,
    /// DSN (without TLS) of a PostgreSQL; without it servers keep their data in a directory that is removed afterwards.
    #[arg(long, value_name = "DSN")]
    pub pg: Option<String>,
    /// Schema for the tables, dropped at the end; fresh and random when absent.
    #[arg(long)]
    pub schema: Option<String>,
    /// Directory to keep their data under [default: the one for temporary files].
    #[arg(long, value_name = "DIR")]
    pub data_parent: Option<PathBuf>,
    /// Flag for every server that is started; may be repeated.
    #[arg(long, allow_hyphen_values = true)]
    pub server_flag: Vec<String>,
}

/// Options of `matrix`.
#[derive(Debug, Clone, Args)]
pub struct MatrixArgs {
    /// The servers under test.
    #[command(flatten)]
    pub servers: Servers,
    /// Times each row is measured.
    #[arg(long, default_value_t = 20)]
    pub rounds: usize,
    /// Servers tell each other by UDP instead of NOTIFY.
    #[arg(long)]
    pub udp: bool,
    /// Only rows whose name contains this; may be repeated.
    #[arg(long)]
    pub row: Vec<String>,
    /// Data directory of the PostgreSQL of `--pg`, which may then be restarted; that row is left out otherwise.
    #[arg(long, value_name = "DIR")]
    pub pg_data: Option<PathBuf>,
    /// Where `pg_ctl` is.
    #[arg(long, value_name = "DIR", default_value = "/usr/lib/postgresql/15/bin")]
    pub pg_bin: PathBuf,
}

impl MatrixArgs {
    pub(crate) fn check(&self) -> Result<()> {
        ensure!(self.rounds > 0, "--rounds must be at least 1");
        ensure!(self.servers.pg.is_some(), "--pg: two servers need a database");
        Ok(())
    }
}

/// Options of `starve`.
#[derive(Debug, Clone, Args)]
pub struct StarveArgs {
    /// The server under test.
    #[command(flatten)]
    pub servers: Servers,
    /// Pops that are parked in every second round.
    #[arg(long, default_value_t = 1000)]
    pub waiters: usize,
    /// Queues they wait for.
    #[arg(long, default_value_t = 500)]
    pub keys: usize,
    /// Connections of the load, each with one request in flight.
    #[arg(long, default_value_t = 16)]
    pub connections: usize,
    /// How long each verb is measured in each round.
    #[arg(long, default_value_t = 2.0)]
    pub seconds: f64,
    /// Messages each connection holds before acks and transactions are measured; who runs out ends the window.
    #[arg(long, default_value_t = 6000)]
    pub stock: usize,
    /// Pairs of rounds, without and with waiters.
    #[arg(long, default_value_t = 8)]
    pub rounds: usize,
}

impl StarveArgs {
    pub(crate) fn check(&self) -> Result<()> {
        ensure!(self.connections > 0, "--connections must be at least 1");
        ensure!(self.rounds > 0, "--rounds must be at least 1");
        ensure!((1..=10_000).contains(&self.stock), "--stock must be 1 to 10,000, the most a pop can take");
        ensure!(self.keys > 0 && self.keys <= self.waiters, "--keys must be 1 to the number of --waiters");
        ensure!(seconds_ok(self.seconds), "--seconds must be above 0 and at most a day");
        Ok(())
    }
}

/// Options of `calls`.
#[derive(Debug, Clone, Args)]
pub struct CallsArgs {
    /// The servers under test.
    #[command(flatten)]
    pub servers: Servers,
    /// Times each part is repeated.
    #[arg(long, default_value_t = 10)]
    pub rounds: usize,
    /// Pops that come at once in the first part.
    #[arg(long, default_value_t = 100)]
    pub pops: usize,
    /// Waiters of the second and third part.
    #[arg(long, default_value_t = 1000)]
    pub waiters: usize,
    /// Messages of the burst, dealt out over as many lanes as there are waiters.
    #[arg(long, default_value_t = 10_000)]
    pub messages: usize,
}

impl CallsArgs {
    pub(crate) fn check(&self) -> Result<()> {
        ensure!(self.rounds > 0, "--rounds must be at least 1");
        ensure!(self.pops > 0, "--pops must be at least 1");
        ensure!(self.waiters > 1, "--waiters must be at least 2");
        ensure!(self.messages >= self.waiters, "--messages: each waiter needs one");
        Ok(())
    }
}

/// Options of `lists`.
#[derive(Debug, Clone, Args)]
pub struct ListsArgs {
    /// The server under test.
    #[command(flatten)]
    pub servers: Servers,
    /// Queues, each with a group.
    #[arg(long, default_value_t = 10_000)]
    pub queues: usize,
    /// Partitions of each, with a message in every one.
    #[arg(long, default_value_t = 3)]
    pub partitions: usize,
    /// Times each list is asked for.
    #[arg(long, default_value_t = 20)]
    pub rounds: usize,
    /// Queues pushed to before each question, where they are asked between pushes.
    #[arg(long, default_value_t = 100)]
    pub changes: usize,
    /// Pause before lists are asked for at rest.
    #[arg(long, default_value_t = 100.0)]
    pub settle_seconds: f64,
}

impl ListsArgs {
    pub(crate) fn check(&self) -> Result<()> {
        ensure!(self.queues > 0, "--queues must be at least 1");
        ensure!(self.partitions > 0, "--partitions must be at least 1");
        ensure!(self.rounds > 0, "--rounds must be at least 1");
        ensure!(self.changes <= self.queues, "--changes: there are not so many queues");
        ensure!(
            self.settle_seconds == 0.0 || seconds_ok(self.settle_seconds),
            "--settle-seconds is at most a day"
        );
        Ok(())
    }
}
