//! `bugle rekey`: after it the old key is not needed by anything that is stored.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use crate::common::{On, Server, command};

const OLD: &str = "old:000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const NEW: &str = "new:ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
/// Another key under the name of the new one.
const WRONG: &str = "new:ee0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

async fn start(on: &On, keys: &str) -> Server {
    on.start_with(&[format!("--encryption-key={keys}")]).await
}

/// The command with keys in the environment, where other users of the machine do not see them.
fn rekey(on: &On, keys: &str, more: &[&str]) -> std::process::Command {
    let mut command = command(on.dir());
    command.arg("rekey").args(on.flags()).args(more).env("BUGLE_ENCRYPTION_KEY", keys);
    command.env("BUGLE_LOG_LEVEL", "warn");
    command
}

/// Run it; whether it went well, and what it said.
fn run(on: &On, keys: &str, more: &[&str]) -> (bool, String) {
    let output = rekey(on, keys, more).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let told = text(output.stdout) + &text(output.stderr);
    for key in [OLD, NEW, WRONG] {
        assert!(!told.contains(key.split_once(':').unwrap().1), "a key is told");
    }
    (output.status.success(), told)
}

/// Messages in two encrypted queues and one in clear, and a dead letter.
async fn fill(server: &Server) {
    for queue in ["q", "letters"] {
        server.configure(json!({"queue": queue, "options": {"encryptionEnabled": true, "retryLimit": 0, "dlqAfterMaxRetries": true}})).await;
    }
    for n in 0..40 {
        let item = |queue: &str| json!({"queue": queue, "partition": format!("p{}", n % 4), "transactionId": format!("{queue}{n}"), "payload": {"n": n}});
        server.push(json!([item("q"), item("open")])).await;
    }
    server.push_ids("letters", "a", &["bad"]).await;
    let popped = server.pop_some("/queue/letters?consumerGroup=g").await;
    server.ack_all(&popped, "dlq").await;
}

/// Everything that [`fill`] left can be read.
async fn assert_whole(server: &Server, group: &str) {
    for queue in ["q", "open"] {
        let mut seen = Vec::new();
        while seen.len() < 40 {
            let popped = server
                .pop_some(&format!("/queue/{queue}?consumerGroup={group}&batch=100&autoAck=true"))
                .await;
            let messages = popped["messages"].as_array().unwrap().clone();
            seen.extend(messages.iter().map(|message| message["data"]["n"].as_u64().unwrap()));
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..40).collect::<Vec<_>>(), "{queue}");
    }
    let letters = server.get("/api/v1/dlq?queue=letters").await.expect(200);
    let letter = letters["messages"].as_array().unwrap().first().cloned().unwrap_or(Value::Null);
    assert_eq!(letter["data"], json!({"n": "bad"}), "{letters}");
}

on_every_engine! {
    async fn after_it_the_new_key_alone_opens_everything(on: On) {
        let server = start(&on, OLD).await;
        fill(&server).await;
        assert!(server.terminate().await.success());

        let both = format!("{NEW},{OLD}");
        let (done, told) = run(&on, &both, &["--dry-run"]);
        assert!(done && told.contains(" are to be written anew for key \"new\""), "{told}");
        let server = start(&on, &both).await;
        assert_whole(&server, "before").await;
        // On PostgreSQL it works beside servers; a data directory has one owner.
        let server = if on.data_dir().is_some() {
            let (done, told) = run(&on, &both, &[]);
            assert!(!done && told.contains("in use"), "{told}");
            assert!(server.terminate().await.success());
            None
        } else {
            Some(server)
        };
        let (done, told) = run(&on, &both, &[]);
        assert!(done && told.contains(" were written anew for key \"new\""), "{told}");
        assert!(!told.starts_with("0 of ") && told.contains("everything is under this key"), "{told}");
        let (done, told) = run(&on, &both, &[]);
        assert!(done && told.contains("0 of ") && told.contains("everything is under this key"), "{told}");
        if let Some(server) = server {
            assert_whole(&server, "beside").await;
            assert!(server.terminate().await.success());
        }
        let server = start(&on, NEW).await;
        assert_whole(&server, "after").await;
    }

    async fn a_server_that_still_encrypts_with_the_old_key_is_told_of(on: On) {
        if on.data_dir().is_some() {
            return; // A data directory has one owner.
        }
        let both = format!("{NEW},{OLD}");
        let server = start(&on, &format!("{OLD},{NEW}")).await;
        fill(&server).await;
        let running = tokio::task::spawn_blocking({
            let mut command = rekey(&on, &both, &[]);
            move || command.output().unwrap()
        });
        let mut n = 0;
        while !running.is_finished() {
            server.push_ids("q", &format!("late{}", n % 50), &[&format!("late{n}")]).await;
            n += 1;
        }
        let output = running.await.unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && told.contains("a server still encrypts with another key"), "{told}");
        assert!(server.terminate().await.success());
        // With the new key in front everywhere one more run is enough.
        let server = start(&on, &both).await;
        let (done, told) = run(&on, &both, &[]);
        assert!(done && told.contains("everything is under this key"), "{told}");
        assert!(server.terminate().await.success());
    }

    async fn without_the_right_keys_it_refuses_and_changes_nothing(on: On) {
        let server = start(&on, OLD).await;
        fill(&server).await;
        assert!(server.terminate().await.success());
        let (done, told) = run(&on, NEW, &[]);
        assert!(!done && told.contains("encrypted with key \"old\", which is not configured"), "{told}");
        let both = format!("{NEW},{OLD}");
        assert!(run(&on, &both, &[]).0);
        let (done, told) = run(&on, &format!("{WRONG},{OLD}"), &[]);
        assert!(!done && told.contains("does not open with key \"new\""), "{told}");
        let server = start(&on, NEW).await;
        assert_whole(&server, "after").await;
    }

    async fn killed_in_the_middle_it_can_be_begun_again(on: On) {
        let server = start(&on, OLD).await;
        fill(&server).await;
        assert!(server.terminate().await.success());
        let both = format!("{NEW},{OLD}");
        for ms in [20, 40, 60, 80, 100, 120] {
            let mut process = rekey(&on, &both, &[]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            tokio::time::sleep(Duration::from_millis(ms)).await;
            process.kill().unwrap();
            process.wait().unwrap();
        }
        // Whatever was done: with both keys everything is there.
        let server = start(&on, &both).await;
        assert_whole(&server, "between").await;
        assert!(server.terminate().await.success());
        let (done, told) = run(&on, &both, &[]);
        assert!(done, "{told}");
        let server = start(&on, NEW).await;
        assert_whole(&server, "after").await;
    }
}

#[tokio::test]
async fn what_lies_in_the_spool_is_stored_before() {
    let on = On::embedded();
    let server = start(&on, OLD).await;
    server.post("/api/v1/system/maintenance", json!({"enabled": true})).await.expect(200);
    let item = json!({"items": [{"queue": "q", "payload": 1}]});
    assert!(server.post("/api/v1/push", item).await.status < 300);
    assert!(server.terminate().await.success());
    let (done, told) = run(&on, &format!("{NEW},{OLD}"), &[]);
    assert!(!done && told.contains("holds 1 messages"), "{told}");
}
