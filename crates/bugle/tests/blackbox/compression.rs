//! `--compression`: nobody who uses the API notices it, and it can be switched off again.

use std::path::Path;

use serde_json::{Value, json};

use crate::common::{On, Server, command, ids};
use crate::maintenance::{PUSHES, drained, switch};

const NOTE: &str = "the same words come again in every message ";
const KEY: &str = "old:000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const NEW: &str = "new:ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

/// Fifty messages that are stored together.
fn items(queue: &str, first: usize) -> Value {
    let item = |n: usize| json!({"queue": queue, "partition": "p", "transactionId": format!("t{n}"), "payload": {"n": n, "note": NOTE.repeat(5)}});
    (first..first + 50).map(item).collect()
}

async fn start(on: &On, codec: &str) -> Server {
    on.start_with(&[format!("--compression={codec}")]).await
}

/// Bytes before and after compression.
async fn saved(server: &Server) -> (f64, f64) {
    let metrics = server.metrics().await;
    let bytes = |stage: &str| metrics.get(&format!("bugle_compression_bytes_total{{stage=\"{stage}\"}}"));
    (bytes("before"), bytes("after"))
}

/// Everything of the queue for a new group, in batches of this many, acknowledged.
async fn assert_whole(server: &Server, group: &str, batch: usize, messages: usize) {
    let mut seen = 0;
    while seen < messages {
        let popped = server.pop_some(&format!("/queue/q?consumerGroup={group}&batch={batch}")).await;
        for message in popped["messages"].as_array().unwrap() {
            assert_eq!(message["data"], json!({"n": seen, "note": NOTE.repeat(5)}));
            seen += 1;
        }
        server.ack_all(&popped, "completed").await;
    }
    assert_eq!(server.pop(&format!("/queue/q?consumerGroup={group}")).await, None);
}

fn holds(dir: &Path, text: &str) -> bool {
    let logs = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut logs = logs.filter(|path| path.extension().is_some_and(|extension| extension == "log"));
    logs.any(|path| std::fs::read(path).unwrap().windows(text.len()).any(|window| window == text.as_bytes()))
}

fn run(on: &On, args: &[&str], keys: &str) -> (bool, String) {
    let mut command = command(on.dir());
    command.args(args).env("BUGLE_LOG_LEVEL", "warn").env("BUGLE_ENCRYPTION_KEY", keys);
    let output = command.args(if args[0] == "rekey" { on.flags() } else { on.place() }).output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    (output.status.success(), told)
}

async fn survives_being_switched_off_again(on: On, codec: &str) {
    let server = start(&on, codec).await;
    server.push(items("q", 0)).await;
    let (before, after) = saved(&server).await;
    assert!(before > 10_000.0 && after * 4.0 < before, "{before} {after}");
    assert_whole(&server, "fresh", 100, 50).await;
    if on.data_dir().is_none() {
        // Beside it, a server that compresses nothing reads what it wrote.
        let beside = on.start().await;
        assert_whole(&beside, "beside", 20, 50).await;
        assert!(beside.terminate().await.success());
    }
    assert!(server.terminate().await.success());
    if let Some(dir) = on.data_dir() {
        assert!(!holds(&dir, &NOTE.repeat(5)), "it lies there compressed");
    }

    let server = on.start().await;
    assert_whole(&server, "one", 1, 50).await;
    let again = server.push(items("q", 40)).await;
    let known = again.as_array().unwrap().iter().filter(|pushed| pushed["status"] == "duplicate").count();
    assert_eq!(known, 10, "{again}");
    assert_eq!(saved(&server).await, (0.0, 0.0));
    assert_whole(&server, "mixed", 7, 90).await;
    let listed = server.get("/api/v1/messages?queue=q&limit=200").await.expect(200);
    assert_eq!(listed["messages"].as_array().unwrap().len(), 90, "{listed}");
    assert!(server.terminate().await.success());
    if let Some(dir) = on.data_dir() {
        assert!(holds(&dir, &NOTE.repeat(5)), "the search finds what is there");
    }
    let (fine, told) = run(&on, &["doctor"], "");
    assert!(fine, "{told}");
}

on_every_engine! {
    async fn lz4_survives_being_switched_off_again(on: On) {
        survives_being_switched_off_again(on, "lz4").await;
    }

    async fn zstd_survives_being_switched_off_again(on: On) {
        survives_being_switched_off_again(on, "zstd").await;
    }

    async fn a_change_of_keys_passes_compressed_messages_by(on: On) {
        let flags = |keys: &str| [format!("--encryption-key={keys}"), "--compression=lz4".into()];
        let server = on.start_with(&flags(KEY)).await;
        server.configure(json!({"queue": "secret", "options": {"encryptionEnabled": true}})).await;
        server.push(items("secret", 0)).await;
        assert_eq!(saved(&server).await, (0.0, 0.0), "ciphertext is not tried");
        server.push(items("q", 0)).await;
        assert!(saved(&server).await.1 > 0.0);
        assert!(server.terminate().await.success());
        let (done, told) = run(&on, &["rekey"], &format!("{NEW},{KEY}"));
        assert!(done && told.contains("everything is under this key"), "{told}");
        let server = on.start_with(&flags(NEW)).await;
        assert_whole(&server, "after", 9, 50).await;
        let popped = server.pop_some("/queue/secret?batch=100").await;
        assert_eq!(ids(&popped).len(), 50);
        assert_eq!(popped["messages"][49]["data"]["n"], 49);
    }

    async fn what_comes_from_the_spool_is_compressed_when_it_is_stored(on: On) {
        let server = start(&on, "zstd").await;
        switch(&server, PUSHES, true).await;
        server.post("/api/v1/push", json!({"items": items("q", 0)})).await;
        assert_eq!(saved(&server).await, (0.0, 0.0));
        switch(&server, PUSHES, false).await;
        drained(&server).await;
        let (before, after) = saved(&server).await;
        assert!(after > 0.0 && after * 2.0 < before, "{before} {after}");
        assert!(server.terminate().await.success());
        let server = on.start().await;
        assert_whole(&server, "after", 8, 50).await;
    }
}
