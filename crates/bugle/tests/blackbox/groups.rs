//! Consumer groups over HTTP: seek, delete, subscribe anew, see how far they are.

use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::common::{Client, PATIENCE, ids, until_true};

const POP: &str = "/queue/q?consumerGroup=g&batch=100&partitions=100&autoAck=true";

fn path(group: &str, rest: &str) -> String {
    format!("/api/v1/consumer-groups/{group}{rest}")
}

async fn seek(server: &Client, body: Value) -> Value {
    server.post(&path("g", "/queues/q/seek"), body).await.expect(200)
}

/// What group `g` gets of queue `q` now, sorted.
async fn take(server: &Client) -> Vec<String> {
    let Some(popped) = server.pop(POP).await else { return Vec::new() };
    let mut all: Vec<String> = ids(&popped).into_iter().map(str::to_owned).collect();
    all.sort_unstable();
    all
}

/// The time of a message, and one at which nothing else was pushed.
async fn push_and_wait(server: &Client, partition: &str, id: &str) -> String {
    server.push_ids("q", partition, &[id]).await;
    let path = format!("/queue/q?consumerGroup=clock-{id}&batch=100&partitions=100");
    let popped = server.pop_some(&path).await;
    let messages = popped["messages"].as_array().unwrap();
    let own = messages.iter().find(|m| m["transactionId"] == *id).unwrap();
    let at = own["createdAt"].as_str().unwrap().to_owned();
    // Stamps are compared, so the next one must be another.
    sleep(std::time::Duration::from_millis(20)).await;
    at
}

on_every_engine! {
    async fn a_group_is_sent_to_the_beginning_to_the_end_and_to_a_time(on: On) {
        let server = on.start().await;
        let between = push_and_wait(&server, "a", "1").await;
        server.push_ids("q", "a", &["2"]).await;
        server.push_ids("q", "b", &["3"]).await;
        assert_eq!(take(&server).await, ["1", "2", "3"]);
        let answer = seek(&server, json!({"toBeginning": true})).await;
        assert_eq!(answer, json!({"success": true, "consumerGroup": "g", "queueName": "q", "seekToEnd": false,
            "seekToBeginning": true, "targetTimestamp": null, "partitionsUpdated": 2}));
        assert_eq!(take(&server).await, ["1", "2", "3"]);
        let answer = seek(&server, json!({"timestamp": between})).await;
        assert_eq!((&answer["seekToEnd"], &answer["partitionsUpdated"]), (&json!(false), &json!(2)));
        assert_eq!(answer["targetTimestamp"].as_str().unwrap()[..23], between[..23]);
        assert_eq!(take(&server).await, ["2", "3"]);
        seek(&server, json!({"timestamp": "1970-01-01T00:00:00.000Z"})).await;
        let answer = seek(&server, json!({"toEnd": true})).await;
        assert_eq!((&answer["seekToEnd"], &answer["targetTimestamp"]), (&json!(true), &Value::Null));
        assert!(take(&server).await.is_empty());
        server.push_ids("q", "a", &["4"]).await;
        assert_eq!(take(&server).await, ["4"]);
    }

    async fn hazard_q_the_beginning_comes_before_the_subscription(on: On) {
        let server = on.start().await;
        server.push_ids("q", "a", &["1"]).await;
        assert_eq!(server.pop(&format!("{POP}&subscriptionMode=new")).await, None);
        seek(&server, json!({"toBeginning": true})).await;
        assert_eq!(take(&server).await, ["1"]);
    }

    async fn a_pop_that_waits_is_answered_by_a_seek(on: On) {
        let server = on.start().await;
        server.push_ids("q", "a", &["1"]).await;
        for waiting in ["/queue/q?", "/queue/q/partition/a?", "?namespace=q&"] {
            take(&server).await;
            let (client, path) = (server.client(), format!("{waiting}consumerGroup=g&autoAck=true&wait=true&timeout=60000"));
            let pop = tokio::spawn(async move { client.pop_some(&path).await });
            server.until_waiting(1).await;
            seek(&server, json!({"toBeginning": true})).await;
            let popped = timeout(PATIENCE, pop).await.expect("woken").unwrap();
            assert_eq!(ids(&popped), ["1"], "{waiting}");
        }
    }

    async fn a_lease_ends_with_a_seek(on: On) {
        let server = on.start().await;
        server.push_ids("q", "a", &["1"]).await;
        let held = server.pop_some("/queue/q?consumerGroup=g").await;
        seek(&server, json!({"toBeginning": true})).await;
        assert_eq!(server.ack_all(&held, "completed").await[0]["success"], false);
        let again = server.pop_some("/queue/q?consumerGroup=g").await;
        assert_eq!((ids(&again), &again["messages"][0]["deliveryAttempt"]), (vec!["1"], &json!(1)));
        assert_eq!(server.ack_all(&again, "completed").await[0]["success"], true);
    }

    async fn one_partition_is_sought(on: On) {
        let server = on.start().await;
        server.push_ids("q", "a b", &["1"]).await;
        server.push_ids("q", "c", &["2"]).await;
        let one = |partition: &str| path("g", &format!("/queues/q/partitions/{partition}/seek"));
        let expected = json!({"success": true, "consumerGroup": "g", "queueName": "q", "partitionName": "a b",
            "updated": true, "cursorMovedTo": 1});
        assert_eq!(server.send("POST", &one("a%20b"), "").await.expect(200), expected, "no body is the end");
        assert_eq!(take(&server).await, ["2"]);
        server.post(&one("a%20b"), json!({"toBeginning": true})).await.expect(200);
        assert_eq!(take(&server).await, ["1"]);
        server.post(&one("c"), json!({"timestamp": "2001-01-01T00:00:00Z"})).await.expect(200);
        assert_eq!(take(&server).await, ["2"]);
        server.post(&one("c"), json!({})).await.expect(200);
        for unknown in [one("x"), path("g", "/queues/x/partitions/c/seek")] {
            let answer = server.send("POST", &unknown, "").await.expect(404);
            assert_eq!(answer, json!({"success": false, "error": "Partition not found"}));
        }
        assert_eq!(server.post(&one("c"), json!({"toEnd": 7})).await.status, 400);
    }

    async fn a_deleted_group_reads_everything_again(on: On) {
        let server = on.start().await;
        server.push_ids("q", "a", &["1"]).await;
        server.push_ids("q", "b", &["2"]).await;
        take(&server).await;
        let answer = server.send("DELETE", &path("g", "/queues/q"), "").await.expect(200);
        assert_eq!(answer, json!({"success": true, "consumerGroup": "g", "queueName": "q", "deletedPartitions": 2, "metadataDeleted": true}));
        assert_eq!(take(&server).await, ["1", "2"]);
        let answer = server.send("DELETE", &path("g", "?deleteMetadata=false"), "").await.expect(200);
        assert_eq!(answer, json!({"success": true, "consumerGroup": "g", "deletedPartitions": 2, "metadataDeleted": false}));
        assert_eq!(take(&server).await, ["1", "2"]);
        server.send("DELETE", &path("g", ""), "").await.expect(200);
        let answer = server.send("DELETE", &path("g", ""), "").await.expect(200);
        assert_eq!((&answer["deletedPartitions"], &answer["metadataDeleted"]), (&json!(0), &json!(false)));
        assert_eq!(server.get(&path("g", "")).await.expect(200), json!({}));
    }

    async fn a_deleted_group_keeps_its_dead_letters(on: On) {
        let server = on.start().await;
        server.configure(json!({"queue": "q", "options": {"deadLetterQueue": true}})).await;
        server.push_ids("q", "a", &["1"]).await;
        let held = server.pop_some("/queue/q?consumerGroup=g").await;
        server.ack_all(&held, "dlq").await;
        server.send("DELETE", &path("g", ""), "").await.expect(200);
        let letters = server.get("/api/v1/dlq?queue=q").await.expect(200);
        assert_eq!(letters["messages"].as_array().unwrap().len(), 1, "{letters}");
    }

    async fn a_pop_that_waits_for_a_deleted_group_starts_anew(on: On) {
        let server = on.start().await;
        server.push_ids("q", "a", &["1"]).await;
        take(&server).await;
        let client = server.client();
        let pop = tokio::spawn(async move { client.pop_some(&format!("{POP}&wait=true&timeout=60000")).await });
        server.until_waiting(1).await;
        server.send("DELETE", &path("g", ""), "").await.expect(200);
        let popped = timeout(PATIENCE, pop).await.expect("woken").unwrap();
        assert_eq!(ids(&popped), ["1"]);
    }

    async fn a_subscription_moves_where_the_group_has_not_been(on: On) {
        let server = on.start().await;
        server.push_ids("q", "a", &["1"]).await;
        take(&server).await;
        let at = push_and_wait(&server, "b", "2").await;
        let answer = server.post(&path("g", "/subscription"), json!({"subscriptionTimestamp": at})).await.expect(200);
        assert_eq!((&answer["success"], &answer["consumerGroup"], &answer["rowsUpdated"]), (&json!(true), &json!("g"), &json!(1)));
        assert_eq!(answer["newTimestamp"], at, "as it was sent");
        server.push_ids("q", "b", &["3"]).await;
        assert_eq!(take(&server).await, ["3"]);
    }

    async fn a_group_shows_how_far_it_is(on: On) {
        let server = on.start().await;
        assert_eq!(server.get(&path("g", "")).await.expect(200), json!({}));
        server.push_ids("q", "a", &["1", "2", "3"]).await;
        server.push_ids("q", "b", &["4"]).await;
        let held = server.pop_some("/queue/q/partition/a?consumerGroup=g&batch=2").await;
        let first = json!({"transactionId": "1", "partitionId": held["partitionId"], "leaseId": held["leaseId"], "consumerGroup": "g"});
        server.post("/api/v1/ack", first).await.expect(200);
        let answer = server.get(&path("g", "")).await.expect(200);
        let [a, b] = [0, 1].map(|i| answer["q"]["partitions"][i].clone());
        assert_eq!((&a["partition"], &a["totalConsumed"], &a["offsetLag"]), (&json!("a"), &json!(1), &json!(2)), "{answer}");
        assert_eq!((&a["leaseActive"], &a["workerId"]), (&json!(true), &held["leaseId"]));
        assert!(a["lastConsumedAt"].is_string() && a["timeLagSeconds"].is_u64());
        let untouched = json!({"partition": "b", "workerId": null, "lastConsumedAt": null, "totalConsumed": 0, "offsetLag": 1,
            "timeLagSeconds": b["timeLagSeconds"], "leaseActive": false});
        assert_eq!(b, untouched);
        assert_eq!(answer["q"].get("truncated"), None);
        // It grows with the age of what was not read.
        until_true("behind", async || server.get(&path("g", "")).await.json()["q"]["partitions"][1]["timeLagSeconds"].as_u64() >= Some(1)).await;
    }

    async fn bad_requests_about_groups_are_refused_and_change_nothing(on: On) {
        let server = on.start().await;
        server.push_ids("q", "a", &["1"]).await;
        take(&server).await;
        let seek = path("g", "/queues/q/seek");
        for (body, complaint) in [
            ("", "Empty request body"),
            ("{", "Invalid JSON"),
            ("[]", "must be a JSON object"),
            ("{}", "Must specify either 'toEnd': true or 'timestamp'"),
            (r#"{"toEnd":false}"#, "Must specify either 'toEnd': true or 'timestamp'"),
            (r#"{"toEnd":true,"timestamp":"2023-11-14T22:13:20Z"}"#, "Must specify only one of"),
            (r#"{"toEnd":"yes"}"#, "toEnd must be true or false"),
            (r#"{"timestamp":"soon"}"#, "timestamp must be an ISO 8601 timestamp"),
            (r#"{"timestamp":5}"#, "timestamp must be an ISO 8601 timestamp"),
        ] {
            let answer = server.send("POST", &seek, body).await;
            assert_eq!(answer.status, 400, "{body}");
            assert!(answer.error().contains(complaint), "{body}: {}", answer.error());
        }
        let subscription = path("g", "/subscription");
        for (body, complaint) in [
            ("{}", "Missing subscriptionTimestamp in request body"),
            (r#"{"subscriptionTimestamp":"soon"}"#, "subscriptionTimestamp must be"),
        ] {
            let answer = server.send("POST", &subscription, body).await;
            assert_eq!((answer.status, answer.error().contains(complaint)), (400, true), "{body}: {}", answer.error());
        }
        let long = "x".repeat(256);
        for bad in [path(&long, ""), path("a%00b", ""), path("%ff", "")] {
            assert_eq!(server.get(&bad).await.status, 400, "{bad}");
            assert_eq!(server.send("DELETE", &bad, "").await.status, 400, "{bad}");
        }
        assert!(server.get(&path(&long, "")).await.error().starts_with("consumerGroup "));
        let unknown = server.post(&path("g", "/queues/nope/seek"), json!({"toEnd": true})).await;
        assert_eq!((unknown.status, unknown.error()), (404, "Queue not found".into()));
        assert_eq!(server.send("DELETE", &path("g", "/queues/nope"), "").await.status, 404);
        assert!(take(&server).await.is_empty(), "nothing was moved");
    }

    async fn names_with_odd_letters_and_the_anonymous_group_are_groups_like_others(on: On) {
        let server = on.start().await;
        server.push_ids("q/x", "a", &["1"]).await;
        for group in ["a%2Fb%20%C3%BC", "__QUEUE_MODE__"] {
            let name = if group.starts_with("__") { String::new() } else { format!("&consumerGroup={group}") };
            let pop = format!("/queue/q%2Fx?autoAck=true{name}");
            assert_eq!(ids(&server.pop_some(&pop).await), ["1"]);
            let sought = server.post(&path(group, "/queues/q%2Fx/seek"), json!({"toBeginning": true})).await.expect(200);
            assert_eq!((&sought["queueName"], &sought["partitionsUpdated"]), (&json!("q/x"), &json!(1)));
            assert_eq!(ids(&server.pop_some(&pop).await), ["1"]);
            assert_eq!(server.send("DELETE", &path(group, ""), "").await.expect(200)["deletedPartitions"], 1);
            assert_eq!(ids(&server.pop_some(&pop).await), ["1"]);
        }
    }

    async fn a_seek_survives_a_restart(on: On) {
        let server = on.start().await;
        server.push_ids("q", "a", &["1"]).await;
        take(&server).await;
        server.push_ids("q", "b", &["2"]).await;
        seek(&server, json!({"toEnd": true})).await;
        server.kill();
        let server = on.start().await;
        assert!(take(&server).await.is_empty());
        seek(&server, json!({"toBeginning": true})).await;
        server.kill();
        let server = on.start().await;
        assert_eq!(take(&server).await, ["1", "2"]);
    }
}

mod between_servers {
    use super::*;

    on_every_database! {
        async fn a_seek_on_one_server_wakes_who_waits_on_the_other(on: On) {
            let (a, b) = (on.start().await, on.start().await);
            a.push_ids("q", "a", &["1"]).await;
            for seek in ["/queues/q/seek", "/queues/q/partitions/a/seek"] {
                take(&b).await;
                let client = b.client();
                let pop = tokio::spawn(async move { client.pop_some(&format!("{POP}&wait=true&timeout=60000")).await });
                b.until_waiting(1).await;
                a.post(&path("g", seek), json!({"toBeginning": true})).await.expect(200);
                let popped = timeout(PATIENCE, pop).await.expect("woken").unwrap();
                assert_eq!(ids(&popped), ["1"], "{seek}");
            }
        }

        async fn a_group_deleted_on_one_server_starts_anew_on_the_other(on: On) {
            let (a, b) = (on.start().await, on.start().await);
            a.push_ids("q", "a", &["1"]).await;
            for query in ["", "?deleteMetadata=false"] {
                take(&b).await;
                let client = b.client();
                let pop = tokio::spawn(async move { client.pop_some(&format!("{POP}&wait=true&timeout=60000")).await });
                b.until_waiting(1).await;
                a.send("DELETE", &path("g", query), "").await.expect(200);
                let popped = timeout(PATIENCE, pop).await.expect("woken").unwrap();
                assert_eq!(ids(&popped), ["1"], "{query}");
            }
        }

        async fn an_acknowledgement_of_before_a_deletion_settles_nothing_on_the_other_server(on: On) {
            let (a, b) = (on.start().await, on.start().await);
            a.push_ids("q", "a", &["1"]).await;
            let held = b.pop_some("/queue/q?consumerGroup=g").await;
            a.send("DELETE", &path("g", ""), "").await.expect(200);
            let again = a.pop_some("/queue/q?consumerGroup=g").await;
            assert_eq!(b.ack_all(&held, "completed").await[0]["success"], false);
            assert_eq!(a.ack_all(&again, "completed").await[0]["success"], true);
        }
    }
}
