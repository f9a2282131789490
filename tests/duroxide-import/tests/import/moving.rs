//! The application goes on with its new provider where it was stopped with the old one.

use std::sync::Arc;

use bugle_duroxide::{ImportError, Imported, PostgresProvider};
use bugle_duroxide_import::{ODD, TAG, activities, orchestrations};
use duroxide::providers::{Provider, TagFilter};
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{Client, OrchestrationStatus};
use tokio::sync::Semaphore;

use crate::database::{HOPELESS, ask, ours, until};
use crate::old::{left_in_the_middle, options};

/// Import as soon as the leases of the old runtime have ended.
async fn import(ours: &PostgresProvider, source: &str) -> Imported {
    let mut imported = None;
    until("the last lease ends", async || match ours.import(source).await {
        Ok(done) => {
            imported = Some(done);
            true
        }
        Err(ImportError::Held { .. }) => false,
        Err(error) => panic!("{error}"),
    })
    .await;
    imported.unwrap()
}

async fn number(schema: &str, sql: &str) -> u64 {
    ask(schema, sql).await[0].get::<_, i64>(0).cast_unsigned()
}

/// Nothing is left out, and nothing is moved in time or in order.
async fn compare(source: &str, target: &str, imported: Imported) {
    let count = async |table: &str| number(source, &format!("SELECT count(*) FROM {{schema}}.{table}")).await;
    assert_eq!(imported.instances, count("instances").await);
    assert_eq!(imported.executions, count("executions").await);
    assert_eq!(imported.events, count("history").await);
    assert_eq!(imported.messages, count("orchestrator_queue").await);
    assert_eq!(imported.activities, count("worker_queue").await);
    assert_eq!(imported.values, count("kv_store").await + count("kv_delta").await);
    assert!(imported.messages >= 6 && imported.activities == 3 && imported.values >= 5, "{imported:?}");

    let texts = async |schema: &str, sql: &str| -> Vec<String> {
        ask(schema, sql).await.iter().map(|row| row.get(0)).collect()
    };
    let pairs = [
        (
            "SELECT visible_at || work_item || attempt_count FROM {schema}.orchestrator_queue ORDER BY id",
            "SELECT visible_at || item || attempts FROM {schema}.messages ORDER BY id",
        ),
        (
            "SELECT visible_at || work_item || attempt_count || coalesce(tag, '') FROM {schema}.worker_queue ORDER BY id",
            "SELECT due_at || item || attempts || coalesce(tag, '') FROM {schema}.activities ORDER BY id",
        ),
        (
            "SELECT execution_id || event_data FROM {schema}.history ORDER BY execution_id, event_data COLLATE \"C\"",
            "SELECT execution_id || event FROM {schema}.history ORDER BY execution_id, event COLLATE \"C\"",
        ),
        (
            "SELECT status || started_at || coalesce(completed_at::text, '') || duroxide_version_major * 1000000000000
                 + duroxide_version_minor * 1000000 + duroxide_version_patch FROM {schema}.executions ORDER BY 1",
            "SELECT status || started_at || coalesce(completed_at::text, '') || pin FROM {schema}.executions ORDER BY 1",
        ),
    ];
    for (theirs, here) in pairs {
        assert_eq!(texts(source, theirs).await, texts(target, here).await);
    }
}

async fn end_of(client: &Client, instance: &str) -> Result<String, String> {
    let end = client.wait_for_orchestration(instance, HOPELESS).await;
    match end.unwrap_or_else(|error| panic!("{instance:?}: {error}")) {
        OrchestrationStatus::Completed { output, .. } => Ok(output),
        OrchestrationStatus::Failed { details, .. } => Err(details.display_message()),
        other => panic!("{instance:?}: {other:?}"),
    }
}

async fn status_of(client: &Client, instance: &str) -> Option<String> {
    match client.get_orchestration_status(instance).await.unwrap() {
        OrchestrationStatus::Running { custom_status, .. }
        | OrchestrationStatus::Completed { custom_status, .. } => custom_status,
        other => panic!("{instance:?}: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_goes_on_where_it_was() {
    let source = left_in_the_middle().await;
    let (ours, target) = ours().await;
    let imported = import(&ours, &source).await;
    compare(&source, &target, imported).await;

    let store: Arc<dyn Provider> = Arc::new(ours);
    let client = Client::new(Arc::clone(&store));
    assert_eq!(status_of(&client, "rounds").await, Some(format!("round 3 {ODD}")));
    let values = client.get_kv_all_values("values").await.unwrap();
    assert_eq!(values.len(), 3, "{values:?}");
    assert_eq!(client.get_instance_tree("parent").await.unwrap().all_ids.len(), 2);

    let options = RuntimeOptions { worker_tag_filter: TagFilter::default_and([TAG]), ..options() };
    let registry = activities(&Arc::new(Semaphore::new(0)), false);
    let runtime = Runtime::start_with_options(store, registry, orchestrations(), options).await;
    for instance in [ODD, "rounds", "values"] {
        client.raise_event(instance, "go", format!("went {ODD}")).await.unwrap();
    }
    let rounds = format!("round 1=1 round 2=2 round 3=went {ODD} round 4=4 round 5=5");
    let expected = [
        ("done", Ok(ODD)),
        ("timer", Ok("in time")),
        ("late", Ok("late")),
        ("running", Ok("first then the gate")),
        ("session", Ok("of the session")),
        ("tagged", Ok("of the tag")),
        (ODD, Ok(&*format!("went {ODD}"))),
        ("parent", Ok("the child said hello")),
        ("queue", Ok("one two three")),
        ("rounds", Ok(&*rounds)),
        ("values", Ok(&*format!("changed={ODD} kept=1 {ODD}=2"))),
    ];
    for (instance, end) in expected {
        assert_eq!(end_of(&client, instance).await.as_deref(), end.map_err(|e: &String| e), "{instance:?}");
    }
    assert!(end_of(&client, "failed").await.unwrap_err().contains("on purpose"));
    assert_eq!(client.list_executions("rounds").await.unwrap(), [1, 2, 3, 4, 5]);
    runtime.shutdown(None).await;
}
