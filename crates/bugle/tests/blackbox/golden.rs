//! Data of released versions: they open, all that is in them is read, and they are written on.
//!
//! The files lie with the engines, one directory or dump for each version, and are never changed once released. Those of the
//! present version are made by
//!
//! ```text
//! cargo nextest run -p bugle --test blackbox --run-ignored only golden::make
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use bugle_pg::testdb;
use serde_json::{Value, json};

use crate::common::{Client, On, OwnPostgres, command, until_true};
use crate::maintenance::{PUSHES, drained, switch};

const VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));
const KEY: &str = "--encryption-key=golden:000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
/// Whatever is older than a second is removed, once, soon after the start.
const FORGETFUL: [&str; 4] =
    [KEY, "--partition-retention=1s", "--trace-retention=1s", "--retention-interval=1500ms"];
/// Nothing is removed, however old it is.
const PATIENT: [&str; 5] = [
    KEY,
    "--partition-retention=36500d",
    "--trace-retention=36500d",
    "--dead-letter-retention=36500d",
    "--completed-retention=36500d",
];
/// The schema's name in dumps.
const SCHEMA: &str = "bugle_golden_schema";

fn directories() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../bugle-store-embedded/tests/golden")
}

fn dumps() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../bugle-store-postgres/tests/golden")
}

async fn trace(server: &Client, partition: &Value, id: &str, name: &str) {
    let trace =
        json!({"transactionId": id, "partitionId": partition, "data": {"step": 1}, "traceNames": [name]});
    server.post("/api/v1/traces", trace).await.expect(201);
}

/// What comes and goes.
async fn pass_through(on: &On) {
    let server = on.start_with(&PATIENT).await;
    let pushed = server.push_ids("gone", "short", &["x"]).await;
    trace(&server, &pushed[0]["partition_id"], "x", "forgotten").await;
    let popped = server.pop_some("/queue/gone?batch=1&consumerGroup=g").await;
    server.ack_all(&popped, "completed").await;
    assert_eq!(server.send("DELETE", "/api/v1/queues/gone/clear", "").await.status, 200);
    server.push_ids("deleted", "p", &["x"]).await;
    assert_eq!(server.send("DELETE", "/api/v1/resources/queues/deleted", "").await.status, 200);
    assert!(server.terminate().await.success());
    let server = on.start_with(&FORGETFUL).await;
    until_true("the partition is collected", async || {
        server.get("/api/v1/resources/queues/gone").await.expect(200)["partitions"] == json!([])
    })
    .await;
    until_true("the trace is removed", async || {
        server.get("/api/v1/traces/names").await.expect(200)["trace_names"] == json!([])
    })
    .await;
    assert!(server.terminate().await.success());
}

/// What stays, before the restart.
async fn fill(server: &Client) {
    server.configure(json!({"queue": "orders", "namespace": "shop", "task": "sell", "options": {"leaseTime": 30, "retryLimit": 5}})).await;
    server.configure(json!({"queue": "secrets", "options": {"encryptionEnabled": true}})).await;
    for partition in ["a", "größe/2"] {
        let all: Vec<String> = (0..5).map(|n| format!("{partition}-{n}")).collect();
        server.push_ids("orders", partition, &all.iter().map(String::as_str).collect::<Vec<_>>()).await;
    }
    server.push_ids("secrets", "p", &["s-0", "s-1"]).await;
    let popped = server.pop_some("/queue/orders/partition/a?batch=2&consumerGroup=billing").await;
    server.ack_all(&popped, "completed").await;
    let popped = server.pop_some("/queue/orders/partition/a?batch=1&consumerGroup=billing").await;
    server.ack_all(&popped, "dlq").await;
    // One dead letter is sent back, and so its row is deleted.
    server.push_ids("letters", "p", &["l-0"]).await;
    let popped = server.pop_some("/queue/letters?batch=1").await;
    server.ack_all(&popped, "dlq").await;
    server.post("/api/v1/dlq/redrive", json!({"filter": {"queue": "letters"}})).await.expect(200);
    server.pop_some("/queue/orders/partition/a?batch=1&consumerGroup=left").await;
    let path = "/api/v1/consumer-groups/left/queues/orders";
    assert_eq!(server.send("DELETE", path, "").await.status, 200);
}

/// What stays, after it: so there is a checkpoint, and a log behind it. The last pushes are in the spool.
async fn fill_on(server: &Client) {
    let pushed = server.push_ids("orders", "a", &["a-5"]).await;
    trace(server, &pushed[0]["partition_id"], "a-5", "kept").await;
    // A lease that nobody gives back.
    server.pop_some("/queue/orders/partition/a?batch=1&consumerGroup=held").await;
    server.post("/api/v1/consumer-groups/sought/queues/orders/seek", json!({"toEnd": true})).await;
    switch(server, PUSHES, true).await;
    server.push_ids("orders", "a", &["a-6", "a-7"]).await;
    server.push_ids("secrets", "p", &["s-2"]).await;
}

/// What the payloads of a partition say, in order.
async fn read(server: &Client, place: &str, group: &str) -> Vec<String> {
    let mut all = Vec::new();
    while let Some(popped) = server
        .pop(&format!("{place}?batch=100&autoAck=true&consumerGroup={group}&subscriptionMode=all"))
        .await
    {
        let payloads = popped["messages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|m| m["data"]["n"].as_str().unwrap().to_owned());
        all.extend(payloads);
    }
    all
}

/// Everything expected is there, and the store is written on. `spooled` = with what was in the spool.
async fn expect(server: &Client, spooled: bool) {
    let state = server.get(PUSHES).await.expect(200);
    assert_eq!(state["maintenanceMode"], true, "switches are kept");
    switch(server, PUSHES, false).await;
    drained(server).await;
    let a: Vec<String> = (0..if spooled { 8 } else { 6 }).map(|n| format!("a-{n}")).collect();
    let secrets = if spooled { &["s-0", "s-1", "s-2"][..] } else { &["s-0", "s-1"] };
    assert_eq!(read(server, "/queue/orders/partition/a", "fresh").await, a);
    let other: Vec<String> = (0..5).map(|n| format!("größe/2-{n}")).collect();
    assert_eq!(read(server, "/queue/orders/partition/gr%C3%B6%C3%9Fe%2F2", "fresh").await, other);
    assert_eq!(read(server, "/queue/secrets", "fresh").await, secrets, "encrypted payloads are read");
    assert_eq!(
        read(server, "/queue/orders/partition/a", "billing").await,
        a[3..],
        "cursors stand where they stood"
    );
    assert_eq!(read(server, "/queue/letters", "fresh").await, ["l-0", "l-0"], "one was sent back");
    let letters = server.get("/api/v1/dlq?queue=orders").await.expect(200);
    assert_eq!(
        (&letters["total"], &letters["messages"][0]["transactionId"]),
        (&json!(1), &json!("a-2")),
        "{letters}"
    );
    let names = server.get("/api/v1/traces/names").await.expect(200).to_string();
    assert!(names.contains("kept") && !names.contains("forgotten"), "{names}");
    let queue = server.get("/api/v1/resources/queues/orders").await.expect(200);
    assert_eq!((&queue["namespace"], &queue["task"]), (&json!("shop"), &json!("sell")), "{queue}");
    assert_eq!(server.get("/api/v1/resources/queues/deleted").await.status, 404);
    server.push_ids("orders", "a", &["new"]).await;
    server.push_ids("secrets", "p", &["new"]).await;
    assert_eq!(read(server, "/queue/orders/partition/a", "billing").await, ["new"]);
}

async fn doctor_is_content(on: &On) {
    let mut doctor = command(on.dir());
    doctor.arg("doctor").args(on.place());
    let output = doctor.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let to = to.join(path.file_name().unwrap());
        if path.is_dir() { copy(&path, &to) } else { fs::copy(&path, &to).map(drop).unwrap() }
    }
}

/// Run statements by the database's own program.
fn psql(address: &str, sql: &Path) {
    let mut psql = Command::new(OwnPostgres::program("psql"));
    psql.env_clear().args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", address, "-f"]).arg(sql);
    let output = psql.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn versions(of: &Path) -> Vec<PathBuf> {
    let mut all: Vec<_> = fs::read_dir(of).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    assert!(!all.is_empty());
    all
}

#[tokio::test]
async fn data_directories_of_all_versions_open_and_are_written_on() {
    for version in versions(&directories()) {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        copy(&version, &data);
        let on = On::on_directory(&data);
        doctor_is_content(&on).await;
        let server = on.start_with(&PATIENT).await;
        expect(&server, true).await;
        assert!(server.terminate().await.success());
        doctor_is_content(&on).await;
        let server = on.start_with(&PATIENT).await;
        assert_eq!(read(&server, "/queue/secrets", "fresh").await, ["new"]);
    }
}

#[tokio::test]
async fn dumps_of_all_versions_open_and_are_written_on() {
    for version in versions(&dumps()) {
        let (dir, schema) = (tempfile::tempdir().unwrap(), testdb::fresh_schema());
        let sql = fs::read_to_string(version).unwrap().replace(SCHEMA, &schema);
        fs::write(dir.path().join("dump.sql"), sql).unwrap();
        let address = testdb::server().await;
        psql(&address, &dir.path().join("dump.sql"));
        let on = On::on_schema(&address, &schema);
        doctor_is_content(&on).await;
        let server = on.start_with(&PATIENT).await;
        expect(&server, false).await;
        assert!(server.terminate().await.success());
        doctor_is_content(&on).await;
    }
}

#[tokio::test]
#[ignore = "makes the files of the present version"]
async fn make_directory() {
    let on = On::embedded();
    pass_through(&on).await;
    let server = on.start_with(&PATIENT).await;
    fill(&server).await;
    assert!(server.terminate().await.success());
    let server = on.start_with(&PATIENT).await;
    fill_on(&server).await;
    // A backup has the files without the empty space in them.
    let to = directories().join(VERSION);
    fs::create_dir_all(directories()).unwrap();
    let mut backup = command(on.dir());
    backup.args(["backup", "--server", &format!("http://{}", server.address()), "--to"]).arg(&to);
    assert!(backup.status().unwrap().success());
}

#[tokio::test]
#[ignore = "makes the files of the present version"]
async fn make_dump() {
    let database = OwnPostgres::start().await;
    let on = On::on_schema(&database.address(), SCHEMA);
    pass_through(&on).await;
    let server = on.start_with(&PATIENT).await;
    fill(&server).await;
    fill_on(&server).await;
    fs::create_dir_all(dumps()).unwrap();
    let mut dump = Command::new(OwnPostgres::program("pg_dump"));
    dump.env_clear().args(["--no-owner", "--inserts", "-n", SCHEMA, "-d", &database.address(), "-f"]);
    assert!(dump.arg(dumps().join(format!("{VERSION}.sql"))).status().unwrap().success());
}
