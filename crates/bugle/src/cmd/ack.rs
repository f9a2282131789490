//! `bugle ack`: say what became of a message that was popped.

use anyhow::{Context, Result, bail};
use bugle_client::{Ack, Verdict};
use clap::{Args, ValueEnum};
use serde_json::json;
use uuid::Uuid;

use crate::connection::ConnectionArgs;
use crate::output::OutputArgs;

/// What became of it.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Status {
    /// It is done, and with it every earlier message of its partition.
    Completed,
    /// It failed: it comes again until the queue's retryLimit makes it a dead letter.
    Failed,
    /// It is given back without blame.
    Retry,
    /// It becomes a dead letter now.
    Dlq,
}

/// Arguments of `bugle ack`.
#[derive(Debug, Args)]
pub(crate) struct AckArgs {
    /// The message's partitionId, as pop prints it
    partition_id: Uuid,
    /// The message's transactionId
    transaction_id: String,
    /// Its leaseId: turned down if the lease is over
    #[arg(long, short, value_name = "ID")]
    lease: Option<Uuid>,
    /// Consumer group it was popped for
    #[arg(long, short, value_name = "NAME")]
    group: Option<String>,
    /// What became of it
    #[arg(long, short, value_enum, default_value_t = Status::Completed)]
    status: Status,
    /// Why it failed
    #[arg(long, short, value_name = "TEXT")]
    error: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// `bugle ack`.
pub(crate) async fn run(args: AckArgs) -> Result<()> {
    let error = args.error.unwrap_or_else(|| "said so by bugle ack".to_owned());
    let verdict = match args.status {
        Status::Completed => Verdict::Completed,
        Status::Failed => Verdict::Failed(error),
        Status::Retry => Verdict::Retry,
        Status::Dlq => Verdict::DeadLetter(error),
    };
    let mut ack = Ack::by_id(args.transaction_id, args.partition_id, verdict);
    if let Some(group) = args.group {
        ack = ack.group(group);
    }
    if let Some(lease) = args.lease {
        ack = ack.lease(lease);
    }
    let acked = args.connection.client()?.settle(&[ack]).await?.pop().context("no outcome")?;
    if !acked.success {
        let message = acked.error.unwrap_or_else(|| "no reason given".to_owned());
        bail!(bugle_client::Error::Rejected { message, reason: None });
    }
    let told = json!({"success": true, "dlq": acked.dead_lettered, "noop": acked.noop,
        "leaseReleased": acked.lease_released});
    let line = match (acked.dead_lettered, acked.noop) {
        (true, _) => "taken; it is a dead letter now\n",
        (_, true) => "taken; it had been done already\n",
        _ => "taken\n",
    };
    args.output.one(&told, line)
}
