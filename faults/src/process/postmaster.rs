//! kill -9 of PostgreSQL's first process, or an immediate stop, and a start at once.

use anyhow::Result;
use async_trait::async_trait;
use rustix::process::Signal;

use super::database::Blow;
use crate::database::Database;
use crate::stage::{Stage, Trial};

/// See the module.
pub(super) struct Postmaster;

#[async_trait]
impl Blow for Postmaster {
    fn name(&self) -> &'static str {
        "postmaster"
    }

    fn about(&self) -> &'static str {
        "kill -9 of PostgreSQL's postmaster, or an immediate stop, started again at once"
    }

    fn requests_between(&self, stage: &mut Stage) -> usize {
        stage.rng.usize(200..1500)
    }

    async fn strike(&self, database: &mut Database, trial: &mut Trial, _: &Stage) -> Result<()> {
        let signal = if trial.injected.is_multiple_of(2) { Signal::KILL } else { Signal::QUIT };
        database.stop(signal).await?;
        database.begin().await?;
        trial.healed();
        trial.injected += 1;
        Ok(())
    }
}
