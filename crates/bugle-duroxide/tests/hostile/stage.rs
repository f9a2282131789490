//! What the tests share: a provider in a schema of its own, the framework's items in short, and a real runtime.

use std::sync::Arc;
use std::time::Duration;

use bugle_duroxide::{Options, PostgresProvider};
use bugle_pg::testdb::{fresh_schema, server};
use duroxide::providers::{ExecutionMetadata, Provider, ProviderError, TagFilter, WorkItem};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{Client, Event, EventKind, OrchestrationRegistry, OrchestrationStatus};

pub(crate) const LEASE: Duration = Duration::from_secs(60);
/// Nothing takes this long.
pub(crate) const HOPELESS: Duration = Duration::from_secs(60);

pub(crate) async fn provider() -> PostgresProvider {
    let options = Options::new(server().await).schema(fresh_schema()).pool_size(4);
    PostgresProvider::connect(options).await.unwrap()
}

pub(crate) fn start(instance: &str) -> WorkItem {
    WorkItem::StartOrchestration {
        instance: instance.to_owned(),
        orchestration: "o".to_owned(),
        input: String::new(),
        version: None,
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: 1,
    }
}

pub(crate) fn activity(instance: &str, id: u64) -> WorkItem {
    WorkItem::ActivityExecute {
        instance: instance.to_owned(),
        execution_id: 1,
        id,
        name: "a".to_owned(),
        input: String::new(),
        session_id: None,
        tag: None,
    }
}

pub(crate) fn completion(instance: &str, id: u64, result: &str) -> WorkItem {
    WorkItem::ActivityCompleted {
        instance: instance.to_owned(),
        execution_id: 1,
        id,
        result: result.to_owned(),
    }
}

pub(crate) fn event(instance: &str, id: u64, kind: EventKind) -> Event {
    Event::with_event_id(id, instance, 1, None, kind)
}

pub(crate) fn set(instance: &str, id: u64, key: &str, value: &str) -> Event {
    let (key, value) = (key.to_owned(), value.to_owned());
    event(instance, id, EventKind::KeyValueSet { key, value, last_updated_at_ms: 1 })
}

pub(crate) fn metadata() -> ExecutionMetadata {
    ExecutionMetadata {
        orchestration_name: Some("o".to_owned()),
        orchestration_version: Some("1.0.0".to_owned()),
        ..ExecutionMetadata::default()
    }
}

/// Take the only instance that is ready; its token.
pub(crate) async fn take_turn(provider: &PostgresProvider) -> String {
    provider.fetch_orchestration_item(LEASE, HOPELESS, None).await.unwrap().unwrap().1
}

/// Take the only activity that is ready; its token.
pub(crate) async fn take_task(provider: &PostgresProvider) -> String {
    provider.fetch_work_item(LEASE, HOPELESS, None, &TagFilter::DefaultOnly).await.unwrap().unwrap().1
}

/// Commit a turn that wrote these events and scheduled these activities.
pub(crate) async fn ack(
    provider: &PostgresProvider,
    token: &str,
    events: Vec<Event>,
    activities: Vec<WorkItem>,
) -> Result<(), ProviderError> {
    provider.ack_orchestration_item(token, 1, events, activities, Vec::new(), metadata(), Vec::new()).await
}

/// A client and a runtime in which `echo` completes with its input by way of an activity.
pub(crate) struct Stage {
    pub(crate) client: Client,
    runtime: Arc<Runtime>,
}

impl Stage {
    pub(crate) async fn new(
        activities: impl FnOnce() -> ActivityRegistry,
        orchestrations: impl FnOnce() -> OrchestrationRegistry,
        options: RuntimeOptions,
    ) -> Self {
        let store: Arc<dyn Provider> = Arc::new(provider().await);
        let activities = ActivityRegistry::builder()
            .merge(activities())
            .register("echo", |_, input: String| async move { Ok(input) })
            .build();
        let echo = |ctx: duroxide::OrchestrationContext, input: String| async move {
            ctx.schedule_activity("echo", input).await
        };
        let orchestrations =
            OrchestrationRegistry::builder().merge(orchestrations()).register("echo", echo).build();
        let client = Client::new(Arc::clone(&store));
        let runtime = Runtime::start_with_options(store, activities, orchestrations, options).await;
        Self { client, runtime }
    }

    /// How an instance ended.
    pub(crate) async fn end_of(&self, instance: &str) -> Result<String, String> {
        match self.client.wait_for_orchestration(instance, HOPELESS).await.unwrap() {
            OrchestrationStatus::Completed { output, .. } => Ok(output),
            OrchestrationStatus::Failed { details, .. } => Err(details.display_message()),
            other => panic!("{instance:?} did not end: {other:?}"),
        }
    }

    /// Unrelated work is done all the same.
    pub(crate) async fn goes_on(self) {
        self.client.start_orchestration("unrelated", "echo", "fine").await.unwrap();
        assert_eq!(self.end_of("unrelated").await, Ok("fine".to_owned()));
        self.runtime.shutdown(None).await;
    }
}
