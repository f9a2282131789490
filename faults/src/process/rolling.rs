//! Servers are asked to end and started again, one after the other, as in an upgrade.

use anyhow::Result;
use async_trait::async_trait;
use bugle_history::Terms;

use crate::scenario::{Engine, Outcome, Scenario};
use crate::stage::Stage;

/// See the module.
pub(crate) struct Rolling(pub(crate) Engine);

#[async_trait]
impl Scenario for Rolling {
    fn name(&self) -> &'static str {
        "rolling-restart"
    }

    fn about(&self) -> &'static str {
        "SIGTERM and start of each of three servers in turn (of the only one on the embedded engine)"
    }

    fn engine(&self) -> Engine {
        self.0
    }

    async fn run(&self, stage: &mut Stage) -> Result<Outcome> {
        let (_database, mut servers) = stage.cast(self.0, 3).await?;
        let mut trial = stage.begin_on(&servers)?;
        while trial.goes_on() {
            for server in &mut servers {
                let more = stage.rng.usize(50..400);
                trial.traffic(more).await?;
                server.end().await?;
                server.begin().await?;
                trial.injected += 1;
            }
        }
        trial.judge(stage, &Terms::default()).await
    }
}
