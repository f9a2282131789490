//! The application with its old provider: runs until everything waits somewhere, and is stopped there.

use std::sync::Arc;
use std::time::Duration;

use bugle_duroxide_import::{ODD, TAG, activities, orchestrations};
use bugle_pg::testdb::{fresh_schema, server};
use duroxide::providers::Provider;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{Client, EventKind, OrchestrationStatus};
use tokio::sync::Semaphore;

use crate::database::{HOPELESS, ask, until};

/// A provider of the old kind in an empty schema; its name.
pub(crate) async fn old() -> (Arc<dyn Provider>, String) {
    let schema = fresh_schema();
    let provider = duroxide_pg::PostgresProvider::new_with_schema(&server().await, Some(&schema)).await;
    (Arc::new(provider.unwrap()), schema)
}

/// Leases end soon, so that what a stopped runtime held is free soon.
pub(crate) fn options() -> RuntimeOptions {
    RuntimeOptions {
        dispatcher_min_poll_interval: Duration::from_millis(20),
        orchestrator_lock_timeout: Duration::from_secs(2),
        orchestrator_lock_renewal_buffer: Duration::from_secs(1),
        worker_lock_timeout: Duration::from_secs(2),
        worker_lock_renewal_buffer: Duration::from_secs(1),
        session_lock_timeout: Duration::from_secs(2),
        session_lock_renewal_buffer: Duration::from_secs(1),
        worker_concurrency: 6,
        ..RuntimeOptions::default()
    }
}

/// Instances and what each is of.
const STARTED: [(&str, &str, &str); 11] = [
    ("done", "done", ODD),
    ("failed", "failed", "on purpose"),
    ("timer", "timer", "in time"),
    ("running", "running", "then the gate"),
    ("session", "session", "of the session"),
    ("tagged", "tagged", "of the tag"),
    (ODD, "waiting", ""),
    ("parent", "parent", ""),
    ("queue", "queue", ""),
    ("rounds", "rounds", "1"),
    ("values", "values", ""),
];

/// Run the application until it waits everywhere, stop it, and send it more. The schema it leaves.
pub(crate) async fn left_in_the_middle() -> String {
    let (store, schema) = old().await;
    let began = Arc::new(Semaphore::new(0));
    let runtime = Runtime::start_with_options(
        Arc::clone(&store),
        activities(&began, true),
        orchestrations(),
        options(),
    )
    .await;
    let client = Client::new(Arc::clone(&store));
    for (instance, orchestration, input) in STARTED {
        client.start_orchestration(instance, orchestration, input).await.unwrap();
    }
    until_it_waits(&client).await;
    // Both of the activities that do not end are being run.
    tokio::time::timeout(HOPELESS, began.acquire_many(2)).await.unwrap().unwrap().forget();
    runtime.shutdown(Some(100)).await;

    for message in ["one", "two", "three"] {
        client.enqueue_event("queue", "queue", message).await.unwrap();
    }
    client.raise_event("parent-child", "go", "hello").await.unwrap();
    client.start_orchestration("late", "timer", "late").await.unwrap();
    // A shutdown does not wait for what it aborts.
    until("nobody takes the late one", async || {
        let sql = "SELECT count(*) FROM {schema}.orchestrator_queue WHERE instance_id = 'late' AND lock_token IS NULL";
        ask(&schema, sql).await[0].get::<_, i64>(0) == 1
    })
    .await;
    schema
}

async fn until_it_waits(client: &Client) {
    let waits = |kind: &EventKind| match kind {
        EventKind::TimerCreated { .. } => "timer",
        EventKind::ExternalSubscribed { .. } => "event",
        EventKind::QueueSubscribed { .. } => "queue",
        EventKind::ActivityScheduled { tag: Some(tag), .. } if tag == TAG => "tag",
        _ => "",
    };
    let places = [
        ("timer", 1, "timer"),
        ("tagged", 1, "tag"),
        (ODD, 1, "event"),
        ("parent-child", 1, "event"),
        ("queue", 1, "queue"),
        ("rounds", 3, "event"),
        ("values", 2, "event"),
    ];
    for (instance, execution, place) in places {
        until(instance, async || {
            let history = client.read_execution_history(instance, execution).await.unwrap_or_default();
            history.iter().any(|event| waits(&event.kind) == place)
        })
        .await;
    }
    for instance in ["done", "failed"] {
        let end = client.wait_for_orchestration(instance, HOPELESS).await.unwrap();
        assert!(!matches!(end, OrchestrationStatus::Running { .. }));
    }
}
