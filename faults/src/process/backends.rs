//! kill -9 of processes of PostgreSQL that serve a connection, upon which it ends all of them and recovers; and their polite
//! end, which takes single connections away.

use anyhow::Result;
use async_trait::async_trait;
use bugle_history::Terms;
use rustix::process::Signal;

use crate::scenario::{Engine, Outcome, Scenario};
use crate::stage::Stage;

/// See the module.
pub(crate) struct Backends;

#[async_trait]
impl Scenario for Backends {
    fn name(&self) -> &'static str {
        "backends"
    }

    fn about(&self) -> &'static str {
        "kill -9, or the end, of PostgreSQL backends of two servers"
    }

    fn engine(&self) -> Engine {
        Engine::Postgres
    }

    async fn run(&self, stage: &mut Stage) -> Result<Outcome> {
        let mut database = stage.database().await?;
        let servers = stage.sharing(&database.address(), 2).await?;
        let mut trial = stage.begin_on(&servers)?;
        while trial.goes_on() {
            let more = stage.rng.usize(50..800);
            trial.traffic(more).await?;
            let crash = trial.injected % 2 == 0;
            let (signal, count) = if crash { (Signal::KILL, 1) } else { (Signal::TERM, 3) };
            trial.injected += u64::from(database.signal_backends(signal, count).await? > 0);
            if crash {
                // It recovers by itself; this waits until it has.
                database.begin().await?;
                trial.healed();
            }
        }
        trial.judge(stage, &Terms::default()).await
    }
}
