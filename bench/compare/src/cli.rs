//! The command line.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::campaign::{Plan, Who};
use crate::floors::Floor;
use crate::minutes;
use crate::peer::Window;
use crate::peers::Peer;

/// Compares Bugle with other queues and with the floors of this machine.
#[derive(Debug, Parser)]
#[command(name = "bugle-compare", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure and write the results.
    Run(RunArgs),
    /// Offer fixed rates to both engines, up to the knee and past it.
    Curve(CurveArgs),
    /// Let lanes, groups, backlog, waiters and payloads grow on both engines.
    Growth(GrowthArgs),
    /// Answer every HTTP request by a constant (used by `run`).
    #[command(hide = true)]
    Constant {
        #[arg(long)]
        items: usize,
    },
}

/// Which of Bugle's engines take part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Engine {
    Postgres,
    Embedded,
}

#[derive(Debug, Args)]
pub(crate) struct CurveArgs {
    /// The `bugle` program.
    #[arg(long)]
    pub(crate) server: PathBuf,
    /// Directory on the disk under test [default: the one for temporary files].
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
    /// Seconds of each measured window.
    #[arg(long, default_value_t = 4.0)]
    pub(crate) seconds: f64,
    /// Messages per request; a curve for each.
    #[arg(long, default_value = "1,100")]
    pub(crate) batches: String,
    /// File for the tables.
    #[arg(long)]
    pub(crate) results: PathBuf,
    /// File for the drawing.
    #[arg(long)]
    pub(crate) svg: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct GrowthArgs {
    /// The `bugle` program.
    #[arg(long)]
    pub(crate) server: PathBuf,
    /// Directory on the disk under test [default: the one for temporary files].
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
    /// File for the tables.
    #[arg(long)]
    pub(crate) results: PathBuf,
    /// File for the drawing.
    #[arg(long)]
    pub(crate) svg: PathBuf,
    /// Options of `bugle-bench growth`, as `--axis lanes --engine embedded --quick`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) rest: Vec<std::ffi::OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Seconds of each measured window [default: 1.5, with --quick 0.7].
    #[arg(long)]
    seconds: Option<f64>,
    /// Times everything is measured; the median counts [default: 3, with --quick 1].
    #[arg(long)]
    repetitions: Option<usize>,
    /// Only these systems beside Bugle; may be repeated [default: all].
    #[arg(long, value_enum)]
    peer: Vec<Peer>,
    /// Only this engine of Bugle; may be repeated [default: both].
    #[arg(long, value_enum)]
    engine: Vec<Engine>,
    /// Leave the floors out.
    #[arg(long)]
    no_floors: bool,
    /// One short round, to see that everything works.
    #[arg(long)]
    quick: bool,
    /// Messages per request.
    #[arg(long, value_delimiter = ',', default_value = "1,10,100")]
    batches: Vec<usize>,
    /// Connections, each with one request in flight.
    #[arg(long, value_delimiter = ',', default_value = "16,64")]
    connections: Vec<usize>,
    /// Start nothing new after so many minutes [default: 24, with --quick 5].
    #[arg(long)]
    minutes: Option<u64>,
    /// Directory on the disk under test, for the data of all systems [default: the one for temporary files].
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
    /// The `bugle` program.
    #[arg(long)]
    pub(crate) server: PathBuf,
    /// Where the packages of `bench/peers/package.json` are installed.
    #[arg(long)]
    pub(crate) node_modules: PathBuf,
    /// The folder `bench/peers`.
    #[arg(long)]
    pub(crate) scripts: PathBuf,
    /// File for the tables.
    #[arg(long)]
    pub(crate) results: PathBuf,
    /// File for the chart.
    #[arg(long)]
    pub(crate) chart: PathBuf,
}

impl RunArgs {
    pub(crate) fn plan(&self, now: Instant) -> Result<Plan> {
        let either = |asked: Option<f64>, full, quick| asked.unwrap_or(if self.quick { quick } else { full });
        let seconds = either(self.seconds, 1.5, 0.7);
        ensure!((0.1..=60.0).contains(&seconds), "--seconds must be 0.1 to 60");
        let repetitions = self.repetitions.unwrap_or(if self.quick { 1 } else { 3 });
        ensure!((1..=99).contains(&repetitions), "--repetitions must be 1 to 99");
        let counts = self.batches.iter().chain(&self.connections);
        ensure!(
            counts.clone().all(|n| (1..=1000).contains(n)),
            "--batches and --connections must be 1 to 1,000"
        );
        let limit = self.minutes.unwrap_or(if self.quick { 5 } else { 24 });
        ensure!((1..=600).contains(&limit), "--minutes must be 1 to 600");
        Ok(Plan {
            who: self.who(),
            batches: self.batches.clone(),
            connections: self.connections.clone(),
            repetitions,
            window: Window { warmup: Duration::from_millis(400), measured: Duration::from_secs_f64(seconds) },
            deadline: now + minutes(limit),
        })
    }

    fn who(&self) -> Vec<Who> {
        let engine = |engine| self.engine.is_empty() || self.engine.contains(&engine);
        let wanted = |peer: &Peer| match peer {
            Peer::BuglePostgres => engine(Engine::Postgres),
            Peer::BugleEmbedded => engine(Engine::Embedded),
            other => self.peer.is_empty() || self.peer.contains(other),
        };
        let peers = Peer::value_variants().iter().copied().filter(wanted).map(Who::Peer);
        let floors = Floor::ALL.into_iter().filter(|_| !self.no_floors).map(Who::Floor);
        peers.chain(floors).collect()
    }
}
