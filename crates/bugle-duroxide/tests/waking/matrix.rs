//! Every event that makes something fetchable, on node A, reaches a fetch that waits on node B.

use std::time::Duration;

use duroxide::providers::{Provider, TagFilter, WorkItem};

use crate::nodes::*;

const SOON: Duration = Duration::from_millis(700);

async fn waking_turn(fetch: tokio::task::JoinHandle<Option<Turn>>) -> String {
    fetch.await.unwrap().expect("woken before the patience ended").0.instance
}

#[tokio::test]
async fn a_message() {
    let nodes = pair().await;
    let fetch = waiting_turn(&nodes.b).await;
    nodes.a.enqueue_for_orchestrator(start("i"), None).await.unwrap();
    assert_eq!(waking_turn(fetch).await, "i");
}

#[tokio::test]
async fn a_delayed_message_and_an_earlier_one_after_it() {
    let nodes = pair().await;
    let fetch = waiting_turn(&nodes.b).await;
    nodes.a.enqueue_for_orchestrator(start("later"), Some(HOUR)).await.unwrap();
    nodes.a.enqueue_for_orchestrator(start("soon"), Some(SOON)).await.unwrap();
    assert_eq!(waking_turn(fetch).await, "soon");
}

#[tokio::test]
async fn many_timers_each_in_its_turn() {
    let nodes = pair().await;
    let fire_at = |ms: u64| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        now.as_millis() as u64 + ms
    };
    for (n, ms) in [900, 300, 600, 301, 602, 903].into_iter().enumerate() {
        let fire_at_ms = fire_at(ms);
        let timer = WorkItem::TimerFired { instance: format!("t{n}"), execution_id: 1, id: 1, fire_at_ms };
        nodes.a.enqueue_for_orchestrator(timer, None).await.unwrap();
    }
    let mut fired = Vec::new();
    for _ in 0..6 {
        let turn = nodes.b.fetch_orchestration_item(LEASE, PATIENCE, None).await.unwrap();
        fired.push(turn.expect("woken before the patience ended").0.instance);
    }
    fired.sort();
    assert_eq!(fired, ["t0", "t1", "t2", "t3", "t4", "t5"]);
}

#[tokio::test]
async fn an_abandoned_instance_at_once_and_after_a_delay() {
    let nodes = pair().await;
    for delay in [None, Some(SOON)] {
        nodes.a.enqueue_for_orchestrator(start("i"), None).await.unwrap();
        let (_, token, _) = turn_now(&nodes.a, LEASE).await.unwrap();
        let fetch = waiting_turn(&nodes.b).await;
        nodes.a.abandon_orchestration_item(&token, delay, false).await.unwrap();
        let (item, token, attempts) = fetch.await.unwrap().expect("woken before the patience ended");
        assert_eq!((item.instance.as_str(), attempts), ("i", 2));
        nodes.b.ack_orchestration_item(&token, 1, vec![], vec![], vec![], metadata(), vec![]).await.unwrap();
    }
}

#[tokio::test]
async fn a_message_behind_a_lock_whose_holder_acknowledges() {
    let nodes = pair().await;
    nodes.a.enqueue_for_orchestrator(start("i"), None).await.unwrap();
    let (_, token, _) = turn_now(&nodes.a, LEASE).await.unwrap();
    nodes.a.enqueue_for_orchestrator(event("i"), None).await.unwrap();
    let fetch = waiting_turn(&nodes.b).await;
    nodes.a.ack_orchestration_item(&token, 1, vec![], vec![], vec![], metadata(), vec![]).await.unwrap();
    let (item, ..) = fetch.await.unwrap().expect("woken before the patience ended");
    assert_eq!(item.messages, [event("i")]);
}

#[tokio::test]
async fn an_instance_whose_holder_dies() {
    let nodes = pair().await;
    // Waiting before and after the claim: one was told of the lease, the other found out by itself.
    let before = waiting_turn(&nodes.b).await;
    nodes.a.enqueue_for_orchestrator(start("i"), Some(SOON)).await.unwrap();
    assert_eq!(waking_turn(before).await, "i");
    nodes.a.enqueue_for_orchestrator(start("j"), None).await.unwrap();
    turn_now(&nodes.a, SOON).await.unwrap();
    let after = waiting_turn(&nodes.b).await;
    assert_eq!(waking_turn(after).await, "j");
}

#[tokio::test]
async fn an_instance_claimed_while_others_already_wait() {
    let nodes = pair().await;
    let local = waiting_turn(&nodes.a).await;
    let remote = waiting_turn(&nodes.b).await;
    // Its own waiting fetch takes it, so that the other node is not bothered, except with the end of the lease.
    local.abort();
    until(|| nodes.a.stats().waiting == 0).await;
    let fetching = std::sync::Arc::clone(&nodes.a);
    let holder = tokio::spawn(async move { fetching.fetch_orchestration_item(SOON, PATIENCE, None).await });
    until(|| nodes.a.stats().waiting == 1).await;
    nodes.a.enqueue_for_orchestrator(start("i"), None).await.unwrap();
    assert!(holder.await.unwrap().unwrap().is_some());
    assert!(!remote.is_finished());
    assert_eq!(waking_turn(remote).await, "i");
}

#[tokio::test]
async fn activities_a_turn_schedules_and_their_completion() {
    let nodes = pair().await;
    nodes.a.enqueue_for_orchestrator(start("i"), None).await.unwrap();
    let (_, token, _) = turn_now(&nodes.a, LEASE).await.unwrap();
    let task = waiting_task(&nodes.b, None, TagFilter::DefaultOnly).await;
    let items = vec![activity(2, None, None)];
    nodes.a.ack_orchestration_item(&token, 1, vec![], items, vec![], metadata(), vec![]).await.unwrap();
    let (_, token, _) = task.await.unwrap().expect("woken before the patience ended");
    let turn = waiting_turn(&nodes.a).await;
    let done =
        WorkItem::ActivityCompleted { instance: "i".into(), execution_id: 1, id: 2, result: "\0".into() };
    nodes.b.ack_work_item(&token, Some(done)).await.unwrap();
    assert_eq!(waking_turn(turn).await, "i");
}

#[tokio::test]
async fn an_activity_and_one_abandoned_at_once_and_after_a_delay() {
    let nodes = pair().await;
    let fetch = waiting_task(&nodes.b, None, TagFilter::DefaultOnly).await;
    nodes.a.enqueue_for_worker(activity(1, None, None)).await.unwrap();
    let (_, mut token, _) = fetch.await.unwrap().expect("woken before the patience ended");
    for delay in [None, Some(SOON)] {
        let fetch = waiting_task(&nodes.a, None, TagFilter::DefaultOnly).await;
        nodes.b.abandon_work_item(&token, delay, false).await.unwrap();
        let (_, next, attempts) = fetch.await.unwrap().expect("woken before the patience ended");
        assert!(attempts > 1);
        nodes.a.abandon_work_item(&next, None, true).await.unwrap();
        token = task_now(&nodes.b, LEASE, None).await.unwrap().1;
    }
}

#[tokio::test]
async fn an_activity_whose_holder_dies() {
    let nodes = pair().await;
    nodes.a.enqueue_for_worker(activity(1, None, None)).await.unwrap();
    task_now(&nodes.a, SOON, None).await.unwrap();
    let fetch = waiting_task(&nodes.b, None, TagFilter::DefaultOnly).await;
    let (_, _, attempts) = fetch.await.unwrap().expect("woken before the patience ended");
    assert_eq!(attempts, 2);
}

#[tokio::test]
async fn a_session_whose_owner_dies() {
    let nodes = pair().await;
    nodes.a.enqueue_for_worker(activity(1, Some("s"), None)).await.unwrap();
    let (_, token, _) = task_now(&nodes.a, LEASE, Some(("owner-a", SOON))).await.unwrap();
    nodes.a.enqueue_for_worker(activity(2, Some("s"), None)).await.unwrap();
    nodes.a.ack_work_item(&token, None).await.unwrap();
    let fetch = waiting_task(&nodes.b, Some("owner-b"), TagFilter::DefaultOnly).await;
    assert!(fetch.await.unwrap().is_some());
}

#[tokio::test]
async fn an_item_for_a_session_held_by_the_second_of_two_slots() {
    let nodes = pair().await;
    for enqueuing in [&nodes.a, &nodes.b] {
        let session = format!("s-{}", std::ptr::from_ref(enqueuing).addr());
        enqueuing.enqueue_for_worker(activity(1, Some(&session), None)).await.unwrap();
        let (_, token, _) = task_now(&nodes.b, LEASE, Some(("slot-2", LEASE))).await.unwrap();
        nodes.b.ack_work_item(&token, None).await.unwrap();
        let one = waiting_task(&nodes.b, Some("slot-1"), TagFilter::DefaultOnly).await;
        let two = waiting_task(&nodes.b, Some("slot-2"), TagFilter::DefaultOnly).await;
        enqueuing.enqueue_for_worker(activity(2, Some(&session), None)).await.unwrap();
        let (_, token, _) = two.await.unwrap().expect("woken before the patience ended");
        nodes.b.ack_work_item(&token, None).await.unwrap();
        assert!(!one.is_finished());
        one.abort();
        until(|| nodes.b.stats().waiting == 0).await;
    }
}

#[tokio::test]
async fn a_tagged_activity_passes_by_those_who_do_not_want_it() {
    let nodes = pair().await;
    let plain = waiting_task(&nodes.b, None, TagFilter::DefaultOnly).await;
    let gpu = waiting_task(&nodes.b, None, TagFilter::tags(["gpu"])).await;
    let looks = nodes.b.stats().looks;
    nodes.a.enqueue_for_worker(activity(1, None, Some("gpu"))).await.unwrap();
    assert!(gpu.await.unwrap().is_some());
    assert!(!plain.is_finished());
    assert_eq!(nodes.b.stats().looks, looks + 1);
}

#[tokio::test]
async fn a_process_that_is_gone_at_once() {
    let nodes = pair().await;
    let fetch = waiting_turn(&nodes.b).await;
    let visitor = node(&nodes.schema, bugle_duroxide::LongPoll::on().fallback(HOUR)).await;
    visitor.enqueue_for_orchestrator(start("i"), None).await.unwrap();
    drop(visitor);
    assert_eq!(waking_turn(fetch).await, "i");
}

#[tokio::test]
async fn a_client_that_does_not_listen() {
    let nodes = pair().await;
    let fetch = waiting_turn(&nodes.b).await;
    let client = node(&nodes.schema, bugle_duroxide::LongPoll::off()).await;
    client.enqueue_for_orchestrator(start("i"), None).await.unwrap();
    assert_eq!(waking_turn(fetch).await, "i");
}
