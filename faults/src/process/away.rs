//! PostgreSQL is stopped in good order and stays away for longer than any request waits.

use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use bugle_history::Terms;
use rustix::process::Signal;

use crate::scenario::{Engine, Outcome, Scenario};
use crate::stage::Stage;

/// See the module.
pub(crate) struct Away;

#[async_trait]
impl Scenario for Away {
    fn name(&self) -> &'static str {
        "database-away"
    }

    fn about(&self) -> &'static str {
        "PostgreSQL stopped for 10 s"
    }

    fn engine(&self) -> Engine {
        Engine::Postgres
    }

    async fn run(&self, stage: &mut Stage) -> Result<Outcome> {
        let mut database = stage.database().await?;
        let servers = stage.sharing(&database.address(), 2).await?;
        let mut trial = stage.begin_on(&servers)?;
        let away = Duration::from_secs(if stage.short { 2 } else { 10 });
        while trial.goes_on() {
            trial.traffic(500).await?;
            database.stop(Signal::INT).await?;
            tokio::time::sleep(away).await;
            database.begin().await?;
            trial.healed();
            trial.injected += 1;
        }
        trial.judge(stage, &Terms::default()).await
    }
}
