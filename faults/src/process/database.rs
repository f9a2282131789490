//! Faults of the database under two servers: everything but the fault itself.

use anyhow::Result;
use async_trait::async_trait;
use bugle_history::Terms;

use crate::database::Database;
use crate::scenario::{Engine, Outcome, Scenario};
use crate::stage::{Stage, Trial};

/// What is done to a database, again and again.
#[async_trait]
pub(super) trait Blow: Send + Sync {
    /// The name of the scenario.
    fn name(&self) -> &'static str;

    /// What is done, in a few words.
    fn about(&self) -> &'static str;

    /// How many requests there are between two of them.
    fn requests_between(&self, stage: &mut Stage) -> usize;

    /// Do it, and wait until the database is back. It counts what it did, and says when service was possible again.
    async fn strike(&self, database: &mut Database, trial: &mut Trial, stage: &Stage) -> Result<()>;
}

/// Two servers on a database of their own, under load, and blows.
pub(super) struct OnDatabase<B>(pub(super) B);

#[async_trait]
impl<B: Blow> Scenario for OnDatabase<B> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn about(&self) -> &'static str {
        self.0.about()
    }

    fn engine(&self) -> Engine {
        Engine::Postgres
    }

    async fn run(&self, stage: &mut Stage) -> Result<Outcome> {
        let mut database = stage.database().await?;
        let servers = stage.sharing(&database.address(), 2).await?;
        let mut trial = stage.begin_on(&servers)?;
        while trial.goes_on() {
            trial.traffic(self.0.requests_between(stage)).await?;
            self.0.strike(&mut database, &mut trial, stage).await?;
        }
        trial.judge(stage, &Terms::default()).await
    }
}
