//! Batches: `minPopWaitTime`, which lets them grow, and what `autopilot` and `leaseSeconds` make of a pop.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::common::{ids, until_true};

on_every_engine! {
    async fn a_batch_that_is_not_full_is_let_grow(on: On) {
        let server = on.start().await;
        server.configure(json!({"queue": "q", "options": {"minPopWaitTime": 60000}})).await;
        server.push_ids("q", "p", &["a"]).await;
        let waiter = server.park("/queue/q?batch=3&leaseSeconds=300").await;
        server.push_ids("q", "p", &["b"]).await;
        let other = server.pop_some("/queue/q?batch=3&consumerGroup=other").await;
        assert_eq!(ids(&other), ["a", "b"], "who does not wait takes what there is");
        assert!(!waiter.is_answered());
        server.push_ids("q", "p", &["c", "d"]).await;
        let popped = waiter.answer().await;
        assert_eq!(ids(&popped), ["a", "b", "c"]);
        assert_eq!(popped["messages"][0]["deliveryAttempt"], 1);
    }

    async fn a_batch_is_held_no_longer_than_told_and_than_its_caller_waits(on: On) {
        let server = on.start().await;
        server.configure(json!({"queue": "short", "options": {"minPopWaitTime": 200}})).await;
        server.configure(json!({"queue": "long", "options": {"minPopWaitTime": 60000}})).await;
        for (queue, timeout) in [("short", 20_000), ("long", 300)] {
            server.push_ids(queue, "p", &["a"]).await;
            let begun = Instant::now();
            let popped = server.pop_some(&format!("/queue/{queue}?batch=10&wait=true&timeout={timeout}")).await;
            assert_eq!(ids(&popped), ["a"], "{queue}");
            assert!(begun.elapsed() >= Duration::from_millis(200), "{queue} {:?}", begun.elapsed());
        }
        server.push_ids("long", "one", &["b"]).await;
        assert_eq!(ids(&server.pop_some("/queue/long?wait=true&timeout=20000").await), ["b"], "one message is a full batch");
    }

    async fn a_held_pop_whose_client_goes_away_takes_nothing(on: On) {
        let server = on.start().await;
        server.configure(json!({"queue": "q", "options": {"minPopWaitTime": 60000}})).await;
        server.push_ids("q", "p", &["a"]).await;
        let waiter = server.park("/queue/q?batch=3").await;
        waiter.leave();
        until_true("gone", async || server.metrics().await.parked() == 0.0).await;
        let popped = server.pop_some("/queue/q").await;
        assert_eq!((ids(&popped), &popped["messages"][0]["deliveryAttempt"]), (vec!["a"], &json!(1)));
    }

    async fn the_autopilot_tells_its_choice(on: On) {
        let server = on.start().await;
        let many: Vec<String> = (0..300).map(|n| n.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        server.push_ids("q", "p", &many).await;
        let popped = server.pop_some("/queue/q?autopilot=true&autoAck=true").await;
        assert_eq!(ids(&popped).len(), 300, "a batch of 200 at least");
        let terms = &popped["autopilot"];
        assert!(terms["batch"].as_u64().unwrap() >= 200 && terms["partitions"].as_u64().unwrap() >= 1 && terms["waitMs"].is_u64(), "{terms}");
        server.push_ids("q", "p", &["a", "b"]).await;
        let own = server.pop_some("/queue/q?autopilot=true&batch=1").await;
        assert_eq!((ids(&own).len(), &own["autopilot"]["batch"]), (1, &json!(1)), "what the caller says holds");
    }

    async fn a_conflating_pop_that_waited_for_nothing_is_told_so(on: On) {
        let server = on.start().await;
        let empty = server.pop_some("/queue/q?consumerGroup=g&conflation=true&wait=true&timeout=50").await;
        assert_eq!((&empty["conflation"], &empty["messages"]), (&json!(true), &json!([])));
        let plain = server.pop_some("/queue/q?consumerGroup=g&wait=true&timeout=50").await;
        assert_eq!((&plain["conflation"], &plain["conflationConflict"]), (&json!(true), &json!(true)));
    }
}
