//! Management: listing, inspecting, deleting and pruning.

use bugle_pg::{Row, RowError, ToSql};
use duroxide::Event;
use duroxide::providers::{
    DeleteInstanceResult, ExecutionInfo, InstanceFilter, InstanceInfo, ProviderAdmin, ProviderError,
    PruneOptions, PruneResult, QueueDepths, SystemMetrics,
};

use crate::db::Repeat;
use crate::error::unexpected;
use crate::item::number;
use crate::provider::PostgresProvider;
use crate::text::{original, stored};

/// Instances that a bulk call takes on if the caller does not say.
const LIMIT: u32 = 1000;

#[async_trait::async_trait]
impl ProviderAdmin for PostgresProvider {
    async fn list_instances(&self) -> Result<Vec<String>, ProviderError> {
        let operation = "list_instances";
        names(operation, &self.ask(operation, &self.inner.db.sql.list_instances, &[]).await?)
    }

    async fn list_instances_by_status(&self, status: &str) -> Result<Vec<String>, ProviderError> {
        let operation = "list_instances_by_status";
        let sql = &self.inner.db.sql.list_instances_by_status;
        names(operation, &self.ask(operation, sql, &[&stored(status)]).await?)
    }

    async fn list_executions(&self, instance: &str) -> Result<Vec<u64>, ProviderError> {
        let operation = "list_executions";
        let rows = self.ask(operation, &self.inner.db.sql.list_executions, &[&stored(instance)]).await?;
        rows.iter().map(|row| count(row, 0)).collect::<Result<_, _>>().map_err(|e| unexpected(operation, e))
    }

    async fn read_history_with_execution_id(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<Vec<Event>, ProviderError> {
        self.history(instance, execution_id).await
    }

    async fn read_history(&self, instance: &str) -> Result<Vec<Event>, ProviderError> {
        self.latest_history(instance).await
    }

    async fn latest_execution_id(&self, instance: &str) -> Result<u64, ProviderError> {
        Ok(self.get_instance_info(instance).await?.current_execution_id)
    }

    async fn get_instance_info(&self, instance: &str) -> Result<InstanceInfo, ProviderError> {
        let operation = "get_instance_info";
        let rows = self.ask(operation, &self.inner.db.sql.instance_info, &[&stored(instance)]).await?;
        let row = rows.first().ok_or_else(|| not_found(operation, instance))?;
        read_instance(row).map_err(|e| unexpected(operation, e))
    }

    async fn get_execution_info(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<ExecutionInfo, ProviderError> {
        let operation = "get_execution_info";
        let execution = number(operation, "execution_id", execution_id)?;
        let sql = &self.inner.db.sql.execution_info;
        let rows = self.ask(operation, sql, &[&stored(instance), &execution]).await?;
        let row = rows
            .first()
            .ok_or_else(|| not_found(operation, &format!("{instance}, execution {execution_id}")))?;
        read_execution(row).map_err(|e| unexpected(operation, e))
    }

    async fn get_system_metrics(&self) -> Result<SystemMetrics, ProviderError> {
        let operation = "get_system_metrics";
        let db = &self.inner.db;
        let row = db.one(operation, Repeat::Always, &db.sql.system_metrics, &[]).await?;
        let read = || {
            Ok::<_, RowError>(SystemMetrics {
                total_instances: count(&row, 0)?,
                total_executions: count(&row, 1)?,
                total_events: count(&row, 2)?,
                running_instances: count(&row, 3)?,
                completed_instances: count(&row, 4)?,
                failed_instances: count(&row, 5)?,
            })
        };
        read().map_err(|e| unexpected(operation, e))
    }

    async fn get_queue_depths(&self) -> Result<QueueDepths, ProviderError> {
        let operation = "get_queue_depths";
        let db = &self.inner.db;
        let row = db.one(operation, Repeat::Always, &db.sql.queue_depths, &[]).await?;
        let get = |column| count(&row, column).map_err(|e| unexpected(operation, e));
        // Timers wait in the orchestrator queue; there is no queue of their own.
        Ok(QueueDepths {
            orchestrator_queue: get(0)? as usize,
            worker_queue: get(1)? as usize,
            timer_queue: 0,
        })
    }

    async fn list_children(&self, instance_id: &str) -> Result<Vec<String>, ProviderError> {
        let operation = "list_children";
        names(
            operation,
            &self.ask(operation, &self.inner.db.sql.list_children, &[&stored(instance_id)]).await?,
        )
    }

    async fn get_parent_id(&self, instance_id: &str) -> Result<Option<String>, ProviderError> {
        let operation = "get_parent_id";
        let rows = self.ask(operation, &self.inner.db.sql.parent, &[&stored(instance_id)]).await?;
        let row = rows.first().ok_or_else(|| not_found(operation, instance_id))?;
        let parent: Option<String> = row.try_get(0).map_err(|e| unexpected(operation, e))?;
        Ok(parent.map(original))
    }

    async fn delete_instances_atomic(
        &self,
        ids: &[String],
        force: bool,
    ) -> Result<DeleteInstanceResult, ProviderError> {
        let operation = "delete_instances_atomic";
        let ids: Vec<String> = ids.iter().map(|id| stored(id).into_owned()).collect();
        let db = &self.inner.db;
        let params: [&(dyn ToSql + Sync); 2] = [&ids, &force];
        let row = db.one(operation, Repeat::Unharmed, &db.sql.delete_instances, &params).await?;
        let bad = |e| unexpected(operation, e);
        let refused: Option<String> = row.try_get("refused").map_err(bad)?;
        let child: Option<String> = row.try_get("child").map_err(bad)?;
        let Some(refused) = refused.map(original) else {
            return read_deleted(&row).map_err(bad);
        };
        let why = match child.map(original) {
            Some(child) => format!(
                "{refused} has a child, {child}, that is not in the list and would be an orphan: delete the whole tree"
            ),
            None => format!("{refused} is still running: cancel it first, or delete it by force"),
        };
        Err(ProviderError::permanent(operation, why))
    }

    async fn delete_instance_bulk(
        &self,
        filter: InstanceFilter,
    ) -> Result<DeleteInstanceResult, ProviderError> {
        let operation = "delete_instance_bulk";
        let roots = self.matching(operation, &self.inner.db.sql.roots_ended, &filter).await?;
        let mut total = DeleteInstanceResult::default();
        for root in roots {
            let tree = self.get_instance_tree(&root).await?;
            // A child that runs, or that came just now, keeps its tree; the others go.
            let deleted = match self.delete_instances_atomic(&tree.all_ids, false).await {
                Ok(deleted) => deleted,
                Err(error) if error.is_retryable() => return Err(error),
                Err(error) => {
                    tracing::debug!(%error, "a tree was left out of a bulk deletion");
                    continue;
                }
            };
            total.instances_deleted += deleted.instances_deleted;
            total.executions_deleted += deleted.executions_deleted;
            total.events_deleted += deleted.events_deleted;
            total.queue_messages_deleted += deleted.queue_messages_deleted;
        }
        Ok(total)
    }

    async fn prune_executions(
        &self,
        instance_id: &str,
        options: PruneOptions,
    ) -> Result<PruneResult, ProviderError> {
        let operation = "prune_executions";
        let keep = i64::from(options.keep_last.unwrap_or(1));
        let before =
            options.completed_before.map(|ms| number(operation, "completed_before", ms)).transpose()?;
        let db = &self.inner.db;
        let params: [&(dyn ToSql + Sync); 3] = [&stored(instance_id), &keep, &before];
        let row = db.one(operation, Repeat::Always, &db.sql.prune_executions, &params).await?;
        let bad = |e| unexpected(operation, e);
        if !row.try_get::<_, bool>("known").map_err(bad)? {
            return Err(not_found(operation, instance_id));
        }
        Ok(PruneResult {
            instances_processed: 1,
            executions_deleted: count(&row, 1).map_err(bad)?,
            events_deleted: count(&row, 2).map_err(bad)?,
        })
    }

    async fn prune_executions_bulk(
        &self,
        filter: InstanceFilter,
        options: PruneOptions,
    ) -> Result<PruneResult, ProviderError> {
        let operation = "prune_executions_bulk";
        let instances = self.matching(operation, &self.inner.db.sql.instances_to_prune, &filter).await?;
        let mut total = PruneResult::default();
        for instance in instances {
            let pruned = match self.prune_executions(&instance, options.clone()).await {
                Ok(pruned) => pruned,
                Err(error) if error.is_retryable() => return Err(error),
                // Deleted meanwhile.
                Err(_) => continue,
            };
            total.instances_processed += pruned.instances_processed;
            total.executions_deleted += pruned.executions_deleted;
            total.events_deleted += pruned.events_deleted;
        }
        Ok(total)
    }
}

impl PostgresProvider {
    /// Instances that a filter lets through.
    async fn matching(
        &self,
        operation: &'static str,
        statement: &bugle_pg::Statement,
        filter: &InstanceFilter,
    ) -> Result<Vec<String>, ProviderError> {
        let stored_ids = |ids: &Vec<String>| ids.iter().map(|id| stored(id).into_owned()).collect::<Vec<_>>();
        let ids = filter.instance_ids.as_ref().map(stored_ids);
        let before =
            filter.completed_before.map(|ms| number(operation, "completed_before", ms)).transpose()?;
        let limit = i64::from(filter.limit.unwrap_or(LIMIT));
        names(operation, &self.ask(operation, statement, &[&ids, &before, &limit]).await?)
    }
}

fn not_found(operation: &str, instance: &str) -> ProviderError {
    ProviderError::permanent(operation, format!("Instance not found: {instance}"))
}

fn names(operation: &str, rows: &[Row]) -> Result<Vec<String>, ProviderError> {
    let name = |row: &Row| row.try_get(0).map(original);
    rows.iter().map(name).collect::<Result<_, _>>().map_err(|e| unexpected(operation, e))
}

fn count(row: &Row, column: usize) -> Result<u64, RowError> {
    row.try_get::<_, i64>(column).map(i64::cast_unsigned)
}

fn read_instance(row: &Row) -> Result<InstanceInfo, RowError> {
    let text = |column: usize| row.try_get::<_, Option<String>>(column).map(|t| t.map(original));
    Ok(InstanceInfo {
        instance_id: text(0)?.unwrap_or_default(),
        orchestration_name: text(1)?.unwrap_or_default(),
        orchestration_version: text(2)?.unwrap_or_default(),
        current_execution_id: count(row, 3)?,
        status: text(4)?.unwrap_or_else(|| "Running".to_owned()),
        output: text(5)?,
        created_at: count(row, 6)?,
        updated_at: count(row, 7)?,
        parent_instance_id: text(8)?,
    })
}

fn read_execution(row: &Row) -> Result<ExecutionInfo, RowError> {
    let completed: Option<i64> = row.try_get(4)?;
    Ok(ExecutionInfo {
        execution_id: count(row, 0)?,
        status: row.try_get::<_, String>(1).map(original)?,
        output: row.try_get::<_, Option<String>>(2)?.map(original),
        started_at: count(row, 3)?,
        completed_at: completed.map(i64::cast_unsigned),
        event_count: count(row, 5)? as usize,
    })
}

fn read_deleted(row: &Row) -> Result<DeleteInstanceResult, RowError> {
    let get = |column| row.try_get::<_, i64>(column).map(i64::cast_unsigned);
    Ok(DeleteInstanceResult {
        instances_deleted: get("instances")?,
        executions_deleted: get("executions")?,
        events_deleted: get("events")?,
        queue_messages_deleted: get("queued")?,
    })
}
