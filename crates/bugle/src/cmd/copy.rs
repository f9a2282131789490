//! `bugle copy`: queues from one server of this protocol to another, with nothing but calls of the protocol.
//!
//! A consumer group of its own reads each queue from its beginning; what it is given is pushed to the other server under the same
//! transaction ids and then acknowledged. So the source remembers how far the copy is, and whatever is repeated after an
//! interruption is a duplicate at the target, which is stored once. One batch is under way at a time: the order inside
//! partitions is kept.

mod positions;
mod route;
mod state;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bugle_client::{Client, PushStatus, RetryPolicy};
use clap::Args;
use serde_json::{Value, json};

use crate::ending::End;
use crate::output::{OutputArgs, plain};
use crate::progress::Progress;
use crate::settings::Span;
pub(super) use route::Route;
use state::State;

/// What the target remembers of transaction ids while a copy goes on: an interrupted one has a week.
const DEDUPE_SECONDS: u64 = 7 * 86_400;
/// Servers of other versions count with a delay.
const COUNTING: Duration = Duration::from_secs(30);

/// Between two looks at whether it has caught up.
const LOOK: Duration = Duration::from_millis(500);
/// So often it is looked whether messages came while others were copied.
const ROUNDS: usize = 5;

/// What to do about producers that do not stop.
pub(super) const STILL_PUSHED: &str = "messages are still pushed at the source; stop producers, or send them to the target, and run the same command again";

/// What cannot be carried by the protocol.
pub(super) const STAYS: &str =
    "not carried: ids of messages, times of pushes, traces, dead letters, leases and their attempts";

/// Arguments of `bugle copy`.
#[derive(Debug, Args)]
pub(crate) struct CopyArgs {
    /// Queues to copy [default: all]
    queues: Vec<String>,
    /// The server to copy from
    #[arg(long, value_name = "URL")]
    from: String,
    /// The server to copy to
    #[arg(long, value_name = "URL")]
    to: String,
    /// File that remembers how far it is; the same command goes on from there
    #[arg(long, value_name = "FILE", default_value = "bugle-copy.json")]
    state: PathBuf,
    #[command(flatten)]
    pub(super) terms: CopyTerms,
    #[command(flatten)]
    output: OutputArgs,
}

/// What copying and moving have in common.
#[derive(Clone, Debug, Args)]
pub(crate) struct CopyTerms {
    /// Messages per request
    #[arg(long, default_value_t = 500, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    batch: u32,
    /// How long to wait for messages that are not visible yet (delayedProcessing, windowBuffer)
    #[arg(long, default_value = "60s", value_name = "DURATION")]
    patience: Span,
    /// Do not carry the positions of consumer groups
    #[arg(long)]
    no_groups: bool,
    /// API key or token for the source
    #[arg(long, env = "BUGLE_FROM_API_KEY", hide_env_values = true, value_name = "KEY")]
    from_api_key: Option<String>,
    /// API key or token for the target
    #[arg(long, env = "BUGLE_TO_API_KEY", hide_env_values = true, value_name = "KEY")]
    to_api_key: Option<String>,
}

impl CopyTerms {
    /// Clients of both, patient enough for a server that is started again.
    pub(super) fn route(&self, from: &str, to: &str) -> Result<Route> {
        let client = |url: &str, key: &Option<String>| -> Result<Client> {
            let retry = RetryPolicy::new(8, Duration::from_millis(100), Duration::from_secs(5));
            let builder = Client::builder(url).retry(retry);
            Ok(key.iter().fold(builder, |builder, key| builder.api_key(key.as_str())).build()?)
        };
        Ok(Route { from: client(from, &self.from_api_key)?, to: client(to, &self.to_api_key)? })
    }
}

/// `bugle copy`.
pub(crate) async fn run(args: CopyArgs) -> Result<()> {
    ensure!(args.from != args.to, End::Usage("--from and --to are the same server".into()));
    let route = args.terms.route(&args.from, &args.to)?;
    let mut state = State::open(&args.state, &args.from, &args.to)?;
    let queues = if args.queues.is_empty() { route.queues().await? } else { args.queues.clone() };
    let mut copied = Vec::new();
    for queue in &queues {
        if !state.is_done(queue) {
            copied.push(queue_over(&route, queue, &state.group(), &args.terms).await?);
            state.done(queue)?;
        }
    }
    // Gone on both sides once everything is over; until then it is where to go on.
    for queue in &queues {
        route.forget(&state.group(), queue).await?;
    }
    state.remove()?;
    let messages: u64 = copied.iter().map(|queue| queue.messages).sum();
    let lines = format!("{} queues, {messages} messages copied and counted\n{STAYS}\n", queues.len());
    let told: Vec<Value> = copied.iter().map(Copied::told).collect();
    args.output.one(&json!({"queues": told, "messages": messages}), &lines)
}

/// What was done with one queue.
pub(super) struct Copied {
    queue: String,
    /// Delivered by the source and stored at the target, now or before.
    pub(super) messages: u64,
    pub(super) groups: usize,
}

impl Copied {
    fn told(&self) -> Value {
        json!({"queue": self.queue, "messages": self.messages, "groups": self.groups})
    }
}

/// Copy one queue whole: options, messages, positions; and count.
pub(super) async fn queue_over(route: &Route, queue: &str, group: &str, terms: &CopyTerms) -> Result<Copied> {
    let about = || format!("queue {}", plain(queue));
    let original = route.described(queue).await.with_context(about)?;
    let (open, closed) = while_copying(&original);
    route.configure(&open).await.with_context(about)?;
    let mut messages = 0;
    for round in 1.. {
        messages += messages_over(route, queue, group, terms).await.with_context(about)?;
        if counted(route, queue, group).await.with_context(about)? {
            break;
        }
        ensure!(round < ROUNDS, "queue {}: {STILL_PUSHED}", plain(queue));
    }
    let groups =
        if terms.no_groups { 0 } else { positions::carry(route, queue, group).await.with_context(about)? };
    route.configure(&closed).await.with_context(about)?;
    Ok(Copied { queue: queue.to_owned(), messages, groups })
}

/// How the queue is configured at the target while messages come, and in the end. Meanwhile nothing may hide or refuse them, and ids are
/// remembered for long; what the source does not tell has its default in the end.
fn while_copying(original: &Value) -> (Value, Value) {
    let (mut open, mut closed) = (original.clone(), original.clone());
    let window = original["options"]["dedupWindowSeconds"].as_u64().unwrap_or_default();
    let meanwhile = [
        ("delayedProcessing", json!(0)),
        ("windowBuffer", json!(0)),
        ("enforce", json!([])),
        ("paused", json!(false)),
        ("dedupWindowSeconds", json!(window.max(DEDUPE_SECONDS))),
    ];
    for (name, value) in meanwhile {
        open["options"][name] = value;
        let told = original["options"][name].clone();
        // A null restores the default.
        closed["options"][name] = told;
    }
    (open, closed)
}

/// Until the source has no more for the copy's group at some moment.
async fn messages_over(route: &Route, queue: &str, group: &str, terms: &CopyTerms) -> Result<u64> {
    let mut progress = Progress::new("copying");
    let (mut copied, mut quiet_since, mut looked) = (0, None::<Instant>, Instant::now());
    loop {
        let popped = route.pop(queue, group, terms.batch).await?;
        if popped.messages.is_empty() {
            let left = route.lag(queue, group).await?;
            if left == 0 {
                return Ok(copied);
            }
            if quiet_since.get_or_insert_with(Instant::now).elapsed() > terms.patience.0 {
                bail!(
                    "{left} messages are not visible yet (delayedProcessing, windowBuffer, or the lease of an interrupted copy); \
                     run the same command again later, or with a longer --patience"
                );
            }
            continue;
        }
        quiet_since = None;
        for pushed in route.push(queue, &popped.messages).await? {
            match pushed.status {
                PushStatus::Queued | PushStatus::Duplicate => copied += 1,
                PushStatus::Buffered => bail!("the target is in maintenance mode; end it first"),
                _ => bail!("the target did not take a message: {}", pushed.error.unwrap_or_default()),
            }
        }
        route.ack(group, &popped.messages).await?;
        progress.at(copied, None);
        // Producers that never pause keep it from an empty answer; that it has caught up is told by a batch that is not full.
        if popped.messages.len() < terms.batch as usize && looked.elapsed() > LOOK {
            looked = Instant::now();
            if route.lag(queue, group).await? == 0 {
                return Ok(copied);
            }
        }
    }
}

/// Whether the target holds at least what the source holds, partition by partition; `false` = the source has more by now.
async fn counted(route: &Route, queue: &str, group: &str) -> Result<bool> {
    let deadline = Instant::now() + COUNTING;
    loop {
        let (source, target) =
            (route.totals(&route.from, queue).await?, route.totals(&route.to, queue).await?);
        let held = |name: &String| target.get(name).copied().unwrap_or_default();
        let Some((name, total)) = source.iter().find(|(name, total)| held(name) < **total) else {
            return Ok(true);
        };
        if route.lag(queue, group).await? > 0 {
            return Ok(false);
        }
        if Instant::now() > deadline {
            bail!(
                "partition {} has {total} messages at the source and {} at the target",
                plain(name),
                held(name)
            );
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_would_hide_messages_hold_in_the_end_only() {
        let original = json!({"queue": "q", "options": {"delayedProcessing": 9, "leaseTime": 5}});
        let (open, closed) = while_copying(&original);
        assert_eq!(open["options"]["delayedProcessing"], 0);
        assert_eq!(open["options"]["dedupWindowSeconds"], DEDUPE_SECONDS);
        assert_eq!((&open["options"]["leaseTime"], &closed["options"]["leaseTime"]), (&json!(5), &json!(5)));
        assert_eq!(closed["options"]["delayedProcessing"], 9);
        assert_eq!(closed["options"]["dedupWindowSeconds"], Value::Null, "the default again");
    }
}
