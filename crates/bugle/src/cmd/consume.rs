//! `bugle consume --exec`: a program for each message, whose exit status says what became of it.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use bugle_client::{CancellationToken, Consumed, Message, Verdict};
use clap::Args;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStderr, Command};
use tokio::signal::unix::{SignalKind, signal};

use super::pop::TermArgs;
use crate::connection::ConnectionArgs;
use crate::moment::Moment;
use crate::output::OutputArgs;
use crate::settings::Span;

/// Exit status of a program that could not do it now (`EX_TEMPFAIL`).
const AGAIN: i32 = 75;
/// Exit status of a program that will never do it (`EX_DATAERR`).
const HOPELESS: i32 = 65;
/// How much of the end of standard error goes into the reason.
const REASON: usize = 1000;

/// Arguments of `bugle consume`.
#[derive(Debug, Args)]
pub(crate) struct ConsumeArgs {
    /// The queue
    queue: String,
    /// The program, run by the shell
    #[arg(long, short, value_name = "COMMAND")]
    exec: String,
    #[command(flatten)]
    terms: TermArgs,
    /// Programs at a time; they work on different partitions
    #[arg(long, short = 'c', default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    concurrency: u16,
    /// Messages that one worker takes at a time
    #[arg(long, short, default_value_t = 1, value_name = "N")]
    batch: u32,
    /// End after so many messages
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// What all workers share.
struct Work {
    exec: String,
    begun: AtomicU64,
    limit: u64,
    stop: CancellationToken,
}

/// `bugle consume`.
pub(crate) async fn run(args: ConsumeArgs) -> Result<()> {
    let client = args.connection.builder()?.build()?;
    // A server that is not there at all is told at once; one that goes away later is waited for.
    args.connection.client()?.health().await?;
    let stop = stop_on_signals()?;
    let work = Arc::new(Work {
        exec: args.exec,
        begun: AtomicU64::new(0),
        limit: args.limit.unwrap_or(u64::MAX),
        stop: stop.clone(),
    });
    let mut consumer =
        client.consume(&args.queue).concurrency(args.concurrency.into()).batch(args.batch).stop_on(stop);
    if let Some(partition) = args.terms.partition {
        consumer = consumer.partition(partition);
    }
    if let Some(group) = args.terms.group {
        consumer = consumer.group(group);
    }
    if let Some(from) = args.terms.subscribe {
        consumer = consumer.subscribe(from);
    }
    if let Some(Span(length)) = args.terms.lease {
        consumer = consumer.lease(length);
    }
    let consumed = consumer
        .judge(move |message| {
            let work = work.clone();
            async move { work.handle(message).await }
        })
        .await?;
    let Consumed { completed, failed, dead_lettered, .. } = consumed;
    let told = json!({"completed": completed, "failed": failed, "deadLettered": dead_lettered,
        "rejected": consumed.rejected, "unanswered": consumed.unanswered});
    args.output.one(&told, &format!("{completed} done, {failed} failed, {dead_lettered} dead letters\n"))
}

/// Cancelled by SIGTERM and SIGINT.
fn stop_on_signals() -> Result<CancellationToken> {
    let stop = CancellationToken::new();
    let (mut terminate, mut interrupt) = (
        signal(SignalKind::terminate()).context("SIGTERM")?,
        signal(SignalKind::interrupt()).context("SIGINT")?,
    );
    let cancelled = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        cancelled.cancel();
    });
    Ok(stop)
}

impl Work {
    async fn handle(&self, message: Message) -> Verdict {
        let number = self.begun.fetch_add(1, Ordering::Relaxed) + 1;
        if number > self.limit {
            return Verdict::Retry;
        }
        if number == self.limit {
            self.stop.cancel();
        }
        match self.exec(&message).await {
            Ok(verdict) => verdict,
            Err(error) => Verdict::Failed(format!("{error:#}")),
        }
    }

    async fn exec(&self, message: &Message) -> Result<Verdict> {
        let mut child = Command::new("sh")
            .args(["-c", &self.exec])
            .env("BUGLE_QUEUE", &message.queue)
            .env("BUGLE_PARTITION", &message.partition)
            .env("BUGLE_PARTITION_ID", message.partition_id.to_string())
            .env("BUGLE_TRANSACTION_ID", &message.transaction_id)
            .env("BUGLE_MESSAGE_ID", message.id.to_string())
            .env("BUGLE_GROUP", &message.consumer_group)
            .env("BUGLE_ATTEMPT", message.delivery_attempt.to_string())
            .env("BUGLE_CREATED_AT", Moment(message.created_at).spelled())
            // The program must not hold a terminal's signals against us: SIGINT lets it finish.
            .process_group(0)
            .kill_on_drop(true)
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("sh")?;
        let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
        let feed = async {
            if let Some(mut stdin) = stdin {
                // A program that does not read its input is no failure.
                let _ = stdin.write_all(message.payload().as_bytes()).await;
                let _ = stdin.write_all(b"\n").await;
            }
        };
        let ((), last, status) = tokio::join!(feed, last_words(stderr), child.wait());
        let status = status.context("waiting for the program")?;
        let reason = format!("{status}{}{}", if last.is_empty() { "" } else { ": " }, last.trim_end());
        Ok(match status.code() {
            Some(0) => Verdict::Completed,
            Some(AGAIN) => Verdict::Retry,
            Some(HOPELESS) => Verdict::DeadLetter(reason),
            _ => Verdict::Failed(reason),
        })
    }
}

/// Pass standard error on, and keep the end of it.
async fn last_words(stderr: Option<ChildStderr>) -> String {
    let Some(mut stderr) = stderr else { return String::new() };
    let (mut last, mut piece) = (Vec::new(), [0; 4096]);
    while let Ok(read @ 1..) = stderr.read(&mut piece).await {
        let _ = std::io::Write::write_all(&mut std::io::stderr(), &piece[..read]);
        last.extend_from_slice(&piece[..read]);
        let surplus = last.len().saturating_sub(REASON);
        last.drain(..surplus);
    }
    String::from_utf8_lossy(&last).into_owned()
}
