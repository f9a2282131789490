//! The options of `growth`.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};

use crate::cli::seconds_ok;
use crate::cli_servers::Servers;

/// What grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Axis {
    /// Lanes the messages are spread over.
    Lanes,
    /// Groups, each of which gets everything.
    Groups,
    /// Messages behind a group that does not read.
    Backlog,
    /// Pops that wait for other queues.
    Waiters,
    /// Bytes of a message.
    Payload,
    /// Retention that removes all the time, against none.
    Retention,
}

/// Which engine serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    /// Files of its own.
    Embedded,
    /// A database.
    Postgres,
}

/// Options of `growth`.
#[derive(Debug, Clone, Args)]
pub struct GrowthArgs {
    /// The servers under test: the embedded engine, and PostgreSQL if there is a DSN.
    #[command(flatten)]
    pub servers: Servers,
    /// First process of that database, whose CPU (with its children) is reported.
    #[arg(long)]
    pub pg_pid: Option<u32>,
    /// Only this axis; may be repeated [default: all].
    #[arg(long, value_enum)]
    pub axis: Vec<Axis>,
    /// Only this engine; may be repeated [default: embedded, and PostgreSQL with `--pg`].
    #[arg(long, value_enum)]
    pub engine: Vec<Engine>,
    /// Short windows, one round, and everything a hundredth of its size: to see that it works.
    #[arg(long)]
    pub quick: bool,
    /// Divide lanes, backlogs and waiters by this [default: 1, with --quick 100].
    #[arg(long)]
    pub shrink: Option<u64>,
    /// Length of a window of pushes; what was pushed is then popped [default: 1, with --quick 0.2].
    #[arg(long)]
    pub seconds: Option<f64>,
    /// Times base and point are measured in turn, after one that does not count [default: 3, with --quick 1].
    #[arg(long)]
    pub rounds: Option<usize>,
    /// Connections of the load, each with one request in flight.
    #[arg(long, default_value_t = 16)]
    pub connections: usize,
    /// Ten million messages of backlog on PostgreSQL as well.
    #[arg(long)]
    pub deep: bool,
    /// Start nothing new after so many minutes.
    #[arg(long, default_value_t = 25)]
    pub minutes: u64,
    /// File for the curves as a drawing.
    #[arg(long)]
    pub svg: Option<PathBuf>,
}

impl GrowthArgs {
    pub(crate) fn check(&self) -> Result<()> {
        ensure!(self.shrink != Some(0), "--shrink must be at least 1");
        ensure!(self.seconds.is_none_or(seconds_ok), "--seconds must be above 0 and at most a day");
        ensure!(self.rounds.is_none_or(|r| (1..=99).contains(&r)), "--rounds must be 1 to 99");
        ensure!((1..=1000).contains(&self.connections), "--connections must be 1 to 1,000");
        ensure!((1..=600).contains(&self.minutes), "--minutes must be 1 to 600");
        ensure!(
            self.servers.pg.is_some() || !self.engine.contains(&Engine::Postgres),
            "--engine postgres needs --pg"
        );
        Ok(())
    }

    pub(crate) fn axes(&self) -> Vec<Axis> {
        let wanted = |axis: &Axis| self.axis.is_empty() || self.axis.contains(axis);
        Axis::value_variants().iter().copied().filter(wanted).collect()
    }

    pub(crate) fn engines(&self) -> Vec<Engine> {
        let there = |engine: &Engine| *engine == Engine::Embedded || self.servers.pg.is_some();
        let wanted = |engine: &Engine| self.engine.is_empty() || self.engine.contains(engine);
        Engine::value_variants().iter().copied().filter(there).filter(wanted).collect()
    }

    fn either<T>(&self, asked: Option<T>, full: T, quick: T) -> T {
        asked.unwrap_or(if self.quick { quick } else { full })
    }

    pub(crate) fn window(&self) -> f64 {
        self.either(self.seconds, 1.0, 0.2)
    }

    pub(crate) fn rounds(&self) -> usize {
        self.either(self.rounds, 3, 1)
    }

    pub(crate) fn scale(&self) -> u64 {
        self.either(self.shrink, 1, 100)
    }
}
