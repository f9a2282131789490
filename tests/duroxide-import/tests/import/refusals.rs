//! When an import is refused, and that a refusal changes nothing.

use std::time::Duration;

use bugle_duroxide::{ImportError, Options, PostgresProvider};
use bugle_pg::testdb::{fresh_schema, server};
use duroxide::providers::{Provider, ProviderAdmin, SessionFetchConfig, TagFilter, WorkItem};

use crate::database::{HOPELESS, ask, execute, ours, until};
use crate::old::old;

const LEASE: Duration = Duration::from_secs(600);

fn start(instance: &str) -> WorkItem {
    WorkItem::StartOrchestration {
        instance: instance.to_owned(),
        orchestration: "done".to_owned(),
        input: String::new(),
        version: None,
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: 1,
    }
}

fn activity(session: Option<&str>) -> WorkItem {
    WorkItem::ActivityExecute {
        instance: "i".to_owned(),
        execution_id: 1,
        id: 2,
        name: "echo".to_owned(),
        input: String::new(),
        session_id: session.map(str::to_owned),
        tag: None,
    }
}

/// The refusal; nothing came of it.
async fn refused(ours: &PostgresProvider, source: &str) -> ImportError {
    let error = ours.import(source).await.unwrap_err();
    let (metrics, depths) =
        (ours.get_system_metrics().await.unwrap(), ours.get_queue_depths().await.unwrap());
    assert_eq!((metrics.total_instances, metrics.total_executions, metrics.total_events), (0, 0, 0));
    assert_eq!((depths.orchestrator_queue, depths.worker_queue), (0, 0));
    error
}

fn assert_held(error: ImportError, what: &str) {
    match error {
        ImportError::Held { what: found, .. } => assert!(found.contains(what), "{found}, not {what}"),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn what_is_no_such_schema_is_refused() {
    let (ours, own) = ours().await;
    let empty = fresh_schema();
    execute(&format!("CREATE SCHEMA {empty}")).await;
    for source in ["nowhere_to_be_found", &empty, &own, "public", "we\"ird", "", "a\0b"] {
        let error = refused(&ours, source).await;
        assert!(matches!(error, ImportError::NotASource { .. }), "{source:?}: {error}");
    }
}

#[tokio::test]
async fn another_release_is_refused() {
    let ((_, source), (ours, _)) = (old().await, ours().await);
    let newer =
        format!("INSERT INTO {source}._duroxide_migrations (version, name) VALUES (27, 'flying cars')");
    execute(&newer).await;
    match refused(&ours, &source).await {
        ImportError::OtherRelease { found, .. } => assert_eq!(found.last(), Some(&27)),
        other => panic!("{other}"),
    }
    execute(&format!("DELETE FROM {source}._duroxide_migrations WHERE version > 25")).await;
    assert!(matches!(refused(&ours, &source).await, ImportError::OtherRelease { .. }));
}

#[tokio::test]
async fn what_is_still_held_is_named() {
    let ((old, source), (ours, _)) = (old().await, ours().await);
    old.enqueue_for_orchestrator(start("busy"), None).await.unwrap();
    let (_, turn, _) = old.fetch_orchestration_item(LEASE, Duration::ZERO, None).await.unwrap().unwrap();
    assert_held(refused(&ours, &source).await, "busy");
    old.abandon_orchestration_item(&turn, None, true).await.unwrap();

    old.enqueue_for_worker(activity(Some("s"))).await.unwrap();
    let session = SessionFetchConfig { owner_id: "me".to_owned(), lock_timeout: LEASE * 2 };
    let tags = TagFilter::default();
    let (_, task, _) =
        old.fetch_work_item(LEASE, Duration::ZERO, Some(&session), &tags).await.unwrap().unwrap();
    assert_held(refused(&ours, &source).await, "session s");
    execute(&format!("UPDATE {source}.sessions SET locked_until = 0")).await;
    assert_held(refused(&ours, &source).await, "activity");
    old.abandon_work_item(&task, None, true).await.unwrap();

    let imported = ours.import(&source).await.unwrap();
    assert_eq!((imported.instances, imported.messages, imported.activities), (0, 1, 1));
    let again = ours.import(&source).await.unwrap_err();
    assert!(matches!(&again, ImportError::NotEmpty { table } if table == "instances"), "{again}");
}

#[tokio::test]
async fn a_schema_in_use_is_not_imported_into() {
    let ((old, source), (ours, target)) = (old().await, ours().await);
    old.enqueue_for_orchestrator(start("theirs"), None).await.unwrap();
    ours.enqueue_for_worker(activity(None)).await.unwrap();
    let error = ours.import(&source).await.unwrap_err();
    assert!(matches!(&error, ImportError::NotEmpty { table } if table == "activities"), "{error}");
    assert_eq!(ask(&target, "SELECT count(*) FROM {schema}.messages").await[0].get::<_, i64>(0), 0);
}

#[tokio::test]
async fn names_that_are_too_long_are_refused_by_field() {
    let ((old, source), (ours, _)) = (old().await, ours().await);
    old.enqueue_for_orchestrator(start(&"x".repeat(1025)), None).await.unwrap();
    let error = refused(&ours, &source).await;
    assert!(matches!(&error, ImportError::TooLong { field, .. } if field == "instance_id"), "{error}");
}

/// Only a hint can wake the other node before its patience ends: its fallback looks later.
#[tokio::test]
async fn those_who_already_wait_are_woken() {
    let ((old, source), (here, target)) = (old().await, ours().await);
    let there = PostgresProvider::connect(Options::new(server().await).schema(&target)).await.unwrap();
    for instance in ["a", "b"] {
        old.enqueue_for_orchestrator(start(instance), None).await.unwrap();
    }
    let patience = Duration::from_secs(40);
    let waiting = [here.clone(), there.clone()].map(|node| {
        tokio::spawn(async move { node.fetch_orchestration_item(LEASE, patience, None).await.unwrap() })
    });
    until("both wait", async || {
        [&here, &there].iter().all(|node| node.is_listening() && node.stats().empty_looks > 0)
    })
    .await;
    here.import(&source).await.unwrap();
    for node in waiting {
        let found = tokio::time::timeout(HOPELESS, node).await.unwrap().unwrap();
        assert!(found.is_some());
    }
}
