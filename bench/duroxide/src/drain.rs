//! Turn drain: how fast a full queue of ready instances without activities is worked off.
//!
//! From the start of the runtimes until the provider itself says that all instances are completed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use duroxide::Client;
use duroxide::providers::Provider;
use futures_util::stream::{self, StreamExt, TryStreamExt};

use crate::contender::Contender;
use crate::lab::Lab;
use crate::stage::Stage;
use crate::table::{Better, Cell, Line, Table};
use crate::workload::{Marks, NOTHING};

/// Nodes, and dispatchers on each.
const SIZES: [(usize, usize); 3] = [(1, 2), (1, 8), (3, 8)];
/// Enqueues at once while the queue is filled.
const WRITERS: usize = 8;
const ASK_AGAIN: Duration = Duration::from_millis(2);

pub(crate) fn run(lab: &Lab, contenders: &[Contender]) -> Table {
    let about = format!(
        "Turns/s for {} ready instances without activities; 24 dispatchers are three nodes with 8 each. {}",
        lab.scale.drain_instances,
        rounds(lab.scale.drain_rounds)
    );
    let lines = SIZES.into_iter().map(|size| {
        let measure = |c| lab.measure("drain", c, async |stage| drain(lab, stage, size).await);
        let cells = in_turns(lab.scale.drain_rounds, contenders, measure);
        Line { label: format!("{} dispatchers", size.0 * size.1), better: Better::Higher, cells }
    });
    Table { title: "Turn drain", about, lines: lines.collect() }
}

/// What the figures of several rounds are.
pub(crate) fn rounds(count: usize) -> String {
    if count == 1 {
        "One round.".to_owned()
    } else {
        format!("Median of {count} rounds, in brackets all of them.")
    }
}

/// Rounds in which the contenders take turns, so that a slow minute of the machine hits all of them.
pub(crate) fn in_turns(
    rounds: usize,
    contenders: &[Contender],
    measure: impl Fn(Contender) -> Result<f64>,
) -> Vec<(Contender, Cell)> {
    let mut figures: Vec<(Contender, Result<Vec<f64>>)> =
        contenders.iter().map(|c| (*c, Ok(Vec::new()))).collect();
    for _ in 0..rounds {
        for (contender, figures) in &mut figures {
            if let Ok(known) = figures {
                match measure(*contender) {
                    Ok(figure) => known.push(figure),
                    Err(error) => *figures = Err(error),
                }
            }
        }
    }
    figures.iter().map(|(c, figures)| (*c, Cell::from_result(figures, |f| median(f)))).collect()
}

fn median(figures: &[f64]) -> Cell {
    let mut sorted = figures.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let (low, high) = ((sorted.len() - 1) / 2, sorted.len() / 2);
    let number = f64::midpoint(sorted[low], sorted[high]);
    let all: Vec<String> = sorted.iter().map(|f| format!("{f:.0}")).collect();
    let text =
        if all.len() == 1 { format!("{number:.1}") } else { format!("{number:.1} ({})", all.join(", ")) };
    Cell::Figure { text, number }
}

async fn drain(lab: &Lab, stage: &Stage, (nodes, dispatchers): (usize, usize)) -> Result<f64> {
    let count = lab.scale.drain_instances;
    let mut providers: Vec<Arc<dyn Provider>> = Vec::new();
    for _ in 0..nodes {
        providers.push(stage.node().await?.provider);
    }
    fill(&Client::new(stage.node().await?.provider), count).await?;
    let (marks, mut ends) = Marks::new();
    let start = Instant::now();
    let mut runtimes = Vec::new();
    for provider in &providers {
        runtimes.push(marks.runtime(provider.clone(), dispatchers, dispatchers).await);
    }
    ends.many(count).await?;
    all_completed(&*providers[0], count as u64).await?;
    let time = start.elapsed();
    for runtime in runtimes {
        runtime.shutdown(Some(0)).await;
    }
    Ok(count as f64 / time.as_secs_f64())
}

/// Enqueues the starts; nobody fetches yet.
async fn fill(client: &Client, count: usize) -> Result<()> {
    let starts = (0..count).map(|number| async move {
        let id = format!("turn-{number}");
        client.start_orchestration(&id, NOTHING, &id).await
    });
    stream::iter(starts)
        .buffer_unordered(WRITERS)
        .try_collect::<Vec<()>>()
        .await
        .context("fill the queue")?;
    Ok(())
}

/// The code of all has run; returns when the last results are stored as well.
async fn all_completed(provider: &dyn Provider, count: u64) -> Result<()> {
    let admin = provider.as_management_capability().context("the provider has no management")?;
    loop {
        let metrics = admin.get_system_metrics().await.context("metrics")?;
        ensure!(metrics.failed_instances == 0, "{} instances failed", metrics.failed_instances);
        if metrics.completed_instances == count {
            return Ok(());
        }
        tokio::time::sleep(ASK_AGAIN).await;
    }
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    #[test]
    fn a_contender_that_fails_does_not_take_the_others_with_it() {
        let measure = |contender| match contender {
            Contender::DuroxidePg => bail!("broken"),
            _ => Ok(2.0),
        };
        let cells = in_turns(3, &[Contender::DuroxidePg, Contender::DuroxidePgOpt], measure);
        assert!(matches!(&cells[0].1, Cell::Failed(reason) if reason == "failed: broken"));
        assert!(matches!(&cells[1].1, Cell::Figure { text, .. } if text == "2.0 (2, 2, 2)"));
    }

    #[test]
    fn the_median_of_two_lies_between_them() {
        assert!(matches!(median(&[4.0, 2.0]), Cell::Figure { number, .. } if number == 3.0));
        assert!(matches!(median(&[4.0]), Cell::Figure { text, .. } if text == "4.0"));
    }
}
