//! The PostgreSQL that every peer on PostgreSQL and Bugle's engine share: durable, and otherwise as it comes.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio_postgres::{Client, NoTls};

use crate::lab::{Process, directory_for, free_port, output};

/// What differs from the defaults. None of it weakens a promise; room for the log keeps checkpoints out of short windows.
const SETTINGS: &str = "\
listen_addresses = '127.0.0.1'
max_connections = 200
shared_buffers = 512MB
max_wal_size = 8GB
fsync = on
synchronous_commit = on
full_page_writes = on
";

/// A database that lets nobody in by then does not start at all.
const START_LIMIT: Duration = Duration::from_secs(60);

/// How the settings are told to the reader.
pub(crate) const TOLD: &str =
    "fsync on, synchronous_commit on, full_page_writes on, shared_buffers 512MB, max_wal_size 8GB";

/// A running cluster.
pub(crate) struct Postgres {
    pub(crate) dsn: String,
    pub(crate) version: String,
    pub(crate) process: Process,
}

/// Makes a cluster in the directory and starts it.
pub(crate) async fn start(directory: &Path) -> Result<Postgres> {
    let programs = programs().context("PostgreSQL is not installed")?;
    let user = server_user()?;
    let data = directory.join("postgres");
    directory_for(&data, user)?;
    let mut initdb = Command::new(programs.join("initdb"));
    initdb.args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-D"]).arg(&data);
    output(run_as(&mut initdb, user).current_dir(&data)).context("make a cluster")?;
    let port = free_port()?;
    let settings = format!("{SETTINGS}port = {port}\nunix_socket_directories = ''\n");
    let file = data.join("postgresql.conf");
    let text = std::fs::read_to_string(&file).context("read settings")? + &settings;
    std::fs::write(&file, text).context("write settings")?;
    let mut server = Command::new(programs.join("postgres"));
    server.arg("-D").arg(&data).current_dir(&data);
    let mut process = Process::start(run_as(&mut server, user), directory, "postgres-server")?;
    process.listening(port).await?;
    let dsn = format!("postgres://postgres@127.0.0.1:{port}/postgres");
    let version = first_answer(&dsn).await?;
    Ok(Postgres { dsn, version, process })
}

/// The version, as soon as it lets anybody in: it listens a little before that.
async fn first_answer(dsn: &str) -> Result<String> {
    let deadline = Instant::now() + START_LIMIT;
    loop {
        match ask(dsn, "SHOW server_version").await {
            Err(_) if Instant::now() < deadline => tokio::time::sleep(Duration::from_millis(50)).await,
            answer => return answer,
        }
    }
}

/// PostgreSQL refuses to run as root: then it runs as its own user.
fn server_user() -> Result<Option<(u32, u32)>> {
    if output(Command::new("id").arg("-u"))? != "0" {
        return Ok(None);
    }
    let number =
        |flag: &str| -> Result<u32> { Ok(output(Command::new("id").args([flag, "postgres"]))?.parse()?) };
    Ok(Some((number("-u").context("there is no user postgres")?, number("-g")?)))
}

fn run_as(command: &mut Command, user: Option<(u32, u32)>) -> &mut Command {
    if let Some((uid, gid)) = user {
        command.uid(uid).gid(gid);
    }
    command
}

/// The folder with the newest server programs.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    let numbered =
        versions.filter_map(|e| Some((e.file_name().to_str()?.parse::<u32>().ok()?, e.path().join("bin"))));
    numbered.filter(|(_, bin)| bin.join("initdb").is_file()).max().map(|(_, bin)| bin)
}

/// A connection.
pub(crate) async fn connect(dsn: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(dsn, NoTls).await.context("connect to PostgreSQL")?;
    // Ends by itself when the client is dropped; a broken connection shows in the next statement.
    tokio::spawn(async move { drop(connection.await) });
    Ok(client)
}

/// The text a statement returns.
pub(crate) async fn ask(dsn: &str, statement: &str) -> Result<String> {
    let row = connect(dsn).await?.query_one(statement, &[]).await.with_context(|| statement.to_owned())?;
    Ok(row.get(0))
}
