//! Two servers on one database: what one did, the other knows.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::time::{sleep, timeout};

use crate::common::{On, PATIENCE, Server, ids};

async fn two() -> (On, Server, Server) {
    let on = On::postgres().await;
    let (a, b) = (on.start().await, on.start().await);
    (on, a, b)
}

#[tokio::test]
async fn servers_that_start_at_once_on_a_fresh_schema_share_it() {
    let on = On::postgres().await;
    let (a, b, c) = tokio::join!(on.start(), on.start(), on.start());
    a.push_ids("q", "a", &["a"]).await;
    b.push_ids("q", "b", &["b"]).await;
    c.push_ids("q", "c", &["c"]).await;
    for server in [&a, &b, &c] {
        assert_eq!(ids(&server.pop_some("/queue/q").await).len(), 1);
    }
    assert_eq!(a.pop("/queue/q").await, None);
}

#[tokio::test]
async fn a_push_is_seen_by_a_pop_on_the_other_server_at_once() {
    let (_on, a, b) = two().await;
    // Many times, and in both directions: the other server's memory of the lane is old every time but the first.
    for round in 0..10 {
        let (near, far) = if round % 2 == 0 { (&a, &b) } else { (&b, &a) };
        for (path, id) in [("/queue/q", format!("q{round}")), ("/queue/q/partition/p", format!("p{round}"))] {
            near.push_ids("q", "p", &[&id]).await;
            assert_eq!(ids(&far.pop_some(&format!("{path}?autoAck=true")).await), [&id]);
            assert_eq!(near.pop(path).await, None, "read on the other server");
        }
    }
}

#[tokio::test]
async fn a_duplicate_is_known_on_the_other_server() {
    let (_on, a, b) = two().await;
    let first = a.push_ids("q", "p", &["t1"]).await;
    let again = b.push_ids("q", "p", &["t1", "t2"]).await;
    assert_eq!(
        (&again[0]["status"], &again[0]["message_id"]),
        (&json!("duplicate"), &first[0]["message_id"])
    );
    assert_eq!(
        a.push_ids("q", "p", &["t2", "t3"]).await[0]["status"],
        "duplicate",
        "also when memory is behind"
    );
    assert_eq!(ids(&b.pop_some("/queue/q?batch=10").await), ["t1", "t2", "t3"]);
}

#[tokio::test]
async fn one_id_pushed_to_both_at_once_is_stored_once() {
    let (_on, a, b) = two().await;
    for round in 0..10 {
        let id = format!("t{round}");
        let same = [id.as_str()];
        let (x, y) = tokio::join!(a.push_ids("q", "p", &same), b.push_ids("q", "p", &same));
        assert_eq!(x[0]["message_id"], y[0]["message_id"]);
        assert_eq!([&x, &y].iter().filter(|r| r[0]["status"] == "queued").count(), 1, "{x} {y}");
    }
    assert_eq!(ids(&a.pop_some("/queue/q?batch=100").await).len(), 10);
}

#[tokio::test]
async fn a_lease_ends_on_time_for_a_pop_that_waits_on_the_other_server() {
    let (_on, a, b) = two().await;
    a.push_ids("q", "p", &["t"]).await;
    let popped = a.pop_some("/queue/q?leaseSeconds=2").await;
    a.kill();
    let again = timeout(PATIENCE, b.pop_some("/queue/q?wait=true&timeout=60000")).await.expect("woken");
    assert_eq!((ids(&again), &again["messages"][0]["deliveryAttempt"]), (vec!["t"], &json!(2)));
    assert_eq!(b.ack_all(&popped, "completed").await[0]["success"], false);
}

#[tokio::test]
async fn a_transaction_acknowledges_what_was_popped_on_the_other_server() {
    let (_on, a, b) = two().await;
    a.push_ids("from", "p", &["t"]).await;
    let popped = a.pop_some("/queue/from").await;
    let message = &popped["messages"][0];
    let operations = json!([
        {"type": "ack", "transactionId": "t", "partitionId": message["partitionId"], "leaseId": message["leaseId"]},
        {"type": "push", "items": [{"queue": "to", "payload": 1, "transactionId": "u"}]},
    ]);
    let done = b.post("/api/v1/transaction", json!({"operations": operations})).await.expect(200);
    assert_eq!(done["success"], true, "{done}");
    assert_eq!(a.pop("/queue/from").await, None);
    assert_eq!(ids(&a.pop_some("/queue/to").await), ["u"]);
}

#[tokio::test]
async fn a_server_that_dies_loses_nothing_that_it_answered() {
    let (_on, a, b) = two().await;
    let all: Vec<String> = (0..20).map(|n| format!("t{n}")).collect();
    for id in &all {
        a.push_ids("q", "p", &[id]).await;
    }
    let popped = a.pop_some("/queue/q?batch=5").await;
    a.ack_all(&popped, "completed").await;
    a.kill();
    assert_eq!(ids(&b.pop_some("/queue/q?batch=100").await), all[5..]);
}

#[tokio::test]
async fn a_message_is_acknowledged_on_the_other_server() {
    let (_on, a, b) = two().await;
    a.push_ids("q", "p", &["t1", "t2"]).await;
    let popped = a.pop_some("/queue/q").await;
    assert_eq!(b.pop("/queue/q").await, None, "leased on the other server");
    assert_eq!(b.ack_all(&popped, "completed").await[0]["success"], true);
    let next = a.pop_some("/queue/q").await;
    assert_eq!(ids(&next), ["t2"]);
    assert_eq!(b.ack_all(&next, "failed").await[0]["success"], true);
    let again = b.pop_some("/queue/q").await;
    assert_eq!((ids(&again), &again["messages"][0]["deliveryAttempt"]), (vec!["t2"], &json!(2)));
    assert_eq!(a.ack_all(&next, "completed").await[0]["success"], false, "that lease is over");
}

#[tokio::test]
async fn a_lease_is_extended_on_the_other_server() {
    let (_on, a, b) = two().await;
    a.push_ids("q", "p", &["t"]).await;
    let popped = a.pop_some("/queue/q?leaseSeconds=2").await;
    let taken = Instant::now();
    let path = format!("/api/v1/lease/{}/extend", popped["leaseId"].as_str().unwrap());
    let extended = b.post(&path, json!({"seconds": 600})).await.expect(200);
    assert_eq!(extended["success"], true, "{extended}");
    // Past the first end, the server that gave the lease must know that it was extended.
    sleep(Duration::from_millis(2300).saturating_sub(taken.elapsed())).await;
    for server in [&a, &b] {
        assert_eq!(server.pop("/queue/q").await, None);
    }
    assert_eq!(a.ack_all(&popped, "completed").await[0]["success"], true);
}

#[tokio::test]
async fn a_lease_over_several_partitions_is_extended_on_both_servers() {
    let (_on, a, b) = two().await;
    for partition in ["p1", "p2", "p3"] {
        a.push_ids("q", partition, &["t"]).await;
    }
    let popped = a.pop_some("/queue/q?partitions=3&batch=10&leaseSeconds=60").await;
    assert_eq!(popped["messages"].as_array().unwrap().len(), 3, "{popped}");
    let path = format!("/api/v1/lease/{}/extend", popped["leaseId"].as_str().unwrap());
    for server in [&a, &b] {
        let extended = server.post(&path, json!({"seconds": 600})).await.expect(200);
        assert_eq!((&extended["success"], &extended["renewed"]), (&json!(true), &json!(3)), "{extended}");
    }
    // What is done with is not held any more, and the rest still is.
    let one = json!({"transactionId": "t", "partitionId": popped["messages"][0]["partitionId"], "leaseId": popped["leaseId"]});
    assert_eq!(b.post("/api/v1/ack", one).await.expect(200)[0]["success"], true);
    for server in [&b, &a] {
        let extended = server.post(&path, json!({"seconds": 600})).await.expect(200);
        assert_eq!(extended["renewed"], 2, "{extended}");
    }
}

#[tokio::test]
async fn a_configuration_acts_on_the_other_server_within_two_seconds_of_traffic() {
    let (_on, a, b) = two().await;
    b.push_ids("q", "p", &["t"]).await;
    a.configure(json!({"queue": "q", "options": {"maxSize": 1, "enforce": ["maxSize"]}})).await;
    let configured = Instant::now();
    while b.post("/api/v1/push", json!({"items": [{"queue": "q"}]})).await.status != 429 {
        assert!(configured.elapsed() < Duration::from_secs(4), "never acts");
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_queue_deleted_on_one_server_starts_over_on_the_other() {
    let (_on, a, b) = two().await;
    for round in 0..3 {
        b.push_ids("q", "p", &["t1"]).await;
        let held = b.pop_some("/queue/q").await;
        assert_eq!(a.send("DELETE", "/api/v1/resources/queues/q", "").await.expect(200)["existed"], true);
        let pushed = b.push_ids("q", "p", &["t1", "t2"]).await;
        assert_eq!(pushed[0]["status"], "queued", "a new queue remembers nothing; round {round}");
        assert_eq!(b.ack_all(&held, "completed").await[0]["success"], false, "its lanes are others");
        assert_eq!(ids(&a.pop_some("/queue/q?batch=10&autoAck=true").await), ["t1", "t2"]);
        assert_eq!(b.pop("/queue/q?batch=10").await, None);
        a.send("DELETE", "/api/v1/resources/queues/q", "").await.expect(200);
    }
}
