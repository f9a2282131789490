//! From two looks at a server to the lines of a screen. Pure, so that every number in it can be tested.

use std::collections::BTreeMap;
use std::time::Instant;

use bugle_client::Group;
use serde_json::Value;

use super::counters::Counters;
use crate::output::plain;

const WAKES: &str = "bugle_wake_to_delivery_seconds_bucket";

/// What was seen at one time.
#[derive(Clone)]
pub(super) struct Look {
    pub(super) at: Instant,
    pub(super) counters: Counters,
    pub(super) overview: Value,
    pub(super) groups: Vec<Group>,
}

/// Of a screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) columns: usize,
    pub(super) lines: usize,
}

/// A line of the table of queues.
#[derive(Clone, Debug, Default, PartialEq)]
struct Row {
    pushed: f64,
    popped: f64,
    acked: f64,
    waiting: f64,
    lag: u64,
    behind: f64,
}

/// As many lines as fit, none wider than the screen.
pub(super) fn lines(server: &str, before: &Look, now: &Look, size: Size) -> Vec<String> {
    let mut lines = head(server, before, now);
    lines.push(String::new());
    let name = size.columns.saturating_sub(57).clamp(8, 60);
    lines.push(format!(
        "{:<name$} {:>8} {:>8} {:>8} {:>8} {:>10} {:>8}",
        "QUEUE", "PUSH/S", "POP/S", "ACK/S", "WAITING", "LAG", "BEHIND"
    ));
    let rows = rows(before, now);
    let room = size.lines.saturating_sub(lines.len() + 1);
    for (queue, row) in rows.iter().take(room) {
        let Row { pushed, popped, acked, waiting, lag, behind } = row;
        let queue = cut(&plain(queue), name);
        let behind = if *lag > 0 { spelled_seconds(*behind) } else { "-".to_owned() };
        lines.push(format!(
            "{queue:<name$} {pushed:>8.0} {popped:>8.0} {acked:>8.0} {waiting:>8.0} {lag:>10} {behind:>8}"
        ));
    }
    let more = rows.len().saturating_sub(room);
    lines.push(if more > 0 { format!("… and {more} more   q quits") } else { "q quits".to_owned() });
    lines.iter().map(|line| cut(line, size.columns)).collect()
}

fn head(server: &str, before: &Look, now: &Look) -> Vec<String> {
    let rate = |name: &str| per_second(before, now, |look| look.counters.sum(name));
    let verb = |verb: &str| {
        per_second(before, now, |look| {
            // A transaction's messages are pushed or acknowledged too, but counted by themselves.
            look.counters.with("bugle_messages_total", "verb", verb)
        })
    };
    let counters = &now.counters;
    let version = counters.by("bugle_build_info", "version").next().map_or("?", |(version, _)| version);
    let store = if counters.sum("bugle_store_up") > 0.0 { "up" } else { "DOWN" };
    let number = |at: &str| now.overview.pointer(at).and_then(Value::as_f64).unwrap_or_default();
    let wake = p99(before, now).map_or_else(|| "-".to_owned(), |seconds| format!("{} ms", seconds * 1000.0));
    vec![
        format!(
            "bugle {version}  {server}  up {}  store {store}  memory {:.0} MiB",
            spelled_seconds(counters.sum("bugle_uptime_seconds")),
            counters.sum("bugle_process_resident_memory_bytes") / f64::from(1 << 20),
        ),
        format!(
            "push {:.0}/s  pop {:.0}/s  ack {:.0}/s  transactions {:.0}/s  errors {:.0}/s",
            verb("push"),
            verb("pop"),
            verb("ack"),
            verb("transaction"),
            rate("bugle_http_errors_total") + rate("bugle_store_errors_total"),
        ),
        format!(
            "queues {:.0}  pending {:.0}  processing {:.0}  dead letters {:.0}  oldest {}",
            number("/queues"),
            number("/messages/pending"),
            number("/messages/processing"),
            number("/messages/deadLetter"),
            spelled_seconds(number("/lag/time/max")),
        ),
        format!(
            "waiters {:.0}  parked {:.0}  wakes {:.0}/s  p99 wake {wake}",
            counters.sum("bugle_waiters"),
            counters.sum("bugle_waiters_parked"),
            rate("bugle_wakes_total"),
        ),
    ]
}

fn per_second(before: &Look, now: &Look, value: impl Fn(&Look) -> f64) -> f64 {
    let seconds = (now.at - before.at).as_secs_f64();
    // A server that was started again counts from 0.
    if seconds > 0.0 { (value(now) - value(before)).max(0.0) / seconds } else { 0.0 }
}

/// The bound below which 99 of 100 deliveries after a wake were since the look before, or ever if there was none since.
fn p99(before: &Look, now: &Look) -> Option<f64> {
    let counts = |look: &Look| -> Vec<(f64, f64)> {
        let all = look.counters.by(WAKES, "le");
        all.map(|(bound, count)| (bound.parse().unwrap_or(f64::INFINITY), count)).collect()
    };
    let (old, new) = (counts(before), counts(now));
    let all = |counts: &[(f64, f64)]| counts.iter().map(|(_, count)| *count).fold(0.0, f64::max);
    let since: Vec<(f64, f64)> = if all(&new) > all(&old) && old.len() == new.len() {
        new.iter().zip(&old).map(|((bound, new), (_, old))| (*bound, new - old)).collect()
    } else {
        new
    };
    let wanted = all(&since) * 0.99;
    let bound = since.iter().find(|(_, count)| wanted > 0.0 && *count >= wanted)?.0;
    bound.is_finite().then_some(bound)
}

/// Queues with traffic, waiters or lag; the busiest first.
fn rows(before: &Look, now: &Look) -> Vec<(String, Row)> {
    let mut rows: BTreeMap<String, Row> = BTreeMap::new();
    let mut rates = |name: &str, set: fn(&mut Row, f64)| {
        for (queue, _) in now.counters.by(name, "queue") {
            let rate = per_second(before, now, |look| look.counters.with(name, "queue", queue));
            set(rows.entry(queue.to_owned()).or_default(), rate);
        }
    };
    rates("bugle_queue_pushed_total", |row, rate| row.pushed = rate);
    rates("bugle_queue_popped_total", |row, rate| row.popped = rate);
    rates("bugle_queue_acked_total", |row, rate| row.acked = rate);
    for (queue, waiting) in now.counters.by("bugle_queue_waiting", "queue") {
        rows.entry(queue.to_owned()).or_default().waiting = waiting;
    }
    for group in &now.groups {
        let row = rows.entry(group.queue_name.clone()).or_default();
        row.lag = row.lag.max(group.total_lag.unwrap_or_default());
        row.behind = row.behind.max(group.max_time_lag.unwrap_or_default());
    }
    let mut rows: Vec<(String, Row)> = rows.into_iter().collect();
    // Where there are very many queues, what has no series of its own is counted together under this name.
    rows.retain(|(queue, row)| queue != "other" || *row != Row::default());
    let busy = |row: &Row| row.pushed + row.popped + row.acked;
    rows.sort_by(|(_, a), (_, b)| busy(b).total_cmp(&busy(a)).then(b.lag.cmp(&a.lag)));
    rows
}

/// `7 s`, `3 m 20 s`, `5 h 1 m`, `2 d 3 h`.
fn spelled_seconds(seconds: f64) -> String {
    let whole = seconds.max(0.0) as u64;
    match whole {
        0..60 => format!("{whole}s"),
        60..3600 => format!("{}m{}s", whole / 60, whole % 60),
        3600..86_400 => format!("{}h{}m", whole / 3600, whole % 3600 / 60),
        _ => format!("{}d{}h", whole / 86_400, whole % 86_400 / 3600),
    }
}

/// No wider than so many columns.
pub(super) fn cut(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    text.chars().take(columns.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn look(at: Instant, counters: &str) -> Look {
        let group: Group = serde_json::from_str(
            r#"{"name":"g","queueName":"slow","totalLag":12,"maxTimeLag":75,"members":1,"partitionsWithLag":1}"#,
        )
        .unwrap();
        Look { at, counters: Counters::read(counters), overview: Value::Null, groups: vec![group] }
    }

    fn two_looks() -> (Look, Look) {
        let start = Instant::now();
        let first = "bugle_messages_total{verb=\"push\"} 100\nbugle_queue_pushed_total{queue=\"q\"} 100\n\
            bugle_wake_to_delivery_seconds_bucket{le=\"0.001\"} 5\nbugle_wake_to_delivery_seconds_bucket{le=\"+Inf\"} 5\n";
        let later = "bugle_messages_total{verb=\"push\"} 140\nbugle_queue_pushed_total{queue=\"q\"} 120\n\
            bugle_wake_to_delivery_seconds_bucket{le=\"0.001\"} 15\nbugle_wake_to_delivery_seconds_bucket{le=\"+Inf\"} 15\n\
            bugle_waiters 3\nbugle_queue_waiting{queue=\"q\"} 2\n";
        (look(start, first), look(start + Duration::from_secs(2), later))
    }

    #[test]
    fn rates_are_differences_over_time() {
        let (before, now) = two_looks();
        let all = lines("http://s", &before, &now, Size { columns: 80, lines: 24 }).join("\n");
        for part in ["push 20/s", "waiters 3", "p99 wake 1 ms", "q quits"] {
            assert!(all.contains(part), "{part} in {all}");
        }
        let rows = rows(&before, &now);
        assert_eq!(rows[0].0, "q");
        assert_eq!(rows[0].1, Row { pushed: 10.0, waiting: 2.0, ..Row::default() });
        assert_eq!((rows[1].0.as_str(), rows[1].1.lag, rows[1].1.behind), ("slow", 12, 75.0));
    }

    #[test]
    fn a_frame_fits_its_screen() {
        let (before, now) = two_looks();
        for size in
            [Size { columns: 80, lines: 24 }, Size { columns: 30, lines: 8 }, Size { columns: 1, lines: 1 }]
        {
            let all = lines("http://a.very.long.name.of.a.server:6632", &before, &now, size);
            assert!(all.iter().all(|line| line.chars().count() <= size.columns), "{size:?} {all:?}");
            assert!(size.lines < 8 || all.len() <= size.lines, "{size:?} {all:?}");
        }
    }

    #[test]
    fn a_server_that_was_started_again_has_no_negative_rates() {
        let (before, now) = two_looks();
        let all = lines("s", &Look { at: before.at, ..now.clone() }, &Look { at: now.at, ..before }, PAPER)
            .join("\n");
        assert!(all.contains("push 0/s") && !all.contains("-1"), "{all}");
    }

    const PAPER: Size = Size { columns: 80, lines: 24 };

    #[test]
    fn times_are_short() {
        assert_eq!([7.9, 200.0, 18_060.0, 183_600.0].map(spelled_seconds), ["7s", "3m20s", "5h1m", "2d3h"]);
    }
}
