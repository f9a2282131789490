//! Another node takes over, with a standby that is in step: nothing that was acknowledged may be lost.

use std::time::{Duration, Instant};

use anyhow::Result;
use async_trait::async_trait;
use bugle_history::Terms;
use rustix::process::Signal;

use super::cluster::Cluster;
use super::node::TTL;
use super::scene::{Act, Scene};
use crate::scenario::Outcome;
use crate::stage::Stage;

/// What happens to the primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// Patroni and PostgreSQL are killed at once.
    Killed,
    /// It hands over in good order.
    Switched,
    /// Patroni is stopped in its tracks: the others hear nothing of the node and replace it, while its PostgreSQL goes on
    /// taking connections and writes.
    Isolated,
}

/// See the module.
pub(super) struct Takeover {
    pub(super) trouble: Trouble,
    /// Servers reach the database through HAProxy instead of an address with all hosts.
    pub(super) balancer: bool,
}

#[async_trait]
impl Act for Takeover {
    fn name(&self) -> &'static str {
        match (self.trouble, self.balancer) {
            (Trouble::Killed, _) => "failover",
            (Trouble::Switched, false) => "switchover",
            (Trouble::Switched, true) => "switchover-haproxy",
            (Trouble::Isolated, _) => "isolated",
        }
    }

    fn about(&self) -> &'static str {
        match (self.trouble, self.balancer) {
            (Trouble::Killed, _) => "the primary of three nodes under Patroni is killed with its Patroni",
            (Trouble::Switched, false) => "the primary of three nodes hands over (patronictl switchover)",
            (Trouble::Switched, true) => "the same with HAProxy in between",
            (Trouble::Isolated, _) => {
                "the primary's Patroni is stopped: it is replaced, and still takes writes"
            }
        }
    }

    fn in_step(&self) -> bool {
        true
    }

    fn balancer(&self) -> bool {
        self.balancer
    }

    async fn play(&self, scene: &mut Scene, stage: &mut Stage) -> Result<Outcome> {
        let mut trial = stage.begin(&scene.load)?;
        let mut slowest = Duration::ZERO;
        while trial.goes_on() {
            trial.traffic(stage.rng.usize(200..800)).await?;
            let (leader, _) = scene.cluster.leader(None).await?;
            let began = Instant::now();
            self.strike(&mut scene.cluster, leader, stage).await?;
            trial.injected += 1;
            scene.cluster.leader(Some(leader)).await?;
            slowest = slowest.max(began.elapsed());
            scene.resumed().await?;
            trial.traffic(300).await?;
            self.heal(&mut scene.cluster, leader)?;
            scene.cluster.whole().await?;
        }
        scene.resumed().await?;
        trial
            .figures
            .push(format!("another node led after at most {:.1} s (ttl {TTL} s)", slowest.as_secs_f64()));
        trial.judge(stage, &Terms::default()).await
    }
}

impl Takeover {
    async fn strike(&self, cluster: &mut Cluster, leader: usize, stage: &mut Stage) -> Result<()> {
        match self.trouble {
            Trouble::Killed => cluster.nodes[leader].kill(),
            Trouble::Switched => {
                let others: Vec<usize> = (0..cluster.nodes.len()).filter(|n| *n != leader).collect();
                // Only the one that is in step may be chosen; Patroni says no to the other.
                for to in others {
                    if cluster.switch_over(leader, to).await.is_ok() {
                        return Ok(());
                    }
                }
                anyhow::bail!("nobody could be switched over to");
            }
            Trouble::Isolated => cluster.nodes[leader].signal_patroni(Signal::STOP)?,
        }
        // So that one kill is not like the other.
        tokio::time::sleep(Duration::from_millis(stage.rng.u64(..50))).await;
        Ok(())
    }

    fn heal(&self, cluster: &mut Cluster, former: usize) -> Result<()> {
        match self.trouble {
            Trouble::Killed => cluster.nodes[former].start(),
            Trouble::Switched => Ok(()),
            Trouble::Isolated => cluster.nodes[former].signal_patroni(Signal::CONT),
        }
    }
}
