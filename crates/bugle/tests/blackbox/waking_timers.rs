//! Wakes by the clock: what time hides or holds is delivered when its time has come, not before, and not by polling: the
//! floor is ten minutes away. A later timer never stands in the way of an earlier one.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::common::{Server, ids};
use crate::waking::NO_FLOOR;

/// How late a wake may be on a busy machine. Far less than anything else that could have woken.
const LATE: Duration = Duration::from_secs(1);

#[track_caller]
fn on_time(waited: Duration, wanted: Duration) {
    assert!(waited >= wanted, "woken {:?} early", wanted - waited);
    assert!(waited < wanted + LATE, "woken {:?} late", waited - wanted);
}

async fn woken_by_timers(server: &Server) -> f64 {
    server.metrics().await.get("bugle_wakes_total{source=\"timer\"}")
}

on_every_engine! {
    async fn a_delay_ends_on_time(on: On) {
        let server = on.start_with(&NO_FLOOR).await;
        server.configure(json!({"queue": "q", "options": {"delayedProcessing": 1}})).await;
        let waiter = server.park("/queue/q").await;
        let begun = Instant::now();
        server.push_ids("q", "p", &["t"]).await;
        let (popped, at) = waiter.timed().await;
        assert_eq!(ids(&popped), ["t"]);
        on_time(at - begun, Duration::from_secs(1));
        assert!(woken_by_timers(&server).await >= 1.0);
    }

    async fn a_window_closes_on_time(on: On) {
        let server = on.start_with(&NO_FLOOR).await;
        server.configure(json!({"queue": "q", "options": {"windowBuffer": 1}})).await;
        let waiter = server.park("/queue/q?batch=10").await;
        server.push_ids("q", "p", &["t1"]).await;
        let begun = Instant::now();
        server.push_ids("q", "p", &["t2"]).await;
        let (popped, at) = waiter.timed().await;
        assert_eq!(ids(&popped), ["t1", "t2"]);
        on_time(at - begun, Duration::from_secs(1));
        assert!(woken_by_timers(&server).await >= 1.0);
    }

    async fn a_retry_delay_ends_on_time(on: On) {
        let server = on.start_with(&NO_FLOOR).await;
        let options = json!({"retryDelay": 1000, "enforce": ["retryDelay"]});
        server.configure(json!({"queue": "q", "options": options})).await;
        server.push_ids("q", "p", &["t"]).await;
        let held = server.pop_some("/queue/q").await;
        let waiter = server.park("/queue/q").await;
        let begun = Instant::now();
        server.ack_all(&held, "failed").await;
        let (popped, at) = waiter.timed().await;
        assert_eq!((ids(&popped), &popped["messages"][0]["deliveryAttempt"]), (vec!["t"], &json!(2)));
        on_time(at - begun, Duration::from_secs(1));
        assert!(woken_by_timers(&server).await >= 1.0);
    }

    async fn a_lease_ends_on_time(on: On) {
        let server = on.start_with(&NO_FLOOR).await;
        server.push_ids("q", "p", &["t"]).await;
        let begun = Instant::now();
        server.pop_some("/queue/q?leaseSeconds=1").await;
        let waiter = server.park("/queue/q").await;
        let (popped, at) = waiter.timed().await;
        assert_eq!((ids(&popped), &popped["messages"][0]["deliveryAttempt"]), (vec!["t"], &json!(2)));
        on_time(at - begun, Duration::from_secs(1));
        assert!(woken_by_timers(&server).await >= 1.0);
    }

    async fn an_earlier_time_goes_before_a_later_one(on: On) {
        let server = on.start_with(&NO_FLOOR).await;
        server.configure(json!({"queue": "q", "options": {"delayedProcessing": 1}})).await;
        server.push_ids("q", "leased", &["a"]).await;
        let held = server.wait("/queue/q?leaseSeconds=30").answer().await;
        assert_eq!(ids(&held), ["a"]);
        // Waits for the end of the lease in half a minute; then something is due in a second.
        let waiter = server.park("/queue/q").await;
        let begun = Instant::now();
        server.push_ids("q", "delayed", &["b"]).await;
        let (popped, at) = waiter.timed().await;
        assert_eq!(ids(&popped), ["b"]);
        on_time(at - begun, Duration::from_secs(1));
        // Given back, the first lane is free before its lease would have ended.
        let waiter = server.park("/queue/q").await;
        let begun = Instant::now();
        server.ack_all(&held, "retry").await;
        let (popped, at) = waiter.timed().await;
        assert_eq!(ids(&popped), ["a"]);
        on_time(at - begun, Duration::ZERO);
    }

    async fn a_lease_that_is_extended_ends_later(on: On) {
        let server = on.start_with(&NO_FLOOR).await;
        server.push_ids("q", "p", &["t"]).await;
        let held = server.pop_some("/queue/q?leaseSeconds=1").await;
        let waiter = server.park("/queue/q").await;
        let begun = Instant::now();
        let path = format!("/api/v1/lease/{}/extend", held["leaseId"].as_str().unwrap());
        let extended = server.post(&path, json!({"seconds": 2})).await.expect(200);
        assert_eq!(extended["success"], true, "{extended}");
        let (popped, at) = waiter.timed().await;
        assert_eq!(ids(&popped), ["t"]);
        on_time(at - begun, Duration::from_secs(2));
    }
}
