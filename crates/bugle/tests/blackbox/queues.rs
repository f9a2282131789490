//! Configure and delete.

use serde_json::{Value, json};

use crate::common::ids;

on_every_engine! {
    async fn configure_echoes_all_options(on: On) {
        let server = on.start().await;
        let sent = json!({"leaseTime": 11, "maxSize": 1000, "ttl": 12, "retryLimit": 5, "retryDelay": 13, "deadLetterQueue": true,
            "dlqAfterMaxRetries": false, "priority": 5, "delayedProcessing": 1, "windowBuffer": 2, "retentionSeconds": 14,
            "completedRetentionSeconds": 15, "retentionEnabled": true, "encryptionEnabled": false, "maxWaitTimeSeconds": 16});
        let answer = server.configure(json!({"queue": "q", "namespace": "n", "task": "t", "options": sent})).await;
        assert_eq!((&answer["configured"], &answer["queue"], &answer["namespace"], &answer["task"]), (&json!(true), &json!("q"), &json!("n"), &json!("t")));
        assert_eq!((&answer["partitionId"], &answer["ignored"]), (&Value::Null, &json!([])));
        assert!(uuid::Uuid::parse_str(answer["queueId"].as_str().unwrap()).is_ok());
        for (name, value) in sent.as_object().unwrap() {
            assert_eq!(answer["options"][name], *value, "{name}");
        }
    }

    async fn configure_without_options_gives_the_defaults(on: On) {
        let server = on.start().await;
        let options = server.configure(json!({"queue": "", "namespace": null, "task": null})).await["options"].clone();
        for (name, value) in [("leaseTime", json!(300)), ("retryLimit", json!(3)), ("ttl", json!(3600)), ("priority", json!(0)), ("dedupWindowSeconds", json!(3600))] {
            assert_eq!(options[name], value, "{name}");
        }
    }

    async fn configure_merges_unless_told_to_replace(on: On) {
        let server = on.start().await;
        let first = server.configure(json!({"queue": "q", "options": {"leaseTime": 7, "ttl": 8}})).await;
        let merged = server.configure(json!({"queue": "q", "ttl": 9})).await;
        assert_eq!((&merged["options"]["leaseTime"], &merged["options"]["ttl"]), (&json!(7), &json!(9)), "options may stand at the top");
        assert_eq!(merged["queueId"], first["queueId"]);
        let restored = server.configure(json!({"queue": "q", "options": {"leaseTime": null}})).await;
        assert_eq!((&restored["options"]["leaseTime"], &restored["options"]["ttl"]), (&json!(300), &json!(9)), "null is the default");
        let replaced = server.configure(json!({"queue": "q", "mode": "replace", "options": {"leaseTime": 5}})).await;
        assert_eq!((&replaced["options"]["leaseTime"], &replaced["options"]["ttl"]), (&json!(5), &json!(3600)));
    }

    async fn unknown_options_are_listed_and_numbers_clamped(on: On) {
        let server = on.start().await;
        let answer = server.configure(json!({"queue": "q", "options": {"minPopWaitTime": 90000, "shiny": 1}})).await;
        assert_eq!((&answer["options"]["minPopWaitTime"], &answer["ignored"]), (&json!(60000), &json!(["shiny"])));
        let low = server.configure(json!({"queue": "q", "options": {"minPopWaitTime": -5}})).await;
        assert_eq!(low["options"]["minPopWaitTime"], 0);
    }

    async fn namespace_and_task_may_stand_among_the_options(on: On) {
        let server = on.start().await;
        let answer = server.configure(json!({"queue": "q", "options": {"namespace": "n", "task": "t"}})).await;
        assert_eq!((&answer["namespace"], &answer["task"], &answer["ignored"]), (&json!("n"), &json!("t"), &json!([])));
        server.push_ids("q", "p", &["m"]).await;
        assert_eq!(ids(&server.pop_some("?namespace=n&task=t").await), ["m"]);
    }

    async fn a_deleted_queue_is_gone_with_its_messages(on: On) {
        let server = on.start().await;
        server.push_ids("q x", "p", &["t"]).await;
        let path = "/api/v1/resources/queues/q%20x";
        assert_eq!(server.send("DELETE", path, "").await.expect(200), json!({"deleted": true, "queue": "q x", "existed": true}));
        assert_eq!(server.send("DELETE", path, "").await.expect(200), json!({"deleted": true, "queue": "q x", "existed": false}));
        assert_eq!(server.pop("/queue/q%20x").await, None);
        let again = server.push_ids("q x", "p", &["t"]).await;
        assert_eq!(again[0]["status"], "queued", "a new queue remembers nothing");
        assert_eq!(ids(&server.pop_some("/queue/q%20x").await), ["t"]);
    }
}
