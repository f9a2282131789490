//! `idle`: many consumers wait, nothing happens, each asks again every half minute. What that costs is waste.

use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::cli_wait::IdleArgs;
use crate::client::Target;
use crate::gauge::Waiters;
use crate::line::Exchange;
use crate::observe::Observer;
use crate::stats::{rate, round};
use crate::waiters::{Parking, Tally};
use crate::{Outcome, gauge, probe, setup};

const START_LIMIT: Duration = Duration::from_secs(60);
/// When waiters have left, the server is watched for at most this long.
const DEPART_LIMIT: Duration = Duration::from_secs(30);
/// Allocators give memory back late; it is read once more after this long.
const MEMORY_LATER: Duration = Duration::from_secs(5);

/// Runs the command.
pub(crate) async fn run(args: IdleArgs) -> Result<Outcome> {
    args.check()?;
    let prefix = args.reach.prefix()?;
    let observer = Observer::new(&args.watch).await?;
    let repoll_ms = (args.repoll_seconds * 1e3) as u64;
    let limit = Duration::from_millis(repoll_ms) + Duration::from_secs(15);
    let target = Target::new(&args.reach.url, args.reach.token.as_deref(), limit)?;
    let queues = args.queues.unwrap_or(args.keys);
    setup::create_queues(&target, (0..queues).map(|queue| format!("{prefix}-{queue}")).collect()).await?;
    let before = Memory::of(args.watch.pid);

    let mut servers = [Exchange::open(target.clone(), args.reach.streams()).await?];
    let (tally, mut tasks) = (Rc::new(Tally::default()), JoinSet::new());
    let parking = Parking {
        waiters: args.waiters,
        keys: keys(&prefix, args.keys, queues),
        repoll_ms,
        starts_per_second: args.reach.starts_per_second,
    };
    parking.start(&mut servers, &tally, &mut tasks).await?;
    tally.all_waiting(args.waiters, START_LIMIT).await?;
    tokio::time::sleep(Duration::from_secs_f64(args.settle_seconds)).await;

    let (window, polls, start) = (observer.begin().await?, tally.polls.get(), Instant::now());
    tokio::time::sleep(Duration::from_secs_f64(args.seconds)).await;
    let (polls, elapsed) = (tally.polls.get() - polls, start.elapsed());
    let usage = observer.end(&window).await?;
    let (waiting, during) = (tally.waiting(), Memory::of(args.watch.pid));
    let parked = gauge::waiters(&target).await;
    let streams = servers[0].streams();
    let departure = if args.depart {
        drop(servers);
        depart(tasks, &target, &args, &before).await
    } else {
        tasks.shutdown().await;
        Value::Null
    };

    let mut json = json!({
        "command": "idle", "url": args.reach.url, "queue": prefix, "waiters": args.waiters, "keys": args.keys,
        "queues": queues, "repoll_seconds": args.repoll_seconds, "seconds": args.seconds,
        "settle_seconds": args.settle_seconds, "h2": args.reach.h2, "streams_per_connection": streams,
        "requests_waiting_at_end": waiting, "server_waiters": Waiters::json(parked), "repolls_per_s": rate(polls, elapsed),
        "unexpected_messages": tally.unexpected.get(), "errors": tally.errors.borrow().json(),
        "server_rss_kib_before": before.rss, "server_rss_kib_waiting": during.rss,
        "server_rss_bytes_per_waiter": per_waiter(before.rss, during.rss, args.waiters),
        "generator_rss_kib": probe::rss_kib(std::process::id()),
        "departure": departure,
    });
    json.as_object_mut().into_iter().for_each(|map| map.extend(usage.clone()));
    let all_there = waiting + args.waiters / 100 >= args.waiters;
    Ok(Outcome { json, ok: all_there && tally.unexpected.get() == 0, table: None })
}

/// Keys over queues: the first of each queue, then the second, and so on.
fn keys(prefix: &str, keys: usize, queues: usize) -> Vec<(String, String)> {
    (0..keys).map(|key| (format!("{prefix}-{}", key % queues), format!("g{}", key / queues))).collect()
}

/// What a process holds.
struct Memory {
    rss: Option<u64>,
    descriptors: Option<u64>,
}

impl Memory {
    fn of(pid: Option<u32>) -> Self {
        Self { rss: pid.and_then(probe::rss_kib), descriptors: pid.and_then(probe::descriptors) }
    }
}

fn per_waiter(before: Option<u64>, during: Option<u64>, waiters: usize) -> Option<f64> {
    Some(round((during? as f64 - before? as f64) * 1024.0 / waiters as f64))
}

/// Closes all connections and watches the server forget.
async fn depart(mut tasks: JoinSet<()>, target: &Target, args: &IdleArgs, before: &Memory) -> Value {
    let start = Instant::now();
    tasks.shutdown().await;
    let closing = start.elapsed();
    let (mut forgotten, mut closed, mut last) = (None, None, None);
    while start.elapsed() < DEPART_LIMIT && (forgotten.is_none() || closed.is_none()) {
        if forgotten.is_none() {
            last = gauge::waiters(target).await;
            forgotten = match last {
                Some(waiters) if waiters.count > 0.0 => None,
                Some(_) => Some(ms(start.elapsed())),
                None => Some(Value::Null),
            };
        }
        if closed.is_none() {
            match (Memory::of(args.watch.pid).descriptors, before.descriptors) {
                // A few more may stand open for reasons of the server's own.
                (Some(now), Some(then)) if now > then + 10 => {}
                (Some(_), Some(_)) => closed = Some(ms(start.elapsed())),
                _ => closed = Some(Value::Null),
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let soon = Memory::of(args.watch.pid).rss;
    if soon.is_some() {
        tokio::time::sleep(MEMORY_LATER).await;
    }
    json!({
        "closing_took_ms": ms(closing),
        "server_has_no_waiters_after_ms": forgotten,
        "server_waiters": Waiters::json(last),
        "server_connections_closed_after_ms": closed,
        "server_rss_kib": soon,
        "server_rss_kib_5_s_later": Memory::of(args.watch.pid).rss,
    })
}

fn ms(time: Duration) -> Value {
    json!(round(time.as_secs_f64() * 1e3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_different_pairs_over_all_queues() {
        let keys = keys("q", 5, 2);
        assert_eq!(keys[0], ("q-0".to_owned(), "g0".to_owned()));
        assert_eq!(keys[1], ("q-1".to_owned(), "g0".to_owned()));
        assert_eq!(keys[4], ("q-0".to_owned(), "g2".to_owned()));
        assert_eq!(keys.iter().collect::<std::collections::HashSet<_>>().len(), 5);
    }

    #[test]
    fn memory_per_waiter_is_known_only_with_both_readings() {
        assert_eq!(per_waiter(Some(1000), Some(3000), 2000), Some(1024.0));
        assert_eq!(per_waiter(None, Some(3000), 2000), None);
    }
}
