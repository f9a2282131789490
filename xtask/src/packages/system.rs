//! A small Debian in a directory, as a machine or an image begins.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::tools;

/// The release that packages and images are for.
const RELEASE: &str = "bookworm";

/// See the module.
pub(super) struct System {
    dir: PathBuf,
}

impl System {
    /// One with nothing but what Debian calls minimal; made once.
    pub(super) fn clean(dir: &Path) -> Result<Self> {
        if !dir.join("etc/debian_version").is_file() {
            let mut make = Command::new("debootstrap");
            tools::run(make.args(["--variant=minbase", RELEASE]).arg(dir))?;
        }
        Ok(Self { dir: dir.to_owned() })
    }

    /// A copy to work in, in the place of what was there.
    pub(super) fn copy(&self, to: &Path) -> Result<Self> {
        if to.exists() {
            fs::remove_dir_all(to).with_context(|| to.display().to_string())?;
        }
        tools::run(Command::new("cp").arg("-a").arg(&self.dir).arg(to))?;
        Ok(Self { dir: to.to_owned() })
    }

    pub(super) fn path(&self, inside: &str) -> PathBuf {
        self.dir.join(inside.trim_start_matches('/'))
    }

    /// A command inside of it.
    pub(super) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("chroot");
        command.arg(&self.dir).args(words).env_clear();
        command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        command.env("DEBIAN_FRONTEND", "noninteractive").env("LC_ALL", "C.UTF-8");
        command
    }

    pub(super) fn run(&self, words: &[&str]) -> Result<()> {
        tools::run(&mut self.command(words))
    }
}

/// A server that was started by a command; killed when dropped.
pub(super) struct Serving {
    process: Child,
    pub(super) url: String,
}

impl Serving {
    /// Returns when it says that it is ready.
    pub(super) fn start(mut command: Command) -> Result<Self> {
        let mut process =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("start bugle")?;
        let mut lines = BufReader::new(process.stdout.take().context("no output")?);
        let mut line = String::new();
        lines.read_line(&mut line)?;
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        let url = line.trim().strip_prefix("Bugle is ready at ").map(str::to_owned);
        Ok(Self { process, url: url.with_context(|| format!("no greeting: {line:?}"))? })
    }

    /// What `curl` prints; `words` come before the address.
    pub(super) fn curl(&self, words: &[&str], path: &str) -> Result<String> {
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--fail-with-body", "--max-time", "20"])
            .args(words)
            .arg(format!("{}{path}", self.url));
        let output = curl.output().context("curl")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(output.status.success(), "{path}: {text} {}", String::from_utf8_lossy(&output.stderr));
        Ok(text)
    }

    /// As a system stops it; it must end well.
    pub(super) fn stop(mut self) -> Result<()> {
        tools::run(Command::new("kill").args(["-TERM", &self.process.id().to_string()]))?;
        let status = self.process.wait()?;
        ensure!(status.success(), "the server ended with {status}");
        Ok(())
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
