//! Three nodes and their etcd.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use super::node::Node;
use super::store::{Etcd, unprivileged};
use crate::database::is_root;
use crate::http;
use crate::proxy::{Protocol, Proxy, Weather};

const NODES: usize = 3;
/// A cluster that is not whole by then will never be; the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(180);

/// A cluster. Everything of it is ended with it.
pub(super) struct Cluster {
    pub(super) nodes: Vec<Node>,
    synchronous: bool,
    /// Each node's way to etcd.
    ways: Vec<Proxy>,
    _etcd: Etcd,
}

/// What Patroni says of a node.
#[derive(Debug, Deserialize)]
pub(super) struct Member {
    name: String,
    role: String,
    state: String,
    #[serde(default)]
    timeline: u32,
}

#[derive(Deserialize)]
struct Members {
    members: Vec<Member>,
}

impl Member {
    fn is_leader(&self) -> bool {
        self.role == "leader" && self.state == "running"
    }

    fn follows(&self) -> bool {
        matches!(self.state.as_str(), "running" | "streaming") && !self.is_leader()
    }
}

impl Cluster {
    /// Start one in `dir` and wait until it is whole.
    pub(super) async fn start(dir: &Path, synchronous: bool) -> Result<Self> {
        let dir = home(dir)?;
        let etcd = Etcd::start(&dir).await?;
        let (mut nodes, mut ways) = (Vec::new(), Vec::new());
        for n in 0..NODES {
            let way = Proxy::before(etcd.place(), Protocol::Http).await?;
            nodes.push(Node::new(&dir, &format!("node{n}"), way.address(), synchronous)?);
            ways.push(way);
        }
        guard(&dir)?;
        for node in &mut nodes {
            node.start()?;
        }
        let cluster = Self { nodes, synchronous, ways, _etcd: etcd };
        cluster.whole().await?;
        Ok(cluster)
    }

    /// All its hosts in one address, for who finds the primary by himself.
    pub(super) fn address(&self) -> String {
        let hosts: Vec<String> = self.nodes.iter().map(Node::place).collect();
        let words = "target_session_attrs=read-write&sslmode=disable";
        format!("postgres://postgres@{}/postgres?{words}", hosts.join(","))
    }

    /// What the first node that answers says of all of them. One that is in trouble (`not`) is not asked: it knows only how it was.
    async fn members(&self, not: Option<usize>) -> Result<Vec<Member>> {
        for (_, node) in self.nodes.iter().enumerate().filter(|(at, _)| Some(*at) != not) {
            if let Ok(body) = http::get(&node.rest(), "/cluster").await {
                let members: Members = serde_json::from_str(&body).context("what Patroni says")?;
                return Ok(members.members);
            }
        }
        bail!("no Patroni answers")
    }

    /// Wait until somebody other than `not` leads. Answers the place of the leader in the list, and its timeline.
    pub(super) async fn leader(&self, not: Option<usize>) -> Result<(usize, u32)> {
        let since = Instant::now();
        loop {
            let members = self.members(not).await.unwrap_or_default();
            if let Some(leader) = members.iter().find(|member| member.is_leader()) {
                let at = self.nodes.iter().position(|node| node.name == leader.name);
                if let Some(at) = at.filter(|at| Some(*at) != not) {
                    return Ok((at, leader.timeline));
                }
            }
            ensure!(since.elapsed() < PATIENCE, "nobody leads: {members:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Wait until one node leads and the others follow it, one of them in step if that was asked for.
    pub(super) async fn whole(&self) -> Result<()> {
        let since = Instant::now();
        loop {
            let members = self.members(None).await.unwrap_or_default();
            let leads = members.iter().filter(|member| member.is_leader()).count() == 1;
            let timeline = members.iter().map(|member| member.timeline).max();
            let follow = members.iter().filter(|m| m.follows() && Some(m.timeline) == timeline).count();
            let in_step = members.iter().any(|member| member.role == "sync_standby");
            if leads && follow == NODES - 1 && (in_step || !self.synchronous) {
                return Ok(());
            }
            ensure!(since.elapsed() < PATIENCE, "the cluster does not become whole: {members:?}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Whether what a node and etcd say to each other arrives.
    pub(super) fn reach_etcd(&self, node: usize, reach: bool) {
        self.ways[node].weather(if reach { Weather::Clear } else { Weather::Hole });
    }

    /// Hand the lead over in good order, as an operator would before maintenance.
    pub(super) async fn switch_over(&self, from: usize, to: usize) -> Result<()> {
        let mut command = unprivileged("KILL");
        command.args(["patronictl", "-c"]).arg(self.nodes[from].settings());
        command.args(["switchover", "bugle", "--candidate", &self.nodes[to].name, "--force"]);
        command.stdin(Stdio::null());
        let output = tokio::task::spawn_blocking(move || command.output()).await?.context("patronictl")?;
        let said = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.success() && said.contains("Successfully"), "patronictl: {said}");
        Ok(())
    }
}

/// A directory that belongs to the user who runs PostgreSQL.
fn home(dir: &Path) -> Result<PathBuf> {
    let dir = dir.join("cluster");
    std::fs::create_dir(&dir).context("make a directory for the cluster")?;
    if is_root() {
        let owned = Command::new("chown").arg("postgres:postgres").arg(&dir).status().context("chown")?;
        ensure!(owned.success(), "give the directory to user postgres");
    }
    Ok(dir)
}

/// PostgreSQL does not end with Patroni. Should this process be killed, somebody has to end it.
fn guard(dir: &Path) -> Result<()> {
    let script = format!(
        "tail --pid={} -s 1 -f /dev/null; sleep 1
for file in {}/*/postmaster.pid; do kill -QUIT $(head -1 $file); done",
        std::process::id(),
        dir.display()
    );
    let mut command = Command::new("setsid");
    command.args(["--fork", "sh", "-c", &script]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    ensure!(command.status().context("start a guard")?.success(), "start a guard");
    Ok(())
}
