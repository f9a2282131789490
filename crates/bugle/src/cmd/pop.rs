//! `bugle pop`: take messages and print them.

use std::time::Duration;

use anyhow::{Result, bail};
use bugle_client::{Message, Pop, Subscription};
use clap::Args;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::connection::ConnectionArgs;
use crate::ending::End;
use crate::moment::Moment;
use crate::output::{Column, Format, Kind, OutputArgs, put};
use crate::settings::Span;

/// Arguments of `bugle pop`.
#[derive(Debug, Args)]
pub(crate) struct PopArgs {
    /// The queue
    queue: String,
    #[command(flatten)]
    terms: TermArgs,
    /// Wait so long for messages, if there are none
    #[arg(long, short, value_name = "DURATION", num_args = 0..=1, default_missing_value = "30s")]
    wait: Option<Span>,
    /// At most so many messages
    #[arg(long, short, default_value_t = 1, value_name = "N")]
    batch: u32,
    /// From at most so many partitions
    #[arg(long, default_value_t = 1, value_name = "N")]
    partitions: u32,
    /// Acknowledge them once they are printed
    #[arg(long)]
    ack: bool,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// In whose name messages are taken, and from where.
#[derive(Clone, Debug, Args)]
pub(crate) struct TermArgs {
    /// Only from this partition
    #[arg(long, short, value_name = "NAME")]
    pub(crate) partition: Option<String>,
    /// Consumer group; without one, all who name none share the messages
    #[arg(long, short, value_name = "NAME")]
    pub(crate) group: Option<String>,
    /// Where the group begins, if the queue has not seen it before: all, new or a moment
    #[arg(long, value_name = "all|new|MOMENT", value_parser = subscription)]
    pub(crate) subscribe: Option<Subscription>,
    /// Length of the lease, instead of the queue's
    #[arg(long, value_name = "DURATION")]
    pub(crate) lease: Option<Span>,
}

fn subscription(text: &str) -> Result<Subscription, String> {
    match text {
        "all" => Ok(Subscription::All),
        "new" => Ok(Subscription::New),
        moment => moment.parse().map(|Moment(time)| Subscription::From(time)),
    }
}

const COLUMNS: [Column; 6] = [
    Column("PARTITION", "/partition", Kind::Text),
    Column("TRANSACTION ID", "/transactionId", Kind::Text),
    Column("PARTITION ID", "/partitionId", Kind::Text),
    Column("LEASE", "/leaseId", Kind::Text),
    Column("TRY", "/deliveryAttempt", Kind::Number),
    Column("PAYLOAD", "/data", Kind::Json),
];

/// A message as it is printed: as the API spells it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a> {
    id: String,
    transaction_id: &'a str,
    queue: &'a str,
    partition: &'a str,
    partition_id: String,
    offset: Option<u64>,
    consumer_group: &'a str,
    lease_id: Option<String>,
    delivery_attempt: u32,
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tracestate: Option<&'a str>,
    data: &'a RawValue,
}

/// `bugle pop`.
pub(crate) async fn run(args: PopArgs) -> Result<()> {
    let client = args.connection.client()?;
    let mut pop = client.pop(&args.queue).batch(args.batch).partitions(args.partitions);
    pop = args.terms.clone().apply(pop);
    if let Some(Span(wait)) = args.wait {
        pop = pop.wait(wait.max(Duration::from_millis(1)));
    }
    let batch = tokio::select! {
        batch = pop.send() => batch?,
        // The server takes back what it was about to deliver to somebody who went away.
        _ = tokio::signal::ctrl_c() => bail!("interrupted"),
    };
    if batch.messages.is_empty() {
        let why = if batch.store_unavailable { "the server cannot reach its store" } else { "nothing there" };
        bail!(End::Nothing(format!("{}: {why}", args.queue)));
    }
    print(args.output, &batch.messages)?;
    if args.ack {
        let acks: Vec<_> = batch.messages.iter().map(bugle_client::Ack::completed).collect();
        let refused = client.settle(&acks).await?.into_iter().find(|acked| !acked.success);
        if let Some(refused) = refused {
            bail!("not acknowledged: {}", refused.error.unwrap_or_default());
        }
    }
    Ok(())
}

impl TermArgs {
    fn apply(self, mut pop: Pop) -> Pop {
        if let Some(partition) = self.partition {
            pop = pop.partition(partition);
        }
        if let Some(group) = self.group {
            pop = pop.group(group);
        }
        if let Some(from) = self.subscribe {
            pop = pop.subscribe(from);
        }
        if let Some(Span(length)) = self.lease {
            pop = pop.lease(length);
        }
        pop
    }
}

fn print(output: OutputArgs, messages: &[Message]) -> Result<()> {
    let shown = messages.iter().map(shown).collect::<Result<Vec<_>>>()?;
    match output.output {
        Format::Ndjson => put(&shown.iter().map(|one| format!("{}\n", one.get())).collect::<String>()),
        Format::Json | Format::Table => output.list(&to_raw_value(&shown)?, None, &COLUMNS).map(drop),
    }
}

/// A message as JSON, its payload as it is stored.
pub(crate) fn shown(message: &Message) -> Result<Box<RawValue>> {
    let shown = Shown {
        id: message.id.to_string(),
        transaction_id: &message.transaction_id,
        queue: &message.queue,
        partition: &message.partition,
        partition_id: message.partition_id.to_string(),
        offset: message.offset,
        consumer_group: &message.consumer_group,
        lease_id: message.lease_id.map(|id| id.to_string()),
        delivery_attempt: message.delivery_attempt,
        created_at: Moment(message.created_at).spelled(),
        traceparent: message.traceparent.as_deref(),
        tracestate: message.tracestate.as_deref(),
        data: message.json()?,
    };
    Ok(to_raw_value(&shown)?)
}
