//! The providers that are compared. Everything else knows them only as `dyn Provider`.

use std::sync::Arc;

use anyhow::Result;
use clap::ValueEnum;
use duroxide::providers::Provider;

/// A provider in one of its modes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Contender {
    /// Polls every 100 ms.
    DuroxidePg,
    /// Long polling by insert triggers.
    DuroxidePgOpt,
    /// Ours, as it is by default.
    BugleDuroxide,
    /// Ours without long polling.
    BugleDuroxidePolling,
}

/// What part a contender has in the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// One of those to compare with.
    Peer,
    /// The one whose ratio to the best peer is printed.
    Ours,
    /// Ours without long polling: in the throughput rows, to show what long polling costs there.
    OursPolling,
}

/// What a provider counts itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tally {
    /// Waiting fetches that were woken; none if the provider does not say.
    pub(crate) wakes: Option<u64>,
    /// Queries for work that found none.
    pub(crate) empty_fetches: u64,
}

/// Patterns by which `pg_stat_statements` shows the queries for work.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fetches {
    pub(crate) orchestration: &'static str,
    pub(crate) work: &'static str,
}

/// One instance of a provider: what one process would have.
pub(crate) struct Node {
    pub(crate) provider: Arc<dyn Provider>,
    /// Its own counters, if it has any.
    pub(crate) tally: Option<Box<dyn Fn() -> Tally + Send + Sync>>,
}

impl Contender {
    /// As it stands in the head of a table.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::DuroxidePg => "duroxide-pg 0.1.38",
            Self::DuroxidePgOpt => "duroxide-pg-opt 0.1.28",
            Self::BugleDuroxide => "bugle-duroxide",
            Self::BugleDuroxidePolling => "bugle-duroxide, long poll off",
        }
    }

    pub(crate) fn part(self) -> Part {
        match self {
            Self::DuroxidePg | Self::DuroxidePgOpt => Part::Peer,
            Self::BugleDuroxide => Part::Ours,
            Self::BugleDuroxidePolling => Part::OursPolling,
        }
    }

    pub(crate) fn fetches(self) -> Fetches {
        match self {
            Self::DuroxidePg | Self::DuroxidePgOpt => {
                Fetches { orchestration: "%.fetch_orchestration_item(%", work: "%.fetch_work_item(%" }
            }
            Self::BugleDuroxide | Self::BugleDuroxidePolling => {
                Fetches { orchestration: "%.fetch_orchestration(%", work: "%.fetch_activity(%" }
            }
        }
    }

    /// Connects with the provider's own defaults and makes its tables if there are none.
    pub(crate) async fn node(self, url: &str, schema: &str) -> Result<Node> {
        Ok(match self {
            Self::DuroxidePg => {
                let provider = duroxide_pg::PostgresProvider::new_with_schema(url, Some(schema)).await?;
                Node { provider: Arc::new(provider), tally: None }
            }
            Self::DuroxidePgOpt => {
                let provider = duroxide_pg_opt::PostgresProvider::new_with_schema(url, Some(schema)).await?;
                Node { provider: Arc::new(provider), tally: None }
            }
            Self::BugleDuroxide | Self::BugleDuroxidePolling => ours(url, schema, self.part()).await?,
        })
    }
}

async fn ours(url: &str, schema: &str, part: Part) -> Result<Node> {
    let options = bugle_duroxide::Options::new(url).schema(schema).long_poll(part == Part::Ours);
    let provider = Arc::new(bugle_duroxide::PostgresProvider::connect(options).await?);
    let counting = Arc::clone(&provider);
    let tally = move || {
        let s = counting.stats();
        let wakes = s.wakes_local + s.wakes_remote + s.wakes_timed + s.wakes_chained + s.wakes_recheck;
        Tally { wakes: Some(wakes), empty_fetches: s.empty_looks }
    };
    // Without long polling it is never woken and counts nothing.
    Ok(Node { provider, tally: (part == Part::Ours).then(|| Box::new(tally) as _) })
}
