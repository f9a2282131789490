//! `bugle queue`: configure, describe, clear and delete one queue.

use anyhow::{Context, Result, bail};
use bugle_client::QueueOptions;
use clap::{Args, Subcommand};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::confirm::ConfirmArgs;
use crate::connection::ConnectionArgs;
use crate::ending::End;
use crate::output::{Column, Format, Kind, OutputArgs, facts, put};

/// What to do with it.
#[derive(Debug, Subcommand)]
pub(crate) enum QueueCommand {
    /// Create a queue, or change its options
    ///
    /// Options are those of the API, such as leaseTime=60 (seconds), retryLimit=5, delayedProcessing=10, retentionEnabled=true,
    /// retentionSeconds=86400, enforce=retryDelay,priority. What is not named stays as it is. All of them are printed.
    Configure(ConfigureArgs),
    /// What a queue holds, by partition
    Describe(DescribeArgs),
    /// Remove all messages of a queue or of a partition; the queue, its options and its groups stay
    Clear(ClearArgs),
    /// Delete a queue with everything in it
    Delete(DeleteArgs),
}

/// Arguments of `bugle queue configure`.
#[derive(Debug, Args)]
pub(crate) struct ConfigureArgs {
    /// The queue
    queue: String,
    /// What to change
    #[arg(value_name = "OPTION=VALUE")]
    options: Vec<String>,
    /// Namespace to put it in
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// Task to put it under
    #[arg(long, value_name = "NAME")]
    task: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Arguments of `bugle queue describe`.
#[derive(Debug, Args)]
pub(crate) struct DescribeArgs {
    /// The queue
    queue: String,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Arguments of `bugle queue clear`.
#[derive(Debug, Args)]
pub(crate) struct ClearArgs {
    /// The queue
    queue: String,
    /// Only this partition
    #[arg(long, short, value_name = "NAME")]
    partition: Option<String>,
    #[command(flatten)]
    confirm: ConfirmArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Arguments of `bugle queue delete`.
#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    /// The queue
    queue: String,
    #[command(flatten)]
    confirm: ConfirmArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
}

const PARTITIONS: [Column; 6] = [
    Column("PARTITION", "/name", Kind::Text),
    Column("MESSAGES", "/stats/total", Kind::Number),
    Column("PENDING", "/stats/pending", Kind::Number),
    Column("PROCESSING", "/stats/processing", Kind::Number),
    Column("DEAD", "/stats/deadLetter", Kind::Number),
    Column("NEWEST", "/newestMessage", Kind::Text),
];

/// `bugle queue`.
pub(crate) async fn run(command: QueueCommand) -> Result<()> {
    match command {
        QueueCommand::Configure(args) => configure(args).await,
        QueueCommand::Describe(args) => describe(args).await,
        QueueCommand::Clear(args) => clear(args).await,
        QueueCommand::Delete(args) => delete(args).await,
    }
}

async fn configure(args: ConfigureArgs) -> Result<()> {
    let options = options(&args.options)?;
    let mut body = json!({"queue": args.queue, "options": options});
    for (name, value) in [("namespace", args.namespace), ("task", args.task)] {
        if let Some(value) = value {
            body[name] = value.into();
        }
    }
    let answer: Value = args.connection.client()?.send_json(&["api", "v1", "configure"], &body).await?;
    let echoed = answer["options"].as_object().context("the answer has no options")?;
    let lines: Vec<(&str, String)> =
        echoed.iter().map(|(name, value)| (name.as_str(), shown(value))).collect();
    args.output.one(&answer, &facts(&lines))
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// `leaseTime=60` or `lease-time=60`, checked by what the client knows of options.
fn options(given: &[String]) -> Result<QueueOptions> {
    let mut map = Map::new();
    for one in given {
        let Some((name, value)) = one.split_once('=') else {
            bail!(End::Usage(format!("{one:?} is no option: write it as leaseTime=60")));
        };
        let name = camel(name);
        let value = match (name.as_str(), serde_json::from_str(value)) {
            ("enforce", _) => value.split(',').filter(|part| !part.is_empty()).map(Value::from).collect(),
            (_, Ok(value)) => value,
            (_, Err(_)) => Value::from(value),
        };
        check(&name, &value).with_context(|| format!("option {name}"))?;
        map.insert(name, value);
    }
    Ok(serde_json::from_value(map.into())?)
}

/// One option by itself, so that it can be named.
fn check(name: &str, value: &Value) -> Result<(), End> {
    if value.is_null() {
        return Err(End::Usage("needs a value".to_owned()));
    }
    let read: Result<QueueOptions, _> = serde_json::from_value(json!({ name: value }));
    let known = read.map_err(|error| End::Usage(error.to_string()))?;
    if known == QueueOptions::default() {
        let text = "there is none of this name; `bugle queue configure QUEUE` prints all there are";
        return Err(End::Usage(text.to_owned()));
    }
    Ok(())
}

/// `lease-time` as `leaseTime`.
fn camel(name: &str) -> String {
    let mut parts = name.split('-');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| {
        let mut letters = part.chars();
        let head: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
        all + &head + letters.as_str()
    })
}

async fn describe(args: DescribeArgs) -> Result<()> {
    let path = ["api", "v1", "resources", "queues", &args.queue];
    let answer: Box<RawValue> = args.connection.client()?.read_json(&path, &[]).await?;
    if args.output.output != Format::Table {
        return args.output.list(&answer, Some("partitions"), &PARTITIONS).map(drop);
    }
    let detail: Value = serde_json::from_str(answer.get())?;
    let fact = |at: &str| detail.pointer(at).map_or_else(|| "-".to_owned(), shown);
    let mut lines = vec![
        ("queue", fact("/name")),
        ("namespace", fact("/namespace")),
        ("task", fact("/task")),
        ("created", fact("/createdAt")),
        ("messages", fact("/totals/total")),
        ("pending", fact("/totals/pending")),
        ("processing", fact("/totals/processing")),
        ("completed", fact("/totals/completed")),
        ("dead letters", fact("/totals/deadLetter")),
    ];
    if let Some(options) = detail["options"].as_object() {
        lines.extend(options.iter().map(|(name, value)| (name.as_str(), shown(value))));
    }
    put(&format!("{}\n", facts(&lines)))?;
    args.output.list(&answer, Some("partitions"), &PARTITIONS)?;
    if detail["truncated"] == true {
        put("… and more partitions\n")?;
    }
    Ok(())
}

async fn clear(args: ClearArgs) -> Result<()> {
    let what = match &args.partition {
        Some(partition) => format!("remove all messages of partition {partition} of queue {}", args.queue),
        None => format!("remove all messages of queue {}", args.queue),
    };
    args.confirm.ask(&what, &args.queue)?;
    let cleared =
        args.connection.client()?.admin().clear_queue(&args.queue, args.partition.as_deref()).await?;
    let (messages, partitions) = (cleared.messages_deleted, cleared.partitions_cleared);
    let told = json!({"queue": args.queue, "messagesDeleted": messages, "partitionsCleared": partitions});
    args.output.one(&told, &format!("{messages} messages of {partitions} partitions removed\n"))
}

async fn delete(args: DeleteArgs) -> Result<()> {
    let admin = args.connection.client()?.admin();
    // Known before anybody is asked, and told apart from a queue that was never there.
    let holds = admin.queue(&args.queue).await?.totals.total;
    args.confirm.ask(&format!("delete queue {} with {holds} messages", args.queue), &args.queue)?;
    let existed = admin.delete_queue(&args.queue).await?;
    args.output.one(&json!({"queue": args.queue, "existed": existed}), &format!("{} deleted\n", args.queue))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(given: &[&str]) -> Result<Value> {
        let given: Vec<String> = given.iter().map(|one| (*one).to_owned()).collect();
        Ok(serde_json::to_value(options(&given)?)?)
    }

    #[test]
    fn options_are_read_in_both_spellings() {
        let read = read(&["leaseTime=60", "retention-enabled=true", "enforce=ttl,maxSize"]).unwrap();
        assert_eq!(read, json!({"leaseTime": 60, "retentionEnabled": true, "enforce": ["ttl", "maxSize"]}));
    }

    #[test]
    fn what_is_no_option_is_named() {
        for (given, named) in [
            ("leaseTim=1", "leaseTim"),
            ("leaseTime", "leaseTime"),
            ("leaseTime=x", "leaseTime"),
            ("ttl=null", "ttl"),
            ("enforce=x", "enforce"),
        ] {
            let error = format!("{:#}", read(&["priority=1", given]).unwrap_err());
            assert!(error.contains(named), "{error}");
        }
    }
}
