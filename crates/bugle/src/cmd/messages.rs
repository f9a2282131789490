//! `bugle messages`: look at messages without consuming them.

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde_json::value::RawValue;

use crate::connection::ConnectionArgs;
use crate::moment::Moment;
use crate::output::{Column, Kind, OutputArgs};

/// What has become of a message.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Status {
    Pending,
    Processing,
    Completed,
    DeadLetter,
}

/// Arguments of `bugle messages`.
#[derive(Debug, Args)]
pub(crate) struct MessagesArgs {
    /// Only of this queue
    queue: Option<String>,
    /// Only of this partition
    #[arg(long, short, value_name = "NAME")]
    partition: Option<String>,
    /// Only those of which this has become
    #[arg(long, short, value_enum)]
    status: Option<Status>,
    /// Pushed from this moment on [default: 1h]
    #[arg(long, value_name = "MOMENT")]
    from: Option<Moment>,
    /// Pushed before this moment
    #[arg(long, value_name = "MOMENT")]
    to: Option<Moment>,
    /// At most so many
    #[arg(long, short = 'n', default_value_t = 50, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Leave out the first so many
    #[arg(long, default_value_t = 0, value_name = "N")]
    offset: u32,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
}

const COLUMNS: [Column; 7] = [
    Column("PUSHED", "/createdAt", Kind::Text),
    Column("QUEUE", "/queue", Kind::Text),
    Column("PARTITION", "/partition", Kind::Text),
    Column("STATUS", "/status", Kind::Text),
    Column("TRANSACTION ID", "/transactionId", Kind::Text),
    Column("PARTITION ID", "/partitionId", Kind::Text),
    Column("PAYLOAD", "/data", Kind::Json),
];

/// `bugle messages`.
pub(crate) async fn run(args: MessagesArgs) -> Result<()> {
    let status = args.status.map(|status| match status {
        Status::Pending => "pending",
        Status::Processing => "processing",
        Status::Completed => "completed",
        Status::DeadLetter => "dead_letter",
    });
    let (limit, offset) = (args.limit.to_string(), args.offset.to_string());
    let (from, to) = (args.from.map(Moment::spelled), args.to.map(Moment::spelled));
    let asked = [
        ("queue", args.queue.as_deref()),
        ("partition", args.partition.as_deref()),
        ("status", status),
        ("from", from.as_deref()),
        ("to", to.as_deref()),
        ("limit", Some(&limit)),
        ("offset", Some(&offset)),
    ];
    let query: Vec<(&str, &str)> =
        asked.iter().filter_map(|(name, value)| Some((*name, (*value)?))).collect();
    let client = args.connection.client()?;
    let answer: Box<RawValue> = client.read_json(&["api", "v1", "messages"], &query).await?;
    args.output.list(&answer, Some("messages"), &COLUMNS).map(drop)
}
