//! Answers are bounded in bytes, and a lease covers what was sent.

use serde_json::{Value, json};

use crate::common::{Client, ids};

const CAP: &str = "--max-pop-bytes=1MiB";
const KIB: usize = 1 << 10;

/// One push per id, so that the bound is met between segments as well as inside them.
async fn push(client: &Client, partition: &str, size: usize, ids: &[&str]) {
    for id in ids {
        let payload = format!("{id}{}", "x".repeat(size));
        client
            .push(json!([{"queue": "q", "partition": partition, "transactionId": id, "payload": payload}]))
            .await;
    }
}

fn assert_whole(popped: &Value, size: usize) {
    for message in popped["messages"].as_array().unwrap() {
        let (id, data) = (message["transactionId"].as_str().unwrap(), message["data"].as_str().unwrap());
        assert!(data.len() == id.len() + size && data.starts_with(id));
    }
}

on_every_engine! {
    async fn a_lease_covers_only_what_fits_into_the_answer(on: On) {
        let server = on.start_with(&[CAP]).await;
        push(&server, "p", 400 * KIB, &["t1", "t2", "t3"]).await;
        let both = ["t4", "t5"].map(|id| json!({"queue": "q", "partition": "p", "transactionId": id, "payload": format!("{id}{}", "x".repeat(400 * KIB))}));
        server.push(json!(both)).await;
        for expected in [&["t1", "t2"][..], &["t3", "t4"], &["t5"]] {
            let popped = server.pop_some("/queue/q?batch=5").await;
            assert_eq!(ids(&popped), expected);
            assert_whole(&popped, 400 * KIB);
            assert_eq!(popped["messages"][0]["deliveryAttempt"], 1, "what was not sent was not delivered");
            assert_eq!(server.pop("/queue/q?batch=5").await, None, "the lane is leased");
            let acked = server.ack_all(&popped, "completed").await;
            assert_eq!(acked.as_array().unwrap().last().unwrap()["leaseReleased"], true, "{acked}");
        }
        assert_eq!(server.pop("/queue/q?batch=5").await, None);
    }

    async fn a_message_above_the_bound_is_delivered_alone(on: On) {
        let server = on.start_with(&[CAP]).await;
        push(&server, "p", 3000 * KIB, &["large"]).await;
        push(&server, "p", 10, &["small"]).await;
        let popped = server.pop_some("/queue/q?batch=5").await;
        assert_eq!(ids(&popped), ["large"]);
        assert_whole(&popped, 3000 * KIB);
        server.ack_all(&popped, "completed").await;
        assert_eq!(ids(&server.pop_some("/queue/q?batch=5").await), ["small"]);
    }

    async fn lanes_that_do_not_fit_stay_free_for_others(on: On) {
        let server = on.start_with(&[CAP]).await;
        for lane in ["a", "b", "c"] {
            push(&server, lane, 700 * KIB, &[lane]).await;
        }
        let mut seen = Vec::new();
        for _ in 0..3 {
            let popped = server.pop_some("/queue/q?batch=10&partitions=3&wait=true&timeout=20000").await;
            assert_eq!((ids(&popped).len(), &popped["partitionsClaimed"]), (1, &json!(1)));
            assert_eq!(popped["messages"][0]["deliveryAttempt"], 1);
            seen.push(ids(&popped)[0].to_owned());
        }
        seen.sort_unstable();
        assert_eq!(seen, ["a", "b", "c"]);
    }

    async fn what_does_not_fit_is_not_acknowledged_by_auto_ack(on: On) {
        let server = on.start_with(&[CAP]).await;
        push(&server, "p", 400 * KIB, &["t1", "t2", "t3", "t4", "t5"]).await;
        for expected in [&["t1", "t2"][..], &["t3", "t4"], &["t5"]] {
            let popped = server.pop_some("/queue/q?batch=5&autoAck=true&wait=true&timeout=20000").await;
            assert_eq!(ids(&popped), expected);
        }
        assert_eq!(server.pop("/queue/q?batch=5&autoAck=true").await, None);
    }
}
