//! A new version comes while servers of the old one work: what expands the schema disturbs nobody, what breaks it is refused.
//!
//! The new version is the same program with one migration more, see the feature `planted-migrations` of the engine.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bugle_history::{Load, Running, Terms, check};
use bugle_pg::{Config, Pool, PoolOptions, Schema, Statement, testdb};

/// Which version a program is of.
#[derive(Clone, Copy)]
enum Version {
    Old,
    Expanding,
    Breaking,
}

/// Where the servers of one test keep their tables.
struct Place {
    store: String,
    schema: String,
    dir: tempfile::TempDir,
}

impl Place {
    async fn new() -> Self {
        let (store, schema) = (testdb::server().await, testdb::fresh_schema());
        Self { store, schema, dir: tempfile::tempdir().unwrap() }
    }

    fn command(&self, version: Version, verb: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bugle"));
        command.env_clear().current_dir(self.dir.path()).stdin(Stdio::null());
        command.arg(verb).arg(format!("--store={}", self.store)).arg(format!("--pg-schema={}", self.schema));
        match version {
            Version::Old => &mut command,
            Version::Expanding => command.env("BUGLE_PLANTED_MIGRATION", "expand"),
            Version::Breaking => command.env("BUGLE_PLANTED_MIGRATION", "breaking"),
        };
        command
    }

    /// Run a command that ends by itself; whether it went well, and what it said.
    fn run(&self, version: Version, verb: &str, arguments: &[&str]) -> (bool, String) {
        let output = self.command(version, verb).args(arguments).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.success(), text(output.stdout) + &text(output.stderr))
    }

    /// Start a server and do not wait for it.
    fn spawn(&self, version: Version, listen: &str) -> Child {
        let mut command = self.command(version, "serve");
        command.args(["--log-level=warn", "--spool-dir"]).arg(self.dir.path().join(listen));
        command.arg(format!("--listen={listen}")).stdout(Stdio::piped()).spawn().unwrap()
    }

    async fn start(&self, version: Version, listen: &str) -> Server {
        Server::ready(self.spawn(version, listen)).await
    }

    /// A connection past the servers.
    async fn connection(&self) -> (bugle_pg::Conn, Schema) {
        let options = PoolOptions { application_name: "test".into(), ..PoolOptions::default() };
        let pool = Pool::new(Config::parse(&self.store).unwrap(), options);
        (pool.get().await.unwrap(), Schema::new(&self.schema).unwrap())
    }

    /// Version of the schema.
    async fn version(&self) -> i32 {
        let (mut conn, schema) = self.connection().await;
        let sql = Statement::new(&schema, "SELECT max(version) FROM {schema}.migrations", &[]);
        conn.query(&sql, &[]).await.unwrap()[0].get(0)
    }
}

/// A server; killed when dropped.
struct Server {
    process: Child,
    url: String,
}

impl Server {
    async fn ready(mut process: Child) -> Self {
        let out = process.stdout.take().unwrap();
        let line = tokio::task::spawn_blocking(move || {
            let (mut lines, mut line) = (BufReader::new(out), String::new());
            lines.read_line(&mut line).unwrap();
            std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
            line
        });
        let line = line.await.unwrap();
        let url = line.trim().strip_prefix("Bugle is ready at ").expect("the server greets").to_owned();
        Self { process, url }
    }

    /// End it as an operator does.
    fn stop(&mut self) {
        let process = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
        assert!(self.process.wait().unwrap().success());
    }

    /// Another of `version` at the same address.
    async fn replace(mut self, place: &Place, version: Version) -> Self {
        self.stop();
        place.start(version, self.url.strip_prefix("http://").unwrap()).await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Wait for so many more requests.
async fn requests(running: &Running, more: usize) {
    let enough = running.requests() + more;
    while running.requests() < enough {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// An address nobody listens at.
fn free_address() -> String {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

#[tokio::test]
async fn old_servers_go_on_while_new_ones_replace_them() {
    const SOME: usize = 200;
    let place = Place::new().await;
    let mut one = place.start(Version::Old, "127.0.0.1:0").await;
    let mut two = place.start(Version::Old, "127.0.0.1:0").await;
    let third = free_address();
    let running =
        Running::start(&Load::new([one.url.clone(), two.url.clone(), format!("http://{third}")])).unwrap();
    requests(&running, SOME).await;
    let before = place.version().await;

    // Somebody reads the hottest table for long: the migration gives way to traffic, again and again.
    let (mut reader, schema) = place.connection().await;
    reader.execute_batch("BEGIN").await.unwrap();
    reader.execute_batch(&schema.fill("SELECT FROM {schema}.lanes LIMIT 1")).await.unwrap();
    let new = place.spawn(Version::Expanding, &third);
    requests(&running, SOME).await;
    let held = place.version().await;
    assert_eq!(held, before, "the migration waits");
    reader.execute_batch("COMMIT").await.unwrap();
    let new = Server::ready(new).await;
    assert_eq!(place.version().await, before + 2);
    requests(&running, SOME).await;

    // An old server may even start on the new schema; then both are replaced, one after the other.
    one = one.replace(&place, Version::Old).await;
    requests(&running, SOME).await;
    one = one.replace(&place, Version::Expanding).await;
    requests(&running, SOME).await;
    two = two.replace(&place, Version::Expanding).await;
    requests(&running, SOME).await;

    let report = check(&running.finish().await.unwrap(), &Terms::default());
    eprintln!("{report}");
    assert!(report.is_clean(), "{report}");
    drop((one, two, new));
}

#[tokio::test]
async fn what_breaks_old_servers_is_refused_while_they_run_and_refuses_them_after() {
    let place = Place::new().await;
    let mut old = place.start(Version::Old, "127.0.0.1:0").await;
    let version = place.version().await;

    let (done, told) = place.run(Version::Breaking, "migrate", &["--dry-run"]);
    let line = format!("migration {}: planted rename (older servers must be stopped before)", version + 1);
    assert!(done && told.contains(&line), "{told}");
    for verb in ["migrate", "serve"] {
        let (done, told) = place.run(Version::Breaking, verb, &["--listen=127.0.0.1:0"]);
        assert!(!done && told.contains("stop these programs, then try again"), "{verb}: {told}");
    }
    assert_eq!(place.version().await, version, "nothing was changed");

    old.stop();
    let (done, told) = place.run(Version::Breaking, "migrate", &[]);
    assert!(done && told.contains("1 applied"), "{told}");
    assert_eq!(place.version().await, version + 1);
    for verb in ["migrate", "serve"] {
        let (done, told) = place.run(Version::Old, verb, &["--listen=127.0.0.1:0"]);
        let said = format!(
            "is at version {0} and can be used by programs that know at least version {0}; this program knows only up to \
             {version}",
            version + 1
        );
        assert!(!done && told.contains(&said), "{verb}: {told}");
    }
}

#[tokio::test]
async fn a_migration_by_hand_is_told_before_and_after() {
    let place = Place::new().await;
    let (done, told) = place.run(Version::Old, "migrate", &["--dry-run"]);
    assert!(done && told.contains("is at version 0") && told.contains("migration 1: tables"), "{told}");
    let (done, told) = place.run(Version::Old, "migrate", &[]);
    assert!(done && told.contains(" applied"), "{told}");
    let (done, told) = place.run(Version::Expanding, "migrate", &["--dry-run"]);
    assert!(done && told.contains("planted index (older servers go on)"), "{told}");
    let (done, told) = place.run(Version::Expanding, "migrate", &[]);
    assert!(done && told.contains("2 applied"), "{told}");
    let (done, told) = place.run(Version::Old, "migrate", &[]);
    assert!(done && told.contains("the schema is newer, and this program may work with it"), "{told}");
}
