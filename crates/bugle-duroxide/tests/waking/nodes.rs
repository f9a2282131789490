//! Nodes for the tests: providers on one schema, and fetches that wait on them.

use std::sync::Arc;
use std::time::Duration;

use bugle_duroxide::{LongPoll, Options, PostgresProvider};
use bugle_pg::testdb::{fresh_schema, server};
use bugle_pg::{Config, Pool, PoolOptions, Schema};
use duroxide::providers::{
    ExecutionMetadata, OrchestrationItem, Provider, SessionFetchConfig, TagFilter, WorkItem,
};
use tokio::task::JoinHandle;

pub(crate) const HOUR: Duration = Duration::from_secs(3600);
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Long enough to outlive a test.
pub(crate) const LEASE: Duration = Duration::from_secs(120);

/// Two nodes on one schema, which hear each other.
pub(crate) struct Pair {
    pub(crate) a: Arc<PostgresProvider>,
    pub(crate) b: Arc<PostgresProvider>,
    pub(crate) schema: String,
}

pub(crate) async fn node(schema: &str, long_poll: LongPoll) -> Arc<PostgresProvider> {
    let options = Options::new(server().await).schema(schema).pool_size(6).long_poll(long_poll);
    Arc::new(PostgresProvider::connect(options).await.unwrap())
}

pub(crate) async fn pair() -> Pair {
    let schema = fresh_schema();
    let a = node(&schema, LongPoll::on().fallback(HOUR)).await;
    let b = node(&schema, LongPoll::on().fallback(HOUR)).await;
    for node in [&a, &b] {
        until(|| node.is_listening()).await;
    }
    settle(&a, &b).await;
    Pair { a, b, schema }
}

/// Nodes that get to know each other look at everything once or twice: wait until that is over.
async fn settle(a: &Arc<PostgresProvider>, b: &Arc<PostgresProvider>) {
    loop {
        let before = [a.stats().rechecks, b.stats().rechecks];
        for (from, to) in [(a, b), (b, a)] {
            let fetch = waiting_turn(to).await;
            from.enqueue_for_orchestrator(start("settle"), Some(Duration::from_millis(200))).await.unwrap();
            let (_, token, _) = fetch.await.unwrap().expect("woken before the patience ended");
            to.ack_orchestration_item(&token, 1, vec![], vec![], vec![], metadata(), vec![]).await.unwrap();
        }
        if [a.stats().rechecks, b.stats().rechecks] == before {
            return;
        }
    }
}

/// Wait for something that must come.
pub(crate) async fn until(mut condition: impl FnMut() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("it should have come about by now");
}

pub(crate) fn start(instance: &str) -> WorkItem {
    WorkItem::StartOrchestration {
        instance: instance.to_owned(),
        orchestration: "Test".to_owned(),
        input: "{}".to_owned(),
        version: Some("1.0.0".to_owned()),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: 1,
    }
}

pub(crate) fn event(instance: &str) -> WorkItem {
    WorkItem::ExternalRaised { instance: instance.to_owned(), name: "e".to_owned(), data: String::new() }
}

pub(crate) fn activity(id: u64, session: Option<&str>, tag: Option<&str>) -> WorkItem {
    WorkItem::ActivityExecute {
        instance: "i".to_owned(),
        execution_id: 1,
        id,
        name: "act".to_owned(),
        input: String::new(),
        session_id: session.map(str::to_owned),
        tag: tag.map(str::to_owned),
    }
}

pub(crate) fn metadata() -> ExecutionMetadata {
    ExecutionMetadata {
        orchestration_name: Some("Test".to_owned()),
        orchestration_version: Some("1.0.0".to_owned()),
        ..ExecutionMetadata::default()
    }
}

pub(crate) type Turn = (OrchestrationItem, String, u32);
pub(crate) type Task = (WorkItem, String, u32);

/// A fetch for orchestrations that has found nothing and waits.
pub(crate) async fn waiting_turn(node: &Arc<PostgresProvider>) -> JoinHandle<Option<Turn>> {
    let before = node.stats().waiting;
    let fetching = Arc::clone(node);
    let fetch =
        tokio::spawn(async move { fetching.fetch_orchestration_item(LEASE, PATIENCE, None).await.unwrap() });
    until(|| node.stats().waiting > before).await;
    fetch
}

/// The same for activities.
pub(crate) async fn waiting_task(
    node: &Arc<PostgresProvider>,
    owner: Option<&str>,
    tags: TagFilter,
) -> JoinHandle<Option<Task>> {
    let before = node.stats().waiting;
    let fetching = Arc::clone(node);
    let session = owner.map(|o| SessionFetchConfig { owner_id: o.to_owned(), lock_timeout: LEASE });
    let fetch = tokio::spawn(async move {
        fetching.fetch_work_item(LEASE, PATIENCE, session.as_ref(), &tags).await.unwrap()
    });
    until(|| node.stats().waiting > before).await;
    fetch
}

/// What a look that does not wait finds.
pub(crate) async fn turn_now(node: &PostgresProvider, lease: Duration) -> Option<Turn> {
    node.fetch_orchestration_item(lease, Duration::ZERO, None).await.unwrap()
}

/// The same for activities.
pub(crate) async fn task_now(
    node: &PostgresProvider,
    lease: Duration,
    owner: Option<(&str, Duration)>,
) -> Option<Task> {
    let session = owner.map(|(o, lock)| SessionFetchConfig { owner_id: o.to_owned(), lock_timeout: lock });
    node.fetch_work_item(lease, Duration::ZERO, session.as_ref(), &TagFilter::DefaultOnly).await.unwrap()
}

/// Statements of a test's own.
pub(crate) async fn execute(schema: &str, sql: &str) {
    let pool = Pool::new(Config::parse(&server().await).unwrap(), PoolOptions::default());
    let sql = Schema::new(schema).unwrap().fill(sql);
    pool.get().await.unwrap().execute_batch(&sql).await.unwrap();
}
