//! A load generator for any server that speaks the `/api/v1` protocol over HTTP/1.1, and for waiters over HTTP/2.
//!
//! It usually shares two cores with the server and its database, so what it costs per message is noise in every figure it
//! reports: requests are assembled by hand into reused buffers and answers are skimmed as bytes, never parsed into trees.

mod cli;
mod cli_growth;
mod cli_open;
mod cli_servers;
mod cli_wait;
mod client;
mod content;
mod datagrams;
mod ids;
mod moment;
mod postgres;
mod probe;
mod samples;
mod scan;
mod schedule;
mod stats;
mod svg;

mod fsyncs;
mod offer;

mod body;
mod commits;
mod correlate;
mod h2c;
mod verify;

mod answer;
mod gauge;
mod line;
mod observe;
mod setup;
mod waiters;

mod rest;

mod launch;

mod drain;
mod preload;

mod consumer;
mod producer;

mod matrix_rig;

mod matrix_rows;

mod calls;
mod idle;
mod lists;
mod matrix;
mod open;
mod pop;
mod push;
mod starve;
mod wake;

mod capacity;
mod curve;
mod curve_report;
mod yardstick;

mod growth;

pub use cli::{AckStyle, Cli, Command, Common, PopArgs, PopMode, PushArgs, Spread};
pub use cli_growth::{Axis, Engine, GrowthArgs};
pub use cli_open::{CurveArgs, OpenArgs};
pub use cli_servers::{CallsArgs, ListsArgs, MatrixArgs, Servers, StarveArgs};
pub use content::{Content, Identity};
pub use launch::{Place, Server};
pub use probe::{CpuSnapshot, cpu, fdatasync_median_ms, own_cpu};
pub use svg::{Anchor, Drawing};

pub use cli_wait::{CapacityArgs, IdleArgs, Reach, WakeArgs, Watch};

use anyhow::Result;
use serde_json::Value;

/// What a run produced: the line to print and whether it may be believed.
#[derive(Debug)]
pub struct Outcome {
    /// The whole report, one JSON object.
    pub json: Value,
    /// False when something was lost, doubled, reordered, damaged, or when nothing was measured at all.
    pub ok: bool,
    /// Printed instead of the JSON by commands that make a table.
    pub table: Option<String>,
}

/// Runs one command to its end.
pub async fn run(cli: Cli) -> Result<Outcome> {
    let local = tokio::task::LocalSet::new();
    local
        .run_until(async {
            match cli.command {
                Command::Push(args) => Box::pin(push::run(args)).await,
                Command::Pop(args) => Box::pin(pop::run(args)).await,
                Command::Wake(args) => Box::pin(wake::run(args)).await,
                Command::Idle(args) => Box::pin(idle::run(args)).await,
                Command::Capacity(args) => Box::pin(capacity::run(args)).await,
                Command::Matrix(args) => Box::pin(matrix::run(args)).await,
                Command::Starve(args) => Box::pin(starve::run(args)).await,
                Command::Calls(args) => Box::pin(calls::run(args)).await,
                Command::Lists(args) => Box::pin(lists::run(args)).await,
                Command::Open(args) => Box::pin(open::run(args)).await,
                Command::Curve(args) => Box::pin(curve::run(args)).await,
                Command::Growth(args) => Box::pin(growth::run(args)).await,
            }
        })
        .await
}
