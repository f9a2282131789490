//! kill -9 of a server, the only one or one of two, which is started again at its address.

use anyhow::Result;
use async_trait::async_trait;
use bugle_history::Terms;

use crate::scenario::{Engine, Outcome, Scenario};
use crate::stage::Stage;

/// See the module.
pub(crate) struct Kill(pub(crate) Engine);

#[async_trait]
impl Scenario for Kill {
    fn name(&self) -> &'static str {
        "kill"
    }

    fn about(&self) -> &'static str {
        "kill -9 of a server (of two on PostgreSQL), started again at once"
    }

    fn engine(&self) -> Engine {
        self.0
    }

    async fn run(&self, stage: &mut Stage) -> Result<Outcome> {
        let (_database, mut servers) = stage.cast(self.0, 2).await?;
        let mut trial = stage.begin_on(&servers)?;
        while trial.goes_on() {
            let more = stage.rng.usize(50..600);
            trial.traffic(more).await?;
            let victim = stage.rng.usize(..servers.len());
            servers[victim].kill()?;
            trial.injected += 1;
            // The others serve alone for a while, sometimes.
            if servers.len() > 1 && stage.rng.bool() {
                trial.traffic(100).await?;
            }
            servers[victim].begin().await?;
        }
        trial.judge(stage, &Terms::default()).await
    }
}
