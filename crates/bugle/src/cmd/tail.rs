//! `bugle tail`: messages as they are pushed, without consuming them.
//!
//! It reads the list of messages, which changes nothing, instead of consuming by a group of its own: a group would be woken at
//! once, but one whose owner is killed stays on the server for ever. Positions are gapless in each partition, so what
//! was printed is known by one number per partition; the time only says how far back to look.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};
use bugle_client::Client;
use clap::Args;
use jiff::Timestamp;
use serde::de::{Deserialize, Deserializer, Error as _};
use serde_json::value::RawValue;
use tokio::signal::unix::{SignalKind, signal};

use crate::connection::ConnectionArgs;
use crate::ending::End;
use crate::moment::Moment;
use crate::output::{self, Format, OutputArgs, colours, compact, plain, put};
use crate::settings::Span;

/// Messages of one page, the most that a server gives.
const PAGE: usize = 1000;
/// Most pages of one look; what is older is left out, and that is said.
const PAGES: usize = 20;
/// How far back each look goes: clocks of servers differ, and a push may be stamped some time before it is seen.
const OVERLAP: Duration = Duration::from_secs(10);
/// How far back everything is known before anything is printed.
const LATELY: Duration = Duration::from_secs(60);
/// Partitions whose positions are kept at least as long as they can matter.
const KEPT: usize = 100_000;

/// Arguments of `bugle tail`.
#[derive(Debug, Args)]
pub(crate) struct TailArgs {
    /// The queue
    queue: String,
    /// Only this partition
    #[arg(long, short, value_name = "NAME")]
    partition: Option<String>,
    /// Go on printing what is pushed until interrupted
    #[arg(long, short)]
    follow: bool,
    /// Begin with what was pushed from this moment on [default: now with --follow, else 10m]
    #[arg(long, value_name = "MOMENT")]
    from: Option<Moment>,
    /// End after so many messages
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<u64>,
    /// Time between two looks
    #[arg(long, default_value = "500ms", value_name = "DURATION")]
    interval: Span,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// What is needed of a listed message.
#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    partition_id: String,
    partition: String,
    transaction_id: String,
    offset: u64,
    #[serde(deserialize_with = "time")]
    created_at: Timestamp,
    data: Box<RawValue>,
}

fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}

/// What was printed.
struct Seen {
    /// Look at what was pushed from here on.
    from: SystemTime,
    /// By partition: the position that comes next, and when its latest message was pushed.
    next: HashMap<String, (u64, Timestamp)>,
}

/// `bugle tail`.
pub(crate) async fn run(args: TailArgs) -> Result<()> {
    let client = args.connection.client()?;
    let fallback = ago(if args.follow { LATELY } else { Duration::from_secs(600) });
    let mut seen = Seen { from: args.from.map_or(fallback, |Moment(from)| from), next: HashMap::new() };
    let (begin, mut printed) = (seen.from, 0);
    let mut stop = signal(SignalKind::terminate()).context("SIGTERM")?;
    if args.follow && args.from.is_none() {
        // What is there already is known from now on. Looking back a little makes up for clocks that differ.
        seen.sift(look(&client, &args, &seen).await?, begin);
    }
    loop {
        let messages = tokio::select! {
            messages = look(&client, &args, &seen) => messages?,
            _ = tokio::signal::ctrl_c() => return Ok(()),
            _ = stop.recv() => return Ok(()),
        };
        let new = seen.sift(messages, begin);
        let room =
            args.limit.map_or(usize::MAX, |limit| usize::try_from(limit - printed).unwrap_or(usize::MAX));
        let new = &new[..new.len().min(room)];
        print(&args, new)?;
        printed += new.len() as u64;
        if args.limit == Some(printed) {
            return Ok(());
        }
        if !args.follow {
            break;
        }
        tokio::select! {
            () = tokio::time::sleep(args.interval.0) => {}
            _ = tokio::signal::ctrl_c() => return Ok(()),
            _ = stop.recv() => return Ok(()),
        }
    }
    if printed == 0 {
        bail!(End::Nothing(format!("{}: nothing there; --from looks further back, -f waits", args.queue)));
    }
    Ok(())
}

fn ago(time: Duration) -> SystemTime {
    SystemTime::now().checked_sub(time).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Everything from the present mark on, page by page.
async fn look(client: &Client, args: &TailArgs, seen: &Seen) -> Result<Vec<(Listed, Box<RawValue>)>> {
    let (from, limit) = (Moment(seen.from).spelled(), PAGE.to_string());
    let mut all = Vec::new();
    for page in 0..PAGES {
        let offset = (page * PAGE).to_string();
        let mut query =
            vec![("queue", args.queue.as_str()), ("from", &from), ("limit", &limit), ("offset", &offset)];
        query.extend(args.partition.as_deref().map(|partition| ("partition", partition)));
        let answer: Box<RawValue> = client.read_json(&["api", "v1", "messages"], &query).await?;
        let entries = output::entries(&answer, Some("messages"))?;
        let whole = entries.len() < PAGE;
        for entry in entries {
            all.push((serde_json::from_str(entry.get()).context("a message of the answer")?, entry));
        }
        if whole {
            return Ok(all);
        }
    }
    eprintln!("bugle: there is more than can be shown at once; the oldest messages are left out");
    Ok(all)
}

impl Seen {
    /// What of `messages` is new, in order; the mark moves on.
    fn sift(
        &mut self,
        mut messages: Vec<(Listed, Box<RawValue>)>,
        begin: SystemTime,
    ) -> Vec<(Listed, Box<RawValue>)> {
        messages.sort_by(|(a, _), (b, _)| {
            (a.created_at, &a.partition, a.offset).cmp(&(b.created_at, &b.partition, b.offset))
        });
        messages.retain(|(message, _)| {
            let (next, latest) =
                self.next.entry(message.partition_id.clone()).or_insert((0, message.created_at));
            let new = message.offset >= *next;
            if new {
                (*next, *latest) = (message.offset + 1, message.created_at);
            }
            new
        });
        if let Some((newest, _)) = messages.last() {
            let newest = SystemTime::from(newest.created_at);
            self.from = newest.checked_sub(OVERLAP).unwrap_or(begin).max(begin).max(self.from);
            if self.next.len() > KEPT {
                let from = self.from;
                self.next.retain(|_, (_, latest)| SystemTime::from(*latest) >= from);
            }
        }
        messages
    }
}

fn print(args: &TailArgs, messages: &[(Listed, Box<RawValue>)]) -> Result<()> {
    if args.output.output != Format::Table {
        return put(&messages.iter().map(|(_, raw)| format!("{}\n", raw.get())).collect::<String>());
    }
    let (dim, normal) = if colours() { ("\x1b[2m", "\x1b[0m") } else { ("", "") };
    let lines = messages.iter().map(|(message, _)| {
        let (partition, id) = (plain(&message.partition), plain(&message.transaction_id));
        let (time, payload) = (message.created_at, plain(&compact(message.data.get())));
        format!("{dim}{time:.3}  {partition}  {id}{normal}  {payload}\n")
    });
    put(&lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(partition: &str, offset: u64, second: i64) -> (Listed, Box<RawValue>) {
        let data = RawValue::from_string("1".into()).unwrap();
        let message = Listed {
            partition_id: partition.into(),
            partition: partition.into(),
            transaction_id: "t".into(),
            offset,
            created_at: Timestamp::from_second(second).unwrap(),
            data: data.clone(),
        };
        (message, data)
    }

    #[test]
    fn each_message_is_new_once_and_in_the_order_of_its_partition() {
        let begin = SystemTime::UNIX_EPOCH;
        let mut seen = Seen { from: begin, next: HashMap::new() };
        let new = |seen: &mut Seen, messages| {
            let sifted: Vec<(Listed, _)> = seen.sift(messages, begin);
            sifted.into_iter().map(|(m, _)| (m.partition, m.offset)).collect::<Vec<_>>()
        };
        let first = vec![listed("a", 1, 100), listed("b", 0, 100), listed("a", 0, 99)];
        assert_eq!(new(&mut seen, first), [("a".into(), 0), ("a".into(), 1), ("b".into(), 0)]);
        assert_eq!(seen.from, begin + Duration::from_secs(90));
        let again = vec![listed("a", 2, 101), listed("a", 1, 100), listed("b", 0, 100)];
        assert_eq!(new(&mut seen, again), [("a".into(), 2)]);
        assert!(new(&mut seen, vec![listed("a", 2, 101)]).is_empty());
    }
}
