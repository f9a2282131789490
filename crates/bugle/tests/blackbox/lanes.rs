//! Names: whatever fits into 255 bytes, in bodies, paths and queries alike.

use serde_json::{Value, json};

use crate::common::{Client, ids};

fn names() -> Vec<String> {
    let short = [
        "a/b",
        "/",
        "a b",
        " ",
        "100%",
        "%2F",
        "%",
        "a+b",
        "a?b#c&d=e",
        "ünïcödé → 😀",
        "quo\"te",
        "o'clock",
        "'; DROP TABLE lane; --",
        "back\\slash",
        ".",
        "..",
        "line\nbreak",
        "\u{7f}\u{1}",
        "{}",
        "null",
        "a.b.c",
        "e\u{301}",
        "é",
    ];
    let long = ["x".repeat(255), format!("{}x", "é".repeat(127)), "/".repeat(255), "😀".repeat(63)];
    short.into_iter().map(str::to_owned).chain(long).collect()
}

/// Every byte that might mean something in a path or query, escaped.
fn escaped(name: &str) -> String {
    name.bytes()
        .map(|b| if b.is_ascii_alphanumeric() { char::from(b).to_string() } else { format!("%{b:02X}") })
        .collect()
}

async fn settle(client: &Client, popped: &Value) {
    let acked = client.ack_all(popped, "completed").await;
    assert!(acked.as_array().unwrap().iter().all(|r| r["success"] == true), "{acked}");
}

on_every_engine! {
    async fn any_name_names_a_partition(on: On) {
        let server = on.start().await;
        let items = |n: &String| json!({"queue": "q", "partition": n, "payload": n});
        server.push(names().iter().map(items).collect()).await;
        for name in names() {
            let popped = server.pop_some(&format!("/queue/q/partition/{}?batch=10", escaped(&name))).await;
            let messages = popped["messages"].as_array().unwrap();
            assert_eq!((messages.len(), &messages[0]["data"], &popped["partition"]), (1, &json!(name), &json!(name)));
            settle(&server, &popped).await;
        }
        assert_eq!(server.pop("/queue/q?batch=100&partitions=0").await, None, "each was a lane of its own");
    }

    async fn any_name_names_a_queue(on: On) {
        let server = on.start().await;
        let items = |n: &String| json!({"queue": n, "payload": n});
        server.push(names().iter().map(items).collect()).await;
        for name in names() {
            let popped = server.pop_some(&format!("/queue/{}?batch=10", escaped(&name))).await;
            let messages = popped["messages"].as_array().unwrap();
            assert_eq!((messages.len(), &messages[0]["data"], &popped["queue"]), (1, &json!(name), &json!(name)));
            let configured = server.configure(json!({"queue": name, "options": {"leaseTime": 9}})).await;
            assert_eq!((&configured["queue"], &configured["options"]["leaseTime"]), (&json!(name), &json!(9)));
            let path = format!("/api/v1/resources/queues/{}", escaped(&name));
            assert_eq!(server.send("DELETE", &path, "").await.expect(200)["existed"], true, "{name:?}");
        }
    }

    async fn any_name_names_a_group_and_a_transaction(on: On) {
        let server = on.start().await;
        let all = names();
        server.push_ids("q", "p", &all.iter().map(String::as_str).collect::<Vec<_>>()).await;
        for name in &all {
            let popped = server.pop_some(&format!("/queue/q?batch=100&consumerGroup={}", escaped(name))).await;
            assert_eq!((ids(&popped), &popped["consumerGroup"]), (all.iter().map(String::as_str).collect(), &json!(name)));
            settle(&server, &popped).await;
        }
        let again = server.push_ids("q", "p", &all.iter().map(String::as_str).collect::<Vec<_>>()).await;
        assert!(again.as_array().unwrap().iter().all(|r| r["status"] == "duplicate"), "{again}");
    }

    async fn what_need_not_be_escaped_in_a_path_may_stand_as_it_is(on: On) {
        let server = on.start().await;
        for name in ["a+b", "a:b", "a@b", "a,b;c", "(a)*!$&='~-_."] {
            server.push_ids("q", name, &[name]).await;
            let popped = server.pop_some(&format!("/queue/q/partition/{name}")).await;
            assert_eq!((ids(&popped), &popped["partition"]), (vec![name], &json!(name)));
        }
    }

    async fn a_name_of_256_bytes_is_refused_everywhere(on: On) {
        let server = on.start().await;
        let long = "é".repeat(128);
        for item in [json!({"queue": long}), json!({"queue": "q", "partition": long}), json!({"queue": "q", "transactionId": long})] {
            let answer = server.post("/api/v1/push", json!({"items": [{"queue": "q"}, item]})).await;
            assert_eq!(answer.status, 400, "{:?}", answer.body);
            assert!(answer.error().contains("255"), "{:?}", answer.body);
        }
        for path in [format!("/queue/{0}", escaped(&long)), format!("/queue/q/partition/{}", escaped(&long)), format!("/queue/q?consumerGroup={}", escaped(&long))] {
            assert_eq!(server.get(&format!("/api/v1/pop{path}")).await.status, 400, "{path}");
        }
        assert_eq!(server.pop("/queue/q").await, None, "nothing was stored");
    }
}
