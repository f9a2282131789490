//! Reading histories, custom status, values and sizes; and writing history for tools.

use std::collections::HashMap;

use bugle_pg::{Row, Statement, ToSql};
use duroxide::providers::ProviderError;
use duroxide::{Event, EventKind, SystemStats};

use crate::db::Repeat;
use crate::error::unexpected;
use crate::item::{decoded, name, number};
use crate::provider::PostgresProvider;
use crate::text::{original, stored};
use crate::turn::Events;

const READ: &str = "read";
const APPEND: &str = "append_with_execution";
const STATUS: &str = "get_custom_status";
const VALUE: &str = "get_kv_value";
const VALUES: &str = "get_kv_all_values";
const STATS: &str = "get_instance_stats";

impl PostgresProvider {
    /// Rows of a question that changes nothing.
    pub(crate) async fn ask(
        &self,
        operation: &'static str,
        statement: &Statement,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, ProviderError> {
        self.inner.db.call(operation, Repeat::Always, statement, params).await
    }

    pub(crate) async fn latest_history(&self, instance: &str) -> Result<Vec<Event>, ProviderError> {
        let sql = &self.inner.db.sql.read_latest;
        events(&self.ask(READ, sql, &[&stored(instance)]).await?)
    }

    pub(crate) async fn history(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<Vec<Event>, ProviderError> {
        let execution = number(READ, "execution_id", execution_id)?;
        let sql = &self.inner.db.sql.read_execution;
        events(&self.ask(READ, sql, &[&stored(instance), &execution]).await?)
    }

    pub(crate) async fn append_history(
        &self,
        instance: &str,
        execution_id: u64,
        new: &[Event],
    ) -> Result<(), ProviderError> {
        let execution = number(APPEND, "execution_id", execution_id)?;
        let instance = name(APPEND, "instance", instance)?;
        let columns = Events::new(APPEND, new)?;
        let db = &self.inner.db;
        let params: [&(dyn ToSql + Sync); 4] = [&instance, &execution, &columns.ids, &columns.texts];
        db.call(APPEND, Repeat::Unharmed, &db.sql.append_history, &params).await?;
        Ok(())
    }

    pub(crate) async fn custom_status(
        &self,
        instance: &str,
        last_seen: u64,
    ) -> Result<Option<(Option<String>, u64)>, ProviderError> {
        // A version that cannot be stored has been seen by nobody, and no newer one can be.
        let Ok(seen) = i64::try_from(last_seen) else { return Ok(None) };
        let rows = self.ask(STATUS, &self.inner.db.sql.custom_status, &[&stored(instance), &seen]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let status: Option<String> = row.try_get(0).map_err(|e| unexpected(STATUS, e))?;
        let version: i64 = row.try_get(1).map_err(|e| unexpected(STATUS, e))?;
        Ok(Some((status.map(original), version.cast_unsigned())))
    }

    pub(crate) async fn value(&self, instance: &str, key: &str) -> Result<Option<String>, ProviderError> {
        let rows = self.ask(VALUE, &self.inner.db.sql.kv_value, &[&stored(instance), &stored(key)]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let value: Option<String> = row.try_get(0).map_err(|e| unexpected(VALUE, e))?;
        Ok(value.map(original))
    }

    pub(crate) async fn values(&self, instance: &str) -> Result<HashMap<String, String>, ProviderError> {
        let rows = self.ask(VALUES, &self.inner.db.sql.kv_values, &[&stored(instance)]).await?;
        let pair = |row: &Row| Ok((original(row.try_get(0)?), original(row.try_get(1)?)));
        rows.iter().map(pair).collect::<Result<_, bugle_pg::RowError>>().map_err(|e| unexpected(VALUES, e))
    }

    pub(crate) async fn stats_of(&self, instance: &str) -> Result<Option<SystemStats>, ProviderError> {
        let rows = self.ask(STATS, &self.inner.db.sql.instance_stats, &[&stored(instance)]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let bad = |e| unexpected(STATS, e);
        let (count, size): (i64, i64) = (row.try_get(0).map_err(bad)?, row.try_get(1).map_err(bad)?);
        let first: Option<String> = row.try_get(2).map_err(bad)?;
        let values = self.values(instance).await?;
        Ok(Some(SystemStats {
            history_event_count: count.cast_unsigned(),
            history_size_bytes: size.cast_unsigned(),
            queue_pending_count: first.as_deref().map_or(0, carried_over),
            kv_user_key_count: values.len() as u64,
            kv_total_value_bytes: values.values().map(|v| v.len() as u64).sum(),
        }))
    }
}

/// How many queue messages an execution that begins with this event got from the one before it.
fn carried_over(first: &str) -> u64 {
    match decoded::<Event>(first).map(|event| event.kind) {
        Ok(EventKind::OrchestrationStarted { carry_forward_events: Some(events), .. }) => events.len() as u64,
        _ => 0,
    }
}

fn events(rows: &[Row]) -> Result<Vec<Event>, ProviderError> {
    let event = |row: &Row| {
        let text: &str = row.try_get(0).map_err(|e| unexpected(READ, e))?;
        decoded(text).map_err(|e| unexpected(READ, format!("an event of the history {e}")))
    };
    rows.iter().map(event).collect()
}
