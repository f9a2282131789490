//! The command line. Every value that changes a figure is an option and is repeated in the report.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::cli_growth::GrowthArgs;
use crate::cli_open::{CurveArgs, OpenArgs};
use crate::cli_servers::{CallsArgs, ListsArgs, MatrixArgs, StarveArgs};
use crate::cli_wait::{CapacityArgs, IdleArgs, WakeArgs};
use crate::content::Content;

/// Load generator for servers speaking the `/api/v1` queue protocol.
#[derive(Debug, Clone, Parser)]
#[command(name = "bugle-bench", version)]
pub struct Cli {
    /// What to measure.
    #[command(subcommand)]
    pub command: Command,
}

/// The measurements there are.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Push messages for a fixed time.
    Push(PushArgs),
    /// Fill a queue, then measure claim and ack, and check every message that comes back.
    Pop(PopArgs),
    /// Push at a fixed rate to waiting consumers and time each delivery.
    Wake(WakeArgs),
    /// Let many consumers wait for nothing and see what that costs.
    Idle(IdleArgs),
    /// Both of these for a fixed list of sizes, as a markdown table.
    Capacity(CapacityArgs),
    /// For each thing that makes a message due on one server, time its delivery to a waiter on another.
    Matrix(MatrixArgs),
    /// Compare the rates of push, ack and transaction without and with parked waiters.
    Starve(StarveArgs),
    /// Count the store calls of pops that come together, of a burst, and of one message for many consumers.
    Calls(CallsArgs),
    /// Time the lists of all queues and groups on a server with many of them.
    Lists(ListsArgs),
    /// Push at a fixed rate and time each request from the moment it was due.
    Open(OpenArgs),
    /// Do so at rates up to the knee and past it, on each engine: a table and a drawing.
    Curve(CurveArgs),
    /// Measure what a message costs as lanes, groups, backlog, waiters or payloads grow, on each engine.
    Growth(GrowthArgs),
}

/// Options that mean the same in every command.
#[derive(Debug, Clone, Args)]
pub struct Common {
    /// Where the server listens.
    #[arg(long, alias = "server", env = "BUGLE_SERVER", default_value = "http://127.0.0.1:6632")]
    pub url: String,
    /// Bearer token, for servers with authentication switched on.
    #[arg(long, env = "BUGLE_API_KEY", hide_env_values = true)]
    pub token: Option<String>,
    /// Queue to use; a fresh random name when absent.
    #[arg(long)]
    pub queue: Option<String>,
    /// Messages per request.
    #[arg(long, default_value_t = 100)]
    pub batch: usize,
    /// Connections, each with one request in flight.
    #[arg(long, default_value_t = 16)]
    pub connections: usize,
    /// Lanes the messages are spread over.
    #[arg(long, default_value_t = 100)]
    pub partitions: u32,
    /// Exact size of each message's JSON payload.
    #[arg(long, default_value_t = 256)]
    pub payload_bytes: usize,
    /// Fill payloads with words and numbers, which compress about as JSON does, instead of random characters, which do not.
    #[arg(long)]
    pub words: bool,
    /// Process whose CPU and memory (with its children) are reported; may be repeated.
    #[arg(long)]
    pub pid: Vec<u32>,
    /// Directory on the disk under test, for the fdatasync probe.
    #[arg(long, default_value = ".")]
    pub fsync_dir: PathBuf,
    /// Give up on a request after this long.
    #[arg(long, default_value_t = 30.0)]
    pub timeout_seconds: f64,
    /// Accept the status codes of 0.15 servers: 200 for a push, 200 with no messages for an empty pop.
    #[arg(long)]
    pub legacy_status: bool,
}

impl Common {
    /// The queue to use, checked to need no escaping in a path or in JSON.
    pub(crate) fn queue_name(&self) -> Result<String> {
        plain_name(self.queue.clone().unwrap_or_else(|| format!("bench-{:08x}", fastrand::u32(..))))
    }

    /// What the messages contain.
    pub(crate) fn content(&self) -> Result<Content> {
        let run = fastrand::u64(..);
        if self.words {
            Content::of_words(run, self.payload_bytes)
        } else {
            Content::new(run, self.payload_bytes)
        }
    }

    /// The processes whose cost is reported: those asked for and, last, the generator itself.
    pub(crate) fn watched(&self) -> Vec<u32> {
        self.pid.iter().copied().chain([std::process::id()]).collect()
    }

    /// Refuses values no run can be made of.
    pub(crate) fn check(&self) -> Result<()> {
        ensure!(self.batch > 0, "--batch must be at least 1");
        ensure!(self.connections > 0, "--connections must be at least 1");
        ensure!(self.partitions > 0, "--partitions must be at least 1");
        ensure!(seconds_ok(self.timeout_seconds), "--timeout-seconds must be above 0 and at most a day");
        Ok(())
    }
}

/// Refuses names that would need escaping in a path or in JSON.
pub(crate) fn plain_name(name: String) -> Result<String> {
    let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
    ensure!(plain && !name.is_empty(), "--queue: only letters, digits, '-', '_' and '.' are allowed");
    Ok(name)
}

/// True for a time span a run can wait for.
pub(crate) fn seconds_ok(seconds: f64) -> bool {
    seconds > 0.0 && seconds <= 86_400.0
}

/// Options of `push`.
#[derive(Debug, Clone, Args)]
pub struct PushArgs {
    /// Options shared with the other commands.
    #[command(flatten)]
    pub common: Common,
    /// Whether a request addresses one lane or each of its items the next one.
    #[arg(long, value_enum, default_value_t = Spread::Request)]
    pub spread: Spread,
    /// Length of the measured window.
    #[arg(long, default_value_t = 10.0)]
    pub seconds: f64,
    /// Load applied before the window opens.
    #[arg(long, default_value_t = 2.0)]
    pub warmup_seconds: f64,
}

/// How the items of a push meet the lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Spread {
    /// All items of a request go to one lane.
    Request,
    /// Each item goes to the next lane.
    Item,
}

/// Options of `pop`.
#[derive(Debug, Clone, Args)]
pub struct PopArgs {
    /// Options shared with the other commands.
    #[command(flatten)]
    pub common: Common,
    /// Messages to preload; when absent, enough for `--seconds` at a rate measured on a small queue first.
    #[arg(long)]
    pub messages: Option<u64>,
    /// Upper bound of what is preloaded when `--messages` is absent.
    #[arg(long, default_value_t = 3_000_000)]
    pub max_messages: u64,
    /// Consecutive messages of one lane in a preload request.
    #[arg(long, default_value_t = 100)]
    pub preload_run: usize,
    /// Stop after this long even if messages remain [default: 10, or until drained with `--messages`].
    #[arg(long)]
    pub seconds: Option<f64>,
    /// Which pop route is used.
    #[arg(long, value_enum, default_value_t = PopMode::Queue)]
    pub mode: PopMode,
    /// Which messages of an answer are acknowledged.
    #[arg(long, value_enum, default_value_t = AckStyle::All)]
    pub ack: AckStyle,
    /// Let the server commit at delivery; nothing is acknowledged.
    #[arg(long)]
    pub auto_ack: bool,
    /// The `partitions` query: lanes one wildcard pop may claim.
    #[arg(long, default_value_t = 1)]
    pub claim_partitions: u32,
    /// Consumer groups, each of which must get everything; 0 = queue mode, without a group.
    #[arg(long, default_value_t = 0)]
    pub groups: usize,
    /// Lease length the queue is configured with.
    #[arg(long, default_value_t = 60)]
    pub lease_seconds: u32,
    /// A group that gets nothing but empty answers for this long is taken as drained.
    #[arg(long, default_value_t = 5.0)]
    pub idle_seconds: f64,
}

impl PopArgs {
    /// Refuses combinations that cannot work.
    pub(crate) fn check(&self) -> Result<()> {
        self.common.check()?;
        ensure!(self.messages != Some(0), "--messages must be at least 1");
        ensure!(self.max_messages > 0, "--max-messages must be at least 1");
        ensure!(self.preload_run > 0, "--preload-run must be at least 1");
        ensure!(self.seconds.is_none_or(seconds_ok), "--seconds must be above 0 and at most a day");
        ensure!(seconds_ok(self.idle_seconds), "--idle-seconds must be above 0 and at most a day");
        ensure!(
            self.groups <= self.common.connections,
            "--groups: each group needs a connection ({} groups, {} connections)",
            self.groups,
            self.common.connections
        );
        Ok(())
    }
}

/// The pop routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PopMode {
    /// `/pop/queue/q/partition/p`, each connection cycling over its lanes.
    Direct,
    /// `/pop/queue/q`.
    Queue,
    /// `/pop?namespace=n`.
    Filter,
}

/// What an ack names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AckStyle {
    /// Every message of the answer.
    All,
    /// The last message of each lane of the answer, which commits those before it.
    Last,
}
