//! The place of a run: a directory on the disk under test, free ports, and processes that end with the run.

use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tokio::net::TcpStream;

/// A system that does not listen by then does not start at all.
const START_LIMIT: Duration = Duration::from_secs(60);
/// How long a process may take to end when asked; after that it is killed.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// Where everything of a run lies.
pub(crate) struct Lab {
    pub(crate) directory: PathBuf,
    /// The `bugle` program.
    pub(crate) server: PathBuf,
    /// Where the packages for Node.js are installed.
    pub(crate) node_modules: PathBuf,
    /// The scripts that use them.
    pub(crate) scripts: PathBuf,
    /// Connection string of the run's PostgreSQL, and its process.
    pub(crate) dsn: String,
    pub(crate) postgres: u32,
    pub(crate) postgres_version: String,
}

/// A directory that is removed when dropped.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    /// A fresh directory under `parent`, which must be on a disk: on memory nothing is durable.
    pub(crate) fn new(parent: &Path) -> Result<Self> {
        let kind = filesystem(parent)?;
        ensure!(
            !matches!(kind.as_str(), "tmpfs" | "ramfs"),
            "{} is in memory ({kind}): choose a directory on a disk with --dir",
            parent.display()
        );
        let path = parent.join(format!("bugle-compare-{}", std::process::id()));
        std::fs::create_dir(&path).with_context(|| format!("create {}", path.display()))?;
        // Other users must be able to enter: the database does not run as root.
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&path, open).context("open the directory")?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("cannot remove {}: {error}", self.0.display());
        }
    }
}

/// The kind of file system a path is on, by the longest mount point above it.
pub(crate) fn filesystem(path: &Path) -> Result<String> {
    let path = path.canonicalize().with_context(|| path.display().to_string())?;
    let mounts = std::fs::read_to_string("/proc/mounts").context("read /proc/mounts")?;
    let fields = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        Some((fields.next()?, fields.next()?))
    });
    let above = fields.filter(|(point, _)| path.starts_with(point));
    // The last of equal ones hides the others.
    let kind = above.max_by_key(|(point, _)| point.len()).map(|(_, kind)| kind.to_owned());
    kind.with_context(|| format!("{}: on no known file system", path.display()))
}

/// A process with a group of its own that is ended, with its children, when this is dropped.
pub(crate) struct Process {
    child: Child,
    name: String,
}

impl Process {
    /// Starts a program; its output goes to a file of the directory.
    pub(crate) fn start(command: &mut Command, directory: &Path, name: &str) -> Result<Self> {
        let log = std::fs::File::create(directory.join(format!("{name}.log"))).context("create a log")?;
        let errors = log.try_clone().context("create a log")?;
        command.stdin(Stdio::null()).stdout(log).stderr(errors).process_group(0);
        let child = command.spawn().with_context(|| format!("start {name}"))?;
        Ok(Self { child, name: name.to_owned() })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until something accepts connections on the port.
    pub(crate) async fn listening(&mut self, port: u16) -> Result<()> {
        let deadline = Instant::now() + START_LIMIT;
        while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            if let Some(status) = self.child.try_wait().context("look after a process")? {
                bail!("{} ended instead of listening: {status}", self.name);
            }
            ensure!(Instant::now() < deadline, "{} does not listen on port {port}", self.name);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// Asks it to end and waits; kills it if it does not.
    pub(crate) async fn stop(&mut self) -> Result<()> {
        signal(self.child.id(), "TERM");
        let deadline = Instant::now() + STOP_LIMIT;
        while self.child.try_wait().context("look after a process")?.is_none() {
            if Instant::now() > deadline {
                signal(self.child.id(), "KILL");
                self.child.wait().context("wait for a killed process")?;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            signal(self.child.id(), "KILL");
            // Killed: there is nothing to learn from how it ended.
            let _ = self.child.wait();
        }
    }
}

/// Signals a whole group of processes; one that has ended already needs no signal.
fn signal(group: u32, name: &str) {
    let arguments = [format!("-{name}"), "--".to_owned(), format!("-{group}")];
    let _ = Command::new("kill").args(arguments).stderr(Stdio::null()).status();
}

/// A port nobody listens on. Somebody else may take it before it is used: then the start fails and says so.
pub(crate) fn free_port() -> Result<u16> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").context("find a free port")?;
    Ok(listener.local_addr().context("find a free port")?.port())
}

/// Makes a directory that belongs to the user a server runs as.
pub(crate) fn directory_for(path: &Path, user: Option<(u32, u32)>) -> Result<()> {
    std::fs::create_dir(path).with_context(|| format!("create {}", path.display()))?;
    if let Some((uid, gid)) = user {
        chown(path, Some(uid), Some(gid)).with_context(|| format!("give {} away", path.display()))?;
    }
    Ok(())
}

/// Runs a program to its end and returns what it printed.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("start {name}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{name}: {}: {}", output.status, errors.trim());
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
