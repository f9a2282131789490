//! The run: every system in turn, as often as asked for, so that what the machine does meanwhile falls on all of them.

use std::collections::BTreeMap;
use std::process::Command;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::floors::Floor;
use crate::lab::{Lab, output};
use crate::load::{self, Books};
use crate::peer::{Driver, Facts, Measured, Running, Shape, Verb, Window};
use crate::peers::Peer;
use crate::postgres;
use crate::syncs::{Syncs, Tracer};

/// The least and the most messages a queue is filled with before it is drained.
const STOCK: (u64, u64) = (10_000, 600_000);
/// The proof that a system syncs is made with single messages, where each push needs its own.
const PROOF: Shape = Shape { batch: 1, connections: 16 };
const PROOF_WINDOW: Window = Window { warmup: Duration::ZERO, measured: Duration::from_secs(1) };

/// Who is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Who {
    Peer(Peer),
    Floor(Floor),
}

impl Who {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Peer(peer) => peer.name(),
            Self::Floor(floor) => floor.name(),
        }
    }

    async fn start(self, lab: &Lab) -> Result<Running> {
        match self {
            Self::Peer(peer) => peer.start(lab).await,
            Self::Floor(floor) => floor.start(lab).await,
        }
    }
}

/// What is measured, and for how long.
pub(crate) struct Plan {
    pub(crate) who: Vec<Who>,
    pub(crate) batches: Vec<usize>,
    pub(crate) connections: Vec<usize>,
    pub(crate) repetitions: usize,
    pub(crate) window: Window,
    /// Nothing new is started after this.
    pub(crate) deadline: Instant,
}

/// The proof that a system syncs.
pub(crate) struct Proof {
    pub(crate) syncs: Syncs,
    pub(crate) messages: u64,
}

/// All that is known of one system after the run.
pub(crate) struct Entry {
    pub(crate) who: Who,
    pub(crate) facts: Option<Facts>,
    pub(crate) windows: BTreeMap<(Verb, Shape), Vec<Measured>>,
    pub(crate) proof: Option<Result<Proof, String>>,
    pub(crate) failures: Vec<String>,
}

impl Entry {
    /// The window with the median rate.
    pub(crate) fn median(&self, verb: Verb, shape: Shape) -> Option<Measured> {
        let mut windows = self.windows.get(&(verb, shape))?.clone();
        windows.sort_by(|a, b| a.per_second().total_cmp(&b.per_second()));
        windows.get(windows.len() / 2).copied()
    }

    /// How much to fill in so that the next window does not run out: a third more than the fastest one took, or, before the
    /// first, what the pushes of the same shape would have left.
    fn stock(&self, shape: Shape, window: Window) -> u64 {
        let fastest = |verb| {
            let windows = self.windows.get(&(verb, shape))?;
            windows.iter().map(Measured::per_second).max_by(f64::total_cmp)
        };
        let rate = fastest(Verb::Pop).map(|rate| rate * 1.33).or_else(|| fastest(Verb::Push)).unwrap_or(0.0);
        ((rate * window.measured.as_secs_f64()) as u64).clamp(STOCK.0, STOCK.1)
    }
}

/// Measures everything. What fails is noted and the run goes on.
pub(crate) async fn run(lab: &Lab, plan: &Plan) -> Vec<Entry> {
    let empty = |who: &Who| Entry {
        who: *who,
        facts: None,
        windows: BTreeMap::new(),
        proof: None,
        failures: Vec::new(),
    };
    let mut entries: Vec<Entry> = plan.who.iter().map(empty).collect();
    for repetition in 0..plan.repetitions {
        for entry in &mut entries {
            let name = entry.who.name();
            if Instant::now() > plan.deadline {
                entry
                    .failures
                    .push(format!("repetition {} left out: the time of the run was over", repetition + 1));
                continue;
            }
            eprintln!("repetition {} of {}: {name}", repetition + 1, plan.repetitions);
            if let Err(error) = visit(lab, plan, entry).await {
                eprintln!("  failed: {error:#}");
                entry.failures.push(format!("{error:#}"));
            }
        }
    }
    entries
}

/// Until what was written by those before is on disk: nobody is measured beside another's writes.
async fn settle(lab: &Lab) -> Result<()> {
    postgres::connect(&lab.dsn).await?.batch_execute("CHECKPOINT").await.context("checkpoint")?;
    output(&mut Command::new("sync")).map(drop)
}

/// Starts one system, measures all shapes, stops it.
async fn visit(lab: &Lab, plan: &Plan, entry: &mut Entry) -> Result<()> {
    settle(lab).await?;
    let mut running = entry.who.start(lab).await.context("start")?;
    entry.facts.get_or_insert_with(|| running.facts.clone());
    if entry.proof.is_none() && matches!(entry.who, Who::Peer(_)) {
        let proof = prove(lab, &mut running).await;
        entry.proof = Some(proof.map_err(|error| format!("{error:#}")));
    }
    for (batch, connections) in plan.batches.iter().flat_map(|b| plan.connections.iter().map(|c| (*b, *c))) {
        let shape = Shape { batch, connections };
        if let Err(error) = measure(&mut running, entry, shape, plan.window).await {
            eprintln!("  batch {batch}, {connections} connections failed: {error:#}");
            entry.failures.push(format!("batch {batch}, {connections} connections: {error:#}"));
        }
    }
    stop(running).await
}

async fn stop(mut running: Running) -> Result<()> {
    if let Driver::Whole(whole) = running.driver {
        whole.close().await?;
    }
    for process in &mut running.processes {
        process.stop().await?;
    }
    Ok(())
}

/// Pushes and then pops in one shape.
async fn measure(running: &mut Running, entry: &mut Entry, shape: Shape, window: Window) -> Result<()> {
    let pids = running.pids.clone();
    match &mut running.driver {
        Driver::Clients(clients) => {
            clients.fresh().await?;
            let books = Rc::new(Books::new()?);
            let pushed = load::push(clients.as_ref(), &pids, &books, shape, window).await?;
            note(entry, Verb::Push, shape, pushed);
            if clients.consumes() {
                let stock = entry.stock(shape, window);
                let popped = load::pop(clients.as_ref(), &pids, &books, shape, window, stock).await?;
                note(entry, Verb::Pop, shape, popped);
            }
        }
        Driver::Whole(whole) => {
            let pushed = whole.push(shape, window).await?;
            note(entry, Verb::Push, shape, pushed);
            if whole.consumes() {
                let popped = whole.pop(shape, window, entry.stock(shape, window)).await?;
                note(entry, Verb::Pop, shape, popped);
            }
        }
    }
    Ok(())
}

fn note(entry: &mut Entry, verb: Verb, shape: Shape, measured: Measured) {
    let (batch, connections, rate) = (shape.batch, shape.connections, measured.per_second());
    eprintln!("  {verb:?} batch {batch}, {connections} connections: {rate:.0} msgs/s");
    entry.windows.entry((verb, shape)).or_default().push(measured);
}

/// Counts syncs from outside during a short run of single messages.
async fn prove(lab: &Lab, running: &mut Running) -> Result<Proof> {
    let pids = running.pids.clone();
    if let Driver::Clients(clients) = &mut running.driver {
        clients.fresh().await?;
    }
    let tracer = Tracer::attach(&pids, &lab.directory).await?;
    let pushed = match &mut running.driver {
        Driver::Clients(clients) => {
            load::push(clients.as_ref(), &pids, &Rc::new(Books::new()?), PROOF, PROOF_WINDOW).await
        }
        Driver::Whole(whole) => whole.push(PROOF, PROOF_WINDOW).await,
    };
    let syncs = tracer.detach()?;
    Ok(Proof { syncs, messages: pushed?.messages })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { batch: 10, connections: 16 };

    fn entry(push: &[u64], pop: &[u64]) -> Entry {
        let windows = |rates: &[u64]| {
            rates
                .iter()
                .map(|messages| Measured { messages: *messages, seconds: 1.0, ..Measured::default() })
                .collect()
        };
        let all = [((Verb::Push, SHAPE), windows(push)), ((Verb::Pop, SHAPE), windows(pop))];
        let windows = all.into_iter().filter(|(_, w): &(_, Vec<_>)| !w.is_empty()).collect();
        Entry { who: Who::Floor(Floor::Rows), facts: None, windows, proof: None, failures: Vec::new() }
    }

    #[test]
    fn the_median_window_is_reported() {
        assert_eq!(entry(&[30, 10, 20], &[]).median(Verb::Push, SHAPE).map(|m| m.messages), Some(20));
        assert!(entry(&[], &[]).median(Verb::Push, SHAPE).is_none());
    }

    #[test]
    fn the_stock_follows_what_was_measured_within_its_bounds() {
        let window = Window { warmup: Duration::ZERO, measured: Duration::from_secs(2) };
        assert_eq!(entry(&[], &[]).stock(SHAPE, window), STOCK.0);
        assert_eq!(entry(&[20_000], &[]).stock(SHAPE, window), 40_000);
        assert_eq!(entry(&[20_000], &[100_000, 50_000]).stock(SHAPE, window), 266_000);
        assert_eq!(entry(&[10_000_000], &[]).stock(SHAPE, window), STOCK.1);
    }
}
