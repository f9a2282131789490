//! `pop`: fill, drain, compare.

use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::cli::PopArgs;
use crate::client::Target;
use crate::drain::{Counters, Group, Plan, consume, sweep};
use crate::preload::{Fill, configure, fill};
use crate::probe::CpuSnapshot;
use crate::stats::rate;
use crate::verify::{Ledger, Verdict};
use crate::{Outcome, probe};

/// The window of a run without `--seconds` and `--messages`.
const DEFAULT_SECONDS: f64 = 10.0;
/// Messages the rate is estimated with.
const CALIBRATION: u64 = 20_000;
/// Name of the cursor owner when no group is asked for.
const QUEUE_MODE: &str = "__QUEUE_MODE__";

/// What one fill-and-drain gave.
struct Drained {
    messages: u64,
    fill_rate: f64,
    counters: Counters,
    verdict: Verdict,
    drained: bool,
    swept: bool,
    elapsed: Duration,
    processes: Vec<Value>,
}

/// Runs the command.
pub(crate) async fn run(args: PopArgs) -> Result<Outcome> {
    args.check()?;
    let common = &args.common;
    let timeout = Duration::from_secs_f64(common.timeout_seconds);
    let target = Target::new(&common.url, common.token.as_deref(), timeout)?;
    let queue = common.queue_name()?;
    // A wrong --pid should be known now, not after minutes of filling.
    probe::cpu(&common.watched())?;
    let fdatasync = probe::fdatasync_median_ms(&common.fsync_dir)?;
    let seconds = args.seconds.or_else(|| args.messages.is_none().then_some(DEFAULT_SECONDS));
    let messages = match args.messages {
        Some(messages) => messages,
        None => estimate(&args, &target, &queue, seconds.unwrap_or(DEFAULT_SECONDS)).await?,
    };
    let result = fill_and_drain(&args, &target, &queue, messages, seconds).await?;
    let counters = &result.counters;
    let requests = counters.pop.count() + counters.ack.count() + counters.empty;
    let mut json = json!({
        "command": "pop",
        "url": common.url, "queue": queue, "mode": format!("{:?}", args.mode).to_lowercase(),
        "batch": common.batch, "connections": common.connections, "partitions": common.partitions,
        "claim_partitions": args.claim_partitions, "groups": args.groups,
        "ack": if args.auto_ack { "auto".to_owned() } else { format!("{:?}", args.ack).to_lowercase() },
        "payload_bytes": common.payload_bytes, "words": common.words, "preloaded": result.messages, "preload_run": args.preload_run,
        "preload_msgs_per_s": result.fill_rate, "seconds": seconds, "elapsed_s": crate::stats::round(result.elapsed.as_secs_f64()),
        "messages": counters.messages,
        "msgs_per_s": rate(counters.messages, result.elapsed),
        "requests_per_s": rate(requests, result.elapsed),
        "empty_pops": counters.empty,
        "latency_ms": { "pop": counters.pop.json(), "ack": counters.ack.json() },
        "drained": result.drained, "swept": result.swept,
        "errors": counters.errors.json(),
        "processes": result.processes,
        "fdatasync_ms": crate::stats::round(fdatasync),
    });
    if let (Value::Object(report), Value::Object(verdict)) = (&mut json, result.verdict.json()) {
        report.extend(verdict);
    }
    Ok(Outcome { json, ok: result.verdict.ok() && counters.messages > 0, table: None })
}

/// How many messages last for the window, measured by draining a small queue of the same shape.
async fn estimate(args: &PopArgs, target: &Target, queue: &str, seconds: f64) -> Result<u64> {
    let queue = format!("{queue}-calibrate");
    let first = CALIBRATION.min(args.max_messages);
    let result = fill_and_drain(args, target, &queue, first, Some(seconds)).await?;
    ensure!(result.verdict.ok(), "calibration on queue {queue} went wrong: {}", result.verdict.json());
    let groups = args.groups.max(1) as f64;
    let per_group = rate(result.counters.messages, result.elapsed) / groups;
    Ok(needed(per_group, seconds, first, args.max_messages))
}

/// Messages for the window, a fifth more than the estimate: the small queue ends with a slow tail in which lanes run out.
fn needed(per_second: f64, seconds: f64, least: u64, most: u64) -> u64 {
    ((per_second * seconds * 1.2) as u64).clamp(least.min(most), most)
}

async fn fill_and_drain(
    args: &PopArgs,
    target: &Target,
    queue: &str,
    messages: u64,
    seconds: Option<f64>,
) -> Result<Drained> {
    let common = &args.common;
    let namespace = format!("ns-{queue}");
    let content = Rc::new(common.content()?);
    configure(target, queue, &namespace, args.lease_seconds).await?;
    let start = Instant::now();
    fill(Fill {
        target: target.clone(),
        queue: queue.to_owned(),
        content: Rc::clone(&content),
        lanes: common.partitions,
        messages,
        run: args.preload_run,
        batch: ((4 << 20) / (common.payload_bytes + 200)).clamp(1, 1000),
        legacy_status: common.legacy_status,
    })
    .await?;
    let fill_rate = rate(messages, start.elapsed());

    let before = probe::cpu(&common.watched())?;
    let start = Instant::now();
    let plan = Rc::new(Plan {
        target: target.clone(),
        queue: queue.to_owned(),
        namespace,
        content,
        mode: args.mode,
        ack: args.ack,
        auto_ack: args.auto_ack,
        batch: common.batch,
        lanes: common.partitions,
        claim_partitions: args.claim_partitions,
        deadline: seconds.map(|s| start + Duration::from_secs_f64(s)),
        idle: Duration::from_secs_f64(args.idle_seconds),
        lease: Duration::from_secs(u64::from(args.lease_seconds)),
        legacy_status: common.legacy_status,
    });
    let run = Run { messages, fill_rate, start, before };
    drain(args, plan, run).await
}

/// What is known before the consumers start.
struct Run {
    messages: u64,
    fill_rate: f64,
    start: Instant,
    before: CpuSnapshot,
}

async fn drain(args: &PopArgs, plan: Rc<Plan>, run: Run) -> Result<Drained> {
    let names = match args.groups {
        0 => vec![QUEUE_MODE.to_owned()],
        count => (0..count).map(|g| format!("group-{g}")).collect(),
    };
    let groups: Vec<Rc<Group>> = names
        .into_iter()
        .map(|name| Rc::new(Group::new(name, Ledger::new(plan.lanes, run.messages, plan.auto_ack))))
        .collect();
    let connections = args.common.connections;
    let tasks: Vec<_> = (0..connections)
        .map(|connection| {
            let (group, index) = (connection % groups.len(), connection / groups.len());
            let members = (connections - group).div_ceil(groups.len());
            tokio::task::spawn_local(Box::pin(consume(
                Rc::clone(&plan),
                Rc::clone(&groups[group]),
                index,
                members,
            )))
        })
        .collect();
    let mut counters = Counters::new()?;
    for task in tasks {
        counters.add(&task.await??)?;
    }
    let after = probe::cpu(&args.common.watched())?;
    if plan.deadline.is_none_or(|d| Instant::now() < d) {
        // Nobody was stopped by the clock, so everybody found the end.
        groups.iter().for_each(|g| g.drained.set(true));
    }
    // Waiting for a drained queue to stay empty is no part of the measured time, unless nothing came at all.
    let drained = groups.iter().all(|g| g.drained.get());
    let last = groups.iter().map(|g| g.progress.get()).max().unwrap_or(run.start);
    let elapsed = if drained { last.max(run.start) - run.start } else { run.start.elapsed() };
    let processes = probe::usage(&run.before, &after, counters.messages);

    let (mut verdict, mut swept) = (Verdict::default(), drained);
    for group in &groups {
        if group.drained.get() {
            let (late, clear) = Box::pin(sweep(Rc::clone(&plan), Rc::clone(group))).await?;
            counters.errors.add(&late.errors);
            swept &= clear;
        }
        verdict.add(&group.ledger.borrow().close(group.drained.get()));
    }
    let Run { messages, fill_rate, .. } = run;
    Ok(Drained { messages, fill_rate, counters, verdict, drained, swept, elapsed, processes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preload_follows_the_rate_within_its_bounds() {
        assert_eq!(needed(1000.0, 10.0, 100, 1_000_000), 12_000);
        assert_eq!(needed(1.0, 1.0, 100, 1_000_000), 100);
        assert_eq!(needed(1e9, 10.0, 100, 5_000), 5_000);
        assert_eq!(needed(1e9, 10.0, 100, 50), 50);
    }
}
