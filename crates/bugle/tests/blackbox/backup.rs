//! Backups taken under load, restored, and served again: everything that was acknowledged before is there, in order, and what
//! came later is missing from the end only.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use bugle_history::{History, Load, Op, Outcome, Pushed, Running, Terms, check};
use serde_json::{Value, json};

use crate::common::{Client, On, OwnPostgres, Server, command, ids, until_true};
use crate::maintenance::{PUSHES, drained, switch};

/// Run a command without holding up the load.
async fn run(mut command: Command) -> Output {
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

async fn run_well(command: Command) -> Output {
    let shown = format!("{command:?}");
    let output = run(command).await;
    assert!(output.status.success(), "{shown}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn backup(server: &Client, to: &Path) -> Command {
    let mut command = command(to.parent().unwrap());
    command.args(["backup", "--server", &format!("http://{}", server.address()), "--to"]).arg(to);
    command
}

/// All of a partition, in order, for a group that is told from the beginning.
async fn all_of(server: &Client, queue: &str, partition: &str) -> Vec<String> {
    let path = format!(
        "/queue/{queue}/partition/{partition}?batch=1000&autoAck=true&consumerGroup=reader&subscriptionMode=all"
    );
    let mut all = Vec::new();
    while let Some(popped) = server.pop(&path).await {
        all.extend(ids(&popped).into_iter().map(str::to_owned));
    }
    all
}

/// Load on a server, with marks whose fate is known exactly.
struct Busy {
    load: Load,
    running: Running,
    /// Requests that had ended when the backup began.
    before: usize,
}

impl Busy {
    async fn start(server: &Server) -> Self {
        server.push_ids("marks", "p", &["a", "b", "c", "d"]).await;
        let popped = server.pop_some("/queue/marks?batch=2&consumerGroup=g").await;
        server.ack_all(&popped, "completed").await;
        let popped = server.pop_some("/queue/marks?batch=1&consumerGroup=g").await;
        server.ack_all(&popped, "dlq").await;
        let load = Load { partitions: 4, ..Load::new([format!("http://{}", server.address())]) };
        let running = Running::start(&load).unwrap();
        let mut busy = Self { load, running, before: 0 };
        busy.until(300).await;
        busy.before = busy.running.requests();
        busy
    }

    async fn until(&self, requests: usize) {
        let wanted = self.running.requests() + requests;
        until_true("there is load", async || self.running.requests() >= wanted).await;
    }

    /// Let it go on for a while, end it, and compare what the restored server has with what this one has.
    async fn compare(self, server: &Server, restored: &Server) {
        self.until(200).await;
        let history = self.running.finish().await.unwrap();
        let report = check(&history, &Terms::default());
        assert!(report.violations.is_empty(), "the server goes on as ever: {report}");
        let mut kept = 0;
        for ((queue, partition), acknowledged) in acknowledged(&history, self.before) {
            let there = all_of(restored, &queue, &partition).await;
            let all = all_of(server, &queue, &partition).await;
            assert!(all.starts_with(&there), "{queue}/{partition}: {there:?} is no beginning of {all:?}");
            for id in acknowledged {
                assert!(there.contains(&id), "{id} of {queue}/{partition} was acknowledged before");
            }
            kept += there.len();
        }
        assert!(kept > 50, "{kept}");
        assert!(self.load.partitions > 1);
        marks_are_as_they_were(restored).await;
    }
}

/// What was acknowledged as stored by the first requests, by queue and partition.
fn acknowledged(history: &History, first: usize) -> BTreeMap<(String, String), Vec<String>> {
    let mut all: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for record in &history.records[..first] {
        let messages: &[Pushed] = match &record.op {
            Op::Push { messages, outcome: Outcome::Done(()) } => messages,
            Op::Transact { messages, outcome: Outcome::Done(()), .. } => messages,
            _ => &[],
        };
        for Pushed { queue, partition, id } in messages {
            all.entry((queue.clone(), partition.clone())).or_default().push(id.clone());
        }
    }
    assert!(!all.is_empty());
    all
}

/// The cursor stands where it stood, the dead letter is there, and the queue is usable.
async fn marks_are_as_they_were(server: &Server) {
    let popped = server.pop_some("/queue/marks?batch=10&consumerGroup=g").await;
    assert_eq!(ids(&popped), ["d"]);
    server.ack_all(&popped, "completed").await;
    let letters = server.get("/api/v1/dlq?queue=marks").await.expect(200);
    assert_eq!(letters["messages"][0]["transactionId"], "c", "{letters}");
    server.push_ids("marks", "p", &["e"]).await;
    assert_eq!(ids(&server.pop_some("/queue/marks?batch=10&consumerGroup=g").await), ["e"]);
    assert_eq!(all_of(server, "marks", "p").await, ["a", "b", "c", "d", "e"]);
}

#[tokio::test]
async fn a_backup_of_files_taken_under_load_is_a_directory_that_serves() {
    let on = On::embedded();
    let server = on.start().await;
    let busy = Busy::start(&server).await;
    let to = on.dir().join("copy");
    let output = run_well(backup(&server, &to)).await;
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.contains("\nfine\n") && told.contains("messages"), "{told}");
    assert_eq!(run(backup(&server, &to)).await.status.code(), Some(1), "nothing is replaced");
    let restored = On::on_directory(&to);
    let second = restored.start().await;
    busy.compare(&server, &second).await;
    // It is a data directory like any other.
    assert!(second.terminate().await.success());
    let second = restored.start().await;
    assert_eq!(all_of(&second, "marks", "p").await, Vec::<String>::new());
}

#[tokio::test]
async fn an_archive_is_unpacked_by_tar() {
    let on = On::embedded();
    let server = on.start().await;
    server.push_ids("q", "p", &["1", "2"]).await;
    let (archive, to) = (on.dir().join("b.tar"), on.dir().join("unpacked"));
    run_well(backup(&server, &archive)).await;
    std::fs::create_dir(&to).unwrap();
    let mut tar = Command::new("tar");
    tar.arg("-xf").arg(&archive).arg("-C").arg(&to);
    run_well(tar).await;
    let restored = On::on_directory(&to);
    assert_eq!(all_of(&*restored.start().await, "q", "p").await, ["1", "2"]);
    let answer = server.post("/api/v1/system/backup?spool=all", json!({})).await;
    assert_eq!((answer.status, answer.error().contains("spool")), (400, true));
}

#[tokio::test]
async fn the_spool_is_in_it_and_is_drained_once() {
    let on = On::embedded();
    let server = on.start().await;
    server.push_ids("q", "p", &["0"]).await;
    switch(&server, PUSHES, true).await;
    server.push_ids("q", "p", &["1", "2"]).await;
    let to = on.dir().join("copy");
    run_well(backup(&server, &to)).await;
    assert!(to.join("spool").is_dir());
    let restored = On::on_directory(&to);
    let second = restored.start().await;
    switch(&second, PUSHES, false).await;
    drained(&second).await;
    assert_eq!(all_of(&second, "q", "p").await, ["0", "1", "2"]);
}

#[tokio::test]
async fn only_administrators_take_backups() {
    let on = On::embedded();
    let keys = "--api-keys=boss:admin:0123456789abcdef0123,worker:read-write:fedcba98765432100123";
    let server = on.start_with(&[keys]).await;
    for (key, code) in [(None, 4), (Some("fedcba98765432100123"), 4), (Some("0123456789abcdef0123"), 0)] {
        let mut command = backup(&server, &on.dir().join(format!("copy-{}", key.unwrap_or("none"))));
        command.envs(key.map(|key| ("BUGLE_API_KEY", key)));
        let output = run(command).await;
        assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// PostgreSQL's programs, on a server that they find.
fn program(name: &str, port: u16) -> Command {
    let mut command = Command::new(OwnPostgres::program(name));
    command.env_clear().args(["-h", "127.0.0.1", "-U", "postgres", "-p", &port.to_string()]);
    command
}

/// What the doctor says of a schema, as JSON, and its exit status.
async fn doctor(store: &str, schema: &str, dir: &Path) -> (Value, i32) {
    let mut command = command(dir);
    command.args(["doctor", "--json", "--store", store, "--pg-schema", schema]);
    let output = run(command).await;
    (serde_json::from_slice(&output.stdout).unwrap_or_default(), output.status.code().unwrap())
}

#[tokio::test]
async fn a_dump_of_the_schema_taken_under_load_serves_in_another_database() {
    let database = OwnPostgres::start().await;
    let on = On::database(&database.address(), &[]);
    let server = on.start().await;
    let busy = Busy::start(&server).await;
    let dump: PathBuf = on.dir().join("dump");
    let mut pg_dump = program("pg_dump", database.port());
    pg_dump.args(["-Fc", "-n", on.schema(), "-f"]).arg(&dump).arg("postgres");
    run_well(pg_dump).await;
    let mut createdb = program("createdb", database.port());
    createdb.arg("restored");
    run_well(createdb).await;
    let mut pg_restore = program("pg_restore", database.port());
    pg_restore.args(["-d", "restored", "--exit-on-error"]).arg(&dump);
    run_well(pg_restore).await;
    let address = database.address().replace("/postgres?", "/restored?");
    let (told, code) = doctor(&address, on.schema(), on.dir()).await;
    assert_eq!(code, 0, "{told}");
    let restored = On::on_schema(&address, on.schema());
    let second = restored.start().await;
    busy.compare(&server, &second).await;
    let answer = server.post("/api/v1/system/backup", json!({})).await;
    assert_eq!(answer.status, 409);
    assert!(answer.error().contains("pg_dump"), "{}", answer.error());
}

#[tokio::test]
async fn a_base_backup_taken_under_load_serves() {
    let database = OwnPostgres::start().await;
    let on = On::database(&database.address(), &[]);
    let server = on.start().await;
    let busy = Busy::start(&server).await;
    let copy = database.copy().await;
    let (told, code) = doctor(&copy.address(), on.schema(), on.dir()).await;
    assert_eq!(code, 0, "{told}");
    let restored = On::on_schema(&copy.address(), on.schema());
    let second = restored.start().await;
    busy.compare(&server, &second).await;
}
