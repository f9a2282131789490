//! The `bugle` process, on a place for its data that outlives it: so it can be killed and started again.

use std::io::{BufRead, BufReader};
use std::ops::Deref;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use bugle_pg::testdb;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::time::timeout;

use super::PATIENCE;
use super::client::Client;

/// An engine and a fresh place for data.
pub(crate) struct On {
    dir: TempDir,
    flags: Vec<String>,
    embedded: bool,
    schema: String,
}

impl On {
    pub(crate) fn embedded() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data").display().to_string();
        let flags = vec!["--store=embedded".into(), format!("--data-dir={data}")];
        Self { dir, flags, embedded: true, schema: String::new() }
    }

    pub(crate) async fn postgres() -> Self {
        Self::database(&testdb::server().await, &[])
    }

    pub(crate) async fn pgbouncer() -> Self {
        Self::database(&testdb::pgbouncer().await, &["--pg-pooler"])
    }

    /// Behind the pooler, but listening to other servers at the database itself.
    pub(crate) async fn listening_pgbouncer() -> Self {
        let listen = format!("--listen-store={}", testdb::server().await);
        Self::database(&testdb::pgbouncer().await, &["--pg-pooler", &listen])
    }

    pub(crate) fn database(address: &str, more: &[&str]) -> Self {
        let schema = testdb::fresh_schema();
        let mut flags = vec![format!("--store={address}"), format!("--pg-schema={schema}")];
        flags.extend(more.iter().map(|flag| (*flag).to_owned()));
        Self { dir: tempfile::tempdir().unwrap(), flags, embedded: false, schema }
    }

    /// On a data directory that is there already.
    pub(crate) fn on_directory(data: &Path) -> Self {
        let flags = vec!["--store=embedded".into(), format!("--data-dir={}", data.display())];
        Self { dir: tempfile::tempdir().unwrap(), flags, embedded: true, schema: String::new() }
    }

    /// On a schema that is there already.
    pub(crate) fn on_schema(address: &str, schema: &str) -> Self {
        let flags = vec![format!("--store={address}"), format!("--pg-schema={schema}")];
        let schema = schema.to_owned();
        Self { dir: tempfile::tempdir().unwrap(), flags, embedded: false, schema }
    }

    /// The flags that say where the data are.
    pub(crate) fn place(&self) -> &[String] {
        &self.flags
    }

    /// Where the tables are, on a database.
    pub(crate) fn schema(&self) -> &str {
        &self.schema
    }

    /// Where servers run, and keep what they keep on disk.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The data directory, on the embedded engine.
    pub(crate) fn data_dir(&self) -> Option<std::path::PathBuf> {
        self.embedded.then(|| self.dir.path().join("data"))
    }

    /// What tells a command where the data are.
    pub(crate) fn flags(&self) -> &[String] {
        &self.flags
    }

    /// Start a server on the data as they are now.
    pub(crate) async fn start(&self) -> Server {
        self.start_with::<&str>(&[]).await
    }

    /// The same with more flags.
    pub(crate) async fn start_with<S: AsRef<str>>(&self, more: &[S]) -> Server {
        let flags = self.flags.iter().map(String::as_str).chain(more.iter().map(AsRef::as_ref));
        Server::spawn(command(self.dir.path()), flags).await
    }

    /// The same with so many file descriptors.
    pub(crate) async fn start_limited(&self, descriptors: u32) -> Server {
        let mut shell = Command::new("sh");
        shell.env_clear().current_dir(self.dir.path()).stdin(Stdio::null());
        shell.args([
            "-c",
            &format!("ulimit -n {descriptors} && exec \"$0\" \"$@\""),
            env!("CARGO_BIN_EXE_bugle"),
        ]);
        Server::spawn(shell, self.flags.iter().map(String::as_str)).await
    }
}

/// A `bugle` command that inherits no settings.
pub(crate) fn command(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bugle"));
    command.env_clear().current_dir(dir).stdin(Stdio::null());
    command
}

/// A running server; killed when dropped. Requests are sent through [`Client`].
pub(crate) struct Server {
    process: Child,
    client: Client,
}

impl Deref for Server {
    type Target = Client;
    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Server {
    async fn spawn<'a>(mut command: Command, flags: impl Iterator<Item = &'a str>) -> Self {
        let flags: Vec<&str> = flags.collect();
        let quiet = flags.iter().all(|flag| !flag.starts_with("--log-level")).then_some("--log-level=warn");
        let listen =
            flags.iter().all(|flag| !flag.starts_with("--listen=")).then_some("--listen=127.0.0.1:0");
        let mut process =
            command.arg("serve").args(listen).args(quiet).args(flags).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap());
        let greeting = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            lines.read_line(&mut line).map(|_| (line, lines))
        });
        let (line, mut rest) =
            timeout(PATIENCE, greeting).await.expect("the server starts").unwrap().unwrap();
        let url = line.trim().strip_prefix("Bugle is ready at ");
        let address = url.and_then(|url| url.split_once("://")).map(|(_, address)| address);
        let address = address.unwrap_or_else(|| {
            let _ = process.kill();
            panic!("no greeting but {line:?}, exit {:?}", process.wait())
        });
        let client = Client::new(address.parse().unwrap());
        // Keep reading, so that the server never blocks on a full pipe.
        std::thread::spawn(move || std::io::copy(&mut rest, &mut std::io::sink()));
        Self { process, client }
    }

    /// Requests that may outlive a borrow of the server.
    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// Ask the server to end; its exit status.
    pub(crate) async fn terminate(mut self) -> ExitStatus {
        kill_process(self.pid(), Signal::TERM).unwrap();
        let ended = tokio::task::spawn_blocking(move || self.process.wait());
        timeout(PATIENCE, ended).await.expect("the server ends").unwrap().unwrap()
    }

    /// Ask the server to end, and do not wait for it.
    pub(crate) fn ask_to_end(&self) {
        kill_process(self.pid(), Signal::TERM).unwrap();
    }

    /// Ask the server to read its files again.
    pub(crate) fn hang_up(&self) {
        kill_process(self.pid(), Signal::HUP).unwrap();
    }

    /// How many file descriptors it has.
    pub(crate) fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.process.id())).unwrap().count()
    }

    /// End the process as a crash would.
    pub(crate) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(Some(status)) = self.process.try_wait()
            && std::thread::panicking()
        {
            eprintln!("the server had ended already: {status}");
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
