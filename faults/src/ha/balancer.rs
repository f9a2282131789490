//! HAProxy in front of a cluster: it asks Patroni which node leads, for who has an address with one host only.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

use super::cluster::Cluster;
use super::store::free_port;

/// Killed when dropped, and by the system when this process is killed.
pub(super) struct Balancer {
    port: u16,
    process: Child,
}

impl Balancer {
    pub(super) fn start(dir: &Path, cluster: &Cluster) -> Result<Self> {
        let port = free_port()?;
        let mut settings = format!(
            "global\n  maxconn 500\ndefaults\n  mode tcp\n  timeout connect 2s\n  timeout client 30m\n  timeout server 30m\n\
             listen primary\n  bind 127.0.0.1:{port}\n  option httpchk OPTIONS /primary\n  http-check expect status 200\n  \
             default-server inter 1s fall 2 rise 1 on-marked-down shutdown-sessions\n"
        );
        for node in &cluster.nodes {
            let (rest, place) = (node.rest(), node.place());
            let check = rest.rsplit(':').next().unwrap_or_default();
            settings.push_str(&format!("  server {} {place} check port {check}\n", node.name));
        }
        let file = dir.join("haproxy.cfg");
        std::fs::write(&file, settings).context("write HAProxy's settings")?;
        let log = std::fs::File::create(dir.join("haproxy.log")).context("open a log")?;
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "/usr/sbin/haproxy", "-db", "-f"]).arg(&file);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        Ok(Self { port, process: command.spawn().context("start HAProxy")? })
    }

    /// The database behind it.
    pub(super) fn address(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres?sslmode=disable", self.port)
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
