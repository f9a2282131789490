//! Looking at messages over HTTP, and giving up on one by hand.

use serde_json::{Value, json};

use crate::common::Client;

/// What `field` says for each message of a list.
async fn listed(client: &Client, query: &str, field: &str) -> (Vec<Value>, u64) {
    let answer = client.get(&format!("/api/v1/messages{query}")).await.expect(200);
    assert_eq!(answer["truncated"], false);
    let values = answer["messages"].as_array().unwrap().iter().map(|m| m[field].clone()).collect();
    (values, answer["total"].as_u64().unwrap())
}

on_every_engine! {
    async fn a_message_is_told_with_all_its_fields(on: On) {
        let server = on.start().await;
        server.configure(json!({"queue": "orders.mail", "namespace": "shop", "task": "mail", "options": {"leaseTime": 30, "retryLimit": 2, "priority": 5}})).await;
        let trace = "0190163d-8694-739b-aea5-966c26f8ad90";
        let item = json!({"queue": "orders.mail", "partition": "p/1", "transactionId": "t 1/ä", "traceId": trace, "payload": {"a": 1}});
        let done = server.post("/api/v1/transaction", json!({"operations": [{"type": "push", "items": [item]}]})).await.expect(200);
        let pushed = &done["results"][0];
        let partition = pushed["partitionId"].as_str().unwrap();
        let path = format!("/api/v1/messages/{partition}/t%201%2F%C3%A4");
        let message = server.get(&path).await.expect(200);
        for (field, value) in [
            ("id", pushed["messageId"].clone()), ("transactionId", json!("t 1/ä")), ("partitionId", json!(partition)),
            ("queuePath", json!("orders.mail/p/1")), ("queue", json!("orders.mail")), ("partition", json!("p/1")),
            ("namespace", json!("shop")), ("task", json!("mail")), ("status", json!("pending")), ("payload", json!({"a": 1})), ("data", json!({"a": 1})),
            ("isEncrypted", json!(false)), ("traceId", json!(trace)), ("producerSub", Value::Null), ("errorMessage", Value::Null),
            ("retryCount", Value::Null), ("leaseExpiresAt", Value::Null), ("consumerGroups", json!([])),
            ("queueConfig", json!({"leaseTime": 30, "retryLimit": 2, "retryDelay": 1000, "ttl": 3600, "priority": 5})),
            ("mode", json!({"hasQueueMode": false, "busGroupsCount": 0, "consumedByGroups": 0, "type": "none"})),
        ] {
            assert_eq!(message[field], value, "{field}");
        }
        assert_eq!(message["createdAt"].as_str().unwrap().len(), 24);
    }

    async fn status_follows_the_groups(on: On) {
        let server = on.start().await;
        let pushed = server.push_ids("q", "p", &["t1", "t2"]).await;
        let path = format!("/api/v1/messages/{}/t1", pushed[0]["partition_id"].as_str().unwrap());
        let popped = server.pop_some("/queue/q?consumerGroup=a").await;
        server.pop_some("/queue/q?consumerGroup=b&batch=2").await;
        let message = server.get(&path).await.expect(200);
        assert_eq!(message["status"], "processing");
        assert_eq!(message["leaseExpiresAt"], message["consumerGroups"][1]["leaseExpiresAt"]);
        server.ack_all(&popped, "completed").await;
        let message = server.get(&path).await.expect(200);
        assert_eq!((&message["status"], &message["mode"]["type"], &message["mode"]["consumedByGroups"]), (&json!("processing"), &json!("bus"), &json!(1)));
        assert_eq!(message["consumerGroups"][0], json!({"name": "a", "consumed": true, "leaseExpiresAt": null}));
        let popped = server.pop_some("/queue/q").await;
        server.ack_all(&popped, "completed").await;
        let message = server.get(&path).await.expect(200);
        assert_eq!((&message["status"], &message["mode"]["type"]), (&json!("completed"), &json!("hybrid")), "anonymous consumers decide");
        let list = server.get("/api/v1/messages?queue=q").await.expect(200);
        assert_eq!(list["mode"], json!({"hasQueueMode": true, "busGroupsCount": 2, "type": "hybrid"}));
        let first = &list["messages"][1];
        assert_eq!((&first["status"], &first["queueStatus"]), (&json!("completed"), &json!("completed")));
        assert_eq!(first["busStatus"], json!({"consumedBy": 1, "totalGroups": 2}));
    }

    async fn the_newest_come_first_and_filters_narrow(on: On) {
        let server = on.start().await;
        for (queue, partition, id) in [("x.t", "a", "1"), ("x.u", "b", "2"), ("x.t", "b", "3"), ("y.t", "a", "4"), ("x.t", "a", "5")] {
            server.push_ids(queue, partition, &[id]).await;
        }
        for (query, ids, total) in [
            ("", json!(["5", "4", "3", "2", "1"]), 5), ("?limit=2&offset=1", json!(["4", "3"]), 5), ("?offset=5", json!([]), 5),
            ("?queue=x.t", json!(["5", "3", "1"]), 3), ("?queue=x.t&partition=a", json!(["5", "1"]), 2), ("?partition=b", json!(["3", "2"]), 2),
            ("?ns=x", json!(["5", "3", "2", "1"]), 4), ("?namespace=y&ns=x", json!(["4"]), 1), ("?task=u", json!(["2"]), 1),
            ("?status=pending&limit=1", json!(["5"]), 5), ("?status=completed", json!([]), 0), ("?queue=none", json!([]), 0),
            ("?to=2000-01-01", json!([]), 0), ("?from=2000-01-01&to=2999-01-01", json!(["5", "4", "3", "2", "1"]), 5), ("?from=2999-01-01", json!([]), 0),
        ] {
            let (seen, all) = listed(&server, query, "transactionId").await;
            assert_eq!((Value::from(seen), all), (ids, total), "{query}");
        }
        assert_eq!(listed(&server, "?limit=1", "data").await.0, [json!({"n": "5"})]);
        let created = listed(&server, "?queue=y.t", "createdAt").await.0.remove(0);
        let (since, _) = listed(&server, &format!("?from={}&queue=y.t", created.as_str().unwrap()), "transactionId").await;
        assert_eq!(since, ["4"], "from is inclusive");
    }

    async fn a_listed_message_says_where_it_is_stored(on: On) {
        let server = on.start().await;
        for ids in [&["a"][..], &["b", "c"]] {
            server.push_ids("q", "p", ids).await;
        }
        server.push_ids("q", "other", &["a"]).await;
        let (alone, together) = (json!({"baseOffset": 0, "messages": 1}), json!({"baseOffset": 1, "messages": 2}));
        assert_eq!(listed(&server, "?partition=p", "segment").await.0, [together.clone(), together, alone]);
        let (hashes, _) = listed(&server, "", "txnHash").await;
        let [a, c, b, again] = &hashes[..] else { panic!("{hashes:?}") };
        assert!(a == again && a != b && b != c, "{hashes:?}");
        assert!(a.as_str().unwrap().len() == 16 && u64::from_str_radix(a.as_str().unwrap(), 16).is_ok(), "{a}");
    }

    async fn a_message_that_was_given_up_says_why_also_when_it_is_trimmed(on: On) {
        let server = on.start_with(&["--retention-interval=200ms"]).await;
        server.configure(json!({"queue": "q", "options": {"retryLimit": 0, "retentionEnabled": true, "completedRetentionSeconds": 1}})).await;
        let pushed = server.push_ids("q", "p", &["t1"]).await;
        let path = format!("/api/v1/messages/{}/t1", pushed[0]["partition_id"].as_str().unwrap());
        let popped = server.pop_some("/queue/q").await;
        let m = &popped["messages"][0];
        let ack = json!({"transactionId": "t1", "partitionId": m["partitionId"], "leaseId": m["leaseId"], "status": "failed", "error": "no luck"});
        server.post("/api/v1/ack", ack).await.expect(200);
        let dead = server.get(&path).await.expect(200);
        assert_eq!((&dead["status"], &dead["errorMessage"], &dead["retryCount"]), (&json!("dead_letter"), &json!("no luck"), &json!(0)));
        assert_eq!(listed(&server, "?status=dead_letter", "transactionId").await, (vec![json!("t1")], 1));
        crate::common::until_true("trimmed", async || listed(&server, "", "id").await.1 == 0).await;
        let kept = server.get(&path).await.expect(200);
        assert_eq!((&kept["status"], &kept["payload"], &kept["errorMessage"]), (&json!("dead_letter"), &json!({"n": "t1"}), &json!("no luck")));
    }

    async fn a_message_is_given_up_by_hand_only_if_none_comes_before_it(on: On) {
        let server = on.start().await;
        let pushed = server.push_ids("q", "p", &["t1", "t2"]).await;
        let partition = pushed[0]["partition_id"].as_str().unwrap();
        let path = |id: &str| format!("/api/v1/messages/{partition}/{id}/dlq");
        let refused = server.send("POST", &path("t1"), "").await;
        assert_eq!((refused.status, refused.error()), (409, "consumer not found".into()), "nobody reads it yet");
        server.pop_some("/queue/q").await;
        let refused = server.post(&path("t2"), json!({"error": "x"})).await;
        assert_eq!((refused.status, refused.error()), (409, "not the group's next message: 1 come before it".into()));
        assert_eq!(server.send("POST", &path("none"), "").await.expect(404)["success"], false);
        assert_eq!(server.send("POST", "/api/v1/messages/nonsense/t1/dlq", "").await.status, 404);
        assert_eq!(server.post(&path("t1"), json!({"consumerGroup": "g"})).await.status, 409);
        let done = server.post(&path("t1"), json!({"error": "by hand"})).await.expect(200);
        assert_eq!((&done["success"], &done["partitionId"], &done["transactionId"]), (&json!(true), &json!(partition), &json!("t1")));
        let letter = &server.get("/api/v1/dlq").await.expect(200)["messages"][0];
        assert_eq!((&letter["transactionId"], &letter["errorMessage"]), (&json!("t1"), &json!("by hand")));
        assert_eq!(server.send("POST", &path("t1"), "").await.status, 409, "already committed");
        assert_eq!(server.pop_some("/queue/q").await["messages"][0]["transactionId"], "t2");
    }

    async fn what_is_not_there_is_a_404_and_nonsense_a_400(on: On) {
        let server = on.start().await;
        let pushed = server.push_ids("q", "p", &["t1"]).await;
        let partition = pushed[0]["partition_id"].as_str().unwrap();
        for path in [format!("{partition}/none"), "nonsense/t1".into(), "0190163d-8694-739b-aea5-966c26f8ad90/t1".into()] {
            let answer = server.get(&format!("/api/v1/messages/{path}")).await;
            assert_eq!((answer.status, answer.error()), (404, "Message not found".into()), "{path}");
        }
        for (query, complaint) in [
            ("limit=x", "limit must be a whole number"), ("offset=x", "offset must be a whole number"),
            ("status=lost", "status must be pending, processing, completed or dead_letter"), ("from=x", "from must be an ISO 8601 timestamp"),
            ("to=x", "to must be an ISO 8601 timestamp"), ("queue=%00", "queue must not contain NUL"),
        ] {
            let answer = server.get(&format!("/api/v1/messages?{query}")).await;
            assert_eq!((answer.status, answer.error()), (400, complaint.into()), "{query}");
        }
        let bad = server.send("POST", &format!("/api/v1/messages/{partition}/t1/dlq"), r#"{"error":5}"#).await;
        assert_eq!((bad.status, bad.error()), (400, "error must be a string".into()));
    }
}
