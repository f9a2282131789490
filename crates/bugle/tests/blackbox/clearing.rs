//! Clearing a queue: messages go, everything else stays.

use serde_json::{Value, json};

use crate::common::{Client, ids};

async fn clear(server: &Client, rest: &str) -> Value {
    server.send("DELETE", &format!("/api/v1/queues/{rest}"), "").await.expect(200)
}

on_every_engine! {
    async fn a_cleared_queue_is_empty_and_goes_on(on: On) {
        let server = on.start().await;
        server.configure(json!({"queue": "q x", "options": {"leaseTime": 7}})).await;
        for partition in ["a", "b", "c"] {
            server.push_ids("q x", partition, &["1", "2"]).await;
        }
        server.push_ids("other", "a", &["x"]).await;
        let popped = server.pop_some("/queue/q%20x/partition/a?consumerGroup=g").await;
        server.ack_all(&popped, "completed").await;
        let cleared = clear(&server, "q%20x/clear").await;
        assert_eq!(cleared, json!({"success": true, "cleared": true, "queue": "q x", "partition": null, "partitionsCleared": 3, "messagesDeleted": 6}));
        for group in ["g", "new"] {
            assert_eq!(server.pop(&format!("/queue/q%20x?consumerGroup={group}")).await, None, "{group}");
        }
        assert_eq!(ids(&server.pop_some("/queue/other").await), ["x"]);
        let again = server.push_ids("q x", "a", &["3"]).await;
        assert_eq!(again[0]["status"], "queued");
        assert_eq!(ids(&server.pop_some("/queue/q%20x?consumerGroup=g&batch=9").await), ["3"]);
        let options = server.configure(json!({"queue": "q x"})).await;
        assert_eq!(options["options"]["leaseTime"], 7, "the queue is the same");
    }

    async fn one_partition_is_cleared_alone(on: On) {
        let server = on.start().await;
        server.push_ids("q", "a b", &["1", "2"]).await;
        server.push_ids("q", "c", &["3"]).await;
        let cleared = clear(&server, "q/clear?partition=a%20b").await;
        assert_eq!((&cleared["partition"], &cleared["messagesDeleted"]), (&json!("a b"), &json!(2)));
        assert_eq!(ids(&server.pop_some("/queue/q?batch=9&partitions=9").await), ["3"]);
        assert_eq!(clear(&server, "q/clear?partition=a%20b").await["messagesDeleted"], 0);
    }

    async fn what_is_not_there_is_not_found(on: On) {
        let server = on.start().await;
        server.push_ids("q", "a", &["1"]).await;
        for path in ["none/clear", "q/clear?partition=none"] {
            let refused = server.send("DELETE", &format!("/api/v1/queues/{path}"), "").await;
            assert_eq!(refused.status, 404, "{path}");
            assert!(refused.error().ends_with("not found"), "{}", refused.error());
        }
        assert_eq!(ids(&server.pop_some("/queue/q").await), ["1"]);
    }

    async fn a_clearing_survives_a_crash(on: On) {
        let server = on.start().await;
        server.push_ids("q", "a", &["1"]).await;
        clear(&server, "q/clear").await;
        server.kill();
        let server = on.start().await;
        assert_eq!(server.pop("/queue/q").await, None);
    }
}
