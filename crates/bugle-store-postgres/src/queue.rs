//! Queues: the catalog's snapshot, creation and update by compare-and-set, deletion of everything.

use bugle_pg::{Begin, PgError, Row, Step};
use bugle_store::{PutQueue, PutSwitches, Queue, QueueId, Snapshot, Switches, Unavailable};

use crate::group::group_record;
use crate::row::{get, text, time, to_text, unexpected, unsigned};
use crate::store::{PostgresStore, Tries, retry, unavailable};

fn queue(row: &Row) -> Result<Queue, PgError> {
    let options: &str = get(row, 6)?;
    Ok(Queue {
        id: QueueId(get(row, 0)?),
        name: text(row, 1)?.into(),
        namespace: text(row, 2)?.into(),
        task: text(row, 3)?.into(),
        created_at: time(row, 4)?,
        version: unsigned(row, 5)?,
        options: serde_json::from_str(options)
            .map_err(|e| unexpected(format!("stored queue options: {e}")))?,
    })
}

impl PostgresStore {
    pub(crate) async fn snapshot_now(&self, known: Option<u64>) -> Result<Option<Snapshot>, Unavailable> {
        retry!(Tries::question(), self.snapshot_once(known)).map_err(unavailable)
    }

    async fn snapshot_once(&self, known: Option<u64>) -> Result<Option<Snapshot>, PgError> {
        let mut conn = self.pool.get().await?;
        if known.is_some() {
            let rows = conn.query(&self.sql.catalog_version, &[]).await?;
            if known == Some(version(&rows)?) {
                return Ok(None);
            }
        }
        let steps = [
            Step::new(&self.sql.switches_get, &[]),
            Step::new(&self.sql.queues_all, &[]),
            Step::new(&self.sql.groups_all, &[]),
        ];
        let rows = conn.transaction_as(Begin::Snapshot, &steps).await?;
        Ok(Some(Snapshot {
            version: version(&rows[0])?,
            switches: switches(&rows[0], 1)?,
            queues: rows[1].iter().map(queue).collect::<Result<_, _>>()?,
            groups: rows[2].iter().map(group_record).collect::<Result<_, _>>()?,
        }))
    }

    /// Repeating it does no harm but another count.
    pub(crate) async fn switch(&self, change: PutSwitches) -> Result<Switches, Unavailable> {
        retry!(Tries::question(), self.switch_once(change)).map_err(unavailable)
    }

    async fn switch_once(&self, change: PutSwitches) -> Result<Switches, PgError> {
        let mut conn = self.pool.get().await?;
        let values: [&(dyn bugle_pg::ToSql + Sync); 2] = [&change.push_maintenance, &change.pop_maintenance];
        let rows = conn.query(&self.sql.switches_put, &values).await?;
        switches(&rows, 0)
    }

    pub(crate) async fn put(&self, queue: Queue) -> Result<PutQueue, Unavailable> {
        let stored = retry!(Tries::change(), self.put_once(&queue)).map_err(unavailable)?;
        if stored {
            return Ok(PutQueue::Stored(queue));
        }
        let other = retry!(Tries::question(), self.in_the_way(&queue)).map_err(unavailable)?;
        Ok(PutQueue::Exists(other))
    }

    async fn put_once(&self, queue: &Queue) -> Result<bool, PgError> {
        let (name, namespace, task) = (to_text(&queue.name), to_text(&queue.namespace), to_text(&queue.task));
        let options =
            serde_json::to_string(&queue.options).map_err(|e| unexpected(format!("queue options: {e}")))?;
        let version = queue.version as i64;
        let step = if queue.version == 1 {
            let row: [&(dyn bugle_pg::ToSql + Sync); 7] =
                [&queue.id.0, &name, &namespace, &task, &queue.created_at.0, &version, &options];
            Step::new(&self.sql.queue_insert, &row)
        } else {
            Step::new(&self.sql.queue_update, &[&queue.id.0, &namespace, &task, &version, &options])
        };
        let mut conn = self.pool.get().await?;
        let rows = conn.begin(Begin::Write, &[step]).await?;
        self.finish(&mut conn, !rows[0].is_empty()).await
    }

    async fn in_the_way(&self, wanted: &Queue) -> Result<Option<Queue>, PgError> {
        // An update is refused by the queue itself, a creation by whoever has the name.
        let name = (wanted.version == 1).then(|| to_text(&wanted.name));
        let rows = self.pool.get().await?.query(&self.sql.queue_get, &[&wanted.id.0, &name]).await?;
        rows.first().map(queue).transpose()
    }

    pub(crate) async fn delete(&self, id: QueueId) -> Result<bool, Unavailable> {
        retry!(Tries::change(), self.delete_once(id)).map_err(unavailable)
    }

    /// The queue first: that keeps new lanes and groups out. Then its lanes are locked, so that whatever is being
    /// written to them is finished and seen by the statements that delete.
    async fn delete_once(&self, id: QueueId) -> Result<bool, PgError> {
        let sql = &self.sql;
        let mut conn = self.pool.get().await?;
        let rows = conn.begin(Begin::Unlimited, &[Step::new(&sql.queue_delete, &[&id.0])]).await?;
        if rows[0].is_empty() {
            conn.rollback().await?;
            return Ok(false);
        }
        let buckets = self.all_buckets();
        let per_bucket = [
            &sql.queue_lanes_lock,
            &sql.queue_segments_delete,
            &sql.queue_runs_delete,
            &sql.queue_cursors_delete,
            &sql.queue_lanes_delete,
        ];
        let mut steps: Vec<Step<'_>> = Vec::new();
        for statement in per_bucket {
            steps.extend(buckets.iter().map(|bucket| Step::new(statement, &[bucket, &id.0])));
        }
        steps.extend(buckets.iter().map(|bucket| Step::new(&sql.tally_part, &[bucket])));
        let sums = [
            &sql.queue_cursor_tallies_delete,
            &sql.queue_lane_tallies_delete,
            &sql.queue_group_tallies_delete,
            &sql.queue_tally_delete,
        ];
        for statement in sums {
            steps.extend(buckets.iter().map(|bucket| Step::new(statement, &[bucket, &id.0])));
        }
        let whole = [
            &sql.queue_groups_delete,
            &sql.queue_dead_delete,
            &sql.queue_trace_names_delete,
            &sql.queue_traces_delete,
        ];
        steps.extend(whole.into_iter().map(|statement| Step::new(statement, &[&id.0])));
        steps.push(Step::new(&sql.catalog_bump, &[]));
        conn.commit(&steps).await?;
        Ok(true)
    }
}

fn version(rows: &[Row]) -> Result<u64, PgError> {
    unsigned(rows.first().ok_or_else(|| unexpected("the meta table is empty"))?, 0)
}

/// Switches in a row of the meta table, from this column on.
fn switches(rows: &[Row], from: usize) -> Result<Switches, PgError> {
    let row = rows.first().ok_or_else(|| unexpected("the meta table is empty"))?;
    Ok(Switches { push_maintenance: get(row, from)?, pop_maintenance: get(row, from + 1)? })
}
