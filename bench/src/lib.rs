//! A load generator for any server that speaks the `/api/v1` protocol over HTTP/1.1.
//!
//! It usually shares two cores with the server and its database, so what it costs per message is noise in every figure it
//! reports: requests are assembled by hand into reused buffers and answers are skimmed as bytes, never parsed into trees.

mod cli;
mod client;
mod content;
mod ids;
mod probe;
mod scan;
mod stats;

mod body;
mod verify;

mod answer;

mod drain;
mod preload;

mod pop;
mod push;

pub use cli::{AckStyle, Cli, Command, Common, PopArgs, PopMode, PushArgs, Spread};

use anyhow::Result;
use serde_json::Value;

/// What a run produced: the line to print and whether it may be believed.
#[derive(Debug)]
pub struct Outcome {
    /// The whole report, one JSON object.
    pub json: Value,
    /// False when something was lost, doubled, reordered, damaged, or when nothing was measured at all.
    pub ok: bool,
}

/// Runs one command to its end.
pub async fn run(cli: Cli) -> Result<Outcome> {
    let local = tokio::task::LocalSet::new();
    local
        .run_until(async {
            match cli.command {
                Command::Push(args) => Box::pin(push::run(args)).await,
                Command::Pop(args) => Box::pin(pop::run(args)).await,
            }
        })
        .await
}
