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
    /// It cannot reach etcd: it steps down by itself, and another node takes over.
    CutOff,
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
            (Trouble::CutOff, _) => "cut-off",
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
            (Trouble::CutOff, _) => {
                "the primary cannot reach etcd: it steps down, and another node takes over"
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
            self.heal(&mut scene.cluster, leader, stage)?;
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
            Trouble::CutOff => cluster.reach_etcd(leader, false),
        }
        // So that one kill is not like the other.
        tokio::time::sleep(Duration::from_millis(stage.rng.u64(..50))).await;
        Ok(())
    }

    fn heal(&self, cluster: &mut Cluster, former: usize, stage: &mut Stage) -> Result<()> {
        let node = &mut cluster.nodes[former];
        match self.trouble {
            Trouble::Killed => node.start(),
            Trouble::Switched => Ok(()),
            Trouble::CutOff => {
                cluster.reach_etcd(former, true);
                Ok(())
            }
            Trouble::Isolated => {
                // Not `CONT`: Patroni 3.0 would then put its name over that of the node that leads by now (docs/high-availability.md,
                // "A primary that is cut off"), and what that one acknowledged would be lost by no fault of ours.
                match stage.rng.bool() {
                    true => node.kill(),          // as the watchdog does, which resets the machine,
                    false => node.kill_patroni(), // or as a supervisor does, while PostgreSQL goes on taking writes
                }
                node.start()
            }
        }
    }
}
