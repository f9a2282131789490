//! PostgreSQL's clock is set, forward and back. A lease may end early by that, or late; an acknowledgement under one that
//! somebody else has replaced must be refused all the same.

use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use bugle_history::{Load, Rule, Terms};

use crate::database::{Database as Postgres, DatabaseOptions};
use crate::faketime::Clock;
use crate::scenario::{Engine, Outcome, Scenario};
use crate::stage::{Stage, checked, gap, judged};

/// Jumps in seconds, each from where the clock is by then. One back makes leases longer by as much, and a round has to wait for
/// their end: so those are short.
const JUMPS: [i64; 6] = [1, -1, 2, -2, 10, 3600];

/// See the module.
pub(crate) struct Database;

#[async_trait]
impl Scenario for Database {
    fn name(&self) -> &'static str {
        "database-clock"
    }

    fn about(&self) -> &'static str {
        "PostgreSQL's clock jumps by seconds to an hour, forward and back"
    }

    fn engine(&self) -> Engine {
        Engine::Postgres
    }

    async fn run(&self, stage: &mut Stage) -> Result<Outcome> {
        let clock = Clock::right(&stage.dir, "database")?;
        let options = DatabaseOptions { fsync: stage.fsync, env: clock.env(false)?, ..Default::default() };
        let database = Postgres::start(&stage.dir, options).await?;
        let servers = stage.sharing(&database.address(), 2).await?;
        let load = stage.load(servers.iter().map(|server| server.url()));
        // What was stamped in the future is served when the clock has reached it.
        let load = Load { settle: Duration::from_secs(5), ..load };
        let mut trial = stage.begin(&load)?;
        let mut offset = 0;
        while trial.goes_on() {
            trial.traffic(200).await?;
            offset += JUMPS[stage.rng.usize(..JUMPS.len())];
            clock.set(offset)?;
            trial.injected += 1;
            tokio::time::sleep(Duration::from_millis(stage.rng.u64(1100..2500))).await;
        }
        let injected = trial.injected;
        let history = trial.end(stage).await?;
        let report = judged(stage, &history, &Terms { lease_slack: None }).await?;
        // What these jumps are allowed to do, and did: otherwise nothing would have been shown.
        let strict = checked(&history, &Terms::default()).await?;
        let early = strict.counts.get(&Rule::TwoLeases).copied().unwrap_or_default();
        let figures = vec![format!("{early} leases ended early, as they may here")];
        Ok(Outcome { report, injected, gap: gap(&history), figures })
    }
}
