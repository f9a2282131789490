//! What goes by itself, and what holds it back.
//!
//! Nothing tells that a message is gone but a group that has not read it yet, so every look is taken with a fresh group
//! that acknowledges as it reads: it holds nothing back afterwards.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::common::{PATIENCE, Server, ids};

const OFTEN: [&str; 2] = ["--retention-interval=200ms", "--eviction-interval=200ms"];

/// What a group that has never read finds.
async fn look(server: &Server, queue: &str) -> Vec<String> {
    let group = uuid::Uuid::new_v4();
    let found = server
        .pop(&format!("/queue/{queue}?consumerGroup={group}&autoAck=true&batch=100&partitions=0"))
        .await;
    found.iter().flat_map(ids).map(str::to_owned).collect()
}

async fn until_left(server: &Server, queue: &str, left: &[&str]) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let seen = look(server, queue).await;
        if seen == left {
            return;
        }
        assert!(Instant::now() < deadline, "{seen:?} never became {left:?}");
        sleep(Duration::from_millis(50)).await;
    }
}

/// A whole round over all queues has begun and ended: two messages went one after the other, the second one being pushed
/// after the first was gone.
async fn until_a_round_has_passed(server: &Server, options: &Value) {
    server.configure(json!({"queue": "witness", "options": options})).await;
    assert_eq!(
        server.pop("/queue/witness?consumerGroup=silent").await,
        None,
        "subscribed, and never to read"
    );
    for id in ["w1", "w2"] {
        server.push_ids("witness", "p", &[id]).await;
        until_left(server, "witness", &[]).await;
    }
}

async fn read(server: &Server, queue: &str, group: &str, count: usize) {
    let popped = server.pop_some(&format!("/queue/{queue}?consumerGroup={group}&batch={count}")).await;
    assert_eq!(ids(&popped).len(), count);
    server.ack_all(&popped, "completed").await;
}

on_every_engine! {
    async fn messages_go_at_their_age_read_or_not(on: On) {
        let server = on.start_with(&OFTEN).await;
        server.configure(json!({"queue": "q", "options": {"retentionEnabled": true, "retentionSeconds": 1}})).await;
        assert_eq!(server.pop("/queue/q?consumerGroup=silent").await, None);
        server.push_ids("q", "p", &["t1", "t2"]).await;
        until_left(&server, "q", &[]).await;
        server.configure(json!({"queue": "q", "options": {"retentionEnabled": false}})).await;
        server.push_ids("q", "p", &["t3"]).await;
        let popped = server.pop_some("/queue/q?consumerGroup=silent&batch=10").await;
        assert_eq!((ids(&popped), &popped["messages"][0]["offset"]), (vec!["t3"], &json!(2)), "positions are not used again");
        assert_eq!(server.ack_all(&popped, "completed").await[0]["success"], true);
    }

    async fn without_the_switch_nothing_goes_by_age(on: On) {
        let server = on.start_with(&OFTEN).await;
        server.configure(json!({"queue": "q", "options": {"retentionSeconds": 1, "completedRetentionSeconds": 1}})).await;
        server.push_ids("q", "p", &["t"]).await;
        read(&server, "q", "a", 1).await;
        until_a_round_has_passed(&server, &json!({"retentionEnabled": true, "retentionSeconds": 1})).await;
        assert_eq!(look(&server, "q").await, ["t"]);
    }

    async fn consumed_messages_go_when_every_group_has_read_them(on: On) {
        let server = on.start_with(&OFTEN).await;
        server.configure(json!({"queue": "q", "options": {"retentionEnabled": true, "completedRetentionSeconds": 1}})).await;
        for id in ["t1", "t2", "t3"] {
            server.push_ids("q", "p", &[id]).await;
        }
        read(&server, "q", "fast", 3).await;
        read(&server, "q", "slow", 1).await;
        until_left(&server, "q", &["t2", "t3"]).await;
        read(&server, "q", "slow", 2).await;
        until_left(&server, "q", &[]).await;
    }

    async fn a_subscribed_group_that_has_read_nothing_holds_messages_back(on: On) {
        let server = on.start_with(&OFTEN).await;
        server.configure(json!({"queue": "q", "options": {"retentionEnabled": true, "completedRetentionSeconds": 1}})).await;
        assert_eq!(server.pop("/queue/q?consumerGroup=silent").await, None, "subscribed");
        server.push_ids("q", "p", &["t1", "t2"]).await;
        read(&server, "q", "a", 2).await;
        until_a_round_has_passed(&server, &json!({"retentionEnabled": true, "retentionSeconds": 1})).await;
        assert_eq!(look(&server, "q").await, ["t1", "t2"]);
        read(&server, "q", "silent", 2).await;
        until_left(&server, "q", &[]).await;
    }

    async fn unread_messages_are_evicted_and_read_ones_are_not(on: On) {
        let server = on.start_with(&OFTEN).await;
        server.configure(json!({"queue": "read", "options": {"maxWaitTimeSeconds": 1}})).await;
        server.push_ids("read", "p", &["t"]).await;
        read(&server, "read", "a", 1).await;
        until_a_round_has_passed(&server, &json!({"maxWaitTimeSeconds": 1})).await;
        assert_eq!(look(&server, "read").await, ["t"], "read by every group there was");
        server.configure(json!({"queue": "witness", "options": {"maxWaitTimeSeconds": 0}})).await;
        server.push_ids("witness", "p", &["fresh"]).await;
        assert_eq!(ids(&server.pop_some("/queue/witness?consumerGroup=silent&batch=10").await), ["fresh"]);
    }
}
