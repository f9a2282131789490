//! `bugle queues`: all queues with what they hold.

use anyhow::Result;
use clap::Args;
use serde_json::value::RawValue;

use crate::connection::ConnectionArgs;
use crate::output::{Column, Kind, OutputArgs};

/// Arguments of `bugle queues`.
#[derive(Debug, Args)]
pub(crate) struct QueuesArgs {
    /// Only those with this text in their name
    search: Option<String>,
    /// Only those of this namespace
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// Only those of this task
    #[arg(long, value_name = "NAME")]
    task: Option<String>,
    /// At most so many [default: all]
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
    /// Leave out the first so many
    #[arg(long, value_name = "N")]
    offset: Option<u32>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
}

const COLUMNS: [Column; 7] = [
    Column("QUEUE", "/name", Kind::Text),
    Column("PARTITIONS", "/partitions", Kind::Number),
    Column("MESSAGES", "/messages/total", Kind::Number),
    Column("PENDING", "/messages/pending", Kind::Number),
    Column("PROCESSING", "/messages/processing", Kind::Number),
    Column("DEAD", "/messages/deadLetter", Kind::Number),
    Column("CREATED", "/createdAt", Kind::Text),
];

/// `bugle queues`.
pub(crate) async fn run(args: QueuesArgs) -> Result<()> {
    let (limit, offset) = (args.limit.map(|n| n.to_string()), args.offset.map(|n| n.to_string()));
    let asked = [
        ("search", args.search.as_deref()),
        ("namespace", args.namespace.as_deref()),
        ("task", args.task.as_deref()),
        ("limit", limit.as_deref()),
        ("offset", offset.as_deref()),
    ];
    let query: Vec<(&str, &str)> =
        asked.iter().filter_map(|(name, value)| Some((*name, (*value)?))).collect();
    let answer: Box<RawValue> =
        args.connection.client()?.read_json(&["api", "v1", "resources", "queues"], &query).await?;
    args.output.list(&answer, Some("queues"), &COLUMNS).map(drop)
}
