//! Starts `bugle` processes on a fresh place for data and leaves nothing behind: a figure should need one command.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio_postgres::NoTls;

use crate::cli_servers::Servers;
use crate::client::Target;
use crate::rest::Rest;

/// A server that has not greeted by then does not start at all.
const START_LIMIT: Duration = Duration::from_secs(30);

/// A place for data, and how servers are started on it.
pub struct Place {
    servers: Servers,
    pub(crate) schema: String,
    directory: PathBuf,
}

impl Place {
    /// A fresh place as the options ask for it.
    pub fn new(servers: &Servers) -> Result<Self> {
        let schema = servers.schema.clone().unwrap_or_else(|| format!("bench_{:08x}", fastrand::u32(..)));
        let plain = schema.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        ensure!(plain && !schema.is_empty(), "--schema: only small letters, digits and '_' are allowed");
        let mut servers = servers.clone();
        // Servers run in that directory; a relative path would be looked for there.
        servers.server =
            servers.server.canonicalize().with_context(|| servers.server.display().to_string())?;
        let parent = servers.data_parent.clone().unwrap_or_else(std::env::temp_dir);
        let directory = parent.join(format!("bugle-bench-{:016x}", fastrand::u64(..)));
        std::fs::create_dir(&directory).with_context(|| format!("create {}", directory.display()))?;
        Ok(Self { servers, schema, directory })
    }

    /// Where they keep their files.
    pub(crate) fn directory(&self) -> &std::path::Path {
        &self.directory
    }

    /// Which engine the servers use, for the report.
    pub(crate) fn engine(&self) -> &'static str {
        if self.servers.pg.is_some() { "postgres" } else { "embedded" }
    }

    /// Starts a server and returns when it listens.
    pub async fn start<S: AsRef<str>>(&self, flags: &[S]) -> Result<Server> {
        let mut command = Command::new(&self.servers.server);
        // Settings of the caller's environment must not change a figure.
        command.env_clear().current_dir(&self.directory).stdin(Stdio::null()).stdout(Stdio::piped());
        command.args(["serve", "--listen=127.0.0.1:0", "--log-level=off"]);
        match &self.servers.pg {
            Some(dsn) => command.args([format!("--store={dsn}"), format!("--pg-schema={}", self.schema)]),
            None => command.args(["--store=embedded", "--data-dir=data"]),
        };
        command.args(&self.servers.server_flag).args(flags.iter().map(AsRef::as_ref));
        let child = command.spawn().with_context(|| format!("start {}", self.servers.server.display()))?;
        Server::greet(child).await
    }

    /// A connection to the database for the generator's own questions.
    pub(crate) async fn database(&self) -> Result<tokio_postgres::Client> {
        let dsn = self.servers.pg.as_deref().context("--pg is missing")?;
        let (client, connection) = tokio_postgres::connect(dsn, NoTls).await.context("--pg: connect")?;
        // Ends by itself when the client is dropped; a broken connection shows in the next query.
        tokio::spawn(async move { drop(connection.await) });
        Ok(client)
    }

    /// Removes what the servers have written. All of them must have ended.
    pub async fn remove(self) -> Result<()> {
        if self.servers.pg.is_some() {
            let drop = format!("DROP SCHEMA IF EXISTS {} CASCADE", self.schema);
            self.database().await?.batch_execute(&drop).await.context("drop the schema")?;
        }
        std::fs::remove_dir_all(&self.directory).context("remove the directory")
    }
}

/// A running server, killed when dropped.
pub struct Server {
    child: Child,
    url: String,
}

impl Server {
    async fn greet(mut child: Child) -> Result<Self> {
        let stdout = child.stdout.take().context("no standard output")?;
        let mut server = Self { child, url: String::new() };
        let greeting = tokio::task::spawn_blocking(move || {
            let (mut lines, mut line) = (BufReader::new(stdout), String::new());
            lines.read_line(&mut line).map(|_| (line, lines))
        });
        let (line, mut rest) =
            tokio::time::timeout(START_LIMIT, greeting).await.context("the server does not start")???;
        let Some(url) = line.trim().strip_prefix("Bugle is ready at ") else {
            bail!("the server does not start: {line:?}");
        };
        url.clone_into(&mut server.url);
        // Read on, so that the server never blocks on a full pipe.
        std::thread::spawn(move || std::io::copy(&mut rest, &mut std::io::sink()));
        Ok(server)
    }

    /// Where it listens.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn target(&self) -> Result<Target> {
        self.target_within(Duration::from_secs(60))
    }

    /// A target whose requests may take so long.
    pub(crate) fn target_within(&self, timeout: Duration) -> Result<Target> {
        Target::new(&self.url, None, timeout)
    }

    /// A connection for requests with JSON bodies.
    pub(crate) fn rest(&self) -> Result<Rest> {
        Ok(Rest::new(self.target()?))
    }

    /// Ends the process as a crash would.
    pub(crate) fn kill(mut self) -> Result<()> {
        self.child.kill().context("kill the server")?;
        self.child.wait().context("wait for the server")?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
