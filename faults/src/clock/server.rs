//! The clock of a server's machine is set, forward and back. No lease may end early by that, nothing may be out of order.

use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use bugle_history::Terms;

use super::JUMPS;
use crate::faketime::Clock;
use crate::scenario::{Engine, Outcome, Scenario};
use crate::stage::{Stage, embedded, sharing};

/// See the module.
pub(crate) struct Server(pub(crate) Engine);

#[async_trait]
impl Scenario for Server {
    fn name(&self) -> &'static str {
        "server-clock"
    }

    fn about(&self) -> &'static str {
        "the clock of a server (of two on PostgreSQL) jumps by seconds to a day, forward and back"
    }

    fn engine(&self) -> Engine {
        self.0
    }

    async fn run(&self, stage: &mut Stage) -> Result<Outcome> {
        let clock = Clock::right(&stage.dir, "server")?;
        let mut servers = Vec::new();
        let database = match self.0 {
            Engine::Embedded => None,
            Engine::Postgres => Some(stage.database().await?),
        };
        let manner = database.as_ref().map_or_else(embedded, |database| sharing(&database.address()));
        let mut wrong = manner.clone();
        wrong.env = clock.env(true)?;
        servers.push(stage.server("wrong", wrong).await?);
        if database.is_some() {
            servers.push(stage.server("right", manner).await?);
        }
        let mut trial = stage.begin_on(&servers)?;
        while trial.goes_on() {
            trial.traffic(200).await?;
            clock.set(JUMPS[stage.rng.usize(..JUMPS.len())])?;
            trial.injected += 1;
            // It is looked at once a second.
            tokio::time::sleep(Duration::from_millis(stage.rng.u64(1100..2500))).await;
        }
        trial.judge(stage, &Terms::default()).await
    }
}
