//! Pops that wait.

use std::time::{Duration, Instant};

use tokio::time::timeout;

use crate::common::{PATIENCE, ids};

on_every_engine! {
    async fn a_push_wakes_a_waiting_pop(on: On) {
        let server = on.start().await;
        for path in ["/queue/q", "/queue/q/partition/p", "?namespace=q"] {
            let client = server.client();
            let rest = format!("{path}{}wait=true&timeout=60000&autoAck=true&batch=10", if path.contains('?') { "&" } else { "?" });
            let waiter = tokio::spawn(async move { client.pop(&rest).await });
            server.until_waiting(1).await;
            server.push_ids("q", "p", &[path]).await;
            let popped = timeout(PATIENCE, waiter).await.expect("woken").unwrap().expect("a message");
            assert_eq!(ids(&popped), [path]);
            server.until_waiting(0).await;
        }
    }

    async fn as_many_waiters_are_woken_as_there_is_work(on: On) {
        let server = on.start().await;
        let mut waiters = tokio::task::JoinSet::new();
        for _ in 0..3 {
            let client = server.client();
            waiters.spawn(async move { client.pop_some("/queue/q?wait=true&timeout=60000").await });
        }
        server.until_waiting(3).await;
        for lane in ["a", "b", "c"] {
            server.push_ids("q", lane, &[lane]).await;
        }
        let popped = timeout(PATIENCE, waiters.join_all()).await.expect("all are woken");
        let mut seen: Vec<_> = popped.iter().flat_map(ids).collect();
        seen.sort_unstable();
        assert_eq!(seen, ["a", "b", "c"], "each message went to one of them");
    }

    async fn a_wait_ends_empty_at_its_deadline(on: On) {
        let server = on.start().await;
        let begun = Instant::now();
        assert_eq!(server.pop("/queue/q?wait=true&timeout=300").await, None);
        assert!(begun.elapsed() >= Duration::from_millis(300));
    }

    async fn a_long_timeout_is_cut_to_the_longest_wait(on: On) {
        let server = on.start_with(&["--max-timeout=300ms"]).await;
        let popped = timeout(PATIENCE, server.pop("/queue/q?wait=true&timeout=99999999")).await;
        assert_eq!(popped.expect("it ends"), None);
    }

    async fn a_client_that_went_away_gets_nothing(on: On) {
        let server = on.start().await;
        let client = server.client();
        let waiter = tokio::spawn(async move { client.pop("/queue/q?wait=true&timeout=60000").await });
        server.until_waiting(1).await;
        waiter.abort();
        server.until_waiting(0).await;
        server.push_ids("q", "p", &["t"]).await;
        // A claim may have been in flight for it; then the lane is given back, and this pop is woken.
        let popped = server.pop_some("/queue/q?wait=true&timeout=20000").await;
        assert_eq!(ids(&popped), ["t"]);
        assert_eq!(popped["messages"][0]["deliveryAttempt"], 1);
    }

    async fn a_freed_lane_wakes_a_waiting_pop(on: On) {
        let server = on.start().await;
        server.push_ids("q", "p", &["t"]).await;
        let held = server.pop_some("/queue/q").await;
        let client = server.client();
        let waiter = tokio::spawn(async move { client.pop("/queue/q?wait=true&timeout=60000").await });
        server.until_waiting(1).await;
        server.ack_all(&held, "retry").await;
        let popped = timeout(PATIENCE, waiter).await.expect("woken").unwrap().expect("a message");
        assert_eq!(ids(&popped), ["t"]);
    }
}
