//! Bad requests get a 4xx that says what is wrong, and change nothing.

use serde_json::{Value, json};

on_every_engine! {
    async fn a_push_with_one_bad_item_stores_nothing(on: On) {
        let server = on.start().await;
        let long = "x".repeat(256);
        let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
        for (bad, complaint) in [
            ("7".to_owned(), "items[1] must be an object"),
            ("{}".into(), "items[1].queue is required"),
            (r#"{"queue":7}"#.into(), "items[1].queue must be a string"),
            (r#"{"queue":""}"#.into(), "items[1].queue must not be empty"),
            (r#"{"queue":"q\u0000"}"#.into(), "items[1].queue must not contain NUL"),
            (format!(r#"{{"queue":"{long}"}}"#), "items[1].queue is longer than 255 bytes"),
            (format!(r#"{{"queue":"q","partition":"{long}"}}"#), "items[1].partition is longer"),
            (format!(r#"{{"queue":"q","transactionId":"{long}"}}"#), "items[1].transactionId is longer"),
            (r#"{"queue":"q","transactionId":{}}"#.into(), "items[1].transactionId must be a string"),
            (r#"{"queue":"q","traceId":"x"}"#.into(), "items[1].traceId must be a UUID"),
            (format!(r#"{{"queue":"q","payload":{deep}}}"#), "items[1].payload is nested deeper"),
            (r#"{"queue":"q","payload":nope}"#.into(), "Invalid JSON"),
        ] {
            let body = format!(r#"{{"items":[{{"queue":"q","payload":1}},{bad}]}}"#);
            let answer = server.send("POST", "/api/v1/push", body).await;
            assert_eq!(answer.status, 400, "{bad}");
            assert!(answer.error().contains(complaint), "{}", answer.error());
        }
        let invalid = b"{\"items\":[{\"queue\":\"q\",\"payload\":\"\xff\"}]}";
        assert_eq!(server.send("POST", "/api/v1/push", invalid.to_vec()).await.status, 400);
        assert_eq!(server.pop("/queue/q?batch=100&partitions=100").await, None, "nothing was stored");
    }

    async fn every_route_refuses_what_it_cannot_read(on: On) {
        let server = on.start().await;
        for route in ["push", "ack", "ack/batch", "transaction", "configure"] {
            for body in ["", "{", "[]", "7", "\"x\"", "{\"a\":\u{1}}"] {
                let answer = server.send("POST", &format!("/api/v1/{route}"), body).await;
                assert_eq!(answer.status, 400, "{route} {body:?}");
                assert!(!answer.error().is_empty());
            }
        }
        for path in ["pop/queue/q?batch=x", "pop/queue/q?wait=true&timeout=0", "pop?", "pop/queue/q?conflation=true"] {
            assert_eq!(server.get(&format!("/api/v1/{path}")).await.status, 400, "{path}");
        }
        assert_eq!(server.get("/api/v1/nothing").await.expect(404)["code"], "no_such_route");
        assert_eq!(server.get("/api/v1/push").await.status, 405);
    }

    async fn a_body_over_the_limit_is_a_413(on: On) {
        let server = on.start_with(&["--max-body=1000"]).await;
        let item = |len: usize| json!({"items": [{"queue": "q", "payload": "x".repeat(len)}]}).to_string();
        assert_eq!(server.send("POST", "/api/v1/push", item(2000)).await.status, 413);
        assert_eq!(server.send("POST", "/api/v1/push", item(900)).await.status, 201);
        assert_eq!(server.pop_some("/queue/q?batch=10").await["messages"].as_array().unwrap().len(), 1);
    }

    async fn bad_requests_leave_their_neighbours_alone(on: On) {
        let server = on.start().await;
        let mut requests = tokio::task::JoinSet::new();
        for n in 0..20 {
            let client = server.client();
            requests.spawn(async move {
                let queue = if n % 2 == 0 { json!("q") } else { Value::Null };
                client.post("/api/v1/push", json!({"items": [{"queue": queue, "payload": n}]})).await.status
            });
        }
        let mut seen = requests.join_all().await;
        seen.sort_unstable();
        assert_eq!(seen, [vec![201; 10], vec![400; 10]].concat());
        assert_eq!(server.pop_some("/queue/q?batch=100").await["messages"].as_array().unwrap().len(), 10);
    }

    async fn a_bad_configure_changes_nothing(on: On) {
        let server = on.start().await;
        server.configure(json!({"queue": "q", "options": {"leaseTime": 7}})).await;
        for options in [json!({"leaseTime": "x"}), json!({"leaseTime": 9, "encryptionEnabled": 1}), json!([])] {
            let answer = server.post("/api/v1/configure", json!({"queue": "q", "options": options})).await;
            assert_eq!(answer.status, 400, "{options}");
        }
        assert_eq!(server.configure(json!({"queue": "q"})).await["options"]["leaseTime"], 7);
    }
}
