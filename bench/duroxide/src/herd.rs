//! Herd: what one small orchestration costs in statements while many dispatchers on several nodes wait for work.

use std::time::Duration;

use anyhow::{Context, Result};
use duroxide::Client;

use crate::contender::Contender;
use crate::idle::uncounted;
use crate::lab::Lab;
use crate::stage::{Stage, Statements};
use crate::table::{Better, Cell, Line, Table};
use crate::workload::{HOP, Marks};

/// Nodes, and dispatchers of each kind on each.
const SIZES: [(usize, usize); 2] = [(1, 2), (4, 4)];
/// About eight orchestrations a second.
const PAUSE_MS: std::ops::RangeInclusive<u64> = 90..=130;
const SETTLE: Duration = Duration::from_secs(1);

pub(crate) fn run(lab: &Lab, contenders: &[Contender]) -> Table {
    let hops = lab.scale.herd_hops;
    let about = format!(
        "Statements per orchestration with one activity, {hops} of them one after the other with pauses of 90-130 ms; what \
         dispatchers ask in the pauses counts."
    );
    let mut lines = Vec::new();
    for size in SIZES {
        let outcomes: Vec<(Contender, Result<Statements>)> =
            contenders.iter().map(|c| (*c, measure(lab, *c, size))).collect();
        let waiting = format!("{} × ({}+{}) dispatchers", size.0, size.1, size.1);
        for (what, part) in [("statements", all as fn(&Statements) -> i64), ("of them fetches of work", work)]
        {
            let figure = |s: &Statements| Cell::number(part(s) as f64 / hops as f64);
            let cells = outcomes.iter().map(|(c, o)| (*c, Cell::from_result(o, figure))).collect();
            lines.push(Line { label: format!("{what}, {waiting}"), better: Better::Lower, cells });
        }
    }
    Table { title: "Herd", about, lines }
}

fn all(statements: &Statements) -> i64 {
    statements.all
}

fn work(statements: &Statements) -> i64 {
    statements.work_fetches
}

fn measure(lab: &Lab, contender: Contender, size: (usize, usize)) -> Result<Statements> {
    match &lab.uncounted {
        Some(reason) => Err(uncounted(reason)),
        None => lab.measure("herd", contender, async |stage| herd(lab, stage, size).await),
    }
}

async fn herd(lab: &Lab, stage: &Stage, (nodes, dispatchers): (usize, usize)) -> Result<Statements> {
    let (marks, mut ends) = Marks::new();
    let mut runtimes = Vec::new();
    for _ in 0..nodes {
        runtimes.push(marks.runtime(stage.node().await?.provider, dispatchers, dispatchers).await);
    }
    let client = Client::new(stage.node().await?.provider);
    tokio::time::sleep(SETTLE).await;
    let before = stage.statements().await?;
    for number in 0..lab.scale.herd_hops {
        let id = format!("hop-{number}");
        client.start_orchestration(&id, HOP, &id).await.context("start")?;
        ends.of(&id).await?;
        tokio::time::sleep(Duration::from_millis(fastrand::u64(PAUSE_MS))).await;
    }
    let statements = (stage.statements().await? - before).complete()?;
    for runtime in runtimes {
        runtime.shutdown(Some(0)).await;
    }
    Ok(statements)
}
