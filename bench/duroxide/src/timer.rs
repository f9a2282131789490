//! Timer lateness: an orchestration sleeps, and goes on how much later than it should?

use std::time::Duration;

use anyhow::{Context, Result};
use duroxide::Client;

use crate::contender::Contender;
use crate::lab::Lab;
use crate::samples::{Samples, ms_between};
use crate::stage::Stage;
use crate::table::{Better, Cell, Line, Table, shown};
use crate::workload::{Mark, Marks, SLEEP, TIMER};

const PAUSE_MS: std::ops::RangeInclusive<u64> = 50..=150;

pub(crate) fn run(lab: &Lab, contenders: &[Contender]) -> Table {
    let about = format!(
        "p50 / max in ms by which {} isolated timers of {} ms are late, from the line of code before the timer to the line after \
         it; 2+2 dispatchers; ratio of p50.",
        lab.scale.timers,
        TIMER.as_millis()
    );
    let outcomes: Vec<_> = contenders
        .iter()
        .map(|c| (*c, lab.measure("timer", *c, async |stage| timers(lab, stage).await)))
        .collect();
    let cells = outcomes.iter().map(|(c, o)| (*c, Cell::from_result(o, median_and_max))).collect();
    let line = Line { label: "late".to_owned(), better: Better::Lower, cells };
    Table { title: "Timer lateness", about, lines: vec![line] }
}

/// The usual and the worst.
fn median_and_max(samples: &Samples) -> Cell {
    let (median, max) = (samples.at(0.5).unwrap_or(f64::NAN), samples.max().unwrap_or(f64::NAN));
    Cell::Figure { text: format!("{} / {}", shown(median), shown(max)), number: median }
}

async fn timers(lab: &Lab, stage: &Stage) -> Result<Samples> {
    let node = stage.node().await?;
    let (marks, mut ends) = Marks::new();
    let runtime = marks.runtime(node.provider.clone(), 2, 2).await;
    let client = Client::new(node.provider.clone());
    let mut late = Samples::default();
    for number in 0..=lab.scale.timers {
        tokio::time::sleep(Duration::from_millis(fastrand::u64(PAUSE_MS))).await;
        let id = format!("sleep-{number}");
        client.start_orchestration(&id, SLEEP, &id).await.context("start")?;
        ends.of(&id).await?;
        if number > 0 {
            late.add(ms_between(marks.at(&id, Mark::Start)? + TIMER, marks.at(&id, Mark::End)?));
        }
    }
    runtime.shutdown(Some(0)).await;
    Ok(late)
}
