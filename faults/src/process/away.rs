//! PostgreSQL is stopped in good order and stays away for longer than any request waits.

use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use rustix::process::Signal;

use super::database::Blow;
use crate::database::Database;
use crate::stage::{Stage, Trial};

/// See the module.
pub(super) struct Away;

#[async_trait]
impl Blow for Away {
    fn name(&self) -> &'static str {
        "database-away"
    }

    fn about(&self) -> &'static str {
        "PostgreSQL stopped for 10 s"
    }

    fn requests_between(&self, _: &mut Stage) -> usize {
        500
    }

    async fn strike(&self, database: &mut Database, trial: &mut Trial, stage: &Stage) -> Result<()> {
        database.stop(Signal::INT).await?;
        tokio::time::sleep(Duration::from_secs(if stage.short { 2 } else { 10 })).await;
        database.begin().await?;
        trial.healed();
        trial.injected += 1;
        Ok(())
    }
}
