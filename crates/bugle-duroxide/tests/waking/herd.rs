//! No more get up than there is to do: counted, not timed.

use std::sync::Arc;

use duroxide::providers::{Provider, TagFilter};

use crate::nodes::*;

#[tokio::test]
async fn one_item_and_four_dispatchers_cost_one_look() {
    let nodes = pair().await;
    let mut fetches = Vec::new();
    for _ in 0..4 {
        fetches.push(waiting_task(&nodes.b, None, TagFilter::DefaultOnly).await);
    }
    let before = nodes.b.stats();
    nodes.a.enqueue_for_worker(activity(1, None, None)).await.unwrap();
    until(|| nodes.b.stats().waiting == 3).await;
    until(|| fetches.iter().any(|f| f.is_finished())).await;
    assert_eq!(nodes.b.stats().looks, before.looks + 1);
}

#[tokio::test]
async fn an_event_that_is_taken_at_home_wakes_nobody_elsewhere() {
    let nodes = pair().await;
    let home = waiting_turn(&nodes.a).await;
    let _away = waiting_turn(&nodes.b).await;
    let before = nodes.b.stats();
    nodes.a.enqueue_for_orchestrator(start("i"), None).await.unwrap();
    assert!(home.await.unwrap().is_some());
    // Something else that reaches the other node for certain, after whatever came before it.
    let barrier = waiting_task(&nodes.b, None, TagFilter::DefaultOnly).await;
    nodes.a.enqueue_for_worker(activity(1, None, None)).await.unwrap();
    assert!(barrier.await.unwrap().is_some());
    let after = nodes.b.stats();
    // The barrier's own two looks: one before it sat down, one when it was woken.
    assert_eq!((after.looks, after.wakes_remote), (before.looks + 2, before.wakes_remote + 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_of_a_hundred_wakes_four_dispatchers_a_few_times() {
    let nodes = pair().await;
    let mut dispatchers = Vec::new();
    for _ in 0..4 {
        let node = Arc::clone(&nodes.a);
        dispatchers.push(tokio::spawn(async move {
            let mut done = 0;
            while let Some((_, token, _)) =
                node.fetch_work_item(LEASE, PATIENCE / 20, None, &TagFilter::DefaultOnly).await.unwrap()
            {
                node.ack_work_item(&token, None).await.unwrap();
                done += 1;
            }
            done
        }));
    }
    until(|| nodes.a.stats().waiting == 4).await;
    let before = nodes.a.stats();
    let items = (0..100).map(|n| activity(n, None, None)).collect();
    nodes.b.enqueue_for_orchestrator(start("i"), None).await.unwrap();
    let (_, token, _) = turn_now(&nodes.b, LEASE).await.unwrap();
    nodes.b.ack_orchestration_item(&token, 1, vec![], items, vec![], metadata(), vec![]).await.unwrap();
    let mut done = 0;
    for dispatcher in dispatchers {
        done += dispatcher.await.unwrap();
    }
    assert_eq!(done, 100);
    let after = nodes.a.stats();
    let wakes = |s: &bugle_duroxide::Stats| {
        s.wakes_local + s.wakes_remote + s.wakes_timed + s.wakes_chained + s.wakes_recheck
    };
    assert!(wakes(&after) - wakes(&before) <= 12, "{before:?} {after:?}");
    assert!(after.empty_looks - before.empty_looks <= 8, "{before:?} {after:?}");
}

#[tokio::test]
async fn entering_again_costs_nothing_while_nothing_happens() {
    let nodes = pair().await;
    let patience = std::time::Duration::from_millis(20);
    let before = nodes.b.stats();
    for _ in 0..3 {
        assert!(nodes.b.fetch_orchestration_item(LEASE, patience, None).await.unwrap().is_none());
    }
    let after = nodes.b.stats();
    let more = (after.looks - before.looks, after.looks_spared - before.looks_spared);
    assert_eq!(more, (1, 2), "{before:?} {after:?}");
}

#[tokio::test]
async fn sessions_are_not_asked_for_while_none_is_held() {
    let nodes = pair().await;
    let renew = || nodes.a.renew_session_lock(&["me"], LEASE, LEASE);
    assert_eq!(renew().await.unwrap(), 0);
    // What a foreign hand puts there is not seen: nobody asked the database.
    let lease = "INSERT INTO {schema}.sessions VALUES ('s', 'me', now() + interval '1 hour', now())";
    execute(&nodes.schema, lease).await;
    assert_eq!(renew().await.unwrap(), 0);
    nodes.a.enqueue_for_worker(activity(1, Some("s"), None)).await.unwrap();
    assert!(task_now(&nodes.a, LEASE, Some(("me", LEASE))).await.is_some());
    assert_eq!(renew().await.unwrap(), 1);
}
