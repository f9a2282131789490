//! `bugle group`: where a consumer group stands, sending it elsewhere, forgetting it.

use anyhow::{Result, bail};
use bugle_client::SeekTo;
use clap::{Args, Subcommand};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::confirm::ConfirmArgs;
use crate::connection::ConnectionArgs;
use crate::ending::End;
use crate::moment::Moment;
use crate::output::{Column, Format, Kind, OutputArgs, put};

/// What to do with it.
#[derive(Debug, Subcommand)]
pub(crate) enum GroupCommand {
    /// How far a group is, by queue and partition
    Describe(DescribeArgs),
    /// Send a group to another place of a queue: beginning, end, or behind what was pushed up to a moment
    Seek(SeekArgs),
    /// Forget a group: its next pop begins anew
    Delete(DeleteArgs),
}

/// Arguments of `bugle group describe`.
#[derive(Debug, Args)]
pub(crate) struct DescribeArgs {
    /// The group
    group: String,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Arguments of `bugle group seek`.
#[derive(Debug, Args)]
pub(crate) struct SeekArgs {
    /// The group
    group: String,
    /// The queue
    queue: String,
    /// Where to: beginning, end or a moment
    #[arg(long, value_name = "beginning|end|MOMENT", value_parser = place)]
    to: SeekTo,
    /// Only in this partition
    #[arg(long, short, value_name = "NAME")]
    partition: Option<String>,
    #[command(flatten)]
    confirm: ConfirmArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Arguments of `bugle group delete`.
#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    /// The group
    group: String,
    /// Only on this queue
    #[arg(long, value_name = "QUEUE")]
    queue: Option<String>,
    #[command(flatten)]
    confirm: ConfirmArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
}

const COLUMNS: [Column; 7] = [
    Column("QUEUE", "/queue", Kind::Text),
    Column("PARTITION", "/partition", Kind::Text),
    Column("CONSUMED", "/totalConsumed", Kind::Number),
    Column("LAG", "/offsetLag", Kind::Number),
    Column("BEHIND S", "/timeLagSeconds", Kind::Number),
    Column("LEASED", "/leaseActive", Kind::Text),
    Column("LAST", "/lastConsumedAt", Kind::Text),
];

fn place(text: &str) -> Result<SeekTo, String> {
    match text {
        "beginning" => Ok(SeekTo::Beginning),
        "end" => Ok(SeekTo::End),
        moment => moment.parse().map(|Moment(time)| SeekTo::Time(time)),
    }
}

/// `bugle group`.
pub(crate) async fn run(command: GroupCommand) -> Result<()> {
    match command {
        GroupCommand::Describe(args) => describe(args).await,
        GroupCommand::Seek(args) => seek(args).await,
        GroupCommand::Delete(args) => delete(args).await,
    }
}

async fn describe(args: DescribeArgs) -> Result<()> {
    let path = ["api", "v1", "consumer-groups", &args.group];
    let answer: Box<RawValue> = args.connection.client()?.read_json(&path, &[]).await?;
    let queues: serde_json::Map<String, Value> = serde_json::from_str(answer.get())?;
    if queues.is_empty() {
        bail!(End::NotFound(format!("no group is called {}; `bugle groups` lists them", args.group)));
    }
    if args.output.output == Format::Json {
        return put(&format!("{}\n", answer.get()));
    }
    let mut rows = Vec::new();
    for (queue, of_queue) in queues {
        for partition in of_queue["partitions"].as_array().into_iter().flatten() {
            let mut row = partition.clone();
            row["queue"] = queue.clone().into();
            rows.push(row);
        }
    }
    args.output.entries(&rows, &COLUMNS)
}

async fn seek(args: SeekArgs) -> Result<()> {
    let SeekArgs { group, queue, partition, .. } = &args;
    let what = match args.to {
        SeekTo::Beginning => format!("deliver everything in {queue} to group {group} again"),
        SeekTo::End => format!("skip everything in {queue} that group {group} has not consumed"),
        _ => format!("move group {group} on {queue}: messages are skipped or delivered again"),
    };
    args.confirm.ask(&what, group)?;
    let admin = args.connection.client()?.admin();
    let (told, line) = match partition {
        Some(partition) => {
            let next = admin.seek_partition(group, queue, partition, args.to).await?;
            let line =
                next.map_or_else(|| "moved\n".to_owned(), |next| format!("moved; offset {next} is next\n"));
            (json!({"partition": partition, "cursorMovedTo": next}), line)
        }
        None => {
            let moved = admin.seek(group, queue, args.to).await?;
            (json!({"partitionsUpdated": moved}), format!("moved in {moved} partitions\n"))
        }
    };
    args.output.one(&told, &line)
}

async fn delete(args: DeleteArgs) -> Result<()> {
    let admin = args.connection.client()?.admin();
    let known = admin.groups().await?;
    let on = |queue: &str| args.queue.as_deref().is_none_or(|only| only == queue);
    if !known.iter().any(|group| group.name == args.group && on(&group.queue_name)) {
        bail!(End::NotFound(format!("no group is called {} there; `bugle groups` lists them", args.group)));
    }
    let place = args.queue.as_ref().map_or_else(|| "all queues".to_owned(), |queue| format!("queue {queue}"));
    args.confirm.ask(&format!("forget where group {} is on {place}", args.group), &args.group)?;
    let partitions = admin.delete_group(&args.group, args.queue.as_deref()).await?;
    args.output.one(&json!({"deletedPartitions": partitions}), &format!("{} forgotten\n", args.group))
}
