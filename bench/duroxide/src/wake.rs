//! Wake latency: one node enqueues, another one's runtime runs the code.
//!
//! Isolated orchestrations with one activity each, random pauses between them, the runtime's default dispatchers. The
//! first two figures cross nodes; the hops between orchestration and activity happen on the running node.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use duroxide::Client;

use crate::contender::Contender;
use crate::lab::Lab;
use crate::samples::{Samples, ms_between};
use crate::stage::Stage;
use crate::table::{Better, Cell, Line, Table, shown};
use crate::workload::{HOP, Mark, Marks};

/// Pauses between orchestrations, so that they meet a polling dispatcher at any phase.
const PAUSE_MS: std::ops::RangeInclusive<u64> = 150..=350;
const DEFAULT: usize = 2;

const LABELS: [&str; 5] = [
    "enqueue called → orchestration starts",
    "enqueue returned → orchestration starts",
    "orchestration → activity starts",
    "activity → orchestration goes on",
    "whole hop",
];

pub(crate) fn run(lab: &Lab, contenders: &[Contender]) -> Table {
    let hops = lab.scale.wake_hops;
    let about = format!(
        "p50 / p95 / p99 in ms of {hops} isolated orchestrations with one activity, random pauses of 150-350 ms, 2+2 dispatchers \
         on node B, enqueued by node A; ratios of p50. Before the return of the enqueue counts as negative."
    );
    let outcomes: Vec<_> = contenders
        .iter()
        .map(|c| (*c, lab.measure("wake", *c, async |stage| hops_of(lab, stage).await)))
        .collect();
    let line = |(at, label): (usize, &&str)| Line {
        label: (*label).to_owned(),
        better: Better::Lower,
        cells: outcomes.iter().map(|(c, o)| (*c, Cell::from_result(o, |s| percentiles(&s[at])))).collect(),
    };
    let lines = LABELS.iter().enumerate().map(line).collect();
    Table { title: "Wake latency", about, lines }
}

fn percentiles(samples: &Samples) -> Cell {
    let figures = [0.5, 0.95, 0.99].map(|quantile| samples.at(quantile).unwrap_or(f64::NAN));
    Cell::Figure { text: figures.map(shown).join(" / "), number: figures[0] }
}

async fn hops_of(lab: &Lab, stage: &Stage) -> Result<[Samples; 5]> {
    let (a, b) = (stage.node().await?, stage.node().await?);
    let (marks, mut ends) = Marks::new();
    let runtime = marks.runtime(b.provider.clone(), DEFAULT, DEFAULT).await;
    let client = Client::new(a.provider.clone());
    let mut samples = <[Samples; 5]>::default();
    for number in 0..=lab.scale.wake_hops {
        tokio::time::sleep(Duration::from_millis(fastrand::u64(PAUSE_MS))).await;
        let id = format!("hop-{number}");
        let called = Instant::now();
        client.start_orchestration(&id, HOP, &id).await.context("start")?;
        let returned = Instant::now();
        ends.of(&id).await?;
        let [start, activity, end] =
            [marks.at(&id, Mark::Start)?, marks.at(&id, Mark::Activity)?, marks.at(&id, Mark::End)?];
        let spans = [(called, start), (returned, start), (start, activity), (activity, end), (called, end)];
        // The first one opens connections and plans statements.
        if number > 0 {
            samples.iter_mut().zip(spans).for_each(|(s, (from, to))| s.add(ms_between(from, to)));
        }
    }
    runtime.shutdown(Some(0)).await;
    Ok(samples)
}
