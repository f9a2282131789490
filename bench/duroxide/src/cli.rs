//! The command line, and the sizes that follow from it.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::{Parser, ValueEnum};

use crate::contender::Contender;

/// Compares PostgreSQL providers for duroxide and prints Markdown tables.
#[derive(Debug, Parser)]
#[command(name = "bugle-duroxide-bench", version)]
pub(crate) struct Cli {
    /// A PostgreSQL 15 or newer whose user may create databases. Each measurement gets a fresh database, removed after it.
    #[arg(long, value_name = "URL")]
    pub(crate) pg: String,
    /// Small sizes and one round: a check that everything runs, not a measurement.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Measure only this; may be repeated.
    #[arg(long = "row", value_enum, value_name = "ROW")]
    pub(crate) rows: Vec<Row>,
    /// Measure only this provider; may be repeated.
    #[arg(long = "contender", value_enum, value_name = "PROVIDER")]
    pub(crate) contenders: Vec<Contender>,
    /// Rounds of each matrix event, restart, drain and stress, instead of the usual number.
    #[arg(long, value_name = "N")]
    pub(crate) rounds: Option<usize>,
    /// Data directory of the server at --pg, which this may then restart (for the restart row).
    #[arg(long, value_name = "DIR", requires = "pgbin")]
    pub(crate) pgdata: Option<PathBuf>,
    /// Where that server's pg_ctl is.
    #[arg(long, value_name = "DIR", requires = "pgdata")]
    pub(crate) pgbin: Option<PathBuf>,
    /// Write the tables to this file as well.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// What can be measured, in the order of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Row {
    /// Statements per second of a runtime with nothing to do.
    Idle,
    /// From an enqueue on one node to code that runs on another.
    Wake,
    /// How late a durable timer fires.
    Timer,
    /// Everything that makes an item fetchable, and how late a parked node notices.
    Matrix,
    /// First orchestration after a restart of PostgreSQL.
    Restart,
    /// Turns per second from a full queue.
    Drain,
    /// duroxide's own stress harness.
    Stress,
    /// Statements for one orchestration while many dispatchers wait.
    Herd,
    /// Wakes and empty fetches of a burst.
    Burst,
}

/// How much is done of everything.
#[derive(Debug, Clone)]
pub(crate) struct Scale {
    pub(crate) idle_settle: Duration,
    pub(crate) idle_window: Duration,
    pub(crate) wake_hops: usize,
    pub(crate) timers: usize,
    /// How long a fetch may wait; what is not announced is found after this.
    pub(crate) poll_timeout: Duration,
    /// Of each event, and of the restart.
    pub(crate) matrix_rounds: usize,
    /// No further round begins after this long.
    pub(crate) matrix_budget: Duration,
    /// All contenders at the same time.
    pub(crate) matrix_at_once: bool,
    pub(crate) drain_instances: usize,
    pub(crate) drain_rounds: usize,
    pub(crate) stress_seconds: u64,
    pub(crate) stress_rounds: usize,
    pub(crate) herd_hops: usize,
    pub(crate) burst_rounds: usize,
}

const FULL: Scale = Scale {
    idle_settle: Duration::from_secs(10),
    idle_window: Duration::from_secs(120),
    wake_hops: 200,
    timers: 20,
    poll_timeout: Duration::from_secs(30),
    matrix_rounds: 3,
    matrix_budget: Duration::from_secs(20),
    matrix_at_once: false,
    drain_instances: 1000,
    drain_rounds: 2,
    stress_seconds: 10,
    stress_rounds: 2,
    herd_hops: 60,
    burst_rounds: 3,
};

const QUICK: Scale = Scale {
    idle_settle: Duration::from_secs(2),
    idle_window: Duration::from_secs(8),
    wake_hops: 15,
    timers: 3,
    poll_timeout: Duration::from_secs(4),
    matrix_rounds: 1,
    matrix_budget: Duration::ZERO,
    matrix_at_once: true,
    drain_instances: 200,
    drain_rounds: 1,
    stress_seconds: 2,
    stress_rounds: 1,
    herd_hops: 12,
    burst_rounds: 1,
};

impl Cli {
    pub(crate) fn scale(&self) -> Result<Scale> {
        let mut scale = if self.quick { QUICK } else { FULL };
        if let Some(rounds) = self.rounds {
            ensure!((1..=100).contains(&rounds), "--rounds must be from 1 to 100");
            (scale.matrix_rounds, scale.drain_rounds, scale.stress_rounds) = (rounds, rounds, rounds);
        }
        Ok(scale)
    }

    pub(crate) fn wants(&self, row: Row) -> bool {
        self.rows.is_empty() || self.rows.contains(&row)
    }

    /// The providers to compare, in their usual order.
    pub(crate) fn chosen(&self) -> Vec<Contender> {
        let wanted = |c: &Contender| self.contenders.is_empty() || self.contenders.contains(c);
        Contender::value_variants().iter().copied().filter(wanted).collect()
    }
}
