//! A PostgreSQL server of one test, which can be stopped and started again.

use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::until_true;

/// Stopped when dropped, and by the system if the test is killed.
pub(crate) struct OwnPostgres {
    dir: TempDir,
    port: u16,
    process: Option<Child>,
}

impl OwnPostgres {
    pub(crate) async fn start() -> Self {
        let dir = place();
        let mut this = Self { dir, port: free_port(), process: None };
        let mut initdb = this.command("initdb");
        initdb.args(["-U", "postgres", "--auth=trust", "-N", "--locale=C", "-E", "UTF8"]);
        assert!(initdb.status().unwrap().success());
        this.begin().await;
        this
    }

    /// A copy of a running one, made by the database's own program while it is used, and started.
    pub(crate) async fn copy(&self) -> Self {
        let mut this = Self { dir: place(), port: free_port(), process: None };
        let mut copying = this.command("pg_basebackup");
        let port = self.port.to_string();
        copying.args(["-h", "127.0.0.1", "-p", &port, "-U", "postgres", "-X", "stream", "-c", "fast"]);
        let copied = tokio::task::spawn_blocking(move || copying.status().unwrap()).await.unwrap();
        assert!(copied.success());
        this.begin().await;
        this
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// One of the database's own programs.
    pub(crate) fn program(name: &str) -> PathBuf {
        binaries().join(name)
    }

    pub(crate) fn address(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres?sslmode=disable", self.port)
    }

    /// End it as a power cut would, all connections with it.
    pub(crate) fn stop(&mut self) {
        let Some(mut process) = self.process.take() else { return };
        let _ = kill_process(Pid::from_child(&process), Signal::QUIT);
        let _ = process.wait();
    }

    /// Start it and return when it takes connections.
    pub(crate) async fn begin(&mut self) {
        let mut postgres = self.command("postgres");
        let port = self.port.to_string();
        postgres.args([
            "-p",
            &port,
            "-k",
            "",
            "-h",
            "127.0.0.1",
            "-c",
            "fsync=off",
            "-c",
            "max_connections=60",
        ]);
        self.process = Some(postgres.spawn().unwrap());
        until_true("the database serves", async || self.serves()).await;
    }

    /// Whether it lets anyone in: it listens before that, while it replays its log.
    fn serves(&self) -> bool {
        let mut asked = Command::new(Self::program("pg_isready"));
        asked.args(["-q", "-h", "127.0.0.1", "-U", "postgres", "-p", &self.port.to_string()]);
        asked.status().unwrap().success()
    }

    /// A program of the server's, under a user that it accepts, on the data directory.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("setpriv");
        if is_root() {
            command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]);
        }
        command.args(["--pdeathsig", "QUIT"]).arg(binaries().join(program));
        command.arg("-D").arg(self.dir.path().join("data")).current_dir(self.dir.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }
}

impl Drop for OwnPostgres {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A directory that the server may use.
fn place() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    if is_root() {
        let owned = Command::new("chown").arg("postgres:postgres").arg(dir.path()).status();
        assert!(owned.unwrap().success());
    }
    dir
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0)
}

/// The newest server installed in the Debian way, or whatever is in the path.
fn binaries() -> PathBuf {
    let found = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let versions = found.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    versions.max().map_or_else(PathBuf::new, |v| format!("/usr/lib/postgresql/{v}/bin").into())
}
