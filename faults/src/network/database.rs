//! Trouble between servers and PostgreSQL, on the way of one of two servers.
//!
//! A commit whose answer is swallowed leaves its connection half open: the server gives it up when its own deadline for a
//! statement is over. A long round waits for that and reports the time; a short one resets the connection after a while.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use async_trait::async_trait;
use bugle_history::{Load, Terms};

use super::Trouble;
use crate::proxy::{Protocol, Proxy, Weather};
use crate::scenario::{Engine, Outcome, Scenario};
use crate::stage::{Stage, Trial, sharing};

/// By then a server has given up a statement that is not answered: 30 s for PostgreSQL's own limit, 5 s of grace, and some
/// for a busy machine.
const GIVEN_UP: Duration = Duration::from_secs(45);

/// See the module.
pub(crate) struct Database(pub(crate) Trouble);

#[async_trait]
impl Scenario for Database {
    fn name(&self) -> &'static str {
        match self.0 {
            Trouble::Delay => "database-delay",
            Trouble::Cut => "database-cut",
            Trouble::Silence => "database-black-hole",
            Trouble::Trickle => "database-slow-loris",
        }
    }

    fn about(&self) -> &'static str {
        match self.0 {
            Trouble::Delay => "everything between a server and PostgreSQL comes up to 150 ms late",
            Trouble::Cut => "connections to PostgreSQL are cut in the middle of a statement or an answer",
            Trouble::Silence => "COMMIT is passed on, its answer swallowed, the connection left half open",
            Trouble::Trickle => "half of the connections to PostgreSQL pass 7 bytes each 20 ms",
        }
    }

    fn engine(&self) -> Engine {
        Engine::Postgres
    }

    async fn run(&self, stage: &mut Stage) -> Result<Outcome> {
        let database = stage.database().await?;
        let proxy = Proxy::before(&database.place(), Protocol::Postgres).await?;
        let through = database.address_at(&proxy.address().to_string());
        let troubled = stage.server("troubled", sharing(&through)).await?;
        let other = stage.server("other", sharing(&database.address())).await?;
        let load = stage.load([troubled.url(), other.url()]);
        let load = Load { settle: Duration::from_secs(1), ..load };
        let mut trial = stage.begin(&load)?;
        while trial.goes_on() {
            trial.traffic(100).await?;
            trial.injected += self.trouble(&proxy, stage).await;
        }
        proxy.weather(Weather::Clear);
        if self.0 == Trouble::Silence {
            freed(&proxy, stage, &mut trial).await?;
        }
        trial.judge(stage, &Terms::default()).await
    }
}

impl Database {
    async fn trouble(&self, proxy: &Proxy, stage: &mut Stage) -> u64 {
        let while_it_lasts = Duration::from_millis(stage.rng.u64(300..2000));
        match self.0 {
            Trouble::Delay | Trouble::Trickle => {
                proxy.weather(self.0.weather());
                tokio::time::sleep(while_it_lasts).await;
                proxy.weather(Weather::Clear);
                1
            }
            Trouble::Cut => {
                let before = proxy.cuts();
                proxy.cut(stage.rng.u64(1..4));
                tokio::time::sleep(while_it_lasts / 4).await;
                proxy.cuts() - before
            }
            Trouble::Silence => {
                let before = proxy.swallowed();
                proxy.swallow(stage.rng.u64(1..3));
                tokio::time::sleep(while_it_lasts).await;
                // Most are mended as a rebooted router would; some are left for the server to notice.
                if stage.rng.u8(..4) > 0 {
                    proxy.release();
                }
                proxy.swallowed() - before
            }
        }
    }
}

/// Wait until the server has given up every connection that is dead, and say how long that took.
async fn freed(proxy: &Proxy, stage: &Stage, trial: &mut Trial) -> Result<()> {
    proxy.swallow(0);
    proxy.release();
    if stage.short {
        return Ok(());
    }
    // One more, which nobody mends.
    proxy.swallow(1);
    let before = proxy.swallowed();
    while proxy.swallowed() == before {
        trial.traffic(10).await?;
    }
    trial.injected += 1;
    let began = Instant::now();
    while proxy.holes() > 0 {
        ensure!(
            began.elapsed() < GIVEN_UP,
            "{} dead connections were not given up in {GIVEN_UP:?}",
            proxy.holes()
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let longest = proxy.longest_hole().as_secs_f64();
    trial
        .figures
        .push(format!("a dead connection to the database is given up after {longest:.1} s, at most"));
    Ok(())
}
