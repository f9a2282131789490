//! What happened, told afterwards: numbers exactly as it was done, after a restart too, and over several servers.

use serde_json::{Value, json};

use crate::common::{Server, until_true};

const OFTEN: &str = "--metrics-interval=50ms";

/// A field summed over a list.
fn sum(list: &Value, field: &str) -> u64 {
    list.as_array().expect(field).iter().map(|row| row[field].as_u64().expect(field)).sum()
}

/// A field summed over the points of one queue.
fn of_queue(series: &Value, queue: &str, field: &str) -> u64 {
    let rows: Vec<Value> =
        series.as_array().unwrap().iter().filter(|row| row["queueName"] == queue).cloned().collect();
    sum(&Value::Array(rows), field)
}

async fn get(server: &Server, path: &str) -> Value {
    server.get(&format!("/api/v1/{path}")).await.expect(200)
}

/// Every kind of traffic: 7 messages stored in three queues, 6 delivered, 3 acknowledged, 1 given up, 2 taken.
async fn traffic(server: &Server, tag: &str) {
    let id = |n: u32| format!("{tag}{n}");
    server.configure(json!({"queue": "orders", "namespace": "shop", "task": "sell"})).await;
    server.push_ids("orders", "a", &[&id(1), &id(2), &id(3)]).await;
    server.push_ids("orders", "a", &[&id(1)]).await;
    server.push_ids("mail", "b", &[&id(4), &id(5)]).await;
    let popped = server.pop_some("/queue/orders/partition/a?batch=2&consumerGroup=g").await;
    server.ack_all(&popped, "completed").await;
    let stale = server.ack_all(&popped, "failed").await;
    assert_eq!(stale[0]["success"], false, "{stale}");
    let popped = server.pop_some("/queue/orders/partition/a?batch=1&consumerGroup=g").await;
    assert_eq!(server.ack_all(&popped, "dlq").await[0]["dlq"], true);
    server.pop_some("/queue/mail?batch=10&autoAck=true").await;
    assert_eq!(server.pop("/queue/mail").await, None);
    let popped_again = json!({"operations": [{"type": "push", "items": [
        {"queue": "orders", "partition": "t", "payload": 1}, {"queue": "audit", "payload": 1}]}]});
    assert_eq!(server.post("/api/v1/transaction", popped_again).await.expect(200)["success"], true);
    let popped = server.pop_some("/queue/audit?batch=1").await;
    let message = &popped["messages"][0];
    let ack = json!({"operations": [{"type": "ack", "transactionId": message["transactionId"],
        "partitionId": message["partitionId"], "leaseId": message["leaseId"]}]});
    assert_eq!(server.post("/api/v1/transaction", ack).await.expect(200)["success"], true);
}

/// That, `times` times, whoever did it.
async fn assert_told(server: &Server, times: u64) {
    let status = get(server, "status").await;
    let all = &status["throughput"];
    for (field, count) in [
        ("ingested", 7),
        ("popMessages", 6),
        ("processed", 6),
        ("ackFailed", 2),
        ("dlqCount", 1),
        ("dbErrors", 0),
    ] {
        assert_eq!(sum(all, field), count * times, "{field} in {all}");
    }
    assert_eq!(
        status["messages"]["requests"],
        json!({"push": 3 * times, "pop": 5 * times, "ack": 3 * times})
    );
    assert_eq!(status["errors"], json!({"dbErrors": 0, "ackFailed": 2 * times, "dlqMessages": times}));
    assert_eq!(status["messages"]["deadLetter"], times);
    assert_eq!(status["deadLetterQueue"]["totalMessages"], times);
    assert_eq!(status["deadLetterQueue"]["affectedPartitions"], 1);
    assert_eq!((&status["bucketMinutes"], &status["statsAge"]), (&json!(1), &json!(0)));
    assert_eq!(status["pointCount"], all.as_array().unwrap().len());

    let ops = get(server, "analytics/queue-ops").await;
    assert_eq!(ops["queues"], json!(["audit", "mail", "orders"]));
    for (queue, field, count) in [
        ("orders", "pushRequests", 2),
        ("orders", "pushMessages", 4),
        ("orders", "popMessages", 3),
        ("orders", "popEmpty", 0),
        ("orders", "ackRequests", 3),
        ("orders", "ackSuccess", 3),
        ("orders", "ackFailed", 2),
        ("orders", "transactions", 1),
        ("mail", "pushMessages", 2),
        ("mail", "popMessages", 2),
        ("mail", "popEmpty", 1),
        ("mail", "ackSuccess", 0),
        ("audit", "pushRequests", 0),
        ("audit", "pushMessages", 1),
        ("audit", "ackSuccess", 1),
        ("audit", "transactions", 2),
    ] {
        assert_eq!(of_queue(&ops["series"], queue, field), count * times, "{field} of {queue} in {ops}");
    }
    assert_eq!(of_queue(&ops["series"], "orders", "partitionsCreated"), 2, "{ops}");
    let last = ops["series"].as_array().unwrap().iter().rfind(|row| row["queueName"] == "orders").unwrap();
    assert_eq!(last["partitionCount"], 2);

    let lag = get(server, "analytics/queue-lag?queue=orders").await;
    assert_eq!(sum(&lag, "popCount"), 3 * times);
    for row in lag.as_array().unwrap() {
        assert_eq!(row["queueName"], "orders");
        let (mean, most) = (row["avgLagMs"].as_f64().unwrap(), row["maxLagMs"].as_f64().unwrap());
        assert!(0.0 < mean && mean <= most, "{row}");
    }
    let workers = get(server, "analytics/worker-metrics").await;
    let summary = &workers["summary"];
    for (field, count) in [
        ("totalPushMessages", 7),
        ("totalPopMessages", 6),
        ("totalAckMessages", 4),
        ("totalPushRequests", 3),
        ("totalPopRequests", 5),
        ("totalAckRequests", 3),
        ("totalTransactions", 2),
        ("totalAckFailed", 2),
        ("totalDlq", 1),
        ("totalDbErrors", 0),
    ] {
        assert_eq!(summary[field], count * times, "{field} in {summary}");
    }
    assert_eq!(summary["pendingMessages"], times, "the transaction's message in orders");
    assert_eq!(sum(&workers["queues"], "popCount"), 6 * times);
    assert_eq!(sum(&workers["timeSeries"], "pushMessages"), 7 * times);
    let analytics = get(server, "status/analytics?interval=minute").await;
    assert_eq!(sum(&analytics["dataPoints"], "messages"), 7 * times);
    assert_eq!(analytics["interval"], "minute");
}

on_every_engine! {
    async fn numbers_are_told_as_it_was_done_at_once_and_after_a_restart(on: On) {
        let server = on.start_with(&["--server-name=one"]).await;
        traffic(&server, "x").await;
        assert_told(&server, 1).await;
        assert!(server.terminate().await.success());
        let server = on.start_with(&["--server-name=one"]).await;
        assert_told(&server, 1).await;
        traffic(&server, "y").await;
        assert_told(&server, 2).await;
        assert!(server.terminate().await.success());
        // Under another name it is another server, which knows of the first.
        let server = on.start_with(&["--server-name=two"]).await;
        assert_told(&server, 2).await;
        let status = get(&server, "status").await;
        assert_eq!(status["workers"][0]["workerId"], "one");
    }

    async fn records_are_written_now_and_then_and_nothing_is_told_twice(on: On) {
        let server = on.start_with(&[OFTEN]).await;
        traffic(&server, "x").await;
        // Until it was written at least once, which nothing tells but the numbers of records.
        until_true("a record is written", async || {
            let metrics = get(&server, "analytics/system-metrics").await;
            let points = &metrics["replicas"][0]["timeSeries"];
            points.is_array() && sum(points, "sampleCount") >= 2
        }).await;
        assert_told(&server, 1).await;
        // A crash loses what was not written yet, and no more.
        server.kill();
        let server = on.start().await;
        let ingested = sum(&get(&server, "status").await["throughput"], "ingested");
        assert!((3..=7).contains(&ingested), "{ingested}");
    }

    async fn status_tells_how_things_stand(on: On) {
        let server = on.start().await;
        server.push_ids("q", "p", &["1", "2", "3", "4"]).await;
        let popped = server.pop_some("/queue/q?batch=2").await;
        let status = get(&server, "status").await;
        let messages = &status["messages"];
        assert_eq!((&messages["total"], &messages["pending"], &messages["processing"]), (&json!(4), &json!(2), &json!(2)));
        assert_eq!((&status["leases"]["active"], &status["leases"]["totalBatchSize"]), (&json!(1), &json!(2)));
        assert_eq!((&status["queues"][0]["name"], &status["queues"][0]["partitions"]), (&json!("q"), &json!(1)));
        server.ack_all(&popped, "completed").await;
        let status = get(&server, "status").await;
        assert_eq!((&status["messages"]["completed"], &status["leases"]["active"]), (&json!(2), &json!(0)));
        assert_eq!(status["queues"][0]["totalConsumed"], 2);
        assert_eq!(status["messages"]["batchEfficiency"], json!({"push": 4.0, "pop": 2.0, "ack": 2.0}));
    }

    async fn filters_filter(on: On) {
        let server = on.start().await;
        traffic(&server, "x").await;
        for (filter, ingested, failed, queues) in [
            ("queue=orders", 4, 2, json!(["orders"])),
            ("namespace=shop", 4, 2, json!(["orders"])),
            ("task=sell&namespace=shop", 4, 2, json!(["orders"])),
            ("namespace=mail", 2, 0, json!(["mail"])),
            ("queue=nobody", 0, 0, json!([])),
        ] {
            let status = get(&server, &format!("status?{filter}")).await;
            assert_eq!(sum(&status["throughput"], "ingested"), ingested, "{filter}");
            assert_eq!(status["errors"]["ackFailed"], failed, "{filter}");
            let names: Value = status["queues"].as_array().unwrap().iter().map(|queue| queue["name"].clone()).collect();
            assert_eq!(names, queues, "{filter}");
            assert_eq!(get(&server, &format!("analytics/queue-ops?{filter}")).await["queues"], queues, "{filter}");
            let analytics = get(&server, &format!("status/analytics?{filter}")).await;
            assert_eq!(sum(&analytics["dataPoints"], "messages"), ingested, "{filter}");
            assert_eq!(analytics["interval"], "hour");
        }
        let workers = get(&server, "analytics/worker-metrics?workerId=nobody").await;
        assert_eq!((&workers["summary"]["totalPushMessages"], &workers["workers"]), (&json!(0), &json!([])));
        for past in ["from=2020-01-01&to=2020-01-02", "to=2020-01-02T00:00:00Z"] {
            assert_eq!(get(&server, &format!("status?{past}")).await["throughput"], json!([]), "{past}");
        }
    }

    async fn bad_times_and_intervals_are_refused_by_name(on: On) {
        let server = on.start().await;
        let routes = ["status", "status/analytics", "analytics/system-metrics", "analytics/worker-metrics",
            "analytics/queue-lag", "analytics/queue-ops", "analytics/queue-parked-replicas", "analytics/retention"];
        for route in routes {
            for (query, complaint) in [
                ("from=yesterday", "from must be an ISO 8601 timestamp"),
                ("to=7", "to must be an ISO 8601 timestamp"),
                ("from=2024-01-02&to=2024-01-02", "from must be before to"),
                ("from=2024-01-03&to=2024-01-02T00:00:00Z", "from must be before to"),
            ] {
                let answer = server.get(&format!("/api/v1/{route}?{query}")).await;
                assert_eq!((answer.status, answer.error().as_str()), (400, complaint), "{route}?{query}");
            }
            let answer = server.get(&format!("/api/v1/{route}?from=1970-01-01")).await;
            assert_eq!(answer.status, 400, "{route}: more buckets than anybody can look at");
        }
        let answer = server.get("/api/v1/status/analytics?interval=week").await;
        assert_eq!((answer.status, answer.error().as_str()), (400, "interval must be minute, hour or day"));
        for (span, minutes) in [("T00:30:00Z", 1), ("T05:00:00Z", 5), ("T20:00:00Z", 15)] {
            let answer = get(&server, &format!("status?from=2024-01-01&to=2024-01-01{span}")).await;
            assert_eq!(answer["bucketMinutes"], minutes);
        }
    }

    async fn removed_messages_are_told_by_what_removed_them(on: On) {
        let server = on.start_with(&["--retention-interval=100ms", "--eviction-interval=100ms"]).await;
        let options = json!({"retentionEnabled": true, "retentionSeconds": 1});
        server.configure(json!({"queue": "old", "options": options})).await;
        server.configure(json!({"queue": "unread", "options": {"maxWaitTimeSeconds": 1}})).await;
        server.push_ids("old", "p", &["a", "b"]).await;
        server.push_ids("unread", "p", &["c", "d", "e"]).await;
        until_true("all removed", async || {
            get(&server, "analytics/retention").await["totals"]["totalMsgs"] == 5
        }).await;
        let told = get(&server, "analytics/retention").await;
        let totals = &told["totals"];
        assert_eq!((&totals["retentionMsgs"], &totals["evictionMsgs"]), (&json!(2), &json!(3)));
        assert_eq!(totals["completedRetentionMsgs"], 0);
        assert_eq!(sum(&told["series"], "totalMsgs"), 5);
        assert_eq!(get(&server, "analytics/retention?queue=old").await["totals"]["totalMsgs"], 2);
    }

    async fn parked_pops_are_told_by_server(on: On) {
        let server = on.start_with(&["--server-name=one"]).await;
        let waiter = server.park("/queue/q").await;
        let told = get(&server, "analytics/queue-parked-replicas").await;
        let (point, replica) = (&told["series"][0], &told["replicas"][0]);
        assert_eq!((&point["queueName"], &point["parkedCount"]), (&json!("q"), &json!(1)), "{told}");
        assert_eq!((&point["workerId"], &replica["workerId"]), (&json!("one"), &json!("one")));
        assert_eq!(point["hostname"], replica["hostname"]);
        waiter.leave();
    }

    async fn the_machine_is_told_of(on: On) {
        let server = on.start().await;
        server.push_ids("q", "p", &["a"]).await;
        let told = get(&server, "analytics/system-metrics").await;
        assert_eq!((&told["replicaCount"], &told["pointCount"]), (&json!(1), &json!(1)));
        let metrics = &told["replicas"][0]["timeSeries"][0]["metrics"];
        assert!(metrics["memory"]["rss_bytes"]["last"].as_u64().unwrap() > 1_000_000, "{metrics}");
        for (group, leaf) in [("cpu", "user_us"), ("cpu", "system_us"), ("database", "pool_size")] {
            for part in ["avg", "min", "max", "last"] {
                assert!(metrics[group][leaf][part].is_number(), "{group} {leaf} {part}");
            }
        }
        let engine = get(&server, "analytics/postgres-stats").await;
        let embedded = on.data_dir().is_some();
        for key in ["database", "databaseCache", "tableCache", "indexCache", "cacheSummary", "deadTuples",
            "hotUpdates", "activeQueries", "autovacuumStatus", "bufferConfig", "bufferUsage", "tableSizes"] {
            assert!(engine[key].is_object() || engine[key].is_array(), "{key}");
        }
        assert_eq!(engine["tableSizes"].as_array().unwrap().is_empty(), embedded);
        assert_eq!(engine["database"]["sizeBytes"].as_u64().unwrap_or(0) == 0, embedded);
        assert!(engine["timestamp"].is_string());
        assert_eq!(server.get("/api/v1/status/buffers").await.json()["code"], "no_such_route");
    }

    async fn the_systems_own_queue_is_nobodys_business(on: On) {
        let server = on.start_with(&[OFTEN]).await;
        server.push_ids("q", "p", &["a"]).await;
        until_true("a record is written", async || {
            let metrics = get(&server, "analytics/system-metrics").await;
            sum(&metrics["replicas"][0]["timeSeries"], "sampleCount") >= 2
        }).await;
        for path in ["resources/queues", "resources/overview", "resources/namespaces", "status", "status/queues",
            "messages", "consumer-groups", "analytics/queue-ops", "resources/partitions"] {
            let text = get(&server, path).await.to_string();
            assert!(!text.contains("__system"), "{path}: {text}");
        }
        assert_eq!(get(&server, "resources/overview").await["queues"], 1);
        let name = "__system_history";
        let push = json!({"items": [{"queue": name, "payload": 1}]});
        let transaction = json!({"operations": [{"type": "push", "items": [{"queue": name, "payload": 1}]}]});
        for (method, path, body) in [
            ("POST", "push".to_owned(), push),
            ("POST", "transaction".into(), transaction),
            ("POST", "configure".into(), json!({"queue": name, "options": {"retentionSeconds": 1}})),
            ("GET", format!("pop/queue/{name}"), json!({})),
            ("GET", format!("pop/queue/{name}/partition/p"), json!({})),
            ("DELETE", format!("resources/queues/{name}"), json!({})),
            ("POST", format!("consumer-groups/g/queues/{name}/seek"), json!({"toEnd": true})),
            ("DELETE", format!("consumer-groups/g/queues/{name}"), json!({})),
        ] {
            let answer = server.send(method, &format!("/api/v1/{path}"), body.to_string()).await;
            assert_eq!(answer.status, 400, "{method} {path}");
            assert!(answer.error().contains("__system_"), "{}", answer.error());
        }
        assert_eq!(server.get(&format!("/api/v1/resources/queues/{name}")).await.status, 404);
        assert_eq!(sum(&get(&server, "status").await["throughput"], "ingested"), 1);
    }
}

on_every_database! {
    async fn two_servers_are_told_of_together_and_one_by_one(on: On) {
        let a = on.start_with(&[OFTEN, "--server-name=a"]).await;
        let b = on.start_with(&[OFTEN, "--server-name=b"]).await;
        a.push_ids("q", "p", &["1", "2", "3"]).await;
        b.push_ids("q", "p", &["4", "5"]).await;
        for server in [&a, &b] {
            until_true("both are told of", async || {
                sum(&get(server, "status").await["throughput"], "ingested") == 5
            }).await;
            let ops = get(server, "analytics/queue-ops").await;
            assert_eq!(of_queue(&ops["series"], "q", "pushMessages"), 5);
            for (name, count) in [("a", 3), ("b", 2)] {
                let path = format!("analytics/worker-metrics?workerId={name}");
                let told = get(server, &path).await;
                assert_eq!(told["summary"]["totalPushMessages"], count, "{told}");
            }
            let replicas = get(server, "analytics/system-metrics").await;
            assert_eq!(replicas["replicaCount"], 2);
        }
    }
}
