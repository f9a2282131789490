//! Push, pop, acknowledge.

use serde_json::{Value, json};

use crate::common::ids;

on_every_engine! {
    async fn a_message_is_pushed_popped_and_acknowledged(on: On) {
        let server = on.start().await;
        let pushed = server.push_ids("orders", "a", &["t1", "t2", "t3"]).await;
        for (i, result) in pushed.as_array().unwrap().iter().enumerate() {
            assert_eq!(result["index"], i);
            assert_eq!(result["transaction_id"], format!("t{}", i + 1));
            assert_eq!((&result["status"], &result["queueName"]), (&json!("queued"), &json!("orders")));
            assert!(result["message_id"].is_string() && result["partition_id"].is_string());
            assert_eq!(result.get("trace_id"), Some(&Value::Null));
        }

        let popped = server.pop_some("/queue/orders?batch=10").await;
        assert_eq!(ids(&popped), ["t1", "t2", "t3"]);
        assert_eq!(
            (&popped["success"], &popped["queue"], &popped["partition"], &popped["consumerGroup"]),
            (&json!(true), &json!("orders"), &json!("a"), &json!("__QUEUE_MODE__"))
        );
        let first = &popped["messages"][0];
        assert_eq!(first["id"], pushed[0]["message_id"]);
        assert_eq!(first["partitionId"], pushed[0]["partition_id"]);
        assert_eq!(first["leaseId"], popped["leaseId"]);
        assert!(!popped["leaseId"].as_str().unwrap().is_empty());
        assert_eq!((&first["data"], &first["deliveryAttempt"], &first["offset"]), (&json!({"n": "t1"}), &json!(1), &json!(0)));
        let created = first["createdAt"].as_str().unwrap();
        assert!(created.len() == 27 && created.ends_with('Z'), "{created}");

        assert_eq!(server.pop("/queue/orders?batch=10").await, None, "the lane is leased");
        for result in server.ack_all(&popped, "completed").await.as_array().unwrap() {
            assert_eq!((&result["success"], &result["error"], &result["dlq"]), (&json!(true), &Value::Null, &json!(false)));
        }
        assert_eq!(server.pop("/queue/orders?batch=10").await, None, "all is done");
        server.push_ids("orders", "a", &["t4"]).await;
        assert_eq!(ids(&server.pop_some("/queue/orders").await), ["t4"], "acknowledged to the end, so the lease is gone");
    }

    async fn a_single_ack_answers_a_list_of_one(on: On) {
        let server = on.start().await;
        server.push_ids("q", "p", &["t"]).await;
        let popped = server.pop_some("/queue/q").await;
        let message = &popped["messages"][0];
        let body = json!({"transactionId": "t", "partitionId": message["partitionId"], "leaseId": message["leaseId"],
            "status": null, "consumerGroup": null, "error": null});
        let acked = server.post("/api/v1/ack", body).await.expect(200);
        assert_eq!(acked.as_array().unwrap().len(), 1);
        assert_eq!((&acked[0]["success"], &acked[0]["transactionId"], &acked[0]["leaseReleased"]), (&json!(true), &json!("t"), &json!(true)));
        assert_eq!((&acked[0]["queueName"], &acked[0]["partitionName"]), (&json!("q"), &json!("p")));
    }

    async fn a_repeated_transaction_id_is_a_duplicate_of_the_first(on: On) {
        let server = on.start().await;
        let first = server.push_ids("q", "p", &["t"]).await;
        let again = server.push_ids("q", "p", &["t", "u", "u"]).await;
        assert_eq!(again[0]["status"], "duplicate");
        assert_eq!(again[0]["message_id"], first[0]["message_id"]);
        assert!(again[0].get("partition_id").is_none() && again[0].get("trace_id").is_none());
        assert_eq!((&again[1]["status"], &again[2]["status"]), (&json!("queued"), &json!("duplicate")));
        assert_eq!(again[1]["message_id"], again[2]["message_id"]);
        assert_eq!(server.push_ids("q", "other", &["t"]).await[0]["status"], "queued", "another partition");
        assert_eq!(ids(&server.pop_some("/queue/q/partition/p?batch=10").await), ["t", "u"]);
    }

    async fn concurrent_pushes_of_one_id_store_it_once(on: On) {
        let server = on.start().await;
        let mut pushes = tokio::task::JoinSet::new();
        for _ in 0..8 {
            let client = server.client();
            pushes.spawn(async move { client.push_ids("q", "p", &["same"]).await });
        }
        let results = pushes.join_all().await;
        let queued = results.iter().filter(|r| r[0]["status"] == "queued").count();
        assert_eq!(queued, 1);
        assert!(results.iter().all(|r| r[0]["message_id"] == results[0][0]["message_id"]));
        assert_eq!(ids(&server.pop_some("/queue/q?batch=10").await), ["same"]);
    }

    async fn an_empty_pop_is_204_without_a_body(on: On) {
        let server = on.start().await;
        for path in ["/api/v1/pop/queue/nobody", "/api/v1/pop/queue/nobody/partition/x", "/api/v1/pop?namespace=nobody"] {
            let answer = server.get(path).await;
            assert_eq!(answer.status, 204, "{path}");
            assert!(answer.body.is_empty());
            assert!(!answer.headers.contains_key("content-type"));
            assert!(!answer.headers.contains_key("bugle-store"), "the store is there");
        }
    }

    async fn a_missing_transaction_id_is_minted_and_a_missing_payload_is_null(on: On) {
        let server = on.start().await;
        let pushed = server.push(json!([{"queue": "q"}])).await;
        let minted = pushed[0]["transaction_id"].as_str().unwrap().to_owned();
        assert!(uuid::Uuid::parse_str(&minted).is_ok());
        let popped = server.pop_some("/queue/q").await;
        let message = &popped["messages"][0];
        assert_eq!(message["transactionId"], json!(minted));
        assert_eq!((message.get("data"), &message["partition"]), (Some(&Value::Null), &json!("Default")));
    }

    async fn a_trace_id_is_kept_by_transactions_only(on: On) {
        let server = on.start().await;
        let trace = "018f0000-0000-7000-8000-000000000001";
        let item = |queue: &str| json!({"queue": queue, "traceId": trace, "payload": 1});
        let pushed = server.push(json!([item("pushed")])).await;
        assert_eq!(pushed[0]["trace_id"], Value::Null);
        let operations = json!({"operations": [{"type": "push", "items": [item("transacted")]}]});
        server.post("/api/v1/transaction", operations).await.expect(200);
        for (queue, kept) in [("pushed", Value::Null), ("transacted", json!(trace))] {
            let popped = server.pop_some(&format!("/queue/{queue}")).await;
            assert_eq!(popped["messages"][0]["traceId"], kept, "{queue}");
        }
    }

    async fn failed_messages_come_back_and_end_as_dead_letters(on: On) {
        let server = on.start().await;
        server.configure(json!({"queue": "q", "options": {"retryLimit": 1}})).await;
        server.push_ids("q", "p", &["t1", "t2"]).await;
        let first = server.pop_some("/queue/q?batch=10").await;
        let failed = server.ack_all(&first, "failed").await;
        assert_eq!((&failed[0]["success"], &failed[0]["dlq"]), (&json!(true), &json!(false)));
        let second = server.pop_some("/queue/q?batch=10").await;
        assert_eq!(ids(&second), ["t1", "t2"], "the whole batch is back");
        assert_eq!(second["messages"][0]["deliveryAttempt"], 2);
        assert_eq!(server.ack_all(&second, "failed").await[0]["dlq"], true, "the budget is spent");
    }

    async fn a_lane_that_is_none_fails_its_own_ack_only(on: On) {
        let server = on.start().await;
        server.push_ids("q", "p", &["t"]).await;
        let popped = server.pop_some("/queue/q").await;
        let good = &popped["messages"][0];
        let acks = json!([
            {"transactionId": "t", "partitionId": "not-a-lane"},
            {"transactionId": "t", "partitionId": good["partitionId"], "leaseId": good["leaseId"]},
        ]);
        let acked = server.post("/api/v1/ack/batch", json!({"acknowledgments": acks})).await.expect(200);
        assert_eq!((&acked[0]["success"], &acked[1]["success"]), (&json!(false), &json!(true)));
        assert!(acked[0]["error"].as_str().unwrap().contains("unresolvable"), "{acked}");
        assert_eq!(acked[1]["error"], Value::Null);
    }

    async fn http2_without_tls_is_served(on: On) {
        let server = on.start().await;
        let body = json!({"items": [{"queue": "q", "payload": 1}]}).to_string();
        assert_eq!(server.send_h2("POST", "/api/v1/push", body).await.status, 201);
        assert_eq!(server.send_h2("GET", "/api/v1/pop/queue/q", "").await.expect(200)["messages"][0]["data"], 1);
        assert_eq!(server.send_h2("GET", "/api/v1/pop/queue/q", "").await.status, 204);
    }
}
