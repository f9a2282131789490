//! Where a queue is or shall be: a running server, or data that no server has in use, for which one is started meanwhile.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

/// See the module.
pub(super) struct Place {
    url: String,
    /// Ended when the place is left.
    server: Option<Child>,
}

impl Place {
    /// `http://…` is a server; `postgres://…` and everything else are a database and a data directory.
    pub(super) fn open(text: &str) -> Result<Self> {
        if text.starts_with("http://") || text.starts_with("https://") {
            return Ok(Self { url: text.to_owned(), server: None });
        }
        let program = std::env::current_exe().context("our own program")?;
        let mut command = Command::new(program);
        // Settings in the environment hold for it too: keys of encrypted queues, the schema.
        command.args(["serve", "--listen=127.0.0.1:0", "--log-level=error"]);
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            command.arg(format!("--store={text}"));
        } else {
            command.args(["--store=embedded", &format!("--data-dir={text}")]);
        }
        let mut server =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("bugle serve")?;
        let mut lines = BufReader::new(server.stdout.take().context("bugle serve")?);
        let mut greeting = String::new();
        lines.read_line(&mut greeting).context("bugle serve")?;
        let Some(url) = greeting.trim().strip_prefix("Bugle is ready at ").map(str::to_owned) else {
            let _ = server.wait();
            bail!(
                "a server for it could not be started; is one running on it already? then name that one by its URL"
            );
        };
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        Ok(Self { url, server: Some(server) })
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(server) = &mut self.server {
            let _ = kill_process(Pid::from_child(server), Signal::TERM);
            let _ = server.wait();
        }
    }
}
