//! A private PostgreSQL server for tests, one that can be restarted, and a real PgBouncer in front of the first.
//!
//! One server serves a whole test run: under `cargo test` the process that owns it, under nextest all processes of the
//! run. A small shell script beside it waits for the owner to end, stops the server and removes its directory, so
//! nothing stays behind however the tests end. Set `BUGLE_TEST_PG` to an address to use a server of your own.

mod held;
mod standby;

use std::ffi::OsStr;
use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tokio::sync::OnceCell;

/// Longest wait for a server to start; the machine may be busy building.
const START: Duration = Duration::from_secs(120);

static SERVER: OnceCell<String> = OnceCell::const_new();
static BOUNCER: OnceCell<String> = OnceCell::const_new();

/// Address of a server to test against.
pub async fn server() -> String {
    if let Ok(address) = std::env::var("BUGLE_TEST_PG") {
        return address;
    }
    SERVER.get_or_init(|| started("postgres", start_server)).await.clone()
}

/// Address of a PgBouncer in transaction mode in front of [`server`].
pub async fn pgbouncer() -> String {
    let server = server().await;
    BOUNCER
        .get_or_init(|| started("pgbouncer", move |dir, owner| start_bouncer(dir, owner, &server)))
        .await
        .clone()
}

/// A schema name that nothing else uses.
pub fn fresh_schema() -> String {
    use std::hash::{BuildHasher, Hasher};
    let random = std::collections::hash_map::RandomState::new().build_hasher().finish();
    format!("t_{}_{random:016x}", std::process::id())
}

/// A TLS server of its own: certificate and key files in PEM, readable by the caller's user. Not shared.
pub async fn tls_server(cert: &Path, key: &Path) -> String {
    let (owner, dir) = (std::process::id(), std::env::temp_dir().join(fresh_schema()));
    std::fs::create_dir_all(&dir).expect("create a temporary directory");
    for (from, to) in [(cert, "server.crt"), (key, "server.key")] {
        std::fs::copy(from, dir.join(to)).expect("copy the certificate");
    }
    start(&dir, owner, true, &fsync());
    ready(&dir).await
}

/// A server of the caller's own, which may be restarted. It ends with the process.
pub async fn private_server() -> PrivateServer {
    private(&fsync()).await
}

/// The same with fsync on.
pub async fn durable_server() -> PrivateServer {
    private("on").await
}

async fn private(fsync: &str) -> PrivateServer {
    let (owner, dir) = (std::process::id(), std::env::temp_dir().join(fresh_schema()));
    std::fs::create_dir_all(&dir).expect("create a temporary directory");
    start(&dir, owner, false, fsync);
    PrivateServer { address: ready(&dir).await, dir }
}

/// Tests are quicker without.
fn fsync() -> String {
    std::env::var("BUGLE_TEST_PG_FSYNC").unwrap_or_else(|_| "off".to_owned())
}

/// What [`private_server`] started.
#[derive(Debug)]
pub struct PrivateServer {
    address: String,
    dir: PathBuf,
}

/// How a server is stopped before it starts again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// In good order: connections are ended, everything is written.
    Fast,
    /// As if the machine had failed: all processes are killed, the next start recovers from the log.
    Immediate,
}

impl PrivateServer {
    /// Where it is, before and after a restart.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Stop it and start it again; returns when it takes connections.
    pub async fn restart(&self, stop: Stop) {
        let mode = match stop {
            Stop::Fast => "fast",
            Stop::Immediate => "immediate",
        };
        let mut command = unprivileged(binaries().join("pg_ctl").as_os_str());
        command.arg("restart").arg("-D").arg(self.dir.join("data")).arg("-l").arg(self.dir.join("log"));
        command.args(["-s", "-w", "-t", &START.as_secs().to_string(), "-m", mode]).current_dir(&self.dir);
        let done = tokio::task::spawn_blocking(move || command.stdin(Stdio::null()).status()).await;
        let done = done.expect("wait for pg_ctl");
        let log = || std::fs::read_to_string(self.dir.join("log")).unwrap_or_default();
        assert!(done.is_ok_and(|status| status.success()), "restart the test server: {}", log());
    }
}

/// Start once per owner and wait until it is ready.
async fn started(what: &str, start: impl FnOnce(&Path, u32)) -> String {
    let (owner, name) = match std::env::var("NEXTEST_RUN_ID") {
        Ok(run) => (std::os::unix::process::parent_id(), format!("bugle-{what}-{run}")),
        Err(_) => (std::process::id(), format!("bugle-{what}-{}", fresh_schema())),
    };
    let dir = std::env::temp_dir().join(name);
    // Making the directory decides who starts the server.
    if std::fs::create_dir(&dir).is_ok() {
        start(&dir, owner);
    }
    ready(&dir).await
}

async fn ready(dir: &Path) -> String {
    let waiting = async {
        loop {
            if let Ok(address) = std::fs::read_to_string(dir.join("ready"))
                && address.ends_with('\n')
            {
                return address.trim().to_owned();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let log = || std::fs::read_to_string(dir.join("log")).unwrap_or_default();
    match tokio::time::timeout(START, waiting).await {
        Ok(address) => address,
        Err(_) => panic!("{} did not become ready: {}", dir.display(), log()),
    }
}

fn start_server(dir: &Path, owner: u32) {
    start(dir, owner, false, &fsync());
}

fn start(dir: &Path, owner: u32, tls: bool, fsync: &str) {
    let port = free_port();
    let bin = binaries();
    let data = dir.join("data");
    let tls = if tls {
        format!("-c ssl=on -c ssl_cert_file={0}/server.crt -c ssl_key_file={0}/server.key", dir.display())
    } else {
        String::new()
    };
    let script = format!(
        "{bin}/initdb -D {data} -U postgres --auth=trust -N --no-instructions --locale=C -E UTF8 >>{dir}/log 2>&1 || exit 1
{bin}/postgres -D {data} -p {port} -k {dir} -h 127.0.0.1 -c fsync={fsync} -c max_connections=300 \\
  -c shared_buffers=128MB -c max_wal_size=4GB -c log_min_messages=fatal {tls} >>{dir}/log 2>&1 &
child=$!
until {bin}/pg_isready -q -h 127.0.0.1 -p {port}; do kill -0 $child || exit 1; sleep 0.05; done
echo 'postgres://postgres@127.0.0.1:{port}/postgres?sslmode=prefer' >{dir}/ready
tail --pid={owner} -s 0.2 -f /dev/null
{bin}/pg_ctl -D {data} -m immediate stop >>{dir}/log 2>&1; rm -rf {dir}",
        bin = bin.display(),
        data = data.display(),
        dir = dir.display(),
    );
    launch(dir, &script);
}

fn start_bouncer(dir: &Path, owner: u32, server: &str) {
    let port = free_port();
    let place = server.split('@').next_back().and_then(|s| s.split('/').next()).unwrap_or_default();
    let (host, server_port) = place.split_once(':').unwrap_or((place, "5432"));
    let config = format!(
        "[databases]\n* = host={host} port={server_port} user=postgres\n[pgbouncer]\nlisten_addr=127.0.0.1\n\
         listen_port={port}\nunix_socket_dir=\nauth_type=any\npool_mode=transaction\nmax_client_conn=1000\n\
         default_pool_size=20\nlogfile={0}/log\npidfile={0}/pid\n",
        dir.display()
    );
    std::fs::write(dir.join("config.ini"), config).expect("write the pgbouncer configuration");
    let script = format!(
        "/usr/sbin/pgbouncer {dir}/config.ini >>{dir}/log 2>&1 &
child=$!
until {bin}/pg_isready -q -h 127.0.0.1 -p {port}; do kill -0 $child || exit 1; sleep 0.05; done
echo 'postgres://postgres@127.0.0.1:{port}/postgres?sslmode=disable' >{dir}/ready
tail --pid={owner} -s 0.2 -f /dev/null
kill -TERM $child; wait $child; rm -rf {dir}",
        bin = binaries().display(),
        dir = dir.display(),
    );
    launch(dir, &script);
}

/// Run a script in a session of its own.
fn launch(dir: &Path, script: &str) {
    let file = dir.join("run.sh");
    std::fs::File::create(&file)
        .and_then(|mut f| f.write_all(script.as_bytes()))
        .expect("write the start script");
    if is_root() {
        let owned = Command::new("chown").arg("-R").arg("postgres:postgres").arg(dir).status();
        assert!(owned.is_ok_and(|s| s.success()), "chown {} to postgres", dir.display());
    }
    for key in [dir.join("server.key")].iter().filter(|k| k.exists()) {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(key, mode).expect("protect the key");
    }
    let spawned = unprivileged("setsid".as_ref())
        .args(["--fork", "sh"])
        .arg(&file)
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    assert!(spawned.is_ok_and(|s| s.success()), "start the test server");
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0)
}

/// A program to be run as an unprivileged user when this process is privileged: PostgreSQL refuses to run otherwise.
fn unprivileged(program: &OsStr) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(program);
    command
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind a free port");
    listener.local_addr().expect("a bound listener has an address").port()
}

/// The newest server installed in the Debian way, or whatever is in the path.
fn binaries() -> PathBuf {
    let mut found: Vec<(u32, PathBuf)> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|e| Some((e.file_name().to_str()?.parse().ok()?, e.path().join("bin"))))
        .collect();
    found.sort();
    found.pop().map_or_else(|| PathBuf::from("/usr/bin"), |(_, path)| path)
}
