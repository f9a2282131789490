//! One `bugle` for a suite of a published client: started on a fresh place for data, stopped at the end, and its log
//! shown if the suite fails.
//!
//! A shell stands between: it holds the reading end of a pipe, and however this process ends, the pipe closes and the
//! shell asks the server to end. The server takes a free port itself and says which, so that nobody can take it first.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::tools::children;

/// A server that has not greeted by then does not start at all.
const START_LIMIT: Duration = Duration::from_secs(60);
/// Lines of the log that are shown.
const SHOWN: usize = 60;

/// What the clients' suites ask of a server, said by the names their own documentation uses: clean-up often enough to be
/// watched, and a key for queues that encrypt.
const SETTINGS: [(&str, &str); 3] = [
    ("RETENTION_INTERVAL", "2000"),
    ("EVICTION_INTERVAL", "1000"),
    ("QUEEN_ENCRYPTION_KEY", "5d41402abc4b2a76b9719d911017c5925d41402abc4b2a76b9719d911017c592"),
];

/// Ctrl-C reaches everybody in the terminal's foreground, hence the ignored signals: the end of the input is the one
/// signal to stop. The shell gives up its output, so that the end of the server's is seen.
const WATCH: &str = r#"
trap '' INT TERM HUP
(trap - INT TERM HUP; exec "$@") </dev/null &
server=$!
exec >/dev/null
cat
kill -TERM "$server" 2>/dev/null
wait "$server"
"#;

/// Where messages are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine<'e> {
    Embedded,
    Postgres { dsn: &'e str },
}

impl Engine<'_> {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Postgres { .. } => "postgres",
        }
    }

    fn flags(self, folder: &Path) -> Vec<String> {
        match self {
            Self::Embedded => {
                vec!["--store=embedded".into(), format!("--data-dir={}", folder.join("data").display())]
            }
            Self::Postgres { dsn } => {
                vec![format!("--store={dsn}"), format!("--pg-schema={}", schema(folder))]
            }
        }
    }
}

/// A schema that no other run uses.
fn schema(folder: &Path) -> String {
    use std::hash::{BuildHasher, Hasher};
    let random = std::collections::hash_map::RandomState::new().build_hasher().finish();
    let name = folder.file_name().unwrap_or_default().to_string_lossy().replace('-', "_");
    format!("t_{name}_{random:016x}")
}

/// A running server. Dropping it stops it.
pub(crate) struct Server {
    pub(crate) url: String,
    folder: PathBuf,
    watcher: Child,
    lifeline: Option<ChildStdin>,
}

impl Server {
    /// Starts `program` with its data and its log in `folder`, which is emptied first.
    pub(crate) fn start(program: &Path, engine: Engine<'_>, folder: &Path) -> Result<Self> {
        if folder.exists() {
            fs::remove_dir_all(folder).with_context(|| format!("empty {}", folder.display()))?;
        }
        fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
        let log = File::create(folder.join("server.log")).context("create the server's log")?;
        let mut command = Command::new("sh");
        command.args(["-c", WATCH, "watch"]).arg(program);
        command.args(["serve", "--listen=127.0.0.1:0"]).args(engine.flags(folder));
        // Settings of the caller's environment must not change a result.
        command.env_clear().envs(SETTINGS).env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        // Its own group, so that a Ctrl-C meant for the tests does not end the server under them.
        command.process_group(0);
        let mut watcher = command.spawn().context("start the watching shell")?;
        let lifeline = watcher.stdin.take();
        let output = watcher.stdout.take().context("the watching shell has no output")?;
        let mut server = Self { url: String::new(), folder: folder.to_owned(), watcher, lifeline };
        match greeting(output) {
            Ok(url) => server.url = url,
            Err(error) => {
                server.show_log();
                return Err(error.context(format!("start {}", program.display())));
            }
        }
        Ok(server)
    }

    /// The server itself.
    pub(crate) fn process(&self) -> Result<u32> {
        let children = children(self.watcher.id())?;
        // The other one is the `cat` that holds the pipe.
        let named = |child: &u32| {
            fs::read_to_string(format!("/proc/{child}/comm")).is_ok_and(|name| name.trim() != "cat")
        };
        children.into_iter().find(named).context("the server has no process")
    }

    /// Prints the end of the server's log.
    pub(crate) fn show_log(&self) {
        let path = self.folder.join("server.log");
        let log = fs::read(&path).unwrap_or_default();
        let text = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = text.lines().collect();
        eprintln!("-- the end of {}", path.display());
        for line in lines.iter().skip(lines.len().saturating_sub(SHOWN)) {
            eprintln!("{line}");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.lifeline.take());
        if let Err(error) = self.watcher.wait() {
            eprintln!("cannot wait for the server to stop: {error}");
        }
    }
}

/// The address in the first line of the output. The rest is read and dropped: a full pipe would stop the server.
fn greeting(output: impl std::io::Read + Send + 'static) -> Result<String> {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let (mut lines, mut line) = (BufReader::new(output), String::new());
        let read = lines.read_line(&mut line).map(|_| line);
        // Nobody listens any more if the limit has passed.
        let _ = tell.send(read);
        std::io::copy(&mut lines, &mut std::io::sink())
    });
    let line = told.recv_timeout(START_LIMIT).context("the server does not greet")??;
    match line.trim().strip_prefix("Bugle is ready at ") {
        Some(url) => Ok(url.to_owned()),
        None => bail!("the server does not greet but says {line:?}"),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A program that writes `script`'s output, in a folder of its own.
    fn program(name: &str, script: &str) -> (PathBuf, PathBuf) {
        let folder = std::env::temp_dir().join(format!("bugle-xtask-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let program = folder.join("program");
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        (program, folder)
    }

    #[test]
    fn a_server_is_started_with_its_settings_and_asked_to_end() {
        let script = r#"
trap 'echo ended >&2; exit 0' TERM
echo "$@ $RETENTION_INTERVAL $HOME" >&2
echo "Bugle is ready at http://127.0.0.1:9"
while :; do sleep 0.05; done"#;
        let (program, folder) = program("server", script);
        let server = Server::start(&program, Engine::Embedded, &folder.join("run")).unwrap();
        assert_eq!(server.url, "http://127.0.0.1:9");
        drop(server);
        let log = fs::read_to_string(folder.join("run/server.log")).unwrap();
        let first = log.lines().next().unwrap();
        assert!(first.starts_with("serve --listen=127.0.0.1:0 --store=embedded --data-dir="), "{log}");
        assert!(first.ends_with("/run/data 2000 "), "settings and nothing inherited: {log}");
        assert!(log.ends_with("ended\n"), "{log}");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_server_that_ends_or_says_something_else_is_a_failure() {
        for script in ["exit 3", "echo hello; sleep 5"] {
            let (program, folder) = program("silent", script);
            let started = Server::start(&program, Engine::Embedded, &folder.join("run"));
            let text = format!("{:#}", started.err().unwrap());
            assert!(text.contains("does not greet"), "{text}");
            fs::remove_dir_all(folder).unwrap();
        }
    }

    #[test]
    fn every_start_on_a_database_has_a_schema_of_its_own() {
        let engine = Engine::Postgres { dsn: "postgres://x" };
        let flags = || engine.flags(Path::new("target/rust-client/postgres"));
        assert_eq!(flags()[0], "--store=postgres://x");
        assert!(flags()[1].starts_with("--pg-schema=t_postgres_"));
        assert_ne!(flags()[1], flags()[1]);
    }
}
