//! etcd, where Patroni's nodes agree on who leads.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::database::is_root;
use crate::http;

const START_LIMIT: Duration = Duration::from_secs(60);

/// One etcd. Killed when dropped, and by the system when this process is killed.
pub(super) struct Etcd {
    place: String,
    process: Child,
}

impl Etcd {
    pub(super) async fn start(dir: &Path) -> Result<Self> {
        let (client, peer) = (free_port()?, free_port()?);
        let place = format!("127.0.0.1:{client}");
        let (client, peer) = (format!("http://{place}"), format!("http://127.0.0.1:{peer}"));
        let log = File::create(dir.join("etcd.log")).context("open a log")?;
        let mut command = unprivileged("KILL");
        command.arg("etcd").arg("--data-dir").arg(dir.join("etcd"));
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &format!("default={peer}")]);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let process = command.spawn().context("start etcd")?;
        let this = Self { place, process };
        let since = Instant::now();
        while http::get(&this.place, "/health").await.is_err() {
            if since.elapsed() > START_LIMIT {
                bail!("etcd does not start; see {}", dir.join("etcd.log").display());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(this)
    }

    /// Where it is.
    pub(super) fn place(&self) -> &str {
        &self.place
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The beginning of a command that is run by a user whom PostgreSQL accepts, and gets this signal when this process ends.
pub(super) fn unprivileged(signal: &str) -> Command {
    let mut command = Command::new("setpriv");
    if is_root() {
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]);
    }
    command.args(["--pdeathsig", signal]);
    command
}

/// A port that nobody uses now.
pub(super) fn free_port() -> Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
