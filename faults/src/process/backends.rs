//! kill -9 of processes of PostgreSQL that serve a connection, upon which it ends all of them and recovers; and their polite
//! end, which takes single connections away.

use anyhow::Result;
use async_trait::async_trait;
use rustix::process::Signal;

use super::database::Blow;
use crate::database::Database;
use crate::stage::{Stage, Trial};

/// See the module.
pub(super) struct Backends;

#[async_trait]
impl Blow for Backends {
    fn name(&self) -> &'static str {
        "backends"
    }

    fn about(&self) -> &'static str {
        "kill -9, or the end, of PostgreSQL backends of two servers"
    }

    fn requests_between(&self, stage: &mut Stage) -> usize {
        stage.rng.usize(50..800)
    }

    async fn strike(&self, database: &mut Database, trial: &mut Trial, _: &Stage) -> Result<()> {
        let crash = trial.injected.is_multiple_of(2);
        let (signal, count) = if crash { (Signal::KILL, 1) } else { (Signal::TERM, 3) };
        trial.injected += u64::from(database.signal_backends(signal, count).await? > 0);
        if crash {
            // It recovers by itself; this waits until it has.
            database.begin().await?;
            trial.healed();
        }
        Ok(())
    }
}
