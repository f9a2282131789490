//! The results as a page: ratios first, then what they are made of, so that every ratio can be checked.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::campaign::{Entry, Plan, Who};
use crate::floors::Floor;
use crate::lab::{filesystem, output};
use crate::load::PAYLOAD;
use crate::peer::{Shape, Verb};
use crate::peers::Peer;

/// The batch size at which floors are compared.
const FLOOR_BATCH: usize = 100;

/// Where the run was made.
pub(crate) struct Machine {
    processor: String,
    cores: usize,
    kernel: String,
    memory_mib: u64,
    filesystem: String,
    fdatasync_ms: f64,
    date: String,
}

impl Machine {
    pub(crate) fn look(directory: &Path) -> Result<Self> {
        let read = |path: &str| std::fs::read_to_string(path).with_context(|| format!("read {path}"));
        let field = |text: &str, key: &str| {
            let line = text.lines().find(|line| line.starts_with(key))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let memory = field(&read("/proc/meminfo")?, "MemTotal").unwrap_or_default();
        let kib: u64 = memory.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0);
        Ok(Self {
            processor: field(&read("/proc/cpuinfo")?, "model name").unwrap_or_else(|| "unknown".to_owned()),
            cores: std::thread::available_parallelism()?.get(),
            kernel: read("/proc/sys/kernel/osrelease")?.trim().to_owned(),
            memory_mib: kib >> 10,
            filesystem: filesystem(directory)?,
            fdatasync_ms: bugle_bench::fdatasync_median_ms(directory)?,
            date: output(std::process::Command::new("date").args(["-u", "+%Y-%m-%d %H:%M UTC"]))?,
        })
    }
}

impl Machine {
    /// In one sentence.
    pub(crate) fn told(&self) -> String {
        let Self { processor, cores, kernel, memory_mib, filesystem, fdatasync_ms, date } = self;
        format!(
            "{date}: {processor}, {cores} cores shared by generator, server and database, {memory_mib} MiB, Linux {kernel}, \
             {filesystem}, append of 4 KiB and fdatasync {fdatasync_ms:.2} ms (median)"
        )
    }
}

/// The whole page.
pub(crate) fn text(machine: &Machine, plan: &Plan, entries: &[Entry], took: Duration) -> String {
    let mut page = String::new();
    page.push_str(&opening(machine, plan, took));
    for (engine, others) in [
        (Peer::BuglePostgres, "the peers on PostgreSQL"),
        (Peer::BugleEmbedded, "the peers with storage of their own, and all others"),
    ] {
        if let Some(table) = ratios(plan, entries, engine) {
            let _ = write!(page, "\n## {} against {others}\n\n{RATIO}\n\n{table}", engine.name());
        }
    }
    if let Some(table) = floors(plan, entries) {
        let _ = write!(page, "\n## Against the floors\n\n{FLOORS}\n\n{table}");
    }
    let rates =
        table(plan, entries, |entry, verb, shape| Some(thousands(entry.median(verb, shape)?.per_second())));
    let _ = write!(page, "\n## Messages per second\n\n{rates}");
    let spread = table(plan, entries, |entry, verb, shape| spread(entry, verb, shape));
    let _ = write!(page, "\nLowest and highest of the repetitions:\n\n{spread}");
    let cpu = table(plan, entries, |entry, verb, shape| {
        let median = entry.median(verb, shape)?;
        let per = |micros: u64| micros as f64 / median.messages.max(1) as f64;
        Some(format!("{} + {}", short(per(median.server_cpu)), short(per(median.client_cpu))))
    });
    let _ = write!(page, "\n## CPU per message\n\n{CPU}\n\n{cpu}");
    page.push_str(&systems(entries));
    page
}

const RATIO: &str =
    "Bugle's messages per second divided by the peer's: above 1 Bugle is ahead. Medians of the repetitions.";
const FLOORS: &str = "Pushed messages per second of Bugle divided by those of the floor, batches of 100. A floor does nothing else; a \
    queue also checks, numbers, indexes and answers.";
const CPU: &str = "Microseconds of the server's processes (with its database, if it has one) + of the client. The client is \
    this generator, or Node.js with the library; Bugle's is made for measuring and costs less than those of the others.";

fn opening(machine: &Machine, plan: &Plan, took: Duration) -> String {
    format!(
        "# Bugle beside others\n\n\
         Written by `cargo xtask bench compare`; the run took {:.0} minutes. Chart: [RESULTS.svg](RESULTS.svg).\n\n\
         {}. Loopback. Payloads are JSON of {PAYLOAD} bytes, different \
         each. Every connection has one request in flight (closed loop). Windows of {:.1} s after {:.1} s of warm-up, {} \
         repetition(s), in each of which every system is started, measured and stopped in turn; the median counts. pop means \
         claim and acknowledgement of everything claimed. What comes out is compared with what went in: a damaged or doubled \
         message fails the window.\n\n\
         Every system is set to answer a push when the message is on disk, except where the list at the end says otherwise; \
         the proof is there too.\n",
        took.as_secs_f64() / 60.0,
        machine.told(),
        plan.window.measured.as_secs_f64(),
        plan.window.warmup.as_secs_f64(),
        plan.repetitions,
    )
}

/// The columns: verb, batch, connections.
pub(crate) fn columns(plan: &Plan) -> Vec<(Verb, Shape)> {
    let mut columns = Vec::new();
    for verb in [Verb::Push, Verb::Pop] {
        for batch in &plan.batches {
            columns.extend(plan.connections.iter().map(|c| (verb, Shape { batch: *batch, connections: *c })));
        }
    }
    columns
}

fn head(columns: &[(Verb, Shape)]) -> String {
    let name = |(verb, shape): &(Verb, Shape)| {
        let verb = if *verb == Verb::Push { "push" } else { "pop" };
        format!(" {verb} {}, {} conn |", shape.batch, shape.connections)
    };
    let names: String = columns.iter().map(name).collect();
    format!("| |{names}\n|---|{}\n", "--:|".repeat(columns.len()))
}

fn table(plan: &Plan, entries: &[Entry], cell: impl Fn(&Entry, Verb, Shape) -> Option<String>) -> String {
    let columns = columns(plan);
    let mut text = head(&columns);
    for entry in entries {
        let cells =
            columns.iter().map(|(verb, shape)| cell(entry, *verb, *shape).unwrap_or_else(|| "–".to_owned()));
        let _ = writeln!(text, "| {} | {} |", entry.who.name(), cells.collect::<Vec<_>>().join(" | "));
    }
    text
}

fn find(entries: &[Entry], who: Who) -> Option<&Entry> {
    entries.iter().find(|entry| entry.who == who)
}

fn ratio(ours: &Entry, theirs: &Entry, verb: Verb, shape: Shape) -> Option<f64> {
    let (ours, theirs) = (ours.median(verb, shape)?.per_second(), theirs.median(verb, shape)?.per_second());
    (theirs > 0.0).then(|| ours / theirs)
}

fn ratios(plan: &Plan, entries: &[Entry], engine: Peer) -> Option<String> {
    let ours = find(entries, Who::Peer(engine))?;
    let columns = columns(plan);
    let mut text = head(&columns);
    let against = |peer: Peer| !peer.is_bugle() && (engine == Peer::BugleEmbedded || peer.on_postgres());
    let mut rows = 0;
    for entry in entries.iter().filter(|e| matches!(e.who, Who::Peer(peer) if against(peer))) {
        let cells = columns.iter().map(|(v, s)| ratio(ours, entry, *v, *s).map_or("–".to_owned(), short));
        let _ = writeln!(text, "| {} | {} |", entry.who.name(), cells.collect::<Vec<_>>().join(" | "));
        rows += 1;
    }
    (rows > 0).then_some(text)
}

fn floors(plan: &Plan, entries: &[Entry]) -> Option<String> {
    let shapes: Vec<Shape> = columns(plan)
        .into_iter()
        .filter(|(verb, shape)| *verb == Verb::Push && shape.batch == FLOOR_BATCH)
        .map(|(_, shape)| shape)
        .collect();
    let pairs: [(Peer, &[Floor]); 2] = [
        (Peer::BuglePostgres, &[Floor::Rows, Floor::Blob, Floor::Constant]),
        (Peer::BugleEmbedded, &[Floor::Append, Floor::AppendTogether, Floor::Constant]),
    ];
    let heads: String = shapes.iter().map(|shape| format!(" {} conn |", shape.connections)).collect();
    let mut text = format!("| | floor |{heads}\n|---|---|{}\n", "--:|".repeat(shapes.len()));
    let mut rows = 0;
    for (engine, floors) in pairs {
        let Some(ours) = find(entries, Who::Peer(engine)) else { continue };
        for floor in floors.iter().filter_map(|floor| find(entries, Who::Floor(*floor))) {
            let cells: Vec<String> = shapes
                .iter()
                .map(|shape| {
                    ratio(ours, floor, Verb::Push, *shape).map_or("–".to_owned(), |r| format!("{r:.2}"))
                })
                .collect();
            let _ = writeln!(text, "| {} | {} | {} |", engine.name(), floor.who.name(), cells.join(" | "));
            rows += 1;
        }
    }
    (rows > 0 && !shapes.is_empty()).then_some(text)
}

fn spread(entry: &Entry, verb: Verb, shape: Shape) -> Option<String> {
    let mut rates: Vec<f64> = entry.windows.get(&(verb, shape))?.iter().map(|w| w.per_second()).collect();
    rates.sort_by(f64::total_cmp);
    Some(format!("{}-{}", thousands(*rates.first()?), thousands(*rates.last()?)))
}

fn systems(entries: &[Entry]) -> String {
    let mut text = "\n## Systems, settings and the proof that they sync\n\n\
        The proof: calls that force data to disk, counted by strace in all processes of the server during one second of pushes of \
        one message each over 16 connections, with the messages answered in that second (tracing slows them). One sync may serve \
        several messages that wait together.\n\n| | version | settings and calls | syncs / messages |\n|---|---|---|---|\n"
        .to_owned();
    for entry in entries {
        let (version, settings) = entry
            .facts
            .as_ref()
            .map_or(("not started", ""), |facts| (facts.version.as_str(), facts.settings.as_str()));
        let proof = match &entry.proof {
            None => "–".to_owned(),
            Some(Err(error)) => format!("not proven: {error}"),
            Some(Ok(proof)) if proof.syncs.total() == 0 => format!("**no sync** / {}", proof.messages),
            Some(Ok(proof)) => format!("{} / {}", proof.syncs.told(), proof.messages),
        };
        let _ = writeln!(text, "| {} | {version} | {settings} | {proof} |", entry.who.name());
    }
    let failures: Vec<String> = entries
        .iter()
        .flat_map(|entry| entry.failures.iter().map(|failure| format!("* {}: {failure}\n", entry.who.name())))
        .collect();
    if !failures.is_empty() {
        let _ = write!(text, "\n## What went wrong\n\n{}", failures.concat());
    }
    text
}

/// A number of messages per second, with commas between groups of three digits.
pub(crate) fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Two figures that matter.
fn short(value: f64) -> String {
    if value >= 100.0 {
        format!("{value:.0}")
    } else if value >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::Measured;
    use std::collections::BTreeMap;
    use std::time::Instant;

    fn entry(who: Who, rate: u64) -> Entry {
        let shape = Shape { batch: 100, connections: 16 };
        let window = Measured { messages: rate, seconds: 1.0, server_cpu: rate * 3, client_cpu: rate };
        let windows = BTreeMap::from([((Verb::Push, shape), vec![window])]);
        Entry { who, facts: None, windows, proof: None, failures: Vec::new() }
    }

    fn plan() -> Plan {
        let window = crate::peer::Window { warmup: Duration::ZERO, measured: Duration::from_secs(1) };
        let (batches, connections) = (vec![100], vec![16]);
        Plan { who: Vec::new(), batches, connections, repetitions: 1, window, deadline: Instant::now() }
    }

    #[test]
    fn ratios_are_of_bugle_to_the_peer_and_missing_windows_are_dashes() {
        let entries = [
            entry(Who::Peer(Peer::BuglePostgres), 300),
            entry(Who::Peer(Peer::Pgmq), 100),
            entry(Who::Peer(Peer::Redis), 1),
        ];
        let table = ratios(&plan(), &entries, Peer::BuglePostgres).unwrap_or_default();
        assert!(table.contains("| pgmq | 3.00 | – |"), "{table}");
        assert!(!table.contains("Redis"), "only peers on PostgreSQL: {table}");
        assert!(ratios(&plan(), &entries, Peer::BugleEmbedded).is_none());
    }

    #[test]
    fn floors_are_compared_at_batches_of_a_hundred() {
        let entries = [entry(Who::Peer(Peer::BugleEmbedded), 60), entry(Who::Floor(Floor::Append), 100)];
        let table = floors(&plan(), &entries).unwrap_or_default();
        assert!(table.contains(
            "| Bugle embedded | file: append and fdatasync per batch, one after the other | 0.60 |"
        ));
    }

    #[test]
    fn numbers_are_readable() {
        assert_eq!([thousands(0.4), thousands(999.0), thousands(1_234_567.0)], ["0", "999", "1,234,567"]);
        assert_eq!([short(0.123), short(12.34), short(123.4)], ["0.12", "12.3", "123"]);
    }
}
