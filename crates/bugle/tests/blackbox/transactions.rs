//! Acknowledgements and pushes, all or nothing.

use serde_json::{Value, json};

use crate::common::ids;

fn ack_of(message: &Value) -> Value {
    json!({"type": "ack", "transactionId": message["transactionId"], "partitionId": message["partitionId"], "leaseId": message["leaseId"]})
}

on_every_engine! {
    async fn a_committed_transaction_moves_a_message_on(on: On) {
        let server = on.start().await;
        server.push_ids("from", "p", &["t"]).await;
        let popped = server.pop_some("/queue/from").await;
        let operations = json!([
            ack_of(&popped["messages"][0]),
            {"type": "push", "items": [{"queue": "to", "payload": 1, "transactionId": "u1"}, {"queue": "to", "payload": 2, "transactionId": "u2"}]},
        ]);
        let body = json!({"operations": operations, "requiredLeases": [popped["leaseId"]]});
        let done = server.post("/api/v1/transaction", body).await.expect(200);
        assert_eq!(done["success"], true, "{done}");
        let results = done["results"].as_array().unwrap();
        assert_eq!(results.iter().map(|r| r["index"].as_u64().unwrap()).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!((&results[0]["type"], &results[0]["dlq"], &results[0]["error"]), (&json!("ack"), &json!(false), &Value::Null));
        assert_eq!((&results[2]["type"], &results[2]["transactionId"], &results[2]["queueName"]), (&json!("push"), &json!("u2"), &json!("to")));
        assert_eq!(ids(&server.pop_some("/queue/to?batch=10").await), ["u1", "u2"]);
        assert_eq!(server.pop("/queue/from").await, None);
    }

    async fn a_failed_ack_undoes_the_pushes(on: On) {
        let server = on.start().await;
        server.push_ids("from", "p", &["t"]).await;
        let popped = server.pop_some("/queue/from").await;
        let mut bad = ack_of(&popped["messages"][0]);
        bad["transactionId"] = json!("unknown");
        let operations = json!([ack_of(&popped["messages"][0]), {"type": "push", "queue": "to", "payload": 1}, bad]);
        let done = server.post("/api/v1/transaction", json!({"operations": operations})).await.expect(200);
        assert_eq!(done["success"], false);
        assert!(done["error"].as_str().unwrap().starts_with("ACK operation failed"), "{done}");
        assert_eq!(server.pop("/queue/to").await, None);
        let acked = server.ack_all(&popped, "retry").await;
        assert_eq!(acked[0]["success"], true, "the lease still holds");
        assert_eq!(ids(&server.pop_some("/queue/from").await), ["t"], "the ack was undone");
    }

    async fn a_refused_transaction_makes_no_queue_and_no_partition(on: On) {
        let server = on.start().await;
        server.push_ids("from", "p", &["t"]).await;
        server.push_ids("to", "there", &["known"]).await;
        let popped = server.pop_some("/queue/from").await;
        let mut bad = ack_of(&popped["messages"][0]);
        bad["transactionId"] = json!("unknown");
        let new = json!({"type": "push", "items": [
            {"queue": "new", "payload": 1},
            {"queue": "to", "partition": "new", "payload": 1},
        ]});
        let duplicate = json!({"type": "push", "items": [
            {"queue": "to", "partition": "there", "payload": 1, "transactionId": "known"},
        ]});
        for (second, reason) in [(bad, "ack_rejected"), (duplicate, "duplicate")] {
            let operations = json!([ack_of(&popped["messages"][0]), new, second]);
            let done = server.post("/api/v1/transaction", json!({"operations": operations})).await.expect(200);
            assert_eq!((&done["success"], &done["reason"]), (&json!(false), &json!(reason)), "{done}");
        }
        let queues = server.get("/api/v1/resources/queues").await.expect(200);
        let names = queues["queues"].as_array().unwrap().iter().map(|queue| queue["name"].as_str().unwrap());
        assert_eq!(names.filter(|name| *name == "new").count(), 0, "{queues}");
        let to = server.get("/api/v1/resources/queues/to").await.expect(200);
        let partitions: Vec<_> = to["partitions"].as_array().unwrap().iter().map(|p| &p["name"]).collect();
        assert_eq!(partitions, ["there"], "{to}");
        let done = server.post("/api/v1/transaction", json!({"operations": [ack_of(&popped["messages"][0]), new]})).await.expect(200);
        assert_eq!(done["success"], true, "{done}");
        assert!(server.pop("/queue/new").await.is_some() && server.pop("/queue/to/partition/new").await.is_some());
    }

    async fn a_duplicate_push_undoes_the_ack(on: On) {
        let server = on.start().await;
        server.push_ids("from", "p", &["t"]).await;
        server.push_ids("to", "Default", &["there"]).await;
        let popped = server.pop_some("/queue/from").await;
        let operations = json!([ack_of(&popped["messages"][0]), {"type": "push", "items": [{"queue": "to", "payload": 1, "transactionId": "there"}]}]);
        let done = server.post("/api/v1/transaction", json!({"operations": operations})).await.expect(200);
        assert_eq!((&done["success"], &done["reason"]), (&json!(false), &json!("duplicate")));
        server.ack_all(&popped, "retry").await;
        assert_eq!(ids(&server.pop_some("/queue/from").await), ["t"]);
        assert_eq!(ids(&server.pop_some("/queue/to?batch=10").await), ["there"]);
    }

    async fn an_unknown_operation_is_refused(on: On) {
        let server = on.start().await;
        let operations = json!([{"type": "push", "queue": "to", "payload": 1}, {"type": "pull"}]);
        let answer = server.post("/api/v1/transaction", json!({"operations": operations})).await;
        assert_eq!((answer.status, answer.error().as_str()), (400, "Unknown operation type: pull"));
        assert_eq!(server.pop("/queue/to").await, None);
    }
}
