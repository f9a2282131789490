//! kill -9 of PostgreSQL's first process, or an immediate stop, and a start at once.

use anyhow::Result;
use async_trait::async_trait;
use bugle_history::Terms;
use rustix::process::Signal;

use crate::scenario::{Engine, Outcome, Scenario};
use crate::stage::Stage;

/// See the module.
pub(crate) struct Postmaster;

#[async_trait]
impl Scenario for Postmaster {
    fn name(&self) -> &'static str {
        "postmaster"
    }

    fn about(&self) -> &'static str {
        "kill -9 of PostgreSQL's postmaster, or an immediate stop, started again at once"
    }

    fn engine(&self) -> Engine {
        Engine::Postgres
    }

    async fn run(&self, stage: &mut Stage) -> Result<Outcome> {
        let mut database = stage.database().await?;
        let servers = stage.sharing(&database.address(), 2).await?;
        let mut trial = stage.begin_on(&servers)?;
        while trial.goes_on() {
            let more = stage.rng.usize(200..1500);
            trial.traffic(more).await?;
            let signal = if trial.injected % 2 == 0 { Signal::KILL } else { Signal::QUIT };
            database.stop(signal).await?;
            database.begin().await?;
            trial.healed();
            trial.injected += 1;
        }
        trial.judge(stage, &Terms::default()).await
    }
}
