//! Burst: a hundred instances become ready at once for four waiting dispatchers. How many are woken, and how often in vain?
//!
//! A provider that counts says it itself. For the others the empty fetches are what PostgreSQL counted, less those that
//! found an instance.

use std::time::Duration;

use anyhow::{Context, Result};
use duroxide::Client;
use futures_util::future::try_join_all;

use crate::contender::{Contender, Node, Tally};
use crate::idle::uncounted;
use crate::lab::Lab;
use crate::stage::{Stage, Statements};
use crate::table::{Better, Cell, Line, Table};
use crate::workload::{Marks, NOTHING};

const ITEMS: usize = 100;
const DISPATCHERS: usize = 4;
/// Time to park before, and to park again after.
const SETTLE: Duration = Duration::from_secs(1);

pub(crate) fn run(lab: &Lab, contenders: &[Contender]) -> Table {
    let about = format!(
        "{ITEMS} instances without activities, enqueued at once by node A; {DISPATCHERS} dispatchers wait on node B; until \
         {} s after the last end. Worst of {} rounds.",
        SETTLE.as_secs(),
        lab.scale.burst_rounds
    );
    let outcomes: Vec<(Contender, Result<Vec<Tally>>)> = contenders
        .iter()
        .map(|c| (*c, lab.measure("burst", *c, async |stage| bursts(lab, stage).await)))
        .collect();
    let line = |label: &str, part: fn(&Tally) -> Option<u64>| {
        let worst = |tallies: &Vec<Tally>| {
            let worst = tallies.iter().map(part).max().flatten();
            worst.map_or_else(|| Cell::Missing("not counted by the provider".to_owned()), Cell::count)
        };
        let cells = outcomes.iter().map(|(c, o)| (*c, Cell::from_result(o, worst))).collect();
        Line { label: label.to_owned(), better: Better::Lower, cells }
    };
    let lines = vec![line("wakes", |t| t.wakes), line("empty fetches", |t| Some(t.empty_fetches))];
    Table { title: "Burst", about, lines }
}

async fn bursts(lab: &Lab, stage: &Stage) -> Result<Vec<Tally>> {
    let (a, b) = (stage.node().await?, stage.node().await?);
    let (marks, mut ends) = Marks::new();
    let runtime = marks.runtime(b.provider.clone(), DISPATCHERS, 1).await;
    let client = Client::new(a.provider.clone());
    let mut tallies = Vec::new();
    for round in 0..lab.scale.burst_rounds {
        tokio::time::sleep(SETTLE).await;
        let before = Counted::now(lab, stage, &b).await?;
        let ids: Vec<String> = (0..ITEMS).map(|number| format!("burst-{round}-{number}")).collect();
        try_join_all(ids.iter().map(|id| client.start_orchestration(id, NOTHING, id)))
            .await
            .context("start")?;
        ends.many(ITEMS).await?;
        tokio::time::sleep(SETTLE).await;
        tallies.push(Counted::now(lab, stage, &b).await?.since(before)?);
    }
    runtime.shutdown(Some(0)).await;
    Ok(tallies)
}

/// Counters at one moment, from whoever counts.
enum Counted {
    Provider(Tally),
    Postgres(Statements),
}

impl Counted {
    async fn now(lab: &Lab, stage: &Stage, node: &Node) -> Result<Self> {
        match (&node.tally, &lab.uncounted) {
            (Some(tally), _) => Ok(Self::Provider(tally())),
            (None, None) => Ok(Self::Postgres(stage.statements().await?)),
            (None, Some(reason)) => Err(uncounted(reason)),
        }
    }

    fn since(self, earlier: Self) -> Result<Tally> {
        match (earlier, self) {
            (Self::Provider(old), Self::Provider(new)) => Ok(Tally {
                wakes: new.wakes.zip(old.wakes).map(|(new, old)| new - old),
                empty_fetches: new.empty_fetches - old.empty_fetches,
            }),
            (Self::Postgres(old), Self::Postgres(new)) => {
                let fetches = (new - old).complete()?.orchestration_fetches;
                let empty = fetches - ITEMS as i64;
                Ok(Tally {
                    wakes: None,
                    empty_fetches: empty.try_into().context("fetches of several instances")?,
                })
            }
            _ => anyhow::bail!("the provider began to count in between"),
        }
    }
}
