//! One private PostgreSQL for a whole run, shared by all test processes, which make their own schemas in it.
//!
//! A shell watches over it and holds the reading end of a pipe: however this process ends, by success, failure, Ctrl-C
//! or a kill, the pipe closes and the shell stops the server and removes its files.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::tools::{children, is_root, on_path};

/// The oldest version that is supported.
const OLDEST: u32 = 15;

/// For tests: nothing here outlives the run, so nothing has to survive a crash.
const FORGETFUL: &str = "fsync = off\nfull_page_writes = off\n";
const SETTINGS: &str = "\
listen_addresses = '127.0.0.1'
max_connections = 400
max_locks_per_transaction = 256
shared_buffers = 128MB
timezone = 'UTC'
";

/// `$1` = folder of the programs, `$2` = folder of the run. Ctrl-C reaches everybody in the terminal's foreground, hence
/// the ignored signals: the end of the input is the one signal to stop.
const WATCH: &str = r#"
trap '' INT TERM HUP
stop() {
    "$1/pg_ctl" -D "$2/data" -m immediate -w stop >/dev/null 2>&1
    rm -rf "$2"
}
"$1/initdb" -D "$2/data" -U postgres -A trust -E UTF8 --locale=C --no-sync >"$2/initdb.log" 2>&1 ||
    { tail -n 5 "$2/initdb.log" | tr '\n' ' '; echo; stop "$@"; exit 1; }
cat "$2/settings" >>"$2/data/postgresql.conf"
"$1/pg_ctl" -D "$2/data" -l "$2/server.log" -w start >/dev/null 2>&1 ||
    { tail -n 5 "$2/server.log" | tr '\n' ' '; echo; stop "$@"; exit 1; }
echo ready
cat >/dev/null
stop "$@"
"#;

/// A running server. Dropping it stops it.
pub(crate) struct Postgres {
    dsn: String,
    folder: PathBuf,
    watcher: Child,
    lifeline: Option<ChildStdin>,
}

impl Postgres {
    /// Makes a new cluster in the folder for temporary files and starts it.
    pub(crate) fn start() -> Result<Self> {
        Self::start_with(FORGETFUL)
    }

    /// One that keeps its promises, for measurements.
    pub(crate) fn start_durable() -> Result<Self> {
        Self::start_with("shared_buffers = 512MB\nmax_wal_size = 8GB\n")
    }

    fn start_with(settings: &str) -> Result<Self> {
        let programs = programs().context("PostgreSQL is not installed")?;
        let folder = std::env::temp_dir().join(format!("bugle-xtask-postgres-{}", std::process::id()));
        let port = free_port()?;
        fs::create_dir(&folder).with_context(|| format!("create {}", folder.display()))?;
        let prepared = prepare(&folder, port, settings).and_then(|user| watch(&programs, &folder, user));
        let mut watcher = match prepared {
            Ok(watcher) => watcher,
            Err(error) => {
                fs::remove_dir_all(&folder).with_context(|| format!("remove {}", folder.display()))?;
                return Err(error);
            }
        };
        let lifeline = watcher.stdin.take();
        let output = watcher.stdout.take().context("the watching shell has no output")?;
        let dsn = format!("postgres://postgres@127.0.0.1:{port}/postgres");
        let server = Self { dsn, folder, watcher, lifeline };
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).context("wait for PostgreSQL")?;
        ensure!(line.trim() == "ready", "PostgreSQL did not start: {}", line.trim());
        Ok(server)
    }

    /// How to connect.
    pub(crate) fn dsn(&self) -> &str {
        &self.dsn
    }

    /// The processes that serve connections now, and those beside them.
    pub(crate) fn processes(&self) -> Result<Vec<u32>> {
        let file =
            fs::read_to_string(self.folder.join("data/postmaster.pid")).context("read postmaster.pid")?;
        let first = file.lines().next().and_then(|line| line.trim().parse().ok());
        children(first.context("postmaster.pid names no process")?)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        drop(self.lifeline.take());
        if let Err(error) = self.watcher.wait() {
            eprintln!("cannot wait for PostgreSQL to stop: {error}");
        }
    }
}

/// Writes the settings and returns the user the server runs as, if not this one: it refuses to run as root.
fn prepare(folder: &Path, port: u16, durability: &str) -> Result<Option<(u32, u32)>> {
    let user = if is_root() { Some(user("postgres")?) } else { None };
    let settings =
        format!("{SETTINGS}{durability}port = {port}\nunix_socket_directories = '{}'\n", folder.display());
    fs::write(folder.join("settings"), settings).context("write settings")?;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).context("protect the folder")?;
    if let Some((uid, gid)) = user {
        chown(folder, Some(uid), Some(gid)).context("give the folder to user postgres")?;
        chown(folder.join("settings"), Some(uid), Some(gid)).context("give the settings to user postgres")?;
    }
    Ok(user)
}

fn watch(programs: &Path, folder: &Path, user: Option<(u32, u32)>) -> Result<Child> {
    let mut command = Command::new("sh");
    command.args(["-c", WATCH, "watch"]).arg(programs).arg(folder).current_dir(folder);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    // Its own group, so that a Ctrl-C meant for the tests does not stop the database under them.
    command.process_group(0);
    if let Some((uid, gid)) = user {
        command.uid(uid).gid(gid);
    }
    command.spawn().context("start the watching shell")
}

/// The folder with the newest supported server programs.
pub(crate) fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = versions
        .filter_map(|entry| {
            Some((entry.file_name().to_str()?.parse::<u32>().ok()?, entry.path().join("bin")))
        })
        .filter(|(version, bin)| *version >= OLDEST && bin.join("initdb").is_file())
        .max();
    newest.map(|(_, bin)| bin).or_else(|| on_path("initdb")?.parent().map(Path::to_owned))
}

/// Number and group of a user.
fn user(name: &str) -> Result<(u32, u32)> {
    let table = fs::read_to_string("/etc/passwd").context("read /etc/passwd")?;
    find_user(&table, name).with_context(|| format!("there is no user {name} to run the server as"))
}

fn find_user(table: &str, name: &str) -> Option<(u32, u32)> {
    table.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        (*fields.first()? == name).then_some(())?;
        Some((fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?))
    })
}

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("find a free port")?;
    Ok(listener.local_addr().context("find a free port")?.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_whole_name() {
        let table = "root:x:0:0:root:/:/bin/sh\npostgresql:x:7:8::/:/bin/sh\npostgres:x:101:104::/:/bin/sh\n";
        assert_eq!(find_user(table, "postgres"), Some((101, 104)));
        assert_eq!(find_user(table, "nobody"), None);
    }

    #[test]
    fn the_server_answers_while_it_is_held_and_leaves_nothing_behind() {
        let Some(programs) = programs() else { panic!("PostgreSQL is needed: run `cargo xtask test`") };
        let folder = std::env::temp_dir().join(format!("bugle-xtask-postgres-{}", std::process::id()));
        let server = Postgres::start().unwrap();
        let ask = |dsn: &str| {
            let mut psql = Command::new(programs.join("psql"));
            psql.args([dsn, "-X", "-A", "-t", "-c", "SELECT 6 * 7"])
                .stderr(Stdio::null())
                .output()
                .unwrap()
                .stdout
        };
        let dsn = server.dsn().to_owned();
        assert_eq!(ask(&dsn), b"42\n");
        drop(server);
        assert!(ask(&dsn).is_empty());
        assert!(!folder.exists());
    }
}
