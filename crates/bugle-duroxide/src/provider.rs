//! The provider: how it is made, what it holds, and the framework's trait, one line per method.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bugle_pg::{Pool, channel_name, migrate, presence};
use bugle_wake::{Bell, BellOptions, Carrier, NotifyOptions};
use duroxide::providers::{
    DispatcherCapabilityFilter, ExecutionMetadata, OrchestrationItem, Provider, ProviderAdmin, ProviderError,
    ScheduledActivityIdentifier, SessionFetchConfig, TagFilter, WorkItem,
};
use duroxide::{Event, SystemStats};
use tokio_util::sync::CancellationToken;

use crate::db::Db;
use crate::error::ConnectError;
use crate::options::Options;
use crate::orchestrations::Ending;
use crate::schema::MIGRATIONS;
use crate::waking::counters::{Counters, Stats};
use crate::waking::room::Room;
use crate::waking::tasks::{self, Faults};
use crate::waking::tiding::Hint;
use crate::waking::watch::{self, Watch};
use crate::waking::work::Work;

/// A [duroxide](https://docs.rs/duroxide) provider on PostgreSQL. Clones share everything; when the last one is dropped
/// the background tasks and connections end.
#[derive(Clone)]
pub struct PostgresProvider {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) db: Arc<Db>,
    /// `None`: no long polling.
    pub(crate) watch: Option<Arc<Watch>>,
    /// A process may hold sessions of its earlier life: assumed until asked.
    pub(crate) sessions_held: AtomicBool,
    counters: Arc<Counters>,
    stop: CancellationToken,
    faults: Faults,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl std::fmt::Debug for PostgresProvider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresProvider").field("channel", &self.inner.db.channel).finish_non_exhaustive()
    }
}

impl PostgresProvider {
    /// Connect, bring the schema up to date, and begin to listen. Must be called inside a tokio runtime.
    pub async fn connect(options: Options) -> Result<Self, ConnectError> {
        let (schema, config) = (options.schema_name()?, options.config()?);
        let mut pool_options = options.pool()?;
        pool_options.application_name = presence(&pool_options.application_name, &schema, MIGRATIONS);
        let pool = Pool::new(config, pool_options);
        migrate(&pool, &schema, MIGRATIONS).await?;
        let channel = channel_name(&format!("duroxide:{}", schema.name()));
        let db = Arc::new(Db::new(pool, &schema, channel));
        let (counters, stop, faults) = (Arc::default(), CancellationToken::new(), Faults::default());
        let watch = match options.long_poll.enabled {
            true => Some(listen(&options, &db, &counters, &stop, &faults)?),
            false => None,
        };
        let inner = Inner { db, watch, sessions_held: AtomicBool::new(true), counters, stop, faults };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Counters since the provider was made.
    pub fn stats(&self) -> Stats {
        let waiting = self.inner.watch.as_ref().map_or(0, |watch| watch.room.waiting());
        Stats { waiting, ..self.inner.counters.stats() }
    }

    /// Whether other nodes' hints reach this one. While they do not, waiting fetches look ten times a second.
    pub fn is_listening(&self) -> bool {
        self.inner.watch.as_ref().is_some_and(|watch| watch.hears())
    }

    /// Make a background task panic: 0 the listener, 1 the timer, 2 the fallback. For tests of its recovery.
    #[doc(hidden)]
    pub fn panic_task(&self, task: usize) {
        self.inner.faults[task].notify_one();
    }
}

impl Inner {
    /// A hint to publish with a statement; see [`Watch::unsigned`]. Without a watch others may still be parked.
    pub(crate) fn unsigned(&self, work: Work, at: Option<i64>) -> Option<String> {
        match &self.watch {
            Some(watch) => watch.unsigned(work, at),
            None => watch::unsigned(work, at),
        }
    }
}

/// The waiting room, and the tasks that keep it informed.
fn listen(
    options: &Options,
    db: &Arc<Db>,
    counters: &Arc<Counters>,
    stop: &CancellationToken,
    faults: &Faults,
) -> Result<Arc<Watch>, ConnectError> {
    let mut notify = NotifyOptions::new(options.listen_config()?, db.pool.clone(), &db.channel);
    notify.application_name = "bugle-duroxide listen".to_owned();
    notify.backoff_max = Duration::from_secs(1);
    let (bell, heard) = Bell::<Hint>::start(BellOptions::default(), vec![Carrier::notify(notify)]);
    let watch = Arc::new_cyclic(|watch: &std::sync::Weak<Watch>| {
        let watch = watch.clone();
        let room = Room::new(Arc::clone(counters), options.long_poll.timer_grace, move |queue| {
            if let Some(watch) = watch.upgrade() {
                watch.tell_now(queue);
            }
        });
        Watch::new(Arc::new(room), bell, db.pool.clone())
    });
    tasks::start(&watch, db, heard, options.long_poll.fallback, stop, faults);
    Ok(watch)
}

#[async_trait::async_trait]
impl Provider for PostgresProvider {
    fn name(&self) -> &str {
        "bugle-duroxide"
    }

    fn version(&self) -> &str {
        env!("CARGO_PKG_VERSION")
    }

    async fn fetch_orchestration_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Result<Option<(OrchestrationItem, String, u32)>, ProviderError> {
        self.fetch_turn(lock_timeout, poll_timeout, filter).await
    }

    async fn ack_orchestration_item(
        &self,
        lock_token: &str,
        execution_id: u64,
        history_delta: Vec<Event>,
        worker_items: Vec<WorkItem>,
        orchestrator_items: Vec<WorkItem>,
        metadata: ExecutionMetadata,
        cancelled_activities: Vec<ScheduledActivityIdentifier>,
    ) -> Result<(), ProviderError> {
        let ending = Ending {
            execution_id,
            events: history_delta,
            activities: worker_items,
            messages: orchestrator_items,
            metadata,
            cancelled: cancelled_activities,
        };
        self.ack_turn(lock_token, ending).await
    }

    async fn abandon_orchestration_item(
        &self,
        lock_token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        self.abandon_turn(lock_token, delay, ignore_attempt).await
    }

    async fn renew_orchestration_item_lock(
        &self,
        token: &str,
        extend_for: Duration,
    ) -> Result<(), ProviderError> {
        self.renew_turn(token, extend_for).await
    }

    async fn enqueue_for_orchestrator(
        &self,
        item: WorkItem,
        delay: Option<Duration>,
    ) -> Result<(), ProviderError> {
        self.enqueue_message(&item, delay).await
    }

    async fn read(&self, instance: &str) -> Result<Vec<Event>, ProviderError> {
        self.latest_history(instance).await
    }

    async fn read_with_execution(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<Vec<Event>, ProviderError> {
        self.history(instance, execution_id).await
    }

    async fn append_with_execution(
        &self,
        instance: &str,
        execution_id: u64,
        new_events: Vec<Event>,
    ) -> Result<(), ProviderError> {
        self.append_history(instance, execution_id, &new_events).await
    }

    async fn enqueue_for_worker(&self, item: WorkItem) -> Result<(), ProviderError> {
        self.enqueue_task(&item).await
    }

    async fn fetch_work_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Duration,
        session: Option<&SessionFetchConfig>,
        tag_filter: &TagFilter,
    ) -> Result<Option<(WorkItem, String, u32)>, ProviderError> {
        self.fetch_task(lock_timeout, poll_timeout, session, tag_filter).await
    }

    async fn ack_work_item(&self, token: &str, completion: Option<WorkItem>) -> Result<(), ProviderError> {
        self.ack_task(token, completion).await
    }

    async fn renew_work_item_lock(&self, token: &str, extend_for: Duration) -> Result<(), ProviderError> {
        self.renew_task(token, extend_for).await
    }

    async fn abandon_work_item(
        &self,
        token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        self.abandon_task(token, delay, ignore_attempt).await
    }

    async fn renew_session_lock(
        &self,
        owner_ids: &[&str],
        extend_for: Duration,
        idle_timeout: Duration,
    ) -> Result<usize, ProviderError> {
        self.renew_sessions(owner_ids, extend_for, idle_timeout).await
    }

    async fn cleanup_orphaned_sessions(&self, _idle_timeout: Duration) -> Result<usize, ProviderError> {
        self.drop_sessions().await
    }

    fn as_management_capability(&self) -> Option<&dyn ProviderAdmin> {
        Some(self)
    }

    async fn get_custom_status(
        &self,
        instance: &str,
        last_seen_version: u64,
    ) -> Result<Option<(Option<String>, u64)>, ProviderError> {
        self.custom_status(instance, last_seen_version).await
    }

    async fn get_kv_value(&self, instance: &str, key: &str) -> Result<Option<String>, ProviderError> {
        self.value(instance, key).await
    }

    async fn get_kv_all_values(&self, instance: &str) -> Result<HashMap<String, String>, ProviderError> {
        self.values(instance).await
    }

    async fn get_instance_stats(&self, instance: &str) -> Result<Option<SystemStats>, ProviderError> {
        self.stats_of(instance).await
    }
}
