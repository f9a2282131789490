//! The orchestration side: taking an instance, committing its turn, giving it back, sending it messages.

use std::collections::HashMap;
use std::time::Duration;

use bugle_pg::{Row, RowError, ToSql};
use duroxide::providers::{
    DispatcherCapabilityFilter, ExecutionMetadata, KvEntry, OrchestrationItem, ProviderError,
    ScheduledActivityIdentifier, WorkItem,
};
use duroxide::{Event, EventKind, INITIAL_EXECUTION_ID};
use uuid::Uuid;

use crate::db::{Repeat, single};
use crate::error::{not_held, unexpected};
use crate::item::{Message, decoded, number, seconds};
use crate::provider::PostgresProvider;
use crate::text::{original, stored};
use crate::token::{InstanceToken, nonce};
use crate::turn::{Activities, Cancelled, Events, Execution, Messages, Values, pin};
use crate::waking::fetching::{Look, Looker, Taken, fetch, fetch_once};
use crate::waking::work::{Queue, Tag, Want, Work};

const FETCH: &str = "fetch_orchestration_item";
const ACK: &str = "ack_orchestration_item";
const ABANDON: &str = "abandon_orchestration_item";
const RENEW: &str = "renew_orchestration_item_lock";
const ENQUEUE: &str = "enqueue_for_orchestrator";

/// An instance, its lock token and its attempt.
pub(crate) type Turn = (OrchestrationItem, String, u32);

/// What the runtime hands over at the end of a turn.
pub(crate) struct Ending {
    pub(crate) execution_id: u64,
    pub(crate) events: Vec<Event>,
    pub(crate) activities: Vec<WorkItem>,
    pub(crate) messages: Vec<WorkItem>,
    pub(crate) metadata: ExecutionMetadata,
    pub(crate) cancelled: Vec<ScheduledActivityIdentifier>,
}

/// Looks for an instance to take.
struct TurnLooker<'a> {
    provider: &'a PostgresProvider,
    lease: Duration,
    pins: Option<(i64, i64)>,
}

impl Looker for TurnLooker<'_> {
    type Item = Turn;

    fn want(&self) -> Want {
        Want::Turns { pins: self.pins }
    }

    fn owner(&self) -> Option<&str> {
        None
    }

    async fn look(&self) -> Result<Look<Turn>, ProviderError> {
        let (db, token) = (&self.provider.inner.db, nonce());
        let (low, high) = self.pins.unzip();
        let lease = seconds(self.lease);
        let params: [&(dyn ToSql + Sync); 4] = [&token, &lease, &low, &high];
        let row = db.timed(FETCH, Repeat::Always, &db.sql.fetch_orchestration, &params).await?;
        read_look(&row, self.lease, |row| read_turn(row, token)).map_err(|e| unexpected(FETCH, e))
    }
}

impl PostgresProvider {
    pub(crate) async fn fetch_turn(
        &self,
        lease: Duration,
        poll: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Result<Option<Turn>, ProviderError> {
        // Only the first range counts, by the framework's contract.
        let pins = match filter.map(|f| f.supported_duroxide_versions.first()) {
            None => None,
            Some(None) => return Ok(None),
            Some(Some(range)) => Some((pin(&range.min), pin(&range.max))),
        };
        let looker = TurnLooker { provider: self, lease, pins };
        match &self.inner.watch {
            Some(watch) => fetch(watch, &looker, poll).await,
            None => fetch_once(&looker).await,
        }
    }

    pub(crate) async fn ack_turn(&self, lock_token: &str, ending: Ending) -> Result<(), ProviderError> {
        let token = InstanceToken::parse(lock_token).ok_or_else(|| not_held(ACK))?;
        let instance = stored(token.instance);
        let execution_id = number(ACK, "execution_id", ending.execution_id)?;
        let events = Events::new(ACK, &ending.events)?;
        let values = Values::new(&ending.events)?;
        let activities = Activities::new(&ending.activities)?;
        let messages = Messages::new(&ending.messages)?;
        let cancelled = Cancelled::new(&ending.cancelled)?;
        let execution = Execution::new(ending.metadata)?;
        let (has_status, status) = (events.custom_status.is_some(), events.custom_status.flatten());
        #[rustfmt::skip]
        let params: [&(dyn ToSql + Sync); 30] = [
            &instance, &token.nonce, &execution_id, &events.ids, &events.texts,
            &execution.name, &execution.version, &execution.parent, &execution.pin, &execution.status, &execution.output,
            &has_status, &status,
            &values.clear, &values.keys, &values.values, &values.updated,
            &activities.instances, &activities.executions, &activities.ids,
            &activities.items, &activities.sessions, &activities.tags,
            &cancelled.instances, &cancelled.executions, &cancelled.ids,
            &messages.instances, &messages.items, &messages.visible, &messages.droppable,
        ];
        let db = &self.inner.db;
        let row = db.one(ACK, Repeat::Unharmed, &db.sql.ack_orchestration, &params).await?;
        if !row.try_get::<_, bool>("held").map_err(|e| unexpected(ACK, e))? {
            return Err(not_held(ACK));
        }
        let own: Option<i64> = row.try_get("own").map_err(|e| unexpected(ACK, e))?;
        self.released(own);
        self.delivered(ACK, &row)?;
        self.scheduled(&activities);
        Ok(())
    }

    pub(crate) async fn abandon_turn(
        &self,
        lock_token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        let token = InstanceToken::parse(lock_token).ok_or_else(|| not_held(ABANDON))?;
        let (db, delay) = (&self.inner.db, delay.map(seconds));
        let instance = stored(token.instance);
        let params: [&(dyn ToSql + Sync); 4] = [&instance, &token.nonce, &delay, &ignore_attempt];
        let row = db.one(ABANDON, Repeat::Unharmed, &db.sql.abandon_orchestration, &params).await?;
        if !row.try_get::<_, bool>("held").map_err(|e| unexpected(ABANDON, e))? {
            return Err(not_held(ABANDON));
        }
        self.released(row.try_get("own").map_err(|e| unexpected(ABANDON, e))?);
        Ok(())
    }

    pub(crate) async fn renew_turn(&self, lock_token: &str, lease: Duration) -> Result<(), ProviderError> {
        let token = InstanceToken::parse(lock_token).ok_or_else(|| not_held(RENEW))?;
        let (db, instance) = (&self.inner.db, stored(token.instance));
        let params: [&(dyn ToSql + Sync); 3] = [&instance, &token.nonce, &seconds(lease)];
        let row = db.one(RENEW, Repeat::For(lease / 2), &db.sql.renew_orchestration, &params).await?;
        match row.try_get(0).map_err(|e| unexpected(RENEW, e))? {
            true => Ok(()),
            false => Err(not_held(RENEW)),
        }
    }

    pub(crate) async fn enqueue_message(
        &self,
        item: &WorkItem,
        delay: Option<Duration>,
    ) -> Result<(), ProviderError> {
        let message = Message::new(ENQUEUE, item)?;
        let visible = message.visible_ms.map(|ms| ms as f64);
        let (db, wait) = (&self.inner.db, delay.map(seconds));
        let params: [&(dyn ToSql + Sync); 5] =
            [&message.instance, &message.item, &visible, &wait, &message.droppable];
        let later = self.later(message.visible_ms, delay);
        let hint = self.inner.unsigned(Work::Turn, later);
        let rows = db.call_and_publish(ENQUEUE, &db.sql.enqueue_message, &params, hint).await?;
        self.delivered(ENQUEUE, &single(ENQUEUE, rows)?)
    }

    /// When a message will be visible, about, by the database's clock; `None`: now.
    fn later(&self, visible_ms: Option<u64>, delay: Option<Duration>) -> Option<i64> {
        let now = self.inner.db.pool.clock().now().earliest;
        let delayed = delay.map(|d| now.saturating_add(i64::try_from(d.as_micros()).unwrap_or(i64::MAX)));
        let at = delayed.max(visible_ms.map(|ms| ms.saturating_mul(1000).cast_signed()));
        at.filter(|at| *at > now)
    }

    /// An instance was let go of here; it can be taken again then.
    fn released(&self, at: Option<i64>) {
        match (&self.inner.watch, at) {
            (None, _) | (_, None) => {}
            (Some(watch), Some(0)) => watch.ready(Work::Turn, 1),
            (Some(watch), Some(at)) => watch.ready_at(Queue::Orchestrations, at),
        }
    }

    /// Messages were delivered; the row tells what can be taken now and later.
    pub(crate) fn delivered(&self, operation: &str, row: &Row) -> Result<(), ProviderError> {
        let ready: Option<i64> = row.try_get("ready").map_err(|e| unexpected(operation, e))?;
        let later: Option<i64> = row.try_get("later").map_err(|e| unexpected(operation, e))?;
        if let Some(watch) = &self.inner.watch {
            watch.ready(Work::Turn, ready.unwrap_or(0).cast_unsigned());
            if let Some(at) = later {
                watch.ready_at(Queue::Orchestrations, at);
            }
        }
        Ok(())
    }

    fn scheduled(&self, activities: &Activities) {
        let Some(watch) = &self.inner.watch else { return };
        let mut works: HashMap<Work, u64> = HashMap::new();
        for (tag, session) in activities.tags.iter().zip(&activities.sessions) {
            let work = Work::Activity { tag: tag.as_deref().map(Tag::new), session: session.is_some() };
            *works.entry(work).or_default() += 1;
        }
        works.into_iter().for_each(|(work, units)| watch.ready(work, units));
    }
}

/// A look as the database answered it; `read` reads what was taken.
pub(crate) fn read_look<T>(
    row: &Row,
    lease: Duration,
    read: impl FnOnce(&Row) -> Result<Option<T>, RowError>,
) -> Result<Look<T>, RowError> {
    let now: i64 = row.try_get("now")?;
    let until = now.saturating_add(i64::try_from(lease.as_micros()).unwrap_or(i64::MAX));
    let item = read(row)?.map(|item| Taken { item, until });
    Ok(Look { item, more: row.try_get("more")?, next: row.try_get("next")?, owners: Vec::new() })
}

fn read_turn(row: &Row, token: Uuid) -> Result<Option<Turn>, RowError> {
    let Some(instance) = row.try_get::<_, Option<String>>("instance")?.map(original) else {
        return Ok(None);
    };
    let attempts: i32 = row.try_get("attempts")?;
    let texts: Vec<String> = row.try_get("messages")?;
    let events: Option<Vec<String>> = row.try_get("history")?;
    let mut problem = None;
    let mut messages = Vec::with_capacity(texts.len());
    for text in &texts {
        match decoded::<WorkItem>(text) {
            Ok(item) => messages.push(item),
            Err(error) => problem = Some(format!("a message {error}")),
        }
    }
    let mut history = Vec::new();
    for text in events.iter().flatten() {
        match decoded::<Event>(text) {
            Ok(event) => history.push(event),
            Err(error) => {
                problem = Some(format!("an event of the history {error}"));
                history.clear();
                break;
            }
        }
    }
    let execution: Option<i64> = row.try_get("execution")?;
    let kept: Option<(Option<String>, Option<String>)> =
        Some((row.try_get("name")?, row.try_get("version")?));
    let kept = kept.and_then(|(name, version)| Some((original(name?), version.map(original))));
    let begun = || messages.iter().find_map(begins).or_else(|| history.first().and_then(began));
    let (orchestration_name, version) = kept.or_else(begun).unwrap_or(("Unknown".to_owned(), None));
    let first = messages.iter().find_map(first_execution);
    let execution_id = execution.map(i64::cast_unsigned).or(first).unwrap_or(INITIAL_EXECUTION_ID);
    let item = OrchestrationItem {
        instance,
        orchestration_name,
        execution_id,
        version: version.unwrap_or_else(|| "unknown".to_owned()),
        history,
        messages,
        history_error: problem,
        kv_snapshot: read_values(row)?,
    };
    let text = InstanceToken::text(token, &item.instance);
    Ok(Some((item, text, attempts.cast_unsigned())))
}

/// Name and version of an instance that begins with this message.
fn begins(item: &WorkItem) -> Option<(String, Option<String>)> {
    match item {
        WorkItem::StartOrchestration { orchestration, version, .. }
        | WorkItem::ContinueAsNew { orchestration, version, .. } => {
            Some((orchestration.clone(), version.clone()))
        }
        _ => None,
    }
}

/// The same, of one that began with this event.
fn began(event: &Event) -> Option<(String, Option<String>)> {
    match &event.kind {
        EventKind::OrchestrationStarted { name, version, .. } => Some((name.clone(), Some(version.clone()))),
        _ => None,
    }
}

fn first_execution(item: &WorkItem) -> Option<u64> {
    match item {
        WorkItem::StartOrchestration { execution_id, .. } => Some(*execution_id),
        _ => None,
    }
}

fn read_values(row: &Row) -> Result<HashMap<String, KvEntry>, RowError> {
    let keys: Option<Vec<String>> = row.try_get("kv_keys")?;
    let Some(keys) = keys else { return Ok(HashMap::new()) };
    let values: Vec<String> = row.try_get("kv_values")?;
    let updated: Vec<i64> = row.try_get("kv_updated")?;
    let entries = values
        .into_iter()
        .zip(updated)
        .map(|(value, at)| KvEntry { value: original(value), last_updated_at_ms: at.cast_unsigned() });
    Ok(keys.into_iter().map(original).zip(entries).collect())
}
