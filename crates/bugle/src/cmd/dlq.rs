//! `bugle dlq`: dead letters, why each died, and sending them back.

use anyhow::{Result, bail};
use bugle_client::{Client, DeadLetter, DeadLetterFilter, Redrive};
use clap::{Args, Subcommand};
use serde_json::json;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::confirm::ConfirmArgs;
use crate::connection::ConnectionArgs;
use crate::ending::End;
use crate::moment::Moment;
use crate::output::{Column, Format, Kind, OutputArgs, facts, plain, put};
use crate::progress::Progress;

/// Letters of one page, and of one call of a redrive.
const PAGE: usize = 500;
/// Most letters that are looked through for one.
const LOOKED_THROUGH: usize = 100_000;

/// What to do with them.
#[derive(Debug, Subcommand)]
pub(crate) enum DlqCommand {
    /// List dead letters, the latest failure first
    List(ListArgs),
    /// Show one dead letter with its payload and why it died
    Show(ShowArgs),
    /// Send dead letters back to where they came from, or to another queue
    Redrive(RedriveArgs),
}

/// Which ones.
#[derive(Clone, Debug, Args)]
pub(crate) struct FilterArgs {
    /// Only of this partition
    #[arg(long, short, value_name = "NAME")]
    partition: Option<String>,
    /// Only those that this consumer group gave up on
    #[arg(long, short, value_name = "NAME")]
    group: Option<String>,
    /// Given up from this moment on
    #[arg(long, value_name = "MOMENT")]
    from: Option<Moment>,
    /// Given up before this moment
    #[arg(long, value_name = "MOMENT")]
    to: Option<Moment>,
    /// Only those with this text in their error
    #[arg(long, value_name = "TEXT")]
    error_contains: Option<String>,
}

/// Arguments of `bugle dlq list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Only of this queue
    queue: Option<String>,
    #[command(flatten)]
    filter: FilterArgs,
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

/// Arguments of `bugle dlq show`.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// Its id, as list prints it
    id: Uuid,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Arguments of `bugle dlq redrive`.
#[derive(Debug, Args)]
pub(crate) struct RedriveArgs {
    /// The queue they are of
    #[arg(required_unless_present = "id", conflicts_with = "id")]
    queue: Option<String>,
    /// Only the letter with this id
    #[arg(long, value_name = "ID")]
    id: Option<Uuid>,
    #[command(flatten)]
    filter: FilterArgs,
    /// To this queue instead of where they came from
    #[arg(long, value_name = "QUEUE", conflicts_with = "id")]
    into: Option<String>,
    /// At most so many
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<u64>,
    /// Only tell how many there are
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    confirm: ConfirmArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
}

const COLUMNS: [Column; 7] = [
    Column("FAILED", "/failedAt", Kind::Text),
    Column("ID", "/id", Kind::Text),
    Column("QUEUE", "/queue", Kind::Text),
    Column("PARTITION", "/partition", Kind::Text),
    Column("GROUP", "/consumerGroup", Kind::Text),
    Column("TRIES", "/retryCount", Kind::Number),
    Column("ERROR", "/errorMessage", Kind::Text),
];

/// `bugle dlq`.
pub(crate) async fn run(command: DlqCommand) -> Result<()> {
    match command {
        DlqCommand::List(args) => list(args).await,
        DlqCommand::Show(args) => show(args).await,
        DlqCommand::Redrive(args) => redrive(args).await,
    }
}

async fn list(args: ListArgs) -> Result<()> {
    let (limit, offset) = (args.limit.to_string(), args.offset.to_string());
    let (from, to) = (args.filter.from.map(Moment::spelled), args.filter.to.map(Moment::spelled));
    let asked = [
        ("queue", args.queue.as_deref()),
        ("partition", args.filter.partition.as_deref()),
        ("consumerGroup", args.filter.group.as_deref()),
        ("from", from.as_deref()),
        ("to", to.as_deref()),
        ("errorContains", args.filter.error_contains.as_deref()),
        ("limit", Some(&limit)),
        ("offset", Some(&offset)),
    ];
    let query: Vec<(&str, &str)> =
        asked.iter().filter_map(|(name, value)| Some((*name, (*value)?))).collect();
    let client = args.connection.client()?;
    let answer: Box<RawValue> = client.read_json(&["api", "v1", "dlq"], &query).await?;
    args.output.list(&answer, Some("messages"), &COLUMNS).map(drop)
}

async fn show(args: ShowArgs) -> Result<()> {
    let letter = find(&args.connection.client()?, args.id).await?;
    let value = json!({
        "id": letter.id, "transactionId": letter.transaction_id, "queue": letter.queue, "partition": letter.partition,
        "partitionId": letter.partition_id, "consumerGroup": letter.consumer_group, "errorMessage": letter.error_message,
        "retryCount": letter.retry_count, "createdAt": Moment(letter.created_at).spelled(),
        "failedAt": Moment(letter.failed_at).spelled(),
    });
    if args.output.output != Format::Table {
        // The payload as it is stored.
        let head = value.to_string();
        return put(&format!("{},\"data\":{}}}\n", head.trim_end_matches('}'), letter.payload()));
    }
    let lines = [
        ("id", letter.id.to_string()),
        ("queue", letter.queue.clone()),
        ("partition", letter.partition.clone()),
        ("partition id", letter.partition_id.to_string()),
        ("transaction id", letter.transaction_id.clone()),
        ("group", letter.consumer_group.clone()),
        ("error", letter.error_message.clone()),
        ("failed tries", letter.retry_count.to_string()),
        ("pushed", Moment(letter.created_at).spelled()),
        ("given up", Moment(letter.failed_at).spelled()),
    ];
    put(&format!("{}\n{}\n", facts(&lines), plain(letter.payload())))
}

/// The API lists letters and does not give single ones, so pages are looked through.
async fn find(client: &Client, id: Uuid) -> Result<DeadLetter> {
    let (admin, all) = (client.admin(), DeadLetterFilter::default());
    for offset in (0..LOOKED_THROUGH).step_by(PAGE) {
        let page = admin.dead_letters(&all, offset, PAGE).await?.messages;
        let last = page.len() < PAGE;
        if let Some(letter) = page.into_iter().find(|letter| letter.id == id) {
            return Ok(letter);
        }
        if last {
            break;
        }
    }
    bail!(End::NotFound(format!("no dead letter has the id {id}; `bugle dlq list` lists them")))
}

impl FilterArgs {
    fn filter(&self, queue: &str) -> DeadLetterFilter {
        let mut filter = DeadLetterFilter::queue(queue);
        if let Some(partition) = &self.partition {
            filter = filter.partition(partition);
        }
        if let Some(group) = &self.group {
            filter = filter.group(group);
        }
        if let Some(Moment(from)) = self.from {
            filter = filter.from(from);
        }
        if let Some(Moment(to)) = self.to {
            filter = filter.to(to);
        }
        if let Some(text) = &self.error_contains {
            filter = filter.error_contains(text);
        }
        filter
    }
}

async fn redrive(args: RedriveArgs) -> Result<()> {
    let client = args.connection.client()?;
    if let Some(id) = args.id {
        let sent = client.admin().replay(id).await?;
        let told = json!({"redriven": 1, "queue": sent.queue, "partition": sent.partition,
            "transactionId": sent.transaction_id});
        return args
            .output
            .one(&told, &format!("sent back to {}/{}\n", plain(&sent.queue), plain(&sent.partition)));
    }
    let queue = args.queue.as_deref().unwrap_or_default();
    let mut order = Redrive::new(args.filter.filter(queue));
    if let Some(into) = &args.into {
        order = order.into_queue(into);
    }
    let matched = client.admin().redrive(&order.clone().dry_run()).await?.matched;
    let wanted = args.limit.map_or(matched, |limit| limit.min(matched));
    if args.dry_run {
        let line = format!("{matched} dead letters match; {wanted} would be sent back\n");
        return args.output.one(&json!({"matched": matched, "redriven": 0}), &line);
    }
    if matched == 0 {
        bail!(End::Nothing(format!("no dead letter of {queue} matches")));
    }
    args.confirm.ask(&format!("send {wanted} dead letters of {queue} back"), queue)?;
    send_back(&client, order, wanted, &args).await
}

/// Call by call, so that it can be seen how far it is, and interrupted between two.
async fn send_back(client: &Client, order: Redrive, wanted: u64, args: &RedriveArgs) -> Result<()> {
    let mut progress = Progress::new("redriving");
    let (mut done, mut skipped, mut cursor) = (0, 0, None::<String>);
    while done + skipped < wanted {
        let room = (wanted - done - skipped).min(PAGE as u64) as u32;
        let mut call = order.clone().limit(room);
        if let Some(cursor) = cursor {
            call = call.from_cursor(cursor);
        }
        let sent = client.admin().redrive(&call).await?;
        done += sent.redriven;
        skipped += sent.skipped;
        progress.at(done, Some((done + skipped, wanted)));
        if let Some(error) = sent.error {
            progress.clear();
            bail!("{done} were sent back, then: {error}");
        }
        cursor = sent.cursor;
        if cursor.is_none() {
            break;
        }
    }
    progress.clear();
    args.output.one(
        &json!({"redriven": done, "skipped": skipped}),
        &format!("{done} sent back, {skipped} left out\n"),
    )
}
