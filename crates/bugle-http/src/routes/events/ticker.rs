//! Tells what happens once a second, while somebody listens.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bugle_broker::{HistogramReading, QueueReading, VerbReading, Watching};
use bugle_wire::{LatencyEvent, Millis, QueueMoved, QueuesEvent, ServerEvent, StoreEvent, VerbEvent};
use tokio::time::{MissedTickBehavior, interval};

use crate::app::App;
use crate::hearing::{carriers, hearing};
use crate::hub::Topic;
use crate::inbox::inbox;
use crate::process::Process;
use crate::routes::{resources, waiting};

/// Between two events of a topic.
const TICK: Duration = Duration::from_secs(1);
/// What queues hold is counted at every so many ticks.
const TOTALS_EVERY: u64 = 3;
/// Queues in one event.
const QUEUES: usize = 500;
/// Keys and waiters in one event.
const WAITERS: usize = 200;

/// Runs while somebody listens, and a little longer.
pub(super) async fn tick(app: Arc<App>) {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut before = Before::default();
    for count in 0_u64.. {
        tokio::select! {
            _ = ticks.tick() => {}
            () = app.config.draining.cancelled() => return,
        }
        let Some(topics) = app.hub.wanted() else { return };
        let watches = topics.contains(&Topic::Waiting);
        before.watching =
            watches.then(|| before.watching.take().unwrap_or_else(|| app.broker.watch_waiting()));
        // Whoever asks again after a while is told at once.
        before.counted &= topics.contains(&Topic::Totals);
        for topic in topics {
            match topic {
                Topic::Server => server(&app, &mut before),
                Topic::Queues => queues(&app, &mut before),
                Topic::Waiting => {
                    let (room, reading) = (app.broker.waiting_room(WAITERS), app.broker.read());
                    let event = waiting::answer(&room, &reading, Millis(app.broker.now().latest.0));
                    app.hub.send(topic, &event);
                }
                Topic::Totals if count % TOTALS_EVERY != 0 && before.counted => {}
                Topic::Totals => {
                    before.counted = true;
                    // While the store is away there is nothing to tell, which the topic `server` tells.
                    if let Ok(overview) = app.broker.overview().await {
                        app.hub.send(topic, &resources::overview_answer(&overview));
                    }
                }
            }
        }
    }
}

/// What the last tick saw.
#[derive(Default)]
struct Before {
    watching: Option<Watching>,
    counted: bool,
    latencies: [Option<HistogramReading>; 3],
    queues: Option<(Instant, HashMap<Arc<str>, QueueReading>)>,
}

fn server(app: &App, before: &mut Before) {
    let reading = app.broker.read();
    let process = Process::read().unwrap_or_default();
    let verb = |verb: &VerbReading| VerbEvent {
        requests: verb.requests,
        messages: verb.messages,
        refused: verb.refused,
    };
    let now = [&reading.waiting.wake_to_delivery, &reading.push.took, &reading.ack.took];
    let mut latencies = [None; 3];
    for (at, now) in now.into_iter().enumerate() {
        latencies[at] = before.latencies[at].as_ref().and_then(|before| latency(before, now));
        before.latencies[at] = Some(now.clone());
    }
    let [wake, push_latency, ack_latency] = latencies;
    let event = ServerEvent {
        at: Millis(app.broker.now().latest.0),
        uptime_ms: millis(reading.uptime),
        push: verb(&reading.push),
        pop: verb(&reading.pop),
        ack: verb(&reading.ack),
        transaction: verb(&reading.transact),
        acks_rejected: reading.acks_rejected,
        dead_lettered: reading.dead_lettered,
        redriven: reading.redriven,
        waiting: reading.waiting.waiting,
        wakes: reading.waiting.wakes.iter().map(|(source, count)| (source.name(), *count)).collect(),
        wake,
        push_latency,
        ack_latency,
        store: StoreEvent {
            engine: &app.config.engine,
            connected: reading.store.connected,
            calls: reading.store.calls,
            errors: reading.store.errors,
        },
        hearing: hearing(&reading),
        carriers: carriers(&reading),
        inbox: inbox(&reading),
        push_maintenance: reading.switches.push_maintenance,
        pop_maintenance: reading.switches.pop_maintenance,
        memory_bytes: process.resident_bytes,
        cpu_us: u64::try_from((process.user + process.system).as_micros()).unwrap_or(u64::MAX),
    };
    app.hub.send(Topic::Server, &event);
}

fn queues(app: &App, before: &mut Before) {
    let now = Instant::now();
    let read: HashMap<Arc<str>, QueueReading> =
        app.broker.read_all().queues.into_iter().map(|queue| (queue.name.clone(), queue)).collect();
    if let Some((then, known)) = &before.queues {
        let mut moved: Vec<QueueMoved<'_>> =
            read.values().filter_map(|queue| movement(known.get(&queue.name), queue)).collect();
        moved.sort_by_key(|queue| std::cmp::Reverse(queue.pushed + queue.popped + queue.acked));
        let truncated = moved.len() > QUEUES;
        moved.truncate(QUEUES);
        let (at, elapsed_ms) = (Millis(app.broker.now().latest.0), millis(now - *then));
        app.hub.send(Topic::Queues, &QueuesEvent { at, elapsed_ms, queues: moved, truncated });
    }
    before.queues = Some((now, read));
}

/// What happened on a queue between two looks; `None` = nothing.
fn movement<'a>(before: Option<&QueueReading>, now: &'a QueueReading) -> Option<QueueMoved<'a>> {
    let since = |count: fn(&QueueReading) -> u64| count(now).saturating_sub(before.map_or(0, count));
    let moved = QueueMoved {
        name: &now.name,
        pushed: since(|queue| queue.pushed),
        popped: since(|queue| queue.popped),
        acked: since(|queue| queue.acked),
        waiting: now.waiting,
    };
    let waits = before.map_or(0, |before| before.waiting) != now.waiting;
    (moved.pushed + moved.popped + moved.acked > 0 || waits).then_some(moved)
}

/// What lies between two looks at a histogram; `None` = nothing.
fn latency(before: &HistogramReading, now: &HistogramReading) -> Option<LatencyEvent> {
    let count = now.count.checked_sub(before.count).filter(|count| *count > 0)?;
    let buckets: Vec<(f64, u64)> = now
        .buckets
        .iter()
        .zip(&before.buckets)
        .map(|((bound, now), (_, before))| (*bound, now.saturating_sub(*before)))
        .collect();
    let at = |part: f64| quantile(&buckets, count, part) * 1e3;
    Some(LatencyEvent { count, p50: at(0.5), p99: at(0.99) })
}

/// Where a part of all durations ends, in seconds, by cumulative buckets: evenly inside of one. What lies beyond the last
/// bound counts as that.
fn quantile(buckets: &[(f64, u64)], count: u64, part: f64) -> f64 {
    let wanted = part * count as f64;
    let (mut low, mut below) = (0.0, 0);
    for (bound, upto) in buckets {
        if *upto as f64 >= wanted && *upto > below {
            return low + (bound - low) * ((wanted - below as f64) / (upto - below) as f64).clamp(0.0, 1.0);
        }
        (low, below) = (*bound, *upto);
    }
    low
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(counts: [u64; 3], count: u64) -> HistogramReading {
        let buckets = [0.001, 0.01, 0.1].into_iter().zip(counts).collect();
        HistogramReading { buckets, count, sum: 0.0 }
    }

    #[test]
    fn a_second_is_what_lies_between_two_looks() {
        assert_eq!(latency(&reading([5, 5, 5], 5), &reading([5, 5, 5], 5)), None);
        let seen = latency(&reading([5, 5, 5], 5), &reading([5, 15, 15], 15)).unwrap();
        assert_eq!(seen.count, 10);
        assert!((seen.p50 - 5.5).abs() < 1e-9, "{seen:?}");
        assert!(seen.p99 > 9.0 && seen.p99 <= 10.0, "{seen:?}");
        let beyond = latency(&reading([0, 0, 0], 0), &reading([0, 0, 0], 4)).unwrap();
        assert!((beyond.p99 - 100.0).abs() < 1e-9, "all beyond the last bound: {beyond:?}");
    }

    #[test]
    fn only_what_moved_is_told() {
        let queue = |pushed, waiting| QueueReading {
            name: "q".into(),
            pushed,
            popped: 2,
            acked: 1,
            waiting,
            overdue: 0,
        };
        assert_eq!(movement(Some(&queue(3, 1)), &queue(3, 1)), None);
        let told = |before: Option<&QueueReading>, now: &QueueReading| {
            movement(before, now).map(|m| (m.pushed, m.popped, m.acked, m.waiting))
        };
        assert_eq!(told(Some(&queue(3, 1)), &queue(5, 1)), Some((2, 0, 0, 1)));
        assert_eq!(told(Some(&queue(3, 1)), &queue(3, 0)), Some((0, 0, 0, 0)), "somebody left");
        assert_eq!(told(None, &queue(3, 0)), Some((3, 2, 1, 0)), "a queue that is new here");
    }
}
