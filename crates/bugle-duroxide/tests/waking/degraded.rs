//! What happens when nobody can tell: the listener is cut, never comes, or its task panics.

use std::sync::Arc;
use std::time::Duration;

use bugle_duroxide::{LongPoll, Options, PostgresProvider};
use bugle_pg::testdb::{fresh_schema, pgbouncer};
use duroxide::providers::{Provider, TagFilter};

use crate::nodes::*;

/// End every listening connection of a schema's nodes.
async fn cut(schema: &str) {
    let channel = bugle_pg::channel_name(&format!("duroxide:{schema}"));
    let sql = format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = 'LISTEN \"{channel}\"'"
    );
    execute(schema, &sql).await;
}

#[tokio::test]
async fn a_message_sent_while_the_listeners_are_cut_is_found() {
    let nodes = pair().await;
    for round in 0..5 {
        let fetch = waiting_turn(&nodes.b).await;
        cut(&nodes.schema).await;
        nodes.a.enqueue_for_orchestrator(start(&format!("i{round}")), None).await.unwrap();
        assert!(fetch.await.unwrap().is_some(), "round {round}");
        for node in [&nodes.a, &nodes.b] {
            until(|| node.is_listening()).await;
        }
    }
}

#[tokio::test]
async fn behind_a_pooler_that_cannot_listen_fetching_goes_on_by_polling() {
    let schema = fresh_schema();
    let options = Options::new(pgbouncer().await)
        .schema(&schema)
        .transaction_pooler(true)
        .long_poll(LongPoll::on().fallback(HOUR));
    let pooled = Arc::new(PostgresProvider::connect(options).await.unwrap());
    let direct = node(&schema, LongPoll::on().fallback(HOUR)).await;
    for n in 0..3 {
        let fetching = Arc::clone(&pooled);
        let fetch = tokio::spawn(async move {
            fetching.fetch_work_item(LEASE, PATIENCE, None, &TagFilter::DefaultOnly).await.unwrap()
        });
        until(|| pooled.stats().empty_looks > n).await;
        direct.enqueue_for_worker(activity(n, None, None)).await.unwrap();
        assert!(fetch.await.unwrap().is_some());
    }
    until(|| !pooled.is_listening()).await;
}

#[tokio::test]
async fn rows_inserted_by_hand_are_found_by_the_fallback() {
    let schema = fresh_schema();
    let node = node(&schema, LongPoll::on().fallback(Duration::from_millis(300))).await;
    until(|| node.is_listening()).await;
    let turn = waiting_turn(&node).await;
    let task = waiting_task(&node, None, TagFilter::DefaultOnly).await;
    let message = serde_json::to_string(&start("by hand")).unwrap();
    let item = serde_json::to_string(&activity(1, None, None)).unwrap();
    execute(
        &schema,
        &format!(
            "INSERT INTO {{schema}}.messages (instance_id, item) VALUES ('by hand', '{message}');
             INSERT INTO {{schema}}.activities (instance_id, execution_id, activity_id, item)
             VALUES ('by hand', 1, 1, '{item}')"
        ),
    )
    .await;
    assert_eq!(turn.await.unwrap().expect("found by the fallback").0.instance, "by hand");
    assert!(task.await.unwrap().is_some());
    assert_eq!(node.stats().adopted, 1);
}

#[tokio::test]
async fn a_background_task_that_panics_is_started_again_and_nothing_is_lost() {
    let nodes = pair().await;
    for task in 0..3 {
        let restarts = nodes.b.stats().restarts;
        nodes.b.panic_task(task);
        let fetch = waiting_turn(&nodes.b).await;
        let (now, later) = (start(&format!("now{task}")), start(&format!("later{task}")));
        nodes.a.enqueue_for_orchestrator(now, None).await.unwrap();
        assert!(fetch.await.unwrap().is_some());
        until(|| nodes.b.stats().restarts == restarts + 1).await;
        let fetch = waiting_turn(&nodes.b).await;
        nodes.a.enqueue_for_orchestrator(later, Some(Duration::from_millis(300))).await.unwrap();
        assert!(fetch.await.unwrap().is_some());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fetches_dropped_at_any_moment_lose_nothing() {
    let nodes = pair().await;
    for round in 0..20_u32 {
        nodes.a.enqueue_for_orchestrator(start(&format!("i{round}")), None).await.unwrap();
        let fetching = Arc::clone(&nodes.a);
        let dropped = tokio::spawn(async move {
            fetching.fetch_orchestration_item(Duration::from_millis(200), PATIENCE, None).await
        });
        tokio::time::sleep(Duration::from_micros(100) * round).await;
        dropped.abort();
        let _ = dropped.await;
        // It was taken by nobody, or by somebody who is gone: then its lease ends.
        let turn = nodes.a.fetch_orchestration_item(LEASE, PATIENCE, None).await.unwrap();
        assert_eq!(turn.expect("found before the patience ended").0.instance, format!("i{round}"));
    }
}
