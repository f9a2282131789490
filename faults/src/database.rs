//! A private PostgreSQL that may be stopped, killed and started again at will.

use std::fs::File;
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tokio_postgres::{Client, NoTls};

/// Longest wait for it to take connections; it may have to recover, and the machine may be busy.
const START_LIMIT: Duration = Duration::from_secs(120);
/// Longest wait for one connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// How it is run.
#[derive(Clone, Debug, Default)]
pub struct DatabaseOptions {
    /// Whether commits wait for the disk. Without it they survive everything but the end of the machine.
    pub fsync: bool,
    /// More environment.
    pub env: Vec<(String, String)>,
    /// More settings, as `name=value`.
    pub settings: Vec<String>,
}

/// Stopped when dropped, and by the system when this process is killed.
pub struct Database {
    dir: PathBuf,
    port: u16,
    options: DatabaseOptions,
    process: Option<Child>,
}

impl Database {
    /// Make a new one in `dir` and start it.
    pub async fn start(dir: &Path, options: DatabaseOptions) -> Result<Self> {
        let dir = dir.join("postgres");
        std::fs::create_dir(&dir).context("make a directory for PostgreSQL")?;
        if is_root() {
            let owned = Command::new("chown").arg("postgres:postgres").arg(&dir).status();
            ensure!(owned.context("chown")?.success(), "give the directory to user postgres");
        }
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut this = Self { dir, port, options, process: None };
        let mut initdb = this.command("initdb", false)?;
        initdb.args(["-U", "postgres", "--auth=trust", "-N", "--locale=C", "-E", "UTF8"]);
        let made = tokio::task::spawn_blocking(move || initdb.status()).await.context("initdb")?;
        ensure!(made.context("initdb")?.success(), "initdb failed; see {}", this.log().display());
        this.begin().await?;
        Ok(this)
    }

    /// Where it is; the port stays the same.
    pub fn address(&self) -> String {
        self.address_at(&format!("127.0.0.1:{}", self.port))
    }

    /// Its address when it is reached through another place.
    pub fn address_at(&self, place: &str) -> String {
        format!("postgres://postgres@{place}/postgres?sslmode=disable")
    }

    /// Its place.
    pub fn place(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Its log.
    pub fn log(&self) -> PathBuf {
        self.dir.join("log")
    }

    /// Start it and return when it takes connections.
    pub async fn begin(&mut self) -> Result<()> {
        let deadline = Instant::now() + START_LIMIT;
        loop {
            if self.process.is_none() {
                self.process = Some(self.postgres()?.spawn().context("start PostgreSQL")?);
            }
            // Once only: a process that has ended meanwhile is to be started again.
            if self.connect_once().await.is_ok() {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("PostgreSQL does not start; see {}", self.log().display());
            }
            // While a process of a killed server is left, a new one refuses to start.
            if self.process.as_mut().is_some_and(|process| !matches!(process.try_wait(), Ok(None))) {
                self.process = None;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// A connection for questions of our own, when PostgreSQL has recovered from what was done to it.
    pub async fn connect(&self) -> Result<Client> {
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            match self.connect_once().await {
                Ok(client) => return Ok(client),
                Err(error) if Instant::now() > until => return Err(error),
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }

    async fn connect_once(&self) -> Result<Client> {
        let address = self.address();
        let connecting = tokio::time::timeout(CONNECT_LIMIT, tokio_postgres::connect(&address, NoTls));
        let (client, connection) = connecting.await.context("no connection in time")?.context("connect")?;
        tokio::spawn(async move { drop(connection.await) });
        Ok(client)
    }

    /// Stop it: `INT` ends connections in good order, `QUIT` as a power cut would, `KILL` the postmaster alone, whose
    /// children notice and end by themselves.
    pub async fn stop(&mut self, signal: Signal) -> Result<()> {
        let Some(mut process) = self.process.take() else { return Ok(()) };
        kill_process(Pid::from_child(&process), signal).context("signal PostgreSQL")?;
        tokio::task::spawn_blocking(move || process.wait()).await.context("wait for PostgreSQL")??;
        Ok(())
    }

    /// Send a signal to this many processes that serve connections of Bugle, chosen at random. The answer: to how many.
    pub async fn signal_backends(&self, signal: Signal, count: usize) -> Result<u64> {
        let client = self.connect().await?;
        let sql = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'bugle%' ORDER BY random() LIMIT $1";
        let rows = client.query(sql, &[&(count as i64)]).await.context("list backends")?;
        let mut sent = 0;
        for row in rows {
            let pid = Pid::from_raw(row.get(0)).context("a backend has a number")?;
            // It may have ended since.
            sent += u64::from(kill_process(pid, signal).is_ok());
        }
        Ok(sent)
    }

    fn postgres(&self) -> Result<Command> {
        let mut postgres = self.command("postgres", true)?;
        postgres.args(["-p", &self.port.to_string(), "-k", "", "-h", "127.0.0.1"]);
        let fsync = if self.options.fsync { "on" } else { "off" };
        let fixed = ["max_connections=120", "shared_buffers=64MB", "max_wal_size=2GB", "timezone=UTC"];
        for setting in fixed.into_iter().chain(self.options.settings.iter().map(String::as_str)) {
            postgres.args(["-c", setting]);
        }
        postgres.args(["-c", &format!("fsync={fsync}")]);
        Ok(postgres)
    }

    /// A program of the server's, under a user that it accepts, on the data directory.
    fn command(&self, program: &str, with_env: bool) -> Result<Command> {
        let log = File::options().create(true).append(true).open(self.log()).context("open the log")?;
        let mut command = Command::new("setpriv");
        if is_root() {
            command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]);
        }
        command.args(["--pdeathsig", "QUIT"]);
        if with_env {
            // Set for the program alone: a library that is loaded into `setpriv` too runs as another user there.
            let set = self.options.env.iter().map(|(name, value)| format!("{name}={value}"));
            command.arg("env").args(set);
        }
        command.arg(programs().join(program)).arg("-D").arg(self.dir.join("data")).current_dir(&self.dir);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        Ok(command)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let Some(mut process) = self.process.take() else { return };
        // Nothing here outlives the round, so nothing has to be written.
        let _ = kill_process(Pid::from_child(&process), Signal::QUIT);
        let _ = process.wait();
    }
}

/// Whether this process may do everything: PostgreSQL refuses to run so.
pub fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0)
}

/// The newest server installed in the Debian way, or whatever is in the path.
pub fn programs() -> PathBuf {
    let found = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let versions = found.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    versions.max().map_or_else(PathBuf::new, |v| format!("/usr/lib/postgresql/{v}/bin").into())
}
