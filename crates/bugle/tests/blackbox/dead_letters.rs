//! Dead letters over HTTP: listing, counting, replaying one, redriving many, deleting.

use serde_json::{Value, json};

use crate::common::{Client, ids};

const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

/// Push these and let the anonymous group give up on all of them with this error; answers the partition's id.
pub(crate) async fn bury(client: &Client, queue: &str, partition: &str, ids: &[&str], error: &str) -> String {
    client.push_ids(queue, partition, ids).await;
    let popped = client.pop_some(&format!("/queue/{queue}/partition/{partition}?batch=1000")).await;
    let acks = popped["messages"].as_array().unwrap().iter().map(|m| {
        json!({"transactionId": m["transactionId"], "partitionId": m["partitionId"], "leaseId": m["leaseId"], "status": "dlq", "error": error})
    });
    let acked = client
        .post("/api/v1/ack/batch", json!({"acknowledgments": acks.collect::<Value>()}))
        .await
        .expect(200);
    assert!(acked.as_array().unwrap().iter().all(|a| a["dlq"] == true), "{acked}");
    popped["partitionId"].as_str().unwrap().to_owned()
}

async fn list(client: &Client, query: &str) -> (Vec<String>, u64) {
    let answer = client.get(&format!("/api/v1/dlq{query}")).await.expect(200);
    let ids = answer["messages"].as_array().unwrap().iter();
    let ids = ids.map(|m| m["transactionId"].as_str().unwrap().to_owned()).collect();
    (ids, answer["total"].as_u64().unwrap())
}

async fn count(client: &Client, query: &str) -> u64 {
    client.get(&format!("/api/v1/dlq/count{query}")).await.expect(200)["count"].as_u64().unwrap()
}

on_every_engine! {
    async fn a_dead_letter_is_told_with_all_its_fields(on: On) {
        let server = on.start().await;
        let partition = bury(&server, "q", "p", &["t1"], "boom").await;
        let answer = server.get("/api/v1/dlq").await.expect(200);
        assert_eq!((&answer["total"], &answer["pagination"]), (&json!(1), &json!({"limit": 100, "offset": 0})));
        let letter = &answer["messages"][0];
        for (field, value) in [
            ("transactionId", json!("t1")), ("partitionId", json!(partition)), ("queue", json!("q")), ("partition", json!("p")),
            ("consumerGroup", json!("__QUEUE_MODE__")), ("errorMessage", json!("boom")), ("retryCount", json!(0)),
            ("data", json!({"n": "t1"})), ("producerSub", Value::Null),
        ] {
            assert_eq!(letter[field], value, "{field}");
        }
        assert_eq!(letter["id"].as_str().unwrap().len(), 36);
        for field in ["createdAt", "failedAt"] {
            let time = letter[field].as_str().unwrap();
            assert!(time.len() == 24 && time.ends_with('Z'), "{field}: {time}");
        }
    }

    async fn a_list_is_filtered_and_paged_latest_failure_first(on: On) {
        let server = on.start().await;
        bury(&server, "q", "a", &["1"], "time out").await;
        bury(&server, "q", "b", &["2"], "bad").await;
        bury(&server, "other", "a", &["3"], "time out").await;
        let shown = |ids: &[&str], total: u64| (ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>(), total);
        for (query, ids, total) in [
            ("", &["3", "2", "1"][..], 3), ("?limit=1", &["3"], 3), ("?limit=1&offset=1", &["2"], 3), ("?offset=3", &[], 3),
            ("?limit=0", &["3"], 3), ("?queue=q", &["2", "1"], 2), ("?queue=q&partition=a", &["1"], 1),
            ("?consumerGroup=__QUEUE_MODE__&queue=q", &["2", "1"], 2), ("?consumerGroup=g", &[], 0), ("?queue=nowhere", &[], 0),
            ("?errorContains=time%20out", &["3", "1"], 2), ("?from=2000-01-01", &["3", "2", "1"], 3), ("?to=2000-01-01", &[], 0),
        ] {
            assert_eq!(list(&server, query).await, shown(ids, total), "{query}");
            assert_eq!(count(&server, query).await, total, "{query}");
        }
        let second = server.get("/api/v1/dlq?queue=q").await.json()["messages"][0]["failedAt"].as_str().unwrap().to_owned();
        assert_eq!(list(&server, &format!("?from={second}&queue=q")).await.0, ["2"], "from is inclusive, to the millisecond");
    }

    async fn a_replay_moves_a_letter_to_the_tail_once(on: On) {
        let server = on.start().await;
        let partition = bury(&server, "q", "p", &["t1"], "boom").await;
        server.push_ids("q", "p", &["t2"]).await;
        let id = server.get("/api/v1/dlq").await.json()["messages"][0]["id"].as_str().unwrap().to_owned();
        let replayed = server.send("POST", &format!("/api/v1/dlq/{id}/replay"), "").await.expect(200);
        assert_eq!((&replayed["success"], &replayed["duplicate"]), (&json!(true), &json!(false)));
        assert_eq!((&replayed["queue"], &replayed["partition"], &replayed["partitionId"]), (&json!("q"), &json!("p"), &json!(partition)));
        let again = server.send("POST", &format!("/api/v1/dlq/{id}/replay"), "").await;
        assert_eq!((again.status, again.error()), (404, "Dead letter not found".into()));
        let popped = server.pop_some("/queue/q?batch=10").await;
        assert_eq!(ids(&popped), ["t2", &format!("dlq:{id}")]);
        assert_eq!((&popped["messages"][1]["data"], count(&server, "").await), (&json!({"n": "t1"}), 0));
    }

    async fn a_replay_may_change_payload_and_place(on: On) {
        let server = on.start().await;
        let partition = bury(&server, "q", "p", &["t1", "t2"], "boom").await;
        let body = json!({"payload": {"fixed": true}, "queue": "repaired", "partition": "x"});
        let retried = server.post(&format!("/api/v1/messages/{partition}/t1/retry"), body).await.expect(200);
        assert_eq!((&retried["queue"], &retried["partition"]), (&json!("repaired"), &json!("x")));
        assert_eq!(server.pop_some("/queue/repaired/partition/x").await["messages"][0]["data"], json!({"fixed": true}));
        assert_eq!(list(&server, "").await.0, ["t2"]);
        for (path, status) in [("t1/retry", 404), ("t2/retry?consumerGroup=g", 404), ("t2/retry", 200), ("t2/retry", 404)] {
            assert_eq!(server.send("POST", &format!("/api/v1/messages/{partition}/{path}"), "").await.status, status, "{path}");
        }
    }

    async fn a_redrive_is_bounded_and_goes_on(on: On) {
        let server = on.start().await;
        let many: Vec<String> = (0..130).map(|i| format!("t{i:03}")).collect();
        bury(&server, "q", "p", &many.iter().map(String::as_str).collect::<Vec<_>>(), "time out").await;
        bury(&server, "q", "p", &["keep"], "bad").await;
        let body = |limit: u64, cursor: &Value| json!({"filter": {"queue": "q", "errorContains": "time"}, "limit": limit, "cursor": cursor});
        let dry = server.post("/api/v1/dlq/redrive", json!({"filter": {"queue": "q"}, "dryRun": true})).await.expect(200);
        assert_eq!(dry, json!({"matched": 131, "redriven": 0, "skipped": 0, "remaining": 131, "cursor": null, "dryRun": true}));
        let first = server.post("/api/v1/dlq/redrive", body(100, &Value::Null)).await.expect(200);
        assert_eq!((&first["matched"], &first["redriven"], &first["remaining"]), (&json!(130), &json!(100), &json!(30)));
        let rest = server.post("/api/v1/dlq/redrive", body(1000, &first["cursor"])).await.expect(200);
        assert_eq!(rest, json!({"matched": 30, "redriven": 30, "skipped": 0, "remaining": 0, "cursor": null, "dryRun": false}));
        let popped = server.pop_some("/queue/q?batch=1000").await;
        let seen: Vec<&str> = popped["messages"].as_array().unwrap().iter().map(|m| m["data"]["n"].as_str().unwrap()).collect();
        assert_eq!(seen, many);
        assert_eq!(list(&server, "").await.0, ["keep"]);
    }

    async fn a_redrive_may_go_elsewhere_with_one_payload_for_all(on: On) {
        let server = on.start().await;
        bury(&server, "q", "a", &["1"], "e").await;
        bury(&server, "q", "b", &["2"], "e").await;
        let body = json!({"filter": {"queue": "q"}, "destination": {"queue": "elsewhere"}, "payload": [1, 2.0]});
        assert_eq!(server.post("/api/v1/dlq/redrive", body).await.expect(200)["redriven"], 2);
        for partition in ["a", "b"] {
            let popped = server.pop_some(&format!("/queue/elsewhere/partition/{partition}")).await;
            assert_eq!(popped["messages"][0]["data"], json!([1, 2.0]));
        }
        assert_eq!(server.post("/api/v1/dlq/redrive", json!({"filter": {"queue": "none"}})).await.status, 404);
    }

    async fn a_waiting_pop_is_woken_by_what_goes_back(on: On) {
        let server = on.start().await;
        bury(&server, "q", "p", &["t1"], "e").await;
        let client = server.client();
        let waiting = tokio::spawn(async move { client.pop("/queue/q?wait=true&timeout=25000").await });
        server.until_waiting(1).await;
        server.post("/api/v1/dlq/redrive", json!({"filter": {"queue": "q"}})).await.expect(200);
        assert_eq!(waiting.await.unwrap().unwrap()["messages"][0]["data"], json!({"n": "t1"}));
    }

    async fn letters_outlive_the_server_and_are_encrypted_for_where_they_go(on: On) {
        let key = [format!("--encryption-key=k:{KEY}")];
        let server = on.start_with(&key).await;
        for queue in ["q", "safe"] {
            server.configure(json!({"queue": queue, "options": {"encryptionEnabled": true}})).await;
        }
        bury(&server, "q", "p", &["t1", "t2"], "e").await;
        assert!(server.terminate().await.success());
        let server = on.start_with(&key).await;
        let answer = server.get("/api/v1/dlq").await.expect(200);
        assert_eq!((&answer["total"], &answer["messages"][0]["data"]), (&json!(2), &json!({"n": "t2"})));
        let body = json!({"filter": {"queue": "q"}, "destination": {"queue": "safe", "partition": "x"}});
        assert_eq!(server.post("/api/v1/dlq/redrive", body).await.expect(200)["redriven"], 2);
        let popped = server.pop_some("/queue/safe?batch=10").await;
        let first = &popped["messages"][0];
        assert_eq!((&first["data"], &popped["messages"][1]["data"]), (&json!({"n": "t1"}), &json!({"n": "t2"})));
        let path = format!("/api/v1/messages/{}/{}", first["partitionId"].as_str().unwrap(), first["transactionId"].as_str().unwrap());
        let message = server.get(&path).await.expect(200);
        assert_eq!((&message["isEncrypted"], &message["payload"]), (&json!(true), &json!({"n": "t1"})));
    }

    async fn only_dead_letters_can_be_deleted(on: On) {
        let server = on.start().await;
        let partition = bury(&server, "q", "p", &["t1"], "e").await;
        server.push_ids("q", "p", &["alive"]).await;
        let path = |id: &str| format!("/api/v1/messages/{partition}/{id}");
        let missing = json!({"success": false, "partitionId": partition, "transactionId": "alive", "message": "Message not found", "error": "Message not found"});
        assert_eq!(server.send("DELETE", &path("alive"), "").await.expect(404), missing);
        assert_eq!(server.send("DELETE", &path("t1?consumerGroup=g"), "").await.status, 404);
        let done = json!({"success": true, "partitionId": partition, "transactionId": "t1", "message": "Message deleted successfully"});
        assert_eq!(server.send("DELETE", &path("t1"), "").await.expect(200), done);
        assert_eq!(server.send("DELETE", &path("t1"), "").await.status, 404);
        assert_eq!(server.send("DELETE", "/api/v1/messages/nonsense/t1", "").await.status, 404);
        assert_eq!(count(&server, "").await, 0);
        assert_eq!(ids(&server.pop_some("/queue/q").await), ["alive"]);
    }

    async fn bad_requests_are_refused_by_the_name_of_the_field(on: On) {
        let server = on.start().await;
        let partition = bury(&server, "q", "p", &["t1"], "e").await;
        let id = server.get("/api/v1/dlq").await.json()["messages"][0]["id"].as_str().unwrap().to_owned();
        for path in ["/api/v1/dlq", "/api/v1/dlq/count"] {
            for (query, complaint) in [
                ("from=soon", "from must be an ISO 8601 timestamp"), ("to=1700000000", "to must be an ISO 8601 timestamp"),
                ("partition=p", "partition needs a queue"), ("queue=%00", "queue must not contain NUL"),
                ("queue=%ff", "query string is not UTF-8"),
            ] {
                let answer = server.get(&format!("{path}?{query}")).await;
                assert_eq!((answer.status, answer.error()), (400, complaint.into()), "{path}?{query}");
            }
        }
        for (query, complaint) in [("limit=x", "limit must be a whole number"), ("offset=1.5", "offset must be a whole number")] {
            let answer = server.get(&format!("/api/v1/dlq?{query}")).await;
            assert_eq!((answer.status, answer.error()), (400, complaint.into()), "{query}");
        }
        for path in [format!("/api/v1/dlq/{id}/replay"), format!("/api/v1/messages/{partition}/t1/retry")] {
            for (body, complaint) in [
                ("[]", "request body must be a JSON object"), (r#"{"queue":7}"#, "queue must be a string"),
                (r#"{"partition":"a\u0000"}"#, "partition must not contain NUL"),
            ] {
                let answer = server.send("POST", &path, body).await;
                assert_eq!((answer.status, answer.error()), (400, complaint.into()), "{path} {body}");
            }
            assert_eq!(server.send("POST", &path, "{").await.status, 400);
        }
        for (path, status) in [("/api/v1/dlq/nonsense/replay", 404), ("/api/v1/messages/nonsense/t1/retry", 404), ("/api/v1/dlq/redrive", 400)] {
            assert_eq!(server.send("POST", path, "").await.status, status, "{path}");
        }
        for (body, complaint) in [
            (json!({}), "filter is required"), (json!({"filter": {}}), "filter.queue is required"),
            (json!({"filter": {"queue": "q", "to": 5}}), "filter.to must be a string"),
            (json!({"filter": {"queue": "q"}, "limit": []}), "limit must be a whole number"),
            (json!({"filter": {"queue": "q"}, "cursor": "1.2.3"}), "cursor must be one that an earlier redrive answered"),
        ] {
            let answer = server.post("/api/v1/dlq/redrive", body.clone()).await;
            assert_eq!((answer.status, answer.error()), (400, complaint.into()), "{body}");
        }
        assert_eq!(count(&server, "").await, 1, "nothing was changed");
    }
}

on_every_database! {
    async fn two_servers_that_redrive_at_once_store_each_letter_once(on: On) {
        let (a, b) = (on.start().await, on.start().await);
        let many: Vec<String> = (0..300).map(|i| format!("t{i:03}")).collect();
        for partition in ["x", "y"] {
            bury(&a, "q", partition, &many.iter().map(String::as_str).collect::<Vec<_>>(), "e").await;
        }
        let redrive = async |client: Client| {
            let answer = client.post("/api/v1/dlq/redrive", json!({"filter": {"queue": "q"}})).await.expect(200);
            answer["redriven"].as_u64().unwrap()
        };
        let (first, second) = tokio::join!(redrive(a.client()), redrive(b.client()));
        assert_eq!(first + second, 600, "{first} and {second}");
        assert_eq!(count(&a, "").await, 0);
        for partition in ["x", "y"] {
            let popped = b.pop_some(&format!("/queue/q/partition/{partition}?batch=1000")).await;
            let mut seen: Vec<&str> = popped["messages"].as_array().unwrap().iter().map(|m| m["data"]["n"].as_str().unwrap()).collect();
            assert_eq!(seen.len(), 300, "each once");
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen.len(), 300, "all of them");
        }
    }

    async fn a_letter_of_one_server_is_replayed_by_the_other(on: On) {
        let (a, b) = (on.start().await, on.start().await);
        bury(&a, "q", "p", &["t1"], "e").await;
        let id = b.get("/api/v1/dlq?queue=q").await.expect(200)["messages"][0]["id"].as_str().unwrap().to_owned();
        assert_eq!(b.send("POST", &format!("/api/v1/dlq/{id}/replay"), "").await.status, 200);
        assert_eq!(a.send("POST", &format!("/api/v1/dlq/{id}/replay"), "").await.status, 404);
        assert_eq!(a.pop_some("/queue/q").await["messages"][0]["data"], json!({"n": "t1"}));
    }
}
