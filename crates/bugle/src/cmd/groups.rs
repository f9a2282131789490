//! `bugle groups`: all consumer groups, one line for each queue that a group reads.

use anyhow::Result;
use clap::Args;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::connection::ConnectionArgs;
use crate::output::{self, Column, Format, Kind, OutputArgs};

/// Arguments of `bugle groups`.
#[derive(Debug, Args)]
pub(crate) struct GroupsArgs {
    /// Only those that read this queue
    #[arg(long, value_name = "QUEUE")]
    queue: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
}

const COLUMNS: [Column; 7] = [
    Column("GROUP", "/name", Kind::Text),
    Column("QUEUE", "/queueName", Kind::Text),
    Column("STATE", "/state", Kind::Text),
    Column("LAG", "/totalLag", Kind::Number),
    Column("BEHIND S", "/maxTimeLag", Kind::Number),
    Column("PARTITIONS", "/members", Kind::Number),
    Column("LAGGING", "/partitionsWithLag", Kind::Number),
];

/// `bugle groups`.
pub(crate) async fn run(args: GroupsArgs) -> Result<()> {
    let client = args.connection.client()?;
    let answer: Box<RawValue> = client.read_json(&["api", "v1", "consumer-groups"], &[]).await?;
    let Some(queue) = args.queue else {
        return args.output.list(&answer, None, &COLUMNS).map(drop);
    };
    let mut of_queue = Vec::new();
    for entry in output::entries(&answer, None)? {
        let value: Value = serde_json::from_str(entry.get())?;
        if value["queueName"] == queue.as_str() {
            of_queue.push(value);
        }
    }
    if args.output.output == Format::Table && of_queue.is_empty() {
        client.admin().queue(&queue).await?;
    }
    args.output.entries(&of_queue, &COLUMNS)
}
