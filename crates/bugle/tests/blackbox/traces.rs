//! Traces over HTTP.

use serde_json::{Value, json};

use crate::common::Client;

async fn record(client: &Client, partition: &Value, id: &str, rest: Value) -> String {
    let mut body = json!({"transactionId": id, "partitionId": partition});
    body.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    let answer = client.post("/api/v1/traces", body).await.expect(201);
    assert_eq!(answer["success"], true);
    answer["traceId"].as_str().unwrap().to_owned()
}

on_every_engine! {
    async fn traces_of_a_message_come_oldest_first(on: On) {
        let server = on.start().await;
        let partition = &server.push_ids("q", "p", &["t/1"]).await[0]["partition_id"];
        let first = record(&server, partition, "t/1", json!({"data": {"step": 1.0}})).await;
        let second = record(&server, partition, "t/1", json!({"data": "two", "eventType": "error", "consumerGroup": "g", "traceNames": ["b", "a"]})).await;
        let path = format!("/api/v1/traces/{}/t%2F1", partition.as_str().unwrap());
        let answer = server.get(&path).await.expect(200);
        assert_eq!((&answer["total"], answer["traces"].as_array().unwrap().len()), (&json!(2), 2));
        let (one, two) = (&answer["traces"][0], &answer["traces"][1]);
        assert_eq!((&one["id"], &one["event_type"], &one["data"], &one["consumer_group"], &one["trace_names"]),
            (&json!(first), &json!("info"), &json!({"step": 1.0}), &json!("__QUEUE_MODE__"), &json!([])));
        assert_eq!((&two["id"], &two["event_type"], &two["data"], &two["consumer_group"], &two["trace_names"]),
            (&json!(second), &json!("error"), &json!("two"), &json!("g"), &json!(["b", "a"])));
        assert!(one["created_at"].as_str().unwrap().ends_with('Z') && one["worker_id"].is_null());
        let page = server.get(&format!("{path}?limit=1&offset=1")).await.expect(200);
        assert_eq!((&page["traces"][0]["id"], &page["total"]), (&json!(second), &json!(2)));
        let none = json!({"traces": [], "total": 0, "pagination": {"limit": 1000, "offset": 0}});
        assert_eq!(server.get("/api/v1/traces/nonsense/t").await.expect(200), none);
    }

    async fn traces_by_name_come_newest_first_with_their_message(on: On) {
        let server = on.start().await;
        let pushed = server.push_ids("q", "p", &["t1", "t2"]).await;
        let partition = &pushed[0]["partition_id"];
        let mut ids = Vec::new();
        for (n, id) in ["t1", "t2", "t1"].into_iter().enumerate() {
            ids.insert(0, record(&server, partition, id, json!({"data": n, "traceNames": "order 7/ä"})).await);
        }
        record(&server, partition, "t1", json!({"data": 9, "traceNames": ["other", "other"]})).await;
        let path = "/api/v1/traces/by-name/order%207%2F%C3%A4";
        let answer = server.get(path).await.expect(200);
        assert_eq!((&answer["total"], &answer["pagination"]), (&json!(3), &json!({"limit": 100, "offset": 0})));
        let seen: Vec<&str> = answer["traces"].as_array().unwrap().iter().map(|t| t["id"].as_str().unwrap()).collect();
        assert_eq!(seen, ids);
        let second = &answer["traces"][1];
        for (field, value) in [
            ("transaction_id", json!("t2")), ("partition_id", partition.clone()), ("queue_name", json!("q")), ("partition_name", json!("p")),
            ("message_payload", json!({"n": "t2"})), ("trace_names", json!(["order 7/ä"])), ("data", json!(1)), ("event_type", json!("info")),
        ] {
            assert_eq!(second[field], value, "{field}");
        }
        let page = server.get(&format!("{path}?limit=1&offset=2")).await.expect(200);
        assert_eq!((&page["traces"][0]["id"], page["traces"].as_array().unwrap().len(), &page["total"]), (&json!(ids[2]), 1, &json!(3)));
        assert_eq!(server.get("/api/v1/traces/by-name/nobody").await.expect(200)["total"], 0);
        let names = server.get("/api/v1/traces/names").await.expect(200);
        assert_eq!((&names["total"], &names["pagination"]), (&json!(2), &json!({"limit": 50, "offset": 0})));
        let shown = |i: usize| (names["trace_names"][i]["trace_name"].clone(), names["trace_names"][i]["trace_count"].clone(), names["trace_names"][i]["message_count"].clone());
        assert_eq!(shown(0), (json!("other"), json!(1), json!(1)), "the latest first");
        assert_eq!(shown(1), (json!("order 7/ä"), json!(3), json!(2)));
        let page = server.get("/api/v1/traces/names?limit=1&offset=1").await.expect(200);
        assert_eq!((&page["trace_names"][0]["trace_name"], &page["total"]), (&json!("order 7/ä"), &json!(2)));
    }

    async fn a_trace_needs_a_message_alive_or_dead(on: On) {
        let server = on.start().await;
        let partition = crate::dead_letters::bury(&server, "q", "p", &["dead"], "e").await;
        for (transaction, partition) in [("none", &*partition), ("dead", "nonsense"), ("dead", "0190163d-8694-739b-aea5-966c26f8ad90")] {
            let body = json!({"transactionId": transaction, "partitionId": partition, "data": 1});
            let answer = server.post("/api/v1/traces", body).await.expect(404);
            assert_eq!(answer, json!({"success": false, "error": "Message not found"}), "{transaction} {partition}");
        }
        record(&server, &json!(partition), "dead", json!({"data": [1]})).await;
    }

    async fn bad_traces_are_refused_by_the_name_of_the_field(on: On) {
        let server = on.start().await;
        let partition = server.push_ids("q", "p", &["t1"]).await[0]["partition_id"].clone();
        for (rest, complaint) in [
            (json!({"transactionId": null, "data": 1}), "transactionId and partitionId are required"), (json!({}), "data is required"),
            (json!({"data": "x".repeat(256 << 10)}), "data is larger than 262144 bytes"),
            (json!({"data": 1, "traceNames": 5}), "traceNames must be a string or a list of strings"),
            (json!({"data": 1, "traceNames": ["a", "a\u{0}"]}), "traceNames[1] must not contain NUL"),
            (json!({"data": 1, "traceNames": vec!["a"; 101]}), "traceNames has more than 100 names"),
            (json!({"data": 1, "eventType": "x".repeat(256)}), "eventType is longer than 255 bytes"),
        ] {
            let mut body = json!({"transactionId": "t1", "partitionId": partition});
            body.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
            let answer = server.post("/api/v1/traces", body).await;
            assert_eq!((answer.status, answer.error()), (400, complaint.into()));
        }
        assert_eq!(server.send("POST", "/api/v1/traces", "").await.error(), "Empty request body");
        for path in ["/api/v1/traces/names?limit=x", "/api/v1/traces/by-name/n?offset=x", "/api/v1/traces/x/y?limit=x"] {
            let answer = server.get(path).await;
            assert!(answer.status == 400 && answer.error().ends_with("must be a whole number"), "{path}");
        }
        assert_eq!(server.get("/api/v1/traces/names").await.expect(200)["total"], 0, "nothing was recorded");
    }
}
