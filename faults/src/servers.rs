//! `bugle` processes: started, killed, stopped in their tracks, and started again at the same address.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

/// A server that has not greeted by then does not start at all; the machine may be busy.
const START_LIMIT: Duration = Duration::from_secs(60);
/// A server that was asked to end and has not by then hangs.
const END_LIMIT: Duration = Duration::from_secs(30);

/// How a server is started.
#[derive(Clone, Debug, Default)]
pub struct Manner {
    /// Flags of `bugle serve`, without `--listen`.
    pub flags: Vec<String>,
    /// Its environment; nothing is inherited.
    pub env: Vec<(String, String)>,
    /// Words before the program: something that runs it in a place of its own.
    pub before: Vec<String>,
}

/// A server. Killed when dropped, and by the system when this process is killed.
pub struct Server {
    binary: PathBuf,
    manner: Manner,
    dir: PathBuf,
    log: PathBuf,
    url: String,
    process: Option<Child>,
}

impl Server {
    /// Start one that runs in `dir` and keeps its log there.
    pub async fn start(binary: &Path, dir: &Path, name: &str, manner: Manner) -> Result<Self> {
        let (binary, log) = (binary.to_owned(), dir.join(format!("{name}.log")));
        let mut server = Self { binary, manner, dir: dir.to_owned(), log, url: String::new(), process: None };
        server.begin().await?;
        Ok(server)
    }

    /// Where it is, also after it was started again.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its place without the scheme.
    pub fn address(&self) -> &str {
        self.url.split_once("://").map_or(&self.url, |(_, address)| address)
    }

    /// Its process, if it runs.
    pub fn pid(&self) -> Option<Pid> {
        self.process.as_ref().map(Pid::from_child)
    }

    /// What it is started with from the next time on.
    pub fn manner(&mut self) -> &mut Manner {
        &mut self.manner
    }

    /// Start it, at its old address if it had one; the time until it greeted.
    pub async fn begin(&mut self) -> Result<Duration> {
        let deadline = Instant::now() + START_LIMIT;
        loop {
            let began = Instant::now();
            match self.try_begin().await {
                Ok(()) => return Ok(began.elapsed()),
                // The old address may be in use for a moment: by a connection, or by a process that ends.
                Err(error) if Instant::now() > deadline || self.url.is_empty() => return Err(error),
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }

    async fn try_begin(&mut self) -> Result<()> {
        let log = File::options().create(true).append(true).open(&self.log).context("open the log")?;
        // Not to outlive this process, whatever ends it.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).args(&self.manner.before).arg(&self.binary);
        command.env_clear().envs(self.manner.env.iter().map(|(name, value)| (name, value)));
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        let listen = if self.url.is_empty() { "127.0.0.1:0" } else { self.address() };
        command.arg("serve").arg(format!("--listen={listen}")).args(&self.manner.flags);
        command.current_dir(&self.dir).stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(log.try_clone().context("open the log twice")?);
        let mut process = command.spawn().with_context(|| format!("start {}", self.binary.display()))?;
        let output = process.stdout.take().context("the server has no output")?;
        let greeting = tokio::task::spawn_blocking(move || greeting(output, log));
        let line = tokio::time::timeout(START_LIMIT, greeting).await;
        match line.context("the server does not start").and_then(|line| line?) {
            Ok(Some(url)) => {
                (self.url, self.process) = (url, Some(process));
                Ok(())
            }
            other => {
                let _ = process.kill();
                let status = process.wait();
                bail!("no server ({status:?}, {:?}); its log is {}", other.err(), self.log.display())
            }
        }
    }

    /// End it as a crash would.
    pub fn kill(&mut self) -> Result<()> {
        let Some(mut process) = self.process.take() else { return Ok(()) };
        process.kill().context("kill a server")?;
        process.wait().context("wait for a killed server")?;
        Ok(())
    }

    /// Ask it to end, and wait until it has done so well.
    pub async fn end(&mut self) -> Result<()> {
        let status = self.end_somehow().await?;
        if status.is_some_and(|status| !status.success()) {
            bail!("a server that was asked to end ended with {status:?}; its log is {}", self.log.display());
        }
        Ok(())
    }

    /// Ask it to end, and wait until it has, with whatever status.
    pub async fn end_somehow(&mut self) -> Result<Option<ExitStatus>> {
        self.signal(Signal::TERM)?;
        let Some(mut process) = self.process.take() else { return Ok(None) };
        let ended = tokio::task::spawn_blocking(move || {
            let status = process.wait();
            (process, status)
        });
        let ended = tokio::time::timeout(END_LIMIT, ended).await.context("a server does not end")?;
        let (_, status) = ended.context("wait for a server")?;
        Ok(Some(status.context("wait for a server")?))
    }

    /// Stop it in its tracks (`STOP`), let it go on (`CONT`).
    pub fn signal(&self, signal: Signal) -> Result<()> {
        self.pid().map_or(Ok(()), |pid| kill_process(pid, signal)).context("signal a server")
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.process.as_mut().is_none_or(|process| matches!(process.try_wait(), Ok(Some(_)) | Err(_)))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.kill();
    }
}

/// Where the server says it is. The rest of what it says goes to its log.
fn greeting(output: impl std::io::Read + Send + 'static, mut log: File) -> Result<Option<String>> {
    let (mut lines, mut line) = (BufReader::new(output), String::new());
    loop {
        line.clear();
        if lines.read_line(&mut line).context("read what the server says")? == 0 {
            return Ok(None);
        }
        log.write_all(line.as_bytes()).context("write the log")?;
        if let Some(url) = line.trim().strip_prefix("Bugle is ready at ") {
            let url = url.to_owned();
            std::thread::spawn(move || std::io::copy(&mut lines, &mut log));
            return Ok(Some(url));
        }
    }
}
