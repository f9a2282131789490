//! Another node takes over, with a standby that is in step: nothing that was acknowledged may be lost.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use async_trait::async_trait;
use bugle_history::{Load, Terms};
use rustix::process::Signal;

use super::balancer::Balancer;
use super::cluster::Cluster;
use super::http;
use super::node::TTL;
use crate::scenario::{Engine, Outcome, Scenario};
use crate::servers::Server;
use crate::stage::Stage;

/// Servers that do not serve so long after another node leads do not by themselves.
const RESUME_LIMIT: Duration = Duration::from_secs(90);

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
impl Scenario for Takeover {
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

    fn engine(&self) -> Engine {
        Engine::Postgres
    }

    fn is_usual(&self) -> bool {
        false
    }

    fn measures(&self) -> bool {
        true
    }

    async fn run(&self, stage: &mut Stage) -> Result<Outcome> {
        let mut cluster = Cluster::start(&stage.dir, true).await?;
        let balancer = match self.balancer {
            true => Some(Balancer::start(&stage.dir, &cluster)?),
            false => None,
        };
        let address = balancer.as_ref().map_or_else(|| cluster.address(), Balancer::address);
        let servers = stage.sharing(&address, 2).await?;
        let mut trial = stage.begin(&load(stage, &servers))?;
        let mut slowest = Duration::ZERO;
        while trial.goes_on() {
            trial.traffic(stage.rng.usize(200..800)).await?;
            let (leader, _) = cluster.leader(None).await?;
            let began = Instant::now();
            self.strike(&mut cluster, leader, stage).await?;
            trial.injected += 1;
            cluster.leader(Some(leader)).await?;
            slowest = slowest.max(began.elapsed());
            resumed(&servers).await?;
            trial.traffic(300).await?;
            self.heal(&mut cluster, leader)?;
            cluster.whole().await?;
        }
        resumed(&servers).await?;
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

/// Clients that have patience: what they sent may be answered when another node has taken over.
pub(super) fn load(stage: &Stage, servers: &[Server]) -> Load {
    let settle = Duration::from_secs(5);
    let drain_limit = Duration::from_secs(120);
    Load { settle, drain_limit, ..stage.load(servers.iter().map(Server::url)) }
}

/// Wait until every server takes a push again, without being started again.
pub(super) async fn resumed(servers: &[Server]) -> Result<()> {
    let since = Instant::now();
    for server in servers {
        let body = r#"{"items":[{"queue":"sign-of-life","payload":1}]}"#;
        while http::post(server.address(), "/api/v1/push", body).await.is_err() {
            ensure!(since.elapsed() < RESUME_LIMIT, "{} does not serve again", server.url());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    Ok(())
}
