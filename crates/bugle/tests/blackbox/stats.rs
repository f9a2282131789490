//! What queues hold, as the lists and details tell it: compared with exactly what was done.

use serde_json::{Value, json};

use crate::common::{Client, ids, until_true};

/// All numbers of messages of a queue or partition.
pub(crate) fn six(total: u64, pending: u64, processing: u64, completed: u64, dead: u64) -> Value {
    json!({"total": total, "pending": pending, "processing": processing, "completed": completed, "failed": 0, "deadLetter": dead})
}

async fn resource(client: &Client, path: &str) -> Value {
    client.get(&format!("/api/v1/resources/{path}")).await.expect(200)
}

/// Totals of a queue, checked to be the same on every route that tells them.
async fn totals(client: &Client, queue: &str) -> Value {
    let detail = resource(client, &format!("queues/{queue}")).await;
    let status = client.get(&format!("/api/v1/status/queues/{queue}")).await.expect(200);
    assert_eq!(detail["totals"], status["totals"]["messages"]);
    for (key, value) in detail["totals"].as_object().unwrap() {
        assert_eq!(status["totals"][key], *value, "{key}");
        let of = |entry: &Value, block: &str| entry[block][key].as_u64().unwrap();
        let partitions = |answer: &Value, block| -> u64 {
            answer["partitions"].as_array().unwrap().iter().map(|p| of(p, block)).sum()
        };
        assert_eq!(json!(partitions(&detail, "stats")), *value, "{key}: {detail}");
        assert_eq!(json!(partitions(&status, "stats")), *value, "{key}: {status}");
        assert_eq!(json!(partitions(&status, "messages")), *value, "{key}: {status}");
    }
    let row = row(client, queue).await;
    assert_eq!(row["partitions"], detail["partitions"].as_array().unwrap().len());
    for key in ["total", "pending", "processing"] {
        assert_eq!(row["messages"][key], detail["totals"][key], "{key}");
    }
    assert_eq!(detail["segments"]["messages"], detail["totals"]["total"]);
    detail["totals"].clone()
}

/// A queue's row in the list of all.
async fn row(client: &Client, queue: &str) -> Value {
    let list = resource(client, "queues").await;
    let status = client.get("/api/v1/status/queues?limit=1000").await.expect(200);
    assert_eq!(list["queues"], status["queues"]);
    let found = list["queues"].as_array().unwrap().iter().find(|row| row["name"] == *queue);
    found.unwrap_or_else(|| panic!("no {queue} in {list}")).clone()
}

fn names(list: &Value) -> Vec<&str> {
    list["queues"].as_array().unwrap().iter().map(|q| q["name"].as_str().unwrap()).collect()
}

on_every_engine! {
    async fn messages_are_counted_wherever_they_are(on: On) {
        let server = on.start().await;
        server.configure(json!({"queue": "q", "options": {"retryLimit": 0}})).await;
        assert_eq!(totals(&server, "q").await, six(0, 0, 0, 0, 0));
        server.push_ids("q", "a", &["1", "2", "3", "4", "5"]).await;
        server.push_ids("q", "b", &["6"]).await;
        assert_eq!(totals(&server, "q").await, six(6, 6, 0, 0, 0), "counted as soon as they are pushed");
        let held = server.pop_some("/queue/q/partition/a?batch=3").await;
        assert_eq!(totals(&server, "q").await, six(6, 3, 3, 0, 0));
        let first = json!({"transactionId": "1", "partitionId": held["partitionId"], "leaseId": held["leaseId"]});
        server.post("/api/v1/ack", first).await.expect(200);
        assert_eq!(totals(&server, "q").await, six(6, 3, 2, 1, 0));
        let second = json!({"transactionId": "2", "partitionId": held["partitionId"], "leaseId": held["leaseId"], "status": "dlq"});
        server.post("/api/v1/ack", second).await.expect(200);
        let third = json!({"transactionId": "3", "partitionId": held["partitionId"], "leaseId": held["leaseId"], "status": "retry"});
        server.post("/api/v1/ack", third).await.expect(200);
        assert_eq!(totals(&server, "q").await, six(6, 4, 0, 2, 1), "given up counts as done with; what comes again is pending");
        let mut rest = 0;
        while let Some(popped) = server.pop("/queue/q?batch=10&partitions=10&autoAck=true").await {
            rest += ids(&popped).len();
        }
        assert_eq!(rest, 4);
        assert_eq!(totals(&server, "q").await, six(6, 0, 0, 6, 1));
        let detail = resource(&server, "queues/q").await;
        let of = |i: usize| (detail["partitions"][i]["name"].clone(), detail["partitions"][i]["stats"].clone());
        assert_eq!([of(0), of(1)], [(json!("a"), six(5, 0, 0, 5, 1)), (json!("b"), six(1, 0, 0, 1, 0))]);
        server.send("DELETE", "/api/v1/resources/queues/q", "").await.expect(200);
        let gone = server.get("/api/v1/resources/queues/q").await;
        assert_eq!((gone.status, gone.error()), (404, "Queue not found".into()));
        server.push_ids("q", "a", &["1"]).await;
        assert_eq!(totals(&server, "q").await, six(1, 1, 0, 0, 0), "a new queue remembers nothing");
    }

    async fn an_ended_lease_is_not_processing(on: On) {
        let server = on.start().await;
        server.push_ids("q", "a", &["1", "2"]).await;
        server.pop_some("/queue/q?leaseSeconds=1").await;
        assert_eq!(totals(&server, "q").await, six(2, 1, 1, 0, 0));
        until_true("the lease has ended", async || resource(&server, "queues/q").await["totals"] == six(2, 2, 0, 0, 0)).await;
    }

    async fn a_queue_is_judged_by_anonymous_consumers_or_by_the_slowest_group(on: On) {
        let server = on.start().await;
        server.push_ids("q", "a", &["1", "2", "3"]).await;
        server.pop_some("/queue/q?consumerGroup=fast&batch=3&autoAck=true").await;
        assert_eq!(totals(&server, "q").await, six(3, 0, 0, 3, 0));
        server.pop_some("/queue/q?consumerGroup=slow&autoAck=true").await;
        assert_eq!(totals(&server, "q").await, six(3, 2, 0, 1, 0));
        server.pop_some("/queue/q?batch=2&autoAck=true").await;
        assert_eq!(totals(&server, "q").await, six(3, 1, 0, 2, 0), "anonymous consumers count more than any group");
    }

    async fn everything_about_a_partition_is_told(on: On) {
        let server = on.start().await;
        let configured = server.configure(json!({"queue": "q", "namespace": "n", "task": "t",
            "options": {"leaseTime": 30, "retryLimit": 2, "retryDelay": 7, "ttl": 9, "maxSize": 11, "priority": 5}})).await;
        let pushed = server.push_ids("q", "p", &["1", "2"]).await;
        let popped = server.pop_some("/queue/q?autoAck=true").await;
        let id = configured["queueId"].clone();
        let status = server.get("/api/v1/status/queues/q").await.expect(200);
        let created = status["queue"]["createdAt"].clone();
        assert_eq!(status["queue"], json!({"id": id, "name": "q", "namespace": "n", "task": "t", "priority": 5, "createdAt": created,
            "config": {"leaseTime": 30, "retryLimit": 2, "retryDelay": 7, "ttl": 9, "maxQueueSize": 11, "deadLetterQueue": true}}));
        let partition = &status["partitions"][0];
        assert_eq!((&partition["id"], &partition["name"]), (&pushed[0]["partition_id"], &json!("p")));
        assert_eq!(partition["cursor"], json!({"totalConsumed": 1, "batchesConsumed": null}));
        let message = popped["messages"][0]["createdAt"].as_str().unwrap();
        assert_eq!(partition["oldestMessage"].as_str().unwrap()[..23], message[..23]);
        assert!(partition["newestMessage"].as_str() >= partition["oldestMessage"].as_str());
        assert!(partition["lastActivity"].as_str() >= partition["newestMessage"].as_str());
        let detail = resource(&server, "queues/q").await;
        for (key, value) in [("id", &id), ("name", &json!("q")), ("namespace", &json!("n")), ("task", &json!("t")), ("createdAt", &created)] {
            assert_eq!(detail[key], *value, "{key}");
        }
        let row = row(&server, "q").await;
        assert_eq!(row, json!({"id": id, "name": "q", "namespace": "n", "task": "t", "createdAt": created, "partitions": 1,
            "messages": {"total": 2, "pending": 1, "processing": 0, "deadLetter": 0}, "paused": false, "segments": null, "retainedBytes": null}));
    }

    async fn lists_are_newest_first_and_filtered_and_paged(on: On) {
        let server = on.start().await;
        for queue in ["a.x.1", "b.x.2", "a.y.3"] {
            server.push_ids(queue, "p", &["1"]).await;
        }
        let all = ["a.y.3", "b.x.2", "a.x.1"];
        for (query, expected) in [
            ("", &all[..]), ("?namespace=a", &["a.y.3", "a.x.1"]), ("?task=x", &["b.x.2", "a.x.1"]), ("?search=X.", &["b.x.2", "a.x.1"]),
            ("?limit=1", &["a.y.3"]), ("?limit=1&offset=1", &["b.x.2"]), ("?offset=3", &[]), ("?namespace=a&task=x", &["a.x.1"]), ("?namespace=none", &[]),
        ] {
            for route in ["/api/v1/resources/queues", "/api/v1/status/queues"] {
                assert_eq!(names(&server.get(&format!("{route}{query}")).await.expect(200)), expected, "{route}{query}");
            }
        }
        let page = server.get("/api/v1/status/queues?limit=1&offset=1").await.expect(200);
        assert_eq!((&page["pagination"], &page["total"]), (&json!({"limit": 1, "offset": 1}), &json!(3)));
    }

    async fn namespaces_tasks_and_the_overview_add_up(on: On) {
        let server = on.start().await;
        let empty = resource(&server, "overview").await;
        assert_eq!((&empty["queues"], &empty["messages"]), (&json!(0), &six(0, 0, 0, 0, 0)));
        assert_eq!(empty["lag"]["offset"], json!({"avg": 0.0, "median": 0.0, "min": 0, "max": 0}));
        server.push_ids("a.x", "p", &["1", "2"]).await;
        server.push_ids("a.y", "p", &["3"]).await;
        server.push_ids("a.y", "q", &["4", "5", "6"]).await;
        server.push_ids("plain", "p", &["7"]).await;
        server.pop_some("/queue/a.x?autoAck=true").await;
        assert_eq!(resource(&server, "namespaces").await, json!({"namespaces": [
            {"namespace": "a", "queues": 2, "partitions": 3, "messages": {"total": 6, "pending": 5}},
            {"namespace": "plain", "queues": 1, "partitions": 1, "messages": {"total": 1, "pending": 1}},
        ]}));
        assert_eq!(resource(&server, "tasks").await, json!({"tasks": [
            {"task": "x", "queues": 1, "partitions": 1, "messages": {"total": 2, "pending": 1}},
            {"task": "y", "queues": 1, "partitions": 2, "messages": {"total": 4, "pending": 4}},
        ]}));
        let overview = resource(&server, "overview").await;
        for (key, value) in [("queues", 3), ("partitions", 4), ("namespaces", 2), ("tasks", 2), ("statsAge", 0)] {
            assert_eq!(overview[key], value, "{key}");
        }
        assert_eq!(overview["messages"], six(7, 6, 0, 1, 0));
        assert_eq!(overview["lag"]["offset"], json!({"avg": 2.0, "median": 1.0, "min": 1, "max": 4}));
        assert!(overview["lag"]["time"]["max"].is_u64() && overview["timestamp"].is_string());
        let refreshed = server.send("POST", "/api/v1/stats/refresh", "").await.expect(200);
        assert_eq!((&refreshed["partition"]["counted"], &refreshed["queue"]["counted"]), (&json!(4), &json!(3)));
    }

    async fn throughput_is_what_passed_through(on: On) {
        let server = on.start().await;
        server.push_ids("q", "p", &["1", "2", "3", "4"]).await;
        let popped = server.pop_some("/queue/q?batch=2").await;
        server.ack_all(&popped, "completed").await;
        let rates = resource(&server, "overview").await["throughput"].clone();
        let (ingested, processed) = (rates["ingestedPerSecond"].as_f64().unwrap(), rates["processedPerSecond"].as_f64().unwrap());
        assert!(ingested > 0.0 && processed > 0.0, "{rates}");
        // Both over the same time, and rounded.
        assert!((ingested - 2.0 * processed).abs() <= 0.02, "{rates}");
    }

    async fn depth_tells_what_a_group_has_before_it(on: On) {
        let server = on.start().await;
        server.push_ids("q", "a", &["1", "2", "3"]).await;
        server.push_ids("q", "b", &["4"]).await;
        server.push_ids("q", "c", &["5"]).await;
        server.pop_some("/queue/q/partition/b?consumerGroup=g&autoAck=true").await;
        server.pop_some("/queue/q/partition/a?consumerGroup=g&batch=2").await;
        let depth = async |query: &str| resource(&server, &format!("queues/q/depth{query}")).await;
        let of = |a: u64, b: u64, c: u64| json!([{"partition": "a", "pending": a}, {"partition": "b", "pending": b}, {"partition": "c", "pending": c}]);
        assert_eq!(depth("?group=g").await, json!({"queue": "q", "group": "g", "pending": 4, "partitionsPending": 2, "conflation": false,
            "effectivePending": 4, "partitions": of(3, 0, 1)}), "what is leased is not done with");
        assert_eq!(depth("").await, json!({"queue": "q", "group": null, "pending": 4, "partitionsPending": 2, "conflation": false,
            "effectivePending": 4, "partitions": of(3, 0, 1)}));
        let stranger = depth("?group=stranger").await;
        assert_eq!((&stranger["pending"], &stranger["partitions"]), (&json!(5), &of(3, 1, 1)));
        server.pop("/queue/q/partition/c?consumerGroup=last&conflation=true").await;
        let last = depth("?group=last").await;
        assert_eq!((&last["pending"], &last["partitionsPending"]), (&json!(5), &json!(3)));
        assert_eq!((&last["conflation"], &last["effectivePending"]), (&json!(true), &json!(3)));
        let first = depth("?group=g&limit=1").await;
        assert_eq!((&first["pending"], &first["truncated"]), (&json!(4), &json!(true)));
        assert_eq!(first["partitions"], json!([{"partition": "a", "pending": 3}]));
        assert_eq!(depth("?group=g&after=b").await["partitions"], json!([{"partition": "c", "pending": 1}]));
    }

    async fn partitions_are_ranked_by_what_is_pending(on: On) {
        let server = on.start().await;
        server.push_ids("q", "busy", &["1", "2", "3"]).await;
        server.push_ids("q", "quiet", &["4"]).await;
        server.push_ids("other", "busier", &["5", "6", "7", "8"]).await;
        server.push_ids("done", "p", &["9"]).await;
        server.pop_some("/queue/done?autoAck=true").await;
        server.pop_some("/queue/other").await;
        let ranked = async |query: &str| {
            let answer = resource(&server, &format!("partitions{query}")).await;
            let row = |r: &Value| (r["queue"].clone(), r["partition"].clone(), r["pending"].clone(), r["processing"].clone());
            assert!(answer["partitions"].as_array().unwrap().iter().all(|r| r["lagSeconds"].is_u64() && r["id"].is_string()));
            answer["partitions"].as_array().unwrap().iter().map(row).collect::<Vec<_>>()
        };
        let [busy, quiet, busier] = [("q", "busy", 3, 0), ("q", "quiet", 1, 0), ("other", "busier", 3, 1)]
            .map(|(queue, partition, pending, processing)| (json!(queue), json!(partition), json!(pending), json!(processing)));
        assert_eq!(ranked("").await, [busier.clone(), busy.clone(), quiet.clone()]);
        assert_eq!(ranked("?queue=q").await, [busy.clone(), quiet]);
        assert_eq!(ranked("?limit=2").await, [busier, busy]);
        assert!(ranked("?queue=done").await.is_empty());
    }

    async fn the_newest_messages_of_a_queue_are_listed_by_page(on: On) {
        let server = on.start().await;
        for id in ["1", "2", "3", "4"] {
            server.push_ids("q", "p", &[id]).await;
        }
        let pushed = server.push_ids("q", "p", &["5"]).await;
        let listed = async |query: &str| {
            let answer = server.get(&format!("/api/v1/status/queues/q/messages{query}")).await.expect(200);
            answer.as_array().unwrap().iter().map(|m| m["transactionId"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(listed("").await, ["5", "4", "3", "2", "1"]);
        assert_eq!(listed("?limit=2&offset=1").await, ["4", "3"]);
        assert!(listed("?offset=5").await.is_empty());
        let all = server.get("/api/v1/status/queues/q/messages?limit=1").await.expect(200);
        let created = all[0]["createdAt"].clone();
        assert_eq!(all[0], json!({"id": pushed[0]["message_id"], "transactionId": "5", "partitionId": pushed[0]["partition_id"], "queuePath": "q/p",
            "queue": "q", "partition": "p", "status": "pending", "createdAt": created}));
    }

    async fn what_retention_removes_is_not_counted(on: On) {
        let server = on.start_with(&["--retention-interval=200ms"]).await;
        server.push_ids("q", "p", &["1", "2", "3"]).await;
        server.pop_some("/queue/q?autoAck=true").await;
        assert_eq!(totals(&server, "q").await, six(3, 2, 0, 1, 0));
        server.configure(json!({"queue": "q", "options": {"retentionEnabled": true, "retentionSeconds": 1}})).await;
        until_true("all is removed", async || resource(&server, "queues/q").await["totals"] == six(0, 0, 0, 0, 0)).await;
        server.configure(json!({"queue": "q", "options": {"retentionEnabled": false}})).await;
        server.push_ids("q", "p", &["4"]).await;
        assert_eq!(totals(&server, "q").await, six(1, 1, 0, 0, 0));
    }

    async fn numbers_survive_a_restart(on: On) {
        let server = on.start().await;
        server.push_ids("q", "a", &["1", "2", "3"]).await;
        server.pop_some("/queue/q?autoAck=true").await;
        server.kill();
        let server = on.start().await;
        assert_eq!(totals(&server, "q").await, six(3, 2, 0, 1, 0));
    }

    async fn wrong_questions_are_refused_by_name(on: On) {
        let server = on.start().await;
        server.push_ids("q", "p", &["1"]).await;
        for (path, field) in [
            ("resources/queues?limit=x", "limit"), ("resources/queues?offset=1.5", "offset"), ("status/queues?limit=x", "limit"), ("status/queues?from=soon", "from"),
            ("status/queues?to=soon", "to"), ("status/queues/q/messages?limit=x", "limit"), ("status/queues/q?limit=x", "limit"), ("resources/partitions?limit=x", "limit"),
            ("resources/queues/q/depth?limit=x", "limit"), ("consumer-groups/lagging?minLagSeconds=x", "minLagSeconds"), ("resources/queues/q/depth?group=a%00", "group"),
        ] {
            let answer = server.get(&format!("/api/v1/{path}")).await;
            assert_eq!(answer.status, 400, "{path}");
            assert!(answer.error().starts_with(field), "{path}: {}", answer.error());
        }
        for path in ["resources/queues/no", "resources/queues/no/depth", "resources/partitions?queue=no", "status/queues/no", "status/queues/no/messages"] {
            let answer = server.get(&format!("/api/v1/{path}")).await;
            assert_eq!((answer.status, answer.error()), (404, "Queue not found".into()), "{path}");
        }
    }
}

mod between_servers {
    use super::*;

    on_every_database! {
        async fn what_is_done_on_one_server_is_counted_on_the_other_at_once(on: On) {
            let (a, b) = (on.start().await, on.start().await);
            for round in 1..=5 {
                let (near, far) = if round % 2 == 0 { (&a, &b) } else { (&b, &a) };
                near.push_ids("q", "p", &[&format!("{round}x"), &format!("{round}y")]).await;
                assert_eq!(totals(far, "q").await, six(2 * round, round + 1, 0, round - 1, 0));
                near.pop_some("/queue/q?autoAck=true").await;
                assert_eq!(totals(far, "q").await, six(2 * round, round, 0, round, 0));
            }
            a.send("DELETE", "/api/v1/resources/queues/q", "").await.expect(200);
            assert_eq!(names(&b.get("/api/v1/resources/queues").await.expect(200)), Vec::<&str>::new());
        }
    }
}
