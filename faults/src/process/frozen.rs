//! A server is stopped in its tracks (SIGSTOP) for longer than its leases last, and goes on as if nothing had been.

use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use bugle_history::Terms;
use rustix::process::Signal;

use crate::scenario::{Engine, Outcome, Scenario};
use crate::stage::Stage;

/// See the module.
pub(crate) struct Frozen(pub(crate) Engine);

#[async_trait]
impl Scenario for Frozen {
    fn name(&self) -> &'static str {
        "frozen"
    }

    fn about(&self) -> &'static str {
        "SIGSTOP of a server (of two on PostgreSQL) past its leases, then SIGCONT"
    }

    fn engine(&self) -> Engine {
        self.0
    }

    async fn run(&self, stage: &mut Stage) -> Result<Outcome> {
        let (_database, servers) = stage.cast(self.0, 2).await?;
        let load = stage.load(servers.iter().map(|server| server.url()));
        let mut trial = stage.begin(&load)?;
        while trial.goes_on() {
            trial.traffic(200).await?;
            let victim = stage.rng.usize(..servers.len());
            servers[victim].signal(Signal::STOP)?;
            // Shorter than clients wait for an answer sometimes, longer at other times.
            let most = if stage.short { 2000 } else { 4500 };
            let least = load.lease.as_millis() as u64 + 200;
            tokio::time::sleep(Duration::from_millis(stage.rng.u64(least..most))).await;
            servers[victim].signal(Signal::CONT)?;
            trial.injected += 1;
        }
        trial.judge(stage, &Terms::default()).await
    }
}
