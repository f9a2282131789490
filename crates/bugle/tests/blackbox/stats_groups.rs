//! How far groups have come, as the lists tell it: compared with exactly what was done.

use serde_json::{Value, json};

use crate::common::{Client, ids, until_true};

async fn groups(client: &Client) -> Value {
    client.get("/api/v1/consumer-groups").await.expect(200)
}

/// (group, queue, cursors, partitions with lag, lag) of every entry.
async fn short(client: &Client) -> Vec<(String, String, u64, u64, u64)> {
    let listed = groups(client).await;
    let text = |entry: &Value, key: &str| entry[key].as_str().unwrap().to_owned();
    let number = |entry: &Value, key: &str| entry[key].as_u64().unwrap();
    let entry = |e: &Value| {
        assert_eq!((&e["topics"], &e["partitionCursors"]), (&json!([e["queueName"]]), &e["members"]));
        (
            text(e, "name"),
            text(e, "queueName"),
            number(e, "members"),
            number(e, "partitionsWithLag"),
            number(e, "totalLag"),
        )
    };
    listed.as_array().unwrap().iter().map(entry).collect()
}

fn entry(group: &str, queue: &str, cursors: u64, late: u64, lag: u64) -> (String, String, u64, u64, u64) {
    (group.into(), queue.into(), cursors, late, lag)
}

async fn lagging(client: &Client, seconds: u64) -> Vec<Value> {
    let path = format!("/api/v1/consumer-groups/lagging?minLagSeconds={seconds}");
    client.get(&path).await.expect(200).as_array().unwrap().clone()
}

on_every_engine! {
    async fn every_group_of_every_queue_is_listed_with_its_lag(on: On) {
        let server = on.start().await;
        assert_eq!(groups(&server).await, json!([]));
        server.push_ids("q", "a", &["1", "2", "3"]).await;
        server.push_ids("q", "b", &["4"]).await;
        server.push_ids("r", "a", &["5"]).await;
        server.pop_some("/queue/q/partition/a?consumerGroup=g&batch=2&autoAck=true").await;
        server.pop_some("/queue/r?consumerGroup=g&autoAck=true").await;
        let held = server.pop_some("/queue/q/partition/b").await;
        let anonymous = "__QUEUE_MODE__";
        assert_eq!(short(&server).await, [entry(anonymous, "q", 1, 2, 4), entry("g", "q", 1, 2, 2), entry("g", "r", 1, 0, 0)]);
        server.ack_all(&held, "completed").await;
        assert_eq!(short(&server).await[0], entry(anonymous, "q", 1, 1, 3));
        server.send("DELETE", "/api/v1/consumer-groups/g/queues/r", "").await.expect(200);
        server.send("DELETE", "/api/v1/resources/queues/q", "").await.expect(200);
        assert_eq!(groups(&server).await, json!([]));
    }

    async fn a_group_shows_how_it_reads(on: On) {
        let server = on.start().await;
        server.push_ids("q", "a", &["1"]).await;
        server.pop_some("/queue/q?consumerGroup=all&autoAck=true").await;
        server.pop("/queue/q?consumerGroup=new&subscriptionMode=new").await;
        server.pop_some("/queue/q?consumerGroup=time&subscriptionFrom=2001-02-03T04:05:06Z").await;
        server.pop("/queue/empty?consumerGroup=last&conflation=true").await;
        let listed = groups(&server).await;
        let of = |name: &str| listed.as_array().unwrap().iter().find(|e| e["name"] == *name).unwrap().clone();
        let all = of("all");
        assert_eq!(all, json!({"name": "all", "topics": ["q"], "queueName": "q", "members": 1, "partitionCursors": 1, "partitionsWithLag": 0,
            "totalLag": 0, "maxTimeLag": 0, "state": "Stable", "totalConsumed": 1, "subscriptionMode": "all", "subscriptionTimestamp": null,
            "subscriptionCreatedAt": all["subscriptionCreatedAt"], "conflation": false}));
        assert!(all["subscriptionCreatedAt"].is_string());
        let new = of("new");
        assert_eq!((&new["subscriptionMode"], &new["state"], &new["totalLag"]), (&json!("new"), &json!("Dead"), &json!(0)));
        // It reads from when its first pop came, which is written down a little later.
        let (from, made) = (new["subscriptionTimestamp"].as_str().unwrap(), new["subscriptionCreatedAt"].as_str().unwrap());
        assert!(from <= made && from > "2020", "{from} {made}");
        let time = of("time");
        assert_eq!((&time["subscriptionMode"], &time["subscriptionTimestamp"]), (&json!("timestamp"), &json!("2001-02-03T04:05:06.000Z")));
        assert_eq!((&time["state"], &time["totalLag"], &time["totalConsumed"]), (&json!("Stable"), &json!(1), &json!(0)), "given, not acknowledged");
        assert_eq!((&of("last")["conflation"], &of("last")["queueName"]), (&json!(true), &json!("empty")));
    }

    async fn what_came_before_a_subscription_is_no_lag(on: On) {
        let server = on.start().await;
        server.push_ids("q", "old", &["1", "2"]).await;
        server.push_ids("q", "both", &["3", "4", "5"]).await;
        server.pop("/queue/q?consumerGroup=g&subscriptionMode=new").await;
        let lag = async || short(&server).await.pop().unwrap();
        assert_eq!((lag().await.3, lag().await.4), (0, 0));
        server.push_ids("q", "both", &["6", "7"]).await;
        server.push_ids("q", "fresh", &["8"]).await;
        assert_eq!((lag().await.3, lag().await.4), (2, 3));
        let depth = server.get("/api/v1/resources/queues/q/depth?group=g").await.expect(200);
        assert_eq!((&depth["pending"], &depth["partitionsPending"]), (&json!(3), &json!(2)));
        assert_eq!(depth["partitions"], json!([{"partition": "both", "pending": 2}, {"partition": "fresh", "pending": 1}, {"partition": "old", "pending": 0}]));
        let popped = server.pop_some("/queue/q/partition/both?consumerGroup=g&autoAck=true").await;
        assert_eq!(ids(&popped), ["6"]);
        assert_eq!((lag().await.3, lag().await.4), (2, 2));
        // Now a named group has read, so the queue is judged by it.
        let detail = server.get("/api/v1/resources/queues/q").await.expect(200);
        assert_eq!((&detail["totals"]["total"], &detail["totals"]["pending"], &detail["totals"]["completed"]), (&json!(8), &json!(2), &json!(6)));
        let pending: Vec<&Value> = detail["partitions"].as_array().unwrap().iter().map(|p| &p["stats"]["pending"]).collect();
        assert_eq!(pending, [&json!(1), &json!(1), &json!(0)]);
        server.post("/api/v1/consumer-groups/g/queues/q/seek", json!({"toBeginning": true})).await.expect(200);
        assert_eq!((lag().await.3, lag().await.4), (3, 8));
        server.post("/api/v1/consumer-groups/g/queues/q/seek", json!({"toEnd": true})).await.expect(200);
        assert_eq!((lag().await.3, lag().await.4), (0, 0));
    }

    async fn partitions_in_which_a_group_lags_are_listed(on: On) {
        let server = on.start().await;
        let pushed = server.push_ids("q", "p", &["1", "2", "3"]).await;
        server.push_ids("q", "done", &["4"]).await;
        server.pop_some("/queue/q/partition/done?consumerGroup=g&autoAck=true").await;
        let first = server.pop_some("/queue/q/partition/p?consumerGroup=g&autoAck=true").await;
        let held = server.pop_some("/queue/q/partition/p?consumerGroup=g").await;
        assert!(lagging(&server, 3600).await.is_empty() && server.get("/api/v1/consumer-groups/lagging").await.expect(200) == json!([]));
        let rows = lagging(&server, 0).await;
        assert_eq!(rows.len(), 1, "{rows:?}");
        let row = &rows[0];
        for (key, value) in [
            ("consumer_group", json!("g")), ("queue_name", json!("q")), ("partition_name", json!("p")), ("partition_id", pushed[0]["partition_id"].clone()),
            ("worker_id", held["leaseId"].clone()), ("offset_lag", json!(2)),
        ] {
            assert_eq!(row[key], value, "{key}");
        }
        assert!(row["time_lag_seconds"].is_u64() && row["lag_hours"].is_number() && row["last_consumed_at"].is_string());
        let at = |value: &Value| value.as_str().unwrap()[..23].to_owned();
        assert_eq!(at(&row["oldest_unconsumed_at"]), at(&held["messages"][0]["createdAt"]));
        assert!(at(&row["oldest_unconsumed_at"]) >= at(&first["messages"][0]["createdAt"]));
        until_true("a second has passed", async || lagging(&server, 1).await.len() == 1).await;
        assert!(groups(&server).await[0]["maxTimeLag"].as_u64() >= Some(1));
        assert!(server.get("/api/v1/resources/overview").await.expect(200)["lag"]["time"]["min"].as_u64() >= Some(1));
        server.ack_all(&held, "completed").await;
        server.pop_some("/queue/q/partition/p?consumerGroup=g&autoAck=true").await;
        assert!(lagging(&server, 0).await.is_empty());
    }

    async fn a_group_may_be_called_like_the_list(on: On) {
        let server = on.start().await;
        server.push_ids("q", "p", &["1"]).await;
        server.pop_some("/queue/q?consumerGroup=lagging&autoAck=true").await;
        assert_eq!(short(&server).await, [entry("lagging", "q", 1, 0, 0)]);
        let deleted = server.send("DELETE", "/api/v1/consumer-groups/lagging", "").await.expect(200);
        assert_eq!(deleted["deletedPartitions"], 1);
        assert_eq!(groups(&server).await, json!([]));
    }
}
