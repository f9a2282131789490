//! `push`: closed-loop producers for a fixed time.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::json;

use crate::cli::{PushArgs, Spread, seconds_ok};
use crate::client::{Connection, Post, Target};
use crate::content::Content;
use crate::ids::Stamps;
use crate::stats::{Backoff, Errors, Latency, rate};
use crate::{Outcome, body, probe, scan};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    WarmUp,
    Measure,
    Stop,
}

/// What all producers share.
struct Load {
    target: Target,
    queue: String,
    content: Content,
    batch: usize,
    lanes: u32,
    spread: Spread,
    legacy_status: bool,
    phase: Cell<Phase>,
    /// The next message number: unique in the run, whatever its lane.
    number: Cell<u64>,
}

/// What one producer has measured.
struct Counters {
    latency: Latency,
    messages: u64,
    errors: Errors,
}

/// Runs the command.
pub(crate) async fn run(args: PushArgs) -> Result<Outcome> {
    let common = &args.common;
    common.check()?;
    ensure!(seconds_ok(args.seconds), "--seconds must be above 0 and at most a day");
    ensure!(
        args.warmup_seconds == 0.0 || seconds_ok(args.warmup_seconds),
        "--warmup-seconds must be 0 to a day"
    );
    let load = Rc::new(Load {
        target: Target::new(
            &common.url,
            common.token.as_deref(),
            Duration::from_secs_f64(common.timeout_seconds),
        )?,
        queue: common.queue_name()?,
        content: common.content()?,
        batch: common.batch,
        lanes: common.partitions,
        spread: args.spread,
        legacy_status: common.legacy_status,
        phase: Cell::new(Phase::WarmUp),
        number: Cell::new(0),
    });
    let fdatasync = probe::fdatasync_median_ms(&common.fsync_dir)?;
    let producers: Vec<_> = (0..common.connections)
        .map(|index| {
            let first_lane = (index as u64 * u64::from(load.lanes) / common.connections as u64) as u32;
            tokio::task::spawn_local(Box::pin(produce(Rc::clone(&load), first_lane)))
        })
        .collect();

    tokio::time::sleep(Duration::from_secs_f64(args.warmup_seconds)).await;
    let before = probe::cpu(&common.watched())?;
    let start = Instant::now();
    load.phase.set(Phase::Measure);
    tokio::time::sleep(Duration::from_secs_f64(args.seconds)).await;
    load.phase.set(Phase::Stop);
    let elapsed = start.elapsed();
    let after = probe::cpu(&common.watched())?;

    let mut total = Counters { latency: Latency::new()?, messages: 0, errors: Errors::default() };
    for producer in producers {
        let counters = producer.await??;
        total.latency.add(&counters.latency)?;
        total.messages += counters.messages;
        total.errors.add(&counters.errors);
    }
    let json = json!({
        "command": "push",
        "url": common.url, "queue": load.queue, "batch": common.batch, "connections": common.connections,
        "partitions": common.partitions, "spread": format!("{:?}", args.spread).to_lowercase(),
        "payload_bytes": common.payload_bytes, "words": common.words, "seconds": args.seconds, "warmup_seconds": args.warmup_seconds,
        "messages": total.messages,
        "msgs_per_s": rate(total.messages, elapsed),
        "requests_per_s": rate(total.latency.count(), elapsed),
        "latency_ms": total.latency.json(),
        "errors": total.errors.json(),
        "processes": probe::usage(&before, &after, total.messages),
        "fdatasync_ms": crate::stats::round(fdatasync),
    });
    Ok(Outcome { json, ok: total.messages > 0, table: None })
}

async fn produce(load: Rc<Load>, first_lane: u32) -> Result<Counters> {
    let mut counters = Counters { latency: Latency::new()?, messages: 0, errors: Errors::default() };
    let mut connection = load.target.connection();
    let mut post = load.target.post("/api/v1/push");
    let (mut stamps, mut backoff, mut lane) = (Stamps::default(), Backoff::default(), first_lane);
    while load.phase.get() != Phase::Stop {
        fill(&load, &mut post, &mut stamps, &mut lane);
        let start = Instant::now();
        let outcome = push_once(&load, &mut connection, &post, &mut counters.errors).await;
        let measured = load.phase.get() == Phase::Measure;
        match outcome {
            Some(queued) => {
                backoff.reset();
                if measured {
                    counters.latency.record(start.elapsed());
                    counters.messages += queued;
                }
            }
            None => backoff.wait(Duration::from_millis(10), Duration::from_secs(1)).await,
        }
    }
    Ok(counters)
}

/// Puts the next messages into the request.
fn fill(load: &Load, post: &mut Post, stamps: &mut Stamps, lane: &mut u32) {
    let out = post.begin();
    let stamp = stamps.reserve(load.batch as u64);
    let first = load.number.replace(load.number.get() + load.batch as u64);
    body::begin_push(out);
    for item in 0..load.batch as u64 {
        body::push_item(out, &load.queue, &load.content, (*lane, first + item), stamp + item);
        if load.spread == Spread::Item {
            *lane = (*lane + 1) % load.lanes;
        }
    }
    if load.spread == Spread::Request {
        *lane = (*lane + 1) % load.lanes;
    }
    body::end_push(out);
    post.finish();
}

/// Sends the request; the number of messages stored, or `None` after an error that is already counted.
async fn push_once(
    load: &Load,
    connection: &mut Connection,
    post: &Post,
    errors: &mut Errors,
) -> Option<u64> {
    let response = match connection.call(post.bytes()).await {
        Ok(response) => response,
        Err(failure) => {
            errors.failure(failure);
            return None;
        }
    };
    if response.status != 201 && !(load.legacy_status && response.status == 200) {
        errors.status(response.status);
        return None;
    }
    let Ok(answer) = scan::push_answer(response.body) else {
        errors.count("malformed push answer", 1);
        return None;
    };
    errors.count("item duplicate", answer.duplicate);
    errors.count("item not queued", answer.other);
    let answered = answer.queued + answer.duplicate + answer.other;
    errors.count("item without an answer", (load.batch as u64).saturating_sub(answered));
    Some(answer.queued)
}
