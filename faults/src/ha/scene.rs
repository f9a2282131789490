//! What every round on a cluster has: three nodes, two servers, clients with patience; and that it is played only when it is
//! asked for, alone.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use async_trait::async_trait;
use bugle_history::Load;

use super::balancer::Balancer;
use super::cluster::Cluster;
use crate::http;
use crate::scenario::{Engine, Outcome, Scenario};
use crate::servers::Server;
use crate::stage::Stage;

/// Servers that do not serve so long after another node leads do not by themselves.
const RESUME_LIMIT: Duration = Duration::from_secs(90);

/// A cluster and servers on it. They end in this order.
pub(super) struct Scene {
    pub(super) servers: Vec<Server>,
    /// What the clients do.
    pub(super) load: Load,
    _balancer: Option<Balancer>,
    pub(super) cluster: Cluster,
}

impl Scene {
    /// Set it up; `in_step` = one standby confirms every commit. The servers reach the database through HAProxy (`balancer`),
    /// or by an address with all hosts.
    async fn set(stage: &Stage, in_step: bool, balancer: bool) -> Result<Self> {
        let cluster = Cluster::start(&stage.dir, in_step).await?;
        let balancer = match balancer {
            true => Some(Balancer::start(&stage.dir, &cluster)?),
            false => None,
        };
        let address = balancer.as_ref().map_or_else(|| cluster.address(), Balancer::address);
        let servers = stage.sharing(&address, 2).await?;
        // What clients sent may be answered when another node has taken over.
        let (settle, drain_limit) = (Duration::from_secs(5), Duration::from_secs(120));
        let load = Load { settle, drain_limit, ..stage.load(servers.iter().map(Server::url)) };
        Ok(Self { servers, load, _balancer: balancer, cluster })
    }

    /// Wait until every server takes a push again, without being started again.
    pub(super) async fn resumed(&self) -> Result<()> {
        let since = Instant::now();
        for server in &self.servers {
            let body = r#"{"items":[{"queue":"sign-of-life","payload":1}]}"#;
            while http::post(server.address(), "/api/v1/push", body).await.is_err() {
                ensure!(since.elapsed() < RESUME_LIMIT, "{} does not serve again", server.url());
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        Ok(())
    }
}

/// What happens on the scene.
#[async_trait]
pub(super) trait Act: Send + Sync {
    /// The name of the scenario.
    fn name(&self) -> &'static str;

    /// What is done, in a few words.
    fn about(&self) -> &'static str;

    /// Whether a standby is in step.
    fn in_step(&self) -> bool;

    /// Whether HAProxy stands between servers and database.
    fn balancer(&self) -> bool {
        false
    }

    /// One round.
    async fn play(&self, scene: &mut Scene, stage: &mut Stage) -> Result<Outcome>;
}

/// An act as a scenario.
pub(super) struct OnCluster<A>(pub(super) A);

#[async_trait]
impl<A: Act> Scenario for OnCluster<A> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn about(&self) -> &'static str {
        self.0.about()
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
        let mut scene = Scene::set(stage, self.0.in_step(), self.0.balancer()).await?;
        self.0.play(&mut scene, stage).await
    }
}
