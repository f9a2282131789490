//! Messages that time hides: when they show, and that a waiting pop is woken then.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::time::{sleep, timeout};

use crate::common::{PATIENCE, ids};

/// How late a wake-up may be on a busy machine and still be the work of a timer: less than the waits' own timeouts.
const SLACK: Duration = Duration::from_secs(3);

on_every_engine! {
    async fn a_delayed_message_wakes_a_waiting_pop_when_it_is_due(on: On) {
        let server = on.start().await;
        server.configure(json!({"queue": "q", "options": {"delayedProcessing": 1}})).await;
        for path in ["/queue/q", "/queue/q/partition/p"] {
            let client = server.client();
            let waiter = tokio::spawn(async move {
                let popped = client.pop_some(&format!("{path}?wait=true&timeout=60000&autoAck=true")).await;
                (popped, Instant::now())
            });
            server.until_waiting(1).await;
            let begun = Instant::now();
            server.push_ids("q", "p", &[path]).await;
            assert_eq!(server.pop("/queue/q").await, None, "not due yet");
            let (popped, woken) = timeout(PATIENCE, waiter).await.expect("woken").unwrap();
            let waited = woken - begun;
            assert_eq!(ids(&popped), [path]);
            assert!(waited >= Duration::from_secs(1), "{waited:?}");
            assert!(waited < Duration::from_secs(1) + SLACK, "woken late: {waited:?}");
        }
    }

    async fn only_the_part_that_is_due_is_delivered(on: On) {
        let server = on.start().await;
        server.configure(json!({"queue": "q", "options": {"delayedProcessing": 2}})).await;
        server.push_ids("q", "p", &["t1"]).await;
        // The distance between the two is the subject of the test.
        sleep(Duration::from_millis(900)).await;
        let later = Instant::now();
        server.push_ids("q", "p", &["t2"]).await;
        let rest = "/queue/q?batch=10&wait=true&timeout=60000&autoAck=true";
        assert_eq!(ids(&server.pop_some(rest).await), ["t1"]);
        assert_eq!(ids(&server.pop_some(rest).await), ["t2"]);
        assert!(later.elapsed() >= Duration::from_secs(2));
    }

    async fn a_window_opens_when_the_lane_was_quiet(on: On) {
        let server = on.start().await;
        server.configure(json!({"queue": "q", "options": {"windowBuffer": 2}})).await;
        let client = server.client();
        let waiter = tokio::spawn(async move {
            let popped = client.pop_some("/queue/q?batch=10&wait=true&timeout=60000").await;
            (popped, Instant::now())
        });
        server.until_waiting(1).await;
        server.push_ids("q", "p", &["t1"]).await;
        let last = Instant::now();
        server.push_ids("q", "p", &["t2"]).await;
        assert_eq!(server.pop("/queue/q").await, None, "the window is closed");
        let (popped, woken) = timeout(PATIENCE, waiter).await.expect("woken").unwrap();
        let waited = woken - last;
        assert_eq!(ids(&popped), ["t1", "t2"], "gathered");
        assert!(waited >= Duration::from_secs(2), "{waited:?}");
        assert!(waited < Duration::from_secs(2) + SLACK, "woken late: {waited:?}");
    }

    async fn a_busy_lane_delivers_although_its_window_never_closes(on: On) {
        let server = on.start().await;
        server.configure(json!({"queue": "q", "options": {"windowBuffer": 2}})).await;
        let client = server.client();
        let pusher = tokio::spawn(async move {
            // Never quiet for a window; below the number that opens one early.
            for n in 0..95 {
                client.push_ids("q", "p", &[&format!("t{n}")]).await;
                sleep(Duration::from_millis(100)).await;
            }
        });
        let popped = server.pop_some("/queue/q?batch=100&wait=true&timeout=60000").await;
        assert!(!pusher.is_finished(), "delivered while the lane was busy");
        assert_eq!(ids(&popped)[0], "t0");
        pusher.abort();
    }

    async fn a_full_window_opens_at_once(on: On) {
        let server = on.start().await;
        server.configure(json!({"queue": "q", "options": {"windowBuffer": 3600}})).await;
        let all: Vec<String> = (0..100).map(|n| format!("t{n}")).collect();
        server.push_ids("q", "p", &all[..99].iter().map(String::as_str).collect::<Vec<_>>()).await;
        assert_eq!(server.pop("/queue/q?batch=1000").await, None);
        server.push_ids("q", "p", &[&all[99]]).await;
        assert_eq!(ids(&server.pop_some("/queue/q?batch=1000").await), all);
    }
}
