//! Failure: what comes again, how often, when, and what a queue enforces on top.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::common::{Client, PATIENCE, ids};

/// Acknowledge the messages of an answer, each with its own status, in the order given here.
async fn ack_each(client: &Client, popped: &Value, statuses: &[(usize, &str)]) -> Value {
    let ack = |&(index, status): &(usize, &str)| {
        let message = &popped["messages"][index];
        json!({"transactionId": message["transactionId"], "partitionId": message["partitionId"], "leaseId": message["leaseId"], "status": status})
    };
    let acks: Vec<Value> = statuses.iter().map(ack).collect();
    client.post("/api/v1/ack/batch", json!({"acknowledgments": acks})).await.expect(200)
}

fn attempts(popped: &Value) -> Vec<u64> {
    popped["messages"].as_array().unwrap().iter().map(|m| m["deliveryAttempt"].as_u64().unwrap()).collect()
}

on_every_engine! {
    async fn a_batch_that_fails_twice_is_delivered_three_times(on: On) {
        let server = on.start().await;
        server.configure(json!({"queue": "q", "options": {"retryLimit": 3}})).await;
        let all: Vec<String> = (0..100).map(|n| format!("t{n}")).collect();
        server.push_ids("q", "p", &all.iter().map(String::as_str).collect::<Vec<_>>()).await;
        for (attempt, status) in [(1, "failed"), (2, "failed"), (3, "completed")] {
            let popped = server.pop_some("/queue/q?batch=100").await;
            assert_eq!((ids(&popped), attempts(&popped)), (all.iter().map(String::as_str).collect(), vec![attempt; 100]));
            let acked = server.ack_all(&popped, status).await;
            assert!(acked.as_array().unwrap().iter().all(|r| r["success"] == true && r["dlq"] == false), "{acked}");
        }
        assert_eq!(server.pop("/queue/q?batch=100").await, None);
    }

    async fn the_failure_after_the_last_retry_buries_the_message(on: On) {
        let server = on.start().await;
        for limit in [0u64, 1, 3] {
            let queue = format!("q{limit}");
            server.configure(json!({"queue": queue, "options": {"retryLimit": limit}})).await;
            server.push_ids(&queue, "p", &["bad", "good"]).await;
            for attempt in 1..=limit + 1 {
                let popped = server.pop_some(&format!("/queue/{queue}")).await;
                assert_eq!((ids(&popped), attempts(&popped)), (vec!["bad"], vec![attempt]), "limit {limit}");
                let acked = server.ack_all(&popped, "failed").await;
                assert_eq!((&acked[0]["success"], &acked[0]["dlq"]), (&json!(true), &json!(attempt > limit)));
            }
            let popped = server.pop_some(&format!("/queue/{queue}")).await;
            assert_eq!((ids(&popped), attempts(&popped)), (vec!["good"], vec![1]), "the next one starts afresh");
        }
    }

    async fn a_failure_gives_the_rest_of_the_batch_back_also_when_it_buries_the_message(on: On) {
        let server = on.start().await;
        server.configure(json!({"queue": "q", "options": {"retryLimit": 0, "leaseTime": 300}})).await;
        server.push_ids("q", "p", &["t1", "t2", "t3"]).await;
        let popped = server.pop_some("/queue/q?batch=3").await;
        let acked = ack_each(&server, &popped, &[(0, "failed")]).await;
        assert_eq!((&acked[0]["dlq"], &acked[0]["leaseReleased"]), (&json!(true), &json!(true)));
        let rest = server.pop_some("/queue/q?batch=3").await;
        assert_eq!((ids(&rest), attempts(&rest)), (vec!["t2", "t3"], vec![2; 2]));
        let acked = ack_each(&server, &rest, &[(0, "dlq")]).await;
        assert_eq!((&acked[0]["dlq"], &acked[0]["leaseReleased"]), (&json!(true), &json!(false)));
        assert_eq!(server.pop("/queue/q").await, None, "the rest is still with its consumer");
        assert_eq!(server.ack_all(&rest, "completed").await[1]["success"], true);
    }

    async fn a_message_given_up_on_does_not_stop_the_others(on: On) {
        let server = on.start().await;
        server.push_ids("q", "p", &["t1", "t2", "t3", "t4"]).await;
        let popped = server.pop_some("/queue/q?batch=3").await;
        let acked = ack_each(&server, &popped, &[(2, "completed"), (1, "dlq"), (0, "completed")]).await;
        assert!(acked.as_array().unwrap().iter().all(|r| r["success"] == true), "{acked}");
        assert_eq!([&acked[0]["dlq"], &acked[1]["dlq"], &acked[2]["dlq"]], [&json!(false), &json!(true), &json!(false)]);
        assert_eq!(ids(&server.pop_some("/queue/q?batch=10").await), ["t4"]);
    }

    async fn a_failure_in_a_batch_brings_back_all_that_follows_it(on: On) {
        let server = on.start().await;
        server.push_ids("q", "p", &["t1", "t2", "t3", "t4"]).await;
        let popped = server.pop_some("/queue/q?batch=4").await;
        let acked = ack_each(&server, &popped, &[(3, "completed"), (1, "failed"), (0, "completed"), (2, "completed")]).await;
        assert!(acked.as_array().unwrap().iter().all(|r| r["success"] == true), "{acked}");
        assert_eq!([&acked[0]["noop"], &acked[3]["noop"]], [&json!(true), &json!(true)], "they come again");
        let again = server.pop_some("/queue/q?batch=10").await;
        assert_eq!((ids(&again), attempts(&again)), (vec!["t2", "t3", "t4"], vec![2; 3]));
    }

    async fn a_message_given_back_costs_no_retry(on: On) {
        let server = on.start().await;
        server.configure(json!({"queue": "q", "options": {"retryLimit": 1}})).await;
        server.push_ids("q", "p", &["t"]).await;
        for attempt in 1..=4 {
            let popped = server.pop_some("/queue/q").await;
            assert_eq!(attempts(&popped), [attempt]);
            assert_eq!(server.ack_all(&popped, "retry").await[0]["dlq"], false);
        }
        for buried in [false, true] {
            let popped = server.pop_some("/queue/q").await;
            assert_eq!(server.ack_all(&popped, "failed").await[0]["dlq"], buried);
        }
    }

    async fn an_enforced_retry_delay_rests_the_lane_and_wakes_on_time(on: On) {
        let server = on.start().await;
        let options = json!({"retryDelay": 1500, "enforce": ["retryDelay"]});
        server.configure(json!({"queue": "q", "options": options})).await;
        server.push_ids("q", "p", &["t1"]).await;
        let popped = server.pop_some("/queue/q").await;
        let failed = Instant::now();
        server.ack_all(&popped, "failed").await;
        server.push_ids("q", "p", &["t2"]).await;
        assert_eq!(server.pop("/queue/q?batch=10").await, None, "the lane rests, and keeps its order");
        let again = server.pop_some("/queue/q?batch=10&wait=true&timeout=30000").await;
        let rested = failed.elapsed();
        assert_eq!((ids(&again), &again["messages"][0]["deliveryAttempt"]), (vec!["t1", "t2"], &json!(2)));
        assert!(rested >= Duration::from_millis(1500), "{rested:?}");
        assert!(rested < Duration::from_millis(4000), "woken late: {rested:?}");
    }

    async fn a_retry_delay_that_is_not_enforced_is_only_kept(on: On) {
        let server = on.start().await;
        server.configure(json!({"queue": "q", "options": {"retryDelay": 60_000}})).await;
        server.push_ids("q", "p", &["t"]).await;
        let popped = server.pop_some("/queue/q").await;
        server.ack_all(&popped, "failed").await;
        assert_eq!(ids(&server.pop_some("/queue/q").await), ["t"]);
    }

    async fn an_enforced_ttl_hides_what_is_too_old(on: On) {
        let server = on.start().await;
        server.configure(json!({"queue": "enforced", "options": {"ttl": 2, "enforce": ["ttl"]}})).await;
        server.configure(json!({"queue": "kept", "options": {"ttl": 2}})).await;
        for queue in ["enforced", "kept"] {
            server.push_ids(queue, "p", &["old"]).await;
        }
        // Nothing but time makes a message too old.
        sleep(Duration::from_millis(2200)).await;
        let client = server.client();
        let waiter = tokio::spawn(async move { client.pop_some("/queue/enforced?batch=10&wait=true&timeout=60000").await });
        server.until_waiting(1).await;
        server.push_ids("enforced", "p", &["new"]).await;
        let popped = timeout(PATIENCE, waiter).await.expect("woken").unwrap();
        assert_eq!(ids(&popped), ["new"]);
        assert_eq!(server.ack_all(&popped, "completed").await[0]["success"], true);
        assert_eq!(ids(&server.pop_some("/queue/kept").await), ["old"], "without enforce it is only kept");
    }

    async fn an_enforced_max_size_refuses_the_whole_push(on: On) {
        let server = on.start().await;
        server.configure(json!({"queue": "q", "options": {"maxSize": 3, "enforce": ["maxSize"]}})).await;
        server.push_ids("q", "p", &["t1", "t2"]).await;
        let items = ["t3", "t4"].map(|id| json!({"queue": "q", "partition": "p", "transactionId": id}));
        let refused = server.post("/api/v1/push", json!({"items": items})).await;
        assert_eq!(refused.status, 429, "{:?}", refused.body);
        assert!(refused.headers.contains_key("retry-after") && refused.error().contains("maxSize"), "{:?}", refused.body);
        let popped = server.pop_some("/queue/q?batch=10").await;
        assert_eq!(ids(&popped), ["t1", "t2"], "nothing of it was stored");
        server.ack_all(&popped, "completed").await;
        let room = async {
            while server.post("/api/v1/push", json!({"items": items})).await.status == 429 {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, room).await.expect("there is room again");
        assert_eq!(ids(&server.pop_some("/queue/q?batch=10").await), ["t3", "t4"]);
    }

    async fn a_max_size_that_is_not_enforced_is_only_kept(on: On) {
        let server = on.start().await;
        server.configure(json!({"queue": "q", "options": {"maxSize": 1}})).await;
        server.push_ids("q", "p", &["t1", "t2", "t3"]).await;
        assert_eq!(ids(&server.pop_some("/queue/q?batch=10").await), ["t1", "t2", "t3"]);
    }

    async fn an_enforced_priority_goes_first_and_starves_nobody(on: On) {
        let server = on.start().await;
        for (namespace, enforce) in [("enforced", json!(["priority"])), ("kept", json!([]))] {
            for (queue, priority) in [("low", 1), ("high", 9)] {
                let options = json!({"priority": priority, "enforce": enforce});
                let queue = format!("{namespace} {queue}");
                server.configure(json!({"queue": queue, "namespace": namespace, "options": options})).await;
                let items: Value = (0..32).map(|_| json!({"queue": queue, "partition": "p"})).collect();
                server.push(items).await;
            }
        }
        let mut low = 0;
        for _ in 0..16 {
            let popped = server.pop_some("?namespace=enforced&autoAck=true").await;
            low += u64::from(popped["messages"][0]["queue"] == "enforced low");
        }
        assert_eq!(low, 2, "one turn in eight");
        for _ in 0..16 {
            let popped = server.pop_some("?namespace=kept&autoAck=true").await;
            assert_eq!(popped["messages"][0]["queue"], "kept low", "by age alone");
        }
    }

    async fn an_enforced_max_size_refuses_a_push_to_several_partitions_whole(on: On) {
        let server = on.start().await;
        server.configure(json!({"queue": "q", "options": {"maxSize": 3, "enforce": ["maxSize"]}})).await;
        server.push_ids("q", "a", &["t1"]).await;
        server.push_ids("q", "b", &["t2"]).await;
        let items = json!([{"queue": "q", "partition": "a", "transactionId": "t3"}, {"queue": "q", "partition": "c", "transactionId": "t4"}]);
        let refused = server.post("/api/v1/push", json!({"items": items})).await;
        assert_eq!(refused.status, 429, "{:?}", refused.body);
        assert!(refused.headers.contains_key("retry-after") && refused.error().contains("maxSize"), "{:?}", refused.body);
        let popped = server.pop_some("/queue/q?batch=10&partitions=0").await;
        let mut seen = ids(&popped);
        seen.sort_unstable();
        assert_eq!(seen, ["t1", "t2"], "nothing of it was stored");
        server.ack_all(&popped, "completed").await;
        let room = async {
            while server.post("/api/v1/push", json!({"items": items})).await.status == 429 {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, room).await.expect("there is room again");
        assert_eq!(server.push(json!([{"queue": "q", "partition": "a", "transactionId": "t3"}])).await[0]["status"], "duplicate");
    }

    async fn an_enforced_priority_starves_nobody_whatever_else_is_popped(on: On) {
        let server = on.start().await;
        for (queue, priority) in [("low", 1), ("high", 9)] {
            let options = json!({"priority": priority, "enforce": ["priority"]});
            server.configure(json!({"queue": queue, "namespace": "n", "options": options})).await;
            let items: Value = (0..80).map(|_| json!({"queue": queue, "partition": "p"})).collect();
            server.push(items).await;
        }
        let mut low = 0;
        for _ in 0..80 {
            let popped = server.pop_some("?namespace=n&autoAck=true").await;
            low += u64::from(popped["messages"][0]["queue"] == "low");
            assert_eq!(server.pop("/queue/other").await, None, "a pop in between is none of its turns");
        }
        assert!((1..=40).contains(&low), "{low} of 80");
    }

    async fn filter_pops_take_the_queue_with_the_oldest_message(on: On) {
        let server = on.start().await;
        server.push_ids("n.a", "p", &["a1"]).await;
        server.push_ids("n.b", "p", &["b1"]).await;
        server.push_ids("n.a", "p", &["a2"]).await;
        let order = [server.pop_some("?namespace=n&autoAck=true").await, server.pop_some("?namespace=n&autoAck=true").await];
        assert_eq!([ids(&order[0]), ids(&order[1])], [["a1"], ["b1"]]);
    }
}
