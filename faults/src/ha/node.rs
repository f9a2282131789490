//! One node: Patroni and the PostgreSQL that it runs.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};

use super::store::{free_port, unprivileged};
use crate::database::programs;

/// The shortest that Patroni takes. Whoever leads must renew his key within it; a leader that died is replaced after it.
pub(super) const TTL: u32 = 20;
/// Between two looks of Patroni; the least.
const LOOP_WAIT: u32 = 1;
/// How long Patroni tries to reach etcd before it gives up leading; the least.
const RETRY_TIMEOUT: u32 = 3;

/// A node. Everything of it is killed when it is dropped.
pub(super) struct Node {
    pub(super) name: String,
    dir: PathBuf,
    rest: u16,
    port: u16,
    patroni: Option<Child>,
}

impl Node {
    /// Write down how it is run; nothing is started. It asks `etcd` and no other place that etcd names. `dir` belongs to the user that runs it.
    pub(super) fn new(dir: &Path, name: &str, etcd: SocketAddr, synchronous: bool) -> Result<Self> {
        let (rest, port) = (free_port()?, free_port()?);
        let node = Self { name: name.to_owned(), dir: dir.to_owned(), rest, port, patroni: None };
        std::fs::write(node.settings(), node.yaml(etcd, synchronous)).context("write Patroni's settings")?;
        Ok(node)
    }

    /// The file that Patroni and its tools read.
    pub(super) fn settings(&self) -> PathBuf {
        self.dir.join(format!("{}.yml", self.name))
    }

    fn yaml(&self, etcd: SocketAddr, synchronous: bool) -> String {
        let Self { name, dir, rest, port, .. } = self;
        let (dir, bin) = (dir.display(), programs());
        let bin = bin.display();
        format!(
            r#"scope: bugle
name: {name}
restapi: {{listen: "127.0.0.1:{rest}", connect_address: "127.0.0.1:{rest}"}}
etcd3: {{hosts: "{etcd}", use_proxies: true}}
bootstrap:
  dcs:
    ttl: {TTL}
    loop_wait: {LOOP_WAIT}
    retry_timeout: {RETRY_TIMEOUT}
    maximum_lag_on_failover: 1073741824
    synchronous_mode: {synchronous}
    synchronous_mode_strict: {synchronous}
    postgresql:
      use_pg_rewind: true
      parameters: {{max_connections: 120, shared_buffers: 64MB, wal_keep_size: 512MB, wal_retrieve_retry_interval: 1s, timezone: UTC}}
  initdb: [{{encoding: UTF8}}, {{locale: C}}, data-checksums]
  pg_hba: ["host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"]
postgresql:
  listen: "127.0.0.1:{port}"
  connect_address: "127.0.0.1:{port}"
  data_dir: {dir}/{name}
  bin_dir: "{bin}"
  pgpass: {dir}/{name}.pgpass
  authentication:
    superuser: {{username: postgres, password: unused}}
    replication: {{username: replicator, password: unused}}
    rewind: {{username: postgres, password: unused}}
  parameters: {{unix_socket_directories: ""}}
"#
        )
    }

    /// Where PostgreSQL is.
    pub(super) fn place(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Where Patroni answers.
    pub(super) fn rest(&self) -> String {
        format!("127.0.0.1:{}", self.rest)
    }

    /// Start Patroni, which starts PostgreSQL.
    pub(super) fn start(&mut self) -> Result<()> {
        let log = self.dir.join(format!("{}.log", self.name));
        let log = File::options().create(true).append(true).open(log).context("open a log")?;
        let mut command = unprivileged("KILL");
        command.arg("patroni").arg(self.settings()).current_dir(&self.dir);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        self.patroni = Some(command.spawn().context("start Patroni")?);
        Ok(())
    }

    /// Stop Patroni in its tracks (`STOP`). PostgreSQL runs on.
    pub(super) fn signal_patroni(&self, signal: Signal) -> Result<()> {
        let pid = self.patroni.as_ref().map(Pid::from_child).context("Patroni does not run")?;
        kill_process(pid, signal).context("signal Patroni")
    }

    /// Send a signal to the processes that send the log to standbys. The answer: to how many.
    pub(super) fn signal_senders(&self, signal: Signal) -> Result<usize> {
        let senders = self.children()?.into_iter().filter(|(_, title)| title.contains("walsender"));
        Ok(senders.filter(|(pid, _)| kill_process(*pid, signal).is_ok()).count())
    }

    /// End Patroni, also one that is stopped. PostgreSQL runs on.
    pub(super) fn kill_patroni(&mut self) {
        if let Some(mut patroni) = self.patroni.take() {
            let _ = patroni.kill();
            let _ = patroni.wait();
        }
    }

    /// End all of it as the end of the machine would.
    pub(super) fn kill(&mut self) {
        self.kill_patroni();
        // Those that are stopped do not notice that the postmaster is gone.
        let children = self.children().unwrap_or_default();
        for pid in self.postmaster().into_iter().chain(children.into_iter().map(|(pid, _)| pid)) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }

    fn postmaster(&self) -> Option<Pid> {
        let file = std::fs::read_to_string(self.dir.join(&self.name).join("postmaster.pid")).ok()?;
        let pid = Pid::from_raw(file.lines().next()?.trim().parse().ok()?)?;
        // A file that was left behind may name a stranger.
        let title = std::fs::read_to_string(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).ok()?;
        title.contains("postgres").then_some(pid)
    }

    /// Processes of PostgreSQL, with what they say they do.
    fn children(&self) -> Result<Vec<(Pid, String)>> {
        let Some(postmaster) = self.postmaster() else { return Ok(Vec::new()) };
        let number = postmaster.as_raw_nonzero();
        let all = std::fs::read_to_string(format!("/proc/{number}/task/{number}/children"))
            .context("list the processes of PostgreSQL")?;
        let title = |pid: i32| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let pids = all.split_whitespace().filter_map(|word| word.parse::<i32>().ok());
        Ok(pids.filter_map(|pid| Some((Pid::from_raw(pid)?, title(pid)))).collect())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}
