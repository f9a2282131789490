//! `bugle trace`: a message and what was recorded on its way, or all that carries a trace name.

use anyhow::{Context, Result};
use clap::Args;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::connection::ConnectionArgs;
use crate::output::{Column, Format, Kind, Members, OutputArgs, cell, entries, facts, find, put};

/// Arguments of `bugle trace`.
#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    /// The message's partitionId
    #[arg(required_unless_present_any = ["name", "names"], requires = "transaction_id")]
    partition_id: Option<String>,
    /// The message's transactionId
    transaction_id: Option<String>,
    /// All events with this trace name, of all messages
    #[arg(long, value_name = "NAME", conflicts_with = "partition_id")]
    name: Option<String>,
    /// List the trace names there are
    #[arg(long, conflicts_with_all = ["name", "partition_id"])]
    names: bool,
    /// At most so many
    #[arg(long, short = 'n', default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
}

const EVENTS: [Column; 4] = [
    Column("AT", "/created_at", Kind::Text),
    Column("EVENT", "/event_type", Kind::Text),
    Column("GROUP", "/consumer_group", Kind::Text),
    Column("DATA", "/data", Kind::Json),
];
const NAMED: [Column; 6] = [
    Column("AT", "/created_at", Kind::Text),
    Column("EVENT", "/event_type", Kind::Text),
    Column("QUEUE", "/queue_name", Kind::Text),
    Column("PARTITION ID", "/partition_id", Kind::Text),
    Column("TRANSACTION ID", "/transaction_id", Kind::Text),
    Column("DATA", "/data", Kind::Json),
];
const NAMES: [Column; 4] = [
    Column("NAME", "/trace_name", Kind::Text),
    Column("EVENTS", "/trace_count", Kind::Number),
    Column("MESSAGES", "/message_count", Kind::Number),
    Column("LATEST", "/last_seen", Kind::Text),
];

/// `bugle trace`.
pub(crate) async fn run(args: TraceArgs) -> Result<()> {
    let client = args.connection.client()?;
    let limit = args.limit.to_string();
    let page = [("limit", limit.as_str())];
    if args.names {
        let answer: Box<RawValue> = client.read_json(&["api", "v1", "traces", "names"], &page).await?;
        return args.output.list(&answer, Some("trace_names"), &NAMES).map(drop);
    }
    if let Some(name) = &args.name {
        let path = ["api", "v1", "traces", "by-name", name];
        let answer: Box<RawValue> = client.read_json(&path, &page).await?;
        return args.output.list(&answer, Some("traces"), &NAMED).map(drop);
    }
    let (partition, transaction) = (
        args.partition_id.as_deref().unwrap_or_default(),
        args.transaction_id.as_deref().unwrap_or_default(),
    );
    let path = ["api", "v1", "messages", partition, transaction];
    let message: Box<RawValue> = client.read_json(&path, &[]).await?;
    let path = ["api", "v1", "traces", partition, transaction];
    let traces: Box<RawValue> = client.read_json(&path, &page).await?;
    match args.output.output {
        Format::Json => put(&format!("{{\"message\":{},\"events\":{}}}\n", message.get(), traces.get())),
        Format::Ndjson => args.output.list(&traces, Some("traces"), &EVENTS).map(drop),
        Format::Table => {
            put(&format!("{}\n", described(&message)?))?;
            args.output.list(&traces, Some("traces"), &EVENTS).map(drop)
        }
    }
}

/// The message and where each group is with it.
fn described(message: &RawValue) -> Result<String> {
    let members: Members<'_> = serde_json::from_str(message.get()).context("the message")?;
    let text = |at: &str| cell(find(&members, at), Kind::Text);
    let mut lines = vec![
        ("message", text("/id")),
        ("queue", text("/queue")),
        ("partition", text("/partition")),
        ("offset", text("/offset")),
        ("status", text("/status")),
        ("pushed", text("/createdAt")),
    ];
    if let Some(traceparent) = find(&members, "/traceparent") {
        lines.push(("trace context", cell(Some(traceparent), Kind::Text)));
    }
    let error = text("/errorMessage");
    if error != "-" {
        lines.push(("error", error));
        lines.push(("failed tries", text("/retryCount")));
    }
    for group in find(&members, "/consumerGroups").map_or(Ok(Vec::new()), |groups| entries(groups, None))? {
        let group: Value = serde_json::from_str(group.get())?;
        let name = group["name"].as_str().unwrap_or_default();
        let done = if group["consumed"] == true { "consumed" } else { "not consumed" };
        lines.push(("group", format!("{name}: {done}")));
    }
    lines.push(("payload", cell(find(&members, "/payload"), Kind::Json)));
    Ok(facts(&lines))
}
