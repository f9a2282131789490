//! The options of the commands that wait: `wake`, `idle` and `capacity`.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::{ArgAction, Args};

use crate::cli::{plain_name, seconds_ok};
use crate::line::MAX_HTTP1_WAITERS;

/// How the server is reached.
#[derive(Debug, Clone, Args)]
pub struct Reach {
    /// Where the server listens.
    #[arg(long, alias = "server", env = "BUGLE_SERVER", default_value = "http://127.0.0.1:6632")]
    pub url: String,
    /// Bearer token, for servers with authentication switched on.
    #[arg(long, env = "BUGLE_API_KEY", hide_env_values = true)]
    pub token: Option<String>,
    /// Beginning of the names of the queues used; fresh and random when absent.
    #[arg(long)]
    pub queue: Option<String>,
    /// Wait on streams of shared HTTP/2 connections instead of one HTTP/1.1 connection per waiter.
    #[arg(long)]
    pub h2: bool,
    /// Streams per HTTP/2 connection; the server's own limit if that is lower.
    #[arg(long, default_value_t = 500)]
    pub streams_per_connection: usize,
    /// How fast waiters are started.
    #[arg(long, default_value_t = 2000.0)]
    pub starts_per_second: f64,
}

impl Reach {
    /// The beginning of the queue names, checked to need no escaping in a path or in JSON.
    pub(crate) fn prefix(&self) -> Result<String> {
        plain_name(self.queue.clone().unwrap_or_else(|| format!("wait-{:08x}", fastrand::u32(..))))
    }

    /// Streams per connection, if HTTP/2 is asked for.
    pub(crate) fn streams(&self) -> Option<usize> {
        self.h2.then_some(self.streams_per_connection)
    }

    pub(crate) fn check(&self, waiters: usize) -> Result<()> {
        ensure!(self.streams_per_connection > 0, "--streams-per-connection must be at least 1");
        ensure!(
            self.starts_per_second > 0.0 && self.starts_per_second.is_finite(),
            "--starts-per-second must be above 0"
        );
        ensure!(
            self.h2 || waiters <= MAX_HTTP1_WAITERS,
            "{waiters} waiters need --h2: above {MAX_HTTP1_WAITERS} a connection each runs out of descriptors"
        );
        Ok(())
    }
}

/// What is observed meanwhile.
#[derive(Debug, Clone, Args)]
pub struct Watch {
    /// The server's process: its CPU and memory are reported.
    #[arg(long)]
    pub pid: Option<u32>,
    /// The database's first process: the CPU of its whole tree is reported.
    #[arg(long)]
    pub pg_pid: Option<u32>,
    /// DSN of the server's PostgreSQL, to count the statements of `--pg-role`.
    #[arg(long, requires = "pg_role")]
    pub pg: Option<String>,
    /// The role the server connects as.
    #[arg(long)]
    pub pg_role: Option<String>,
}

/// Options of `wake`.
#[derive(Debug, Clone, Args)]
pub struct WakeArgs {
    /// How the server is reached.
    #[command(flatten)]
    pub reach: Reach,
    /// What is observed meanwhile.
    #[command(flatten)]
    pub watch: Watch,
    /// Where the waiters wait, when not at `--url`; may be repeated.
    #[arg(long)]
    pub pop_url: Vec<String>,
    /// Waiters, spread evenly over all queues and groups.
    #[arg(long, default_value_t = 1)]
    pub waiters: usize,
    /// Queues that get messages.
    #[arg(long, default_value_t = 1)]
    pub queues: usize,
    /// Consumer groups, each of which must get everything; 0 = queue mode, without a group.
    #[arg(long, default_value_t = 1)]
    pub groups: usize,
    /// Lanes of each queue the producers go through in turn.
    #[arg(long, default_value_t = 1)]
    pub partitions: u32,
    /// Messages per second, over all producers.
    #[arg(long, default_value_t = 200.0)]
    pub rate: f64,
    /// Connections of the producers; more pushes than this are never under way at once.
    #[arg(long, default_value_t = 16)]
    pub producers: usize,
    /// Length of the measured window.
    #[arg(long, default_value_t = 20.0)]
    pub seconds: f64,
    /// Load applied before the window opens; its messages are checked but not timed.
    #[arg(long, alias = "warmup", default_value_t = 2.0)]
    pub warmup_seconds: f64,
    /// Pause between the last waiter's first request and the first push.
    #[arg(long, alias = "settle", default_value_t = 1.0)]
    pub settle_seconds: f64,
    /// Waiters parked on queues that never get a message.
    #[arg(long, default_value_t = 0)]
    pub other_waiters: usize,
    /// Queues of the other waiters [default: 1,000, or as many as there are other waiters].
    #[arg(long)]
    pub other_queues: Option<usize>,
    /// The `timeout` of the pops.
    #[arg(long, default_value_t = 30_000)]
    pub timeout_ms: u64,
    /// The `batch` of the pops.
    #[arg(long, default_value_t = 10)]
    pub batch: usize,
    /// Let the server commit at delivery; with `false` each answer is acknowledged before the next pop.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, default_value_t = true, default_missing_value = "true")]
    pub auto_ack: bool,
    /// Exact size of each message's JSON payload.
    #[arg(long, default_value_t = 256)]
    pub payload_bytes: usize,
    /// How long to wait for what is still owed after the last push.
    #[arg(long, default_value_t = 30.0)]
    pub drain_seconds: f64,
    /// How long to go on after that, to see what comes twice.
    #[arg(long, default_value_t = 1.0)]
    pub linger_seconds: f64,
    /// Directory on the disk under test, for the fdatasync probe.
    #[arg(long, default_value = ".")]
    pub fsync_dir: PathBuf,
}

impl WakeArgs {
    pub(crate) fn other_queues(&self) -> usize {
        self.other_queues.unwrap_or(1000).min(self.other_waiters)
    }

    pub(crate) fn check(&self) -> Result<()> {
        self.reach.check(self.waiters.saturating_add(self.other_waiters))?;
        ensure!(self.queues > 0, "--queues must be at least 1");
        ensure!(self.partitions > 0, "--partitions must be at least 1");
        ensure!(self.producers > 0, "--producers must be at least 1");
        ensure!(self.batch > 0, "--batch must be at least 1");
        ensure!(self.timeout_ms > 0, "--timeout-ms must be at least 1");
        ensure!(self.other_queues != Some(0), "--other-queues must be at least 1");
        let keys = self.queues.saturating_mul(self.groups.max(1));
        ensure!(self.waiters >= keys, "--waiters: each queue and group needs one ({keys})");
        ensure!(seconds_ok(self.seconds), "--seconds must be above 0 and at most a day");
        span_ok("--warmup-seconds", self.warmup_seconds)?;
        span_ok("--settle-seconds", self.settle_seconds)?;
        span_ok("--drain-seconds", self.drain_seconds)?;
        span_ok("--linger-seconds", self.linger_seconds)?;
        ensure!(self.rate > 0.0 && self.rate <= 1e6, "--rate must be above 0 and at most a million");
        let booked = self.rate * (self.seconds + self.warmup_seconds) * self.groups.max(1) as f64;
        ensure!(
            booked <= 5e7,
            "--rate, --seconds and --groups: more than 50 million deliveries to keep in mind"
        );
        Ok(())
    }
}

/// Options of `idle`.
#[derive(Debug, Clone, Args)]
pub struct IdleArgs {
    /// How the server is reached.
    #[command(flatten)]
    pub reach: Reach,
    /// What is observed meanwhile.
    #[command(flatten)]
    pub watch: Watch,
    /// Waiters, spread evenly over the keys.
    #[arg(long, default_value_t = 5000)]
    pub waiters: usize,
    /// Different pairs of queue and group that are waited for.
    #[arg(long, default_value_t = 2000)]
    pub keys: usize,
    /// Queues the keys are spread over [default: one per key].
    #[arg(long)]
    pub queues: Option<usize>,
    /// Every waiter asks again after this long; it is the `timeout` of the pops.
    #[arg(long, default_value_t = 30.0)]
    pub repoll_seconds: f64,
    /// Length of the measured window.
    #[arg(long, default_value_t = 60.0)]
    pub seconds: f64,
    /// Pause between the last waiter's first request and the window.
    #[arg(long, alias = "settle", default_value_t = 10.0)]
    pub settle_seconds: f64,
    /// Afterwards close all connections and report how soon the server has forgotten the waiters.
    #[arg(long)]
    pub depart: bool,
}

impl IdleArgs {
    pub(crate) fn check(&self) -> Result<()> {
        self.reach.check(self.waiters)?;
        ensure!(self.waiters > 0, "--waiters must be at least 1");
        ensure!(self.keys > 0, "--keys must be at least 1");
        ensure!(self.keys <= self.waiters, "--keys: each needs a waiter ({} waiters)", self.waiters);
        let queues = self.queues.unwrap_or(self.keys);
        ensure!(queues > 0 && queues <= self.keys, "--queues must be 1 to the number of --keys");
        ensure!(seconds_ok(self.seconds), "--seconds must be above 0 and at most a day");
        ensure!(
            self.repoll_seconds >= 0.001 && seconds_ok(self.repoll_seconds),
            "--repoll-seconds must be a millisecond to a day"
        );
        span_ok("--settle-seconds", self.settle_seconds)
    }
}

/// Options of `capacity`.
#[derive(Debug, Clone, Args)]
pub struct CapacityArgs {
    /// How the server is reached.
    #[command(flatten)]
    pub reach: Reach,
    /// What is observed meanwhile.
    #[command(flatten)]
    pub watch: Watch,
    /// Length of each row's idle window.
    #[arg(long, default_value_t = 10.0)]
    pub idle_seconds: f64,
    /// Pause before each idle window: the first polls of thousands of waiters keep a server busy for seconds.
    #[arg(long, alias = "settle", default_value_t = 10.0)]
    pub settle_seconds: f64,
    /// Length of each row's wake window.
    #[arg(long, default_value_t = 10.0)]
    pub wake_seconds: f64,
    /// Messages per second while waking.
    #[arg(long, default_value_t = 200.0)]
    pub rate: f64,
    /// Leave out rows with more waiters than this.
    #[arg(long, default_value_t = usize::MAX, hide_default_value = true)]
    pub max_waiters: usize,
    /// Directory on the disk under test, for the fdatasync probe.
    #[arg(long, default_value = ".")]
    pub fsync_dir: PathBuf,
}

fn span_ok(name: &str, seconds: f64) -> Result<()> {
    ensure!(seconds == 0.0 || seconds_ok(seconds), "{name} must be 0 to a day");
    Ok(())
}
