//! Idle: statements that reach PostgreSQL from a runtime with an empty registry and nothing to do.
//!
//! All contenders are watched in the same minutes, each in a database of its own: what is counted does not depend on how
//! fast anything is.

use std::thread;

use anyhow::{Context, Result, anyhow};
use duroxide::OrchestrationRegistry;
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;

use crate::contender::Contender;
use crate::lab::Lab;
use crate::stage::Stage;
use crate::table::{Better, Cell, Line, Table, Unavailable};
use crate::workload::dispatchers;

/// Dispatchers of each kind: the runtime's default and a busy server's.
const SIZES: [usize; 2] = [2, 8];

struct Idle {
    statements_per_s: f64,
    statements: i64,
    connections: u64,
}

pub(crate) fn run(lab: &Lab, contenders: &[Contender]) -> Table {
    let window = lab.scale.idle_window.as_secs();
    let about = format!(
        "Calls counted by `pg_stat_statements` over {window} s for one node whose runtime has an empty registry and otherwise \
         defaults; in brackets the calls."
    );
    let mut lines = Vec::new();
    let outcomes = match &lab.uncounted {
        None => all(lab, contenders),
        Some(reason) => {
            let gap = |size| (size, contenders.iter().map(|c| (*c, Err(uncounted(reason)))).collect());
            SIZES.into_iter().map(gap).collect()
        }
    };
    for (size, outcomes) in outcomes {
        let cells = |figure: fn(&Idle) -> Cell| {
            outcomes.iter().map(|(c, outcome)| (*c, Cell::from_result(outcome, figure))).collect()
        };
        let rate = |idle: &Idle| Cell::Figure {
            text: format!("{:.3} ({})", idle.statements_per_s, idle.statements),
            number: idle.statements_per_s,
        };
        let label = format!("statements/s, {size}+{size} dispatchers");
        lines.push(Line { label, better: Better::Lower, cells: cells(rate) });
        let label = format!("connections held, {size}+{size} dispatchers");
        let connections = |idle: &Idle| Cell::count(idle.connections);
        lines.push(Line { label, better: Better::Lower, cells: cells(connections) });
    }
    Table { title: "Idle load", about, lines }
}

/// Why figures made of statements are missing.
pub(crate) fn uncounted(reason: &str) -> anyhow::Error {
    Unavailable(format!("needs pg_stat_statements: {reason}")).into()
}

type Outcomes = Vec<(Contender, Result<Idle>)>;

fn all(lab: &Lab, contenders: &[Contender]) -> Vec<(usize, Outcomes)> {
    thread::scope(|scope| {
        let start = |size: usize, contender: Contender| {
            let name = format!("idle{size}");
            scope.spawn(move || lab.measure(&name, contender, async |stage| idle(lab, stage, size).await))
        };
        let started: Vec<_> = SIZES
            .into_iter()
            .map(|size| (size, contenders.iter().map(|c| (*c, start(size, *c))).collect::<Vec<_>>()))
            .collect();
        let ended = |(contender, thread): (Contender, thread::ScopedJoinHandle<'_, Result<Idle>>)| {
            (contender, thread.join().unwrap_or_else(|_| Err(anyhow!("panicked"))))
        };
        started.into_iter().map(|(size, threads)| (size, threads.into_iter().map(ended).collect())).collect()
    })
}

async fn idle(lab: &Lab, stage: &Stage, size: usize) -> Result<Idle> {
    let node = stage.node().await?;
    let (activities, orchestrations) =
        (ActivityRegistry::builder().build(), OrchestrationRegistry::builder().build());
    let options = dispatchers(size, size);
    let runtime =
        Runtime::start_with_options(node.provider.clone(), activities, orchestrations, options).await;
    tokio::time::sleep(lab.scale.idle_settle).await;
    let before = stage.statements().await?;
    tokio::time::sleep(lab.scale.idle_window).await;
    let statements = (stage.statements().await? - before).complete().context("idle")?.all;
    let connections = stage.connections().await?;
    runtime.shutdown(Some(0)).await;
    let statements_per_s = statements as f64 / lab.scale.idle_window.as_secs_f64();
    Ok(Idle { statements_per_s, statements, connections })
}
