//! `bugle copy`.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{On, Ran, Server, until};

fn copy(from: &Server, to: &Server, more: &[&str]) -> Ran {
    let args = ["copy", "--from", from.url(), "--to", to.url(), "-o", "json"];
    from.bugle(&args.iter().chain(more).copied().collect::<Vec<_>>())
}

/// Partition, transaction id and payload of everything, in the order of partitions.
fn contents(server: &Server, queue: &str) -> Vec<(String, String, String)> {
    let listed = server.bugle(&["messages", queue, "-n", "1000", "--from", "beginning", "-o", "ndjson"]).ok();
    let mut all: Vec<(String, u64, String, String)> = listed
        .lines()
        .map(|line| {
            let message: Value = serde_json::from_str(line).unwrap();
            let text = |name: &str| message[name].as_str().unwrap().to_owned();
            (
                text("partition"),
                message["offset"].as_u64().unwrap(),
                text("transactionId"),
                message["data"].to_string(),
            )
        })
        .collect();
    all.sort_unstable();
    all.into_iter().map(|(partition, _, id, data)| (partition, id, data)).collect()
}

fn lag(server: &Server, group: &str, queue: &str, partition: &str) -> Option<u64> {
    let described = server.json(&["group", "describe", group]);
    let partitions = described[queue]["partitions"].as_array()?;
    partitions.iter().find(|p| p["partition"] == partition)?["offsetLag"].as_u64()
}

fn fill(server: &Server) {
    server
        .bugle(&["queue", "configure", "a.b.one", "leaseTime=7", "retryLimit=9", "--namespace=a", "--task=b"])
        .ok();
    for partition in ["x", "y y"] {
        let payloads: Vec<String> = (0..300).map(|n| format!("{{\"n\": {n}.0}}")).collect();
        server.push("a.b.one", partition, &payloads.iter().map(String::as_str).collect::<Vec<_>>());
    }
    server.push("two", "z", &["1", "2", "3"]);
    server
        .bugle(&["pop", "a.b.one", "-p", "x", "-g", "half", "--subscribe", "all", "-b", "120", "--ack"])
        .ok();
    server.bugle(&["pop", "two", "-b", "1", "--ack"]).ok();
    server.bugle(&["pop", "two", "-g", "idle", "--subscribe", "all", "--lease", "1s"]).ok();
}

on_both_engines! {
    fn queues_arrive_with_ids_order_options_and_positions(on: On) {
        let (from, other) = (on.start(), On::embedded());
        let to = other.start();
        fill(&from);
        let told: Value = serde_json::from_str(&copy(&from, &to, &[]).ok()).unwrap();
        assert_eq!(told["messages"], 603, "{told}");
        for queue in ["a.b.one", "two"] {
            assert_eq!(contents(&to, queue), contents(&from, queue), "{queue}");
        }
        let options = to.json(&["queue", "configure", "a.b.one"]);
        assert_eq!((options["options"]["leaseTime"].as_u64(), options["options"]["retryLimit"].as_u64()), (Some(7), Some(9)));
        assert_eq!((options["namespace"].as_str(), options["task"].as_str()), (Some("a"), Some("b")));
        assert_eq!(lag(&to, "half", "a.b.one", "x"), Some(180));
        let next = to.json(&["pop", "a.b.one", "-p", "x", "-g", "half"]);
        assert_eq!(next[0]["data"]["n"], 120.0, "{next}");
        assert_eq!(to.json(&["pop", "two"])[0]["data"], 2, "those without a group go on too");
        assert_eq!(to.json(&["pop", "two", "-g", "idle", "--subscribe", "new"])[0]["data"], 1, "idle has everything before it");
        assert!(!from.bugle(&["groups"]).ok().contains("bugle-copy"), "nothing is left of it");
        assert!(!from.dir().join("bugle-copy.json").exists());
    }

    fn messages_stay_in_the_trace_they_belong_to(on: On) {
        let (from, other) = (on.start(), On::embedded());
        let to = other.start();
        let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        from.post(&["api", "v1", "push"], &json!({"items": [
            {"queue": "q", "payload": 1, "traceparent": parent, "tracestate": "a=1,b=2"},
            {"queue": "q", "payload": 2, "traceparent": parent},
            {"queue": "q", "payload": 3},
        ]}));
        copy(&from, &to, &[]).ok();
        let popped = to.json(&["pop", "q", "-b", "9"]);
        let contexts: Vec<Value> = popped
            .as_array()
            .unwrap()
            .iter()
            .map(|message| json!([message["traceparent"], message["tracestate"]]))
            .collect();
        assert_eq!(contexts, [json!([parent, "a=1,b=2"]), json!([parent, null]), json!([null, null])], "{popped}");
    }
}

#[tokio::test]
async fn an_interrupted_copy_goes_on_from_files_to_a_database() {
    let (from, to) = (On::embedded(), On::postgres().await);
    tokio::task::spawn_blocking(|| goes_on(from, to)).await.unwrap();
}

#[tokio::test]
async fn an_interrupted_copy_goes_on_from_a_database_to_files() {
    let (from, to) = (On::postgres().await, On::embedded());
    tokio::task::spawn_blocking(|| goes_on(from, to)).await.unwrap();
}

/// It is killed in the middle, twice; nothing is stored twice or lost.
fn goes_on(on: On, other: On) {
    let (from, to) = (on.start(), other.start());
    fill(&from);
    // Killed again and again while it works, however far it got.
    let args = ["copy", "--from", from.url(), "--to", to.url(), "--batch", "20"];
    for held in [1, 200] {
        let mut child = from.command(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        until("some are over there", || {
            let listed = to.bugle(&["messages", "a.b.one", "-n", "1000", "-o", "ndjson"]);
            listed.out.lines().count() >= held || child.try_wait().unwrap().is_some()
        });
        let _ = child.kill();
        child.wait().unwrap();
    }
    from.bugle(&[&args[..], &["--patience", "60s"]].concat()).ok();
    for queue in ["a.b.one", "two"] {
        assert_eq!(contents(&to, queue), contents(&from, queue), "{queue}");
    }
    assert_eq!(lag(&to, "half", "a.b.one", "x"), Some(180));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let (on, other) = (On::embedded(), On::embedded());
    let (from, to) = (on.start(), other.start());
    copy(&from, &from, &[]).fails(2);
    copy(&from, &to, &["nowhere"]).fails(3);
    let state = r#"{"from":"http://a","to":"http://b","id":"1","done":[]}"#;
    std::fs::write(from.dir().join("bugle-copy.json"), state).unwrap();
    assert!(copy(&from, &to, &[]).fails(1).contains("http://a"));
}
