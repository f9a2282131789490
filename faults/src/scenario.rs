//! What a fault is: a name, an engine, and one round of it under load.

use std::fmt;
use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use bugle_history::Report;
use clap::ValueEnum;

use crate::stage::Stage;

/// Where servers keep messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Engine {
    /// In a directory of their own.
    Embedded,
    /// In PostgreSQL.
    Postgres,
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Embedded => "embedded",
            Self::Postgres => "postgres",
        })
    }
}

/// A fault that can be made again and again.
#[async_trait]
pub trait Scenario: Send + Sync {
    /// By which it is chosen; two engines may share one.
    fn name(&self) -> &'static str;

    /// What is done, in a few words.
    fn about(&self) -> &'static str;

    /// On which engine.
    fn engine(&self) -> Engine;

    /// Whether it belongs to a run for which no fault was chosen by name.
    fn is_usual(&self) -> bool {
        true
    }

    /// Whether a round measures something that other rounds on the same machine would disturb.
    fn measures(&self) -> bool {
        false
    }

    /// One round: servers are set up, put under load, disturbed, and what clients saw is checked.
    async fn run(&self, stage: &mut Stage) -> Result<Outcome>;
}

/// What came of a round.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// What the checker says.
    pub report: Report,
    /// Faults that were made.
    pub injected: u64,
    /// The longest time in which no push, no delivery and no acknowledgement was answered.
    pub gap: Duration,
    /// What else was measured, in words.
    pub figures: Vec<String>,
}
