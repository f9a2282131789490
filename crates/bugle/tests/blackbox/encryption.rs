//! Payload encryption.

use std::path::Path;

use serde_json::json;

const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const OTHER: &str = "ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

fn holds(dir: &Path, text: &str) -> bool {
    std::fs::read_dir(dir).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            return holds(&path, text);
        }
        let bytes = std::fs::read(&path).unwrap();
        // Files are prepared at full size; what was never written is not searched.
        let written = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        bytes[..written].windows(text.len()).any(|window| window == text.as_bytes())
    })
}

on_every_engine! {
    async fn an_encrypted_queue_without_a_key_takes_nothing(on: On) {
        let server = on.start().await;
        server.configure(json!({"queue": "q", "options": {"encryptionEnabled": true}})).await;
        let answer = server.post("/api/v1/push", json!({"items": [{"queue": "q", "payload": "plain-secret"}]})).await;
        assert!((400..500).contains(&answer.status), "{}", answer.status);
        assert!(answer.error().contains("encrypt"), "{}", answer.error());
        let transaction = json!({"operations": [{"type": "push", "queue": "q", "payload": "plain-secret"}]});
        let refused = server.post("/api/v1/transaction", transaction).await;
        assert!(refused.status >= 400 || refused.json()["success"] == false, "{:?}", refused.body);
        assert_eq!(server.pop("/queue/q").await, None);
        server.kill();
        if let Some(dir) = on.data_dir() {
            assert!(!holds(&dir, "plain-secret"));
        }
    }

    async fn a_push_that_is_refused_for_one_queue_is_refused_for_all(on: On) {
        let server = on.start().await;
        server.configure(json!({"queue": "secret", "options": {"encryptionEnabled": true}})).await;
        let items = json!([{"queue": "open", "payload": 1}, {"queue": "secret", "payload": 2}, {"queue": "other", "payload": 3}]);
        let answer = server.post("/api/v1/push", json!({"items": items})).await;
        assert!((400..500).contains(&answer.status), "{}", answer.status);
        for queue in ["open", "secret", "other"] {
            assert_eq!(server.pop(&format!("/queue/{queue}")).await, None, "{queue}");
        }
    }

    async fn payloads_are_encrypted_at_rest_and_read_back(on: On) {
        let server = on.start_with(&[&format!("--encryption-key=new:{KEY}")]).await;
        server.configure(json!({"queue": "q", "options": {"encryptionEnabled": true}})).await;
        server.push(json!([{"queue": "q", "payload": {"card": "plain-secret"}}, {"queue": "open", "payload": "plain-open"}])).await;
        assert_eq!(server.pop_some("/queue/q?consumerGroup=a").await["messages"][0]["data"], json!({"card": "plain-secret"}));
        assert!(server.terminate().await.success());
        if let Some(dir) = on.data_dir() {
            assert!(!holds(&dir, "plain-secret"));
            assert!(holds(&dir, "plain-open"), "the search finds what is there");
        }

        let server = on.start_with(&[&format!("--encryption-key=newer:{OTHER},new:{KEY}")]).await;
        server.push(json!([{"queue": "q", "payload": "later"}])).await;
        let popped = server.pop_some("/queue/q?consumerGroup=b&batch=10").await;
        assert_eq!(popped["messages"][0]["data"], json!({"card": "plain-secret"}), "old keys still read");
        assert_eq!(popped["messages"][1]["data"], "later");
    }
}
