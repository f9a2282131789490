//! Groups: how each reads a queue, fixed at first contact.

use bugle_pg::{Begin, PgError, Row, Step};
use bugle_store::{Group, GroupRecord, QueueId, Start, Timestamp, Unavailable};
use uuid::Uuid;

use crate::row::{get, text, time, to_text, unexpected};
use crate::store::{PostgresStore, Tries, retry, unavailable};

/// A group from a row.
pub(crate) fn group_record(row: &Row) -> Result<GroupRecord, PgError> {
    let at = time(row, 3)?;
    let start = match get::<i32>(row, 2)? {
        0 => Start::All,
        1 => Start::New(at),
        2 => Start::From(at),
        other => return Err(unexpected(format!("stored group start {other}"))),
    };
    Ok(GroupRecord {
        queue: QueueId(get(row, 0)?),
        group: text(row, 1)?.into(),
        start,
        conflation: get(row, 4)?,
        created_at: time(row, 5)?,
    })
}

fn start(start: Start) -> (i32, i64) {
    match start {
        Start::All => (0, 0),
        Start::New(Timestamp(at)) => (1, at),
        Start::From(Timestamp(at)) => (2, at),
    }
}

impl PostgresStore {
    pub(crate) async fn put_group_once(&self, group: &GroupRecord) -> Result<Option<GroupRecord>, PgError> {
        let name = to_text(&group.group);
        let (kind, at) = start(group.start);
        let row: [&(dyn bugle_pg::ToSql + Sync); 6] =
            [&group.queue.0, &name, &kind, &at, &group.conflation, &group.created_at.0];
        let mut conn = self.pool.get().await?;
        let rows = conn.begin(Begin::Write, &[Step::new(&self.sql.group_insert, &row)]).await?;
        if self.finish(&mut conn, !rows[0].is_empty()).await? {
            return Ok(Some(group.clone()));
        }
        let rows = conn.query(&self.sql.group_get, &[&group.queue.0, &name]).await?;
        rows.first().map(group_record).transpose()
    }

    pub(crate) async fn first_contact(&self, group: GroupRecord) -> Result<Option<GroupRecord>, Unavailable> {
        retry!(Tries::question(), self.put_group_once(&group)).map_err(unavailable)
    }

    pub(crate) async fn replace_group(&self, group: GroupRecord) -> Result<bool, Unavailable> {
        retry!(Tries::question(), self.replace_group_once(&group)).map_err(unavailable)
    }

    async fn replace_group_once(&self, group: &GroupRecord) -> Result<bool, PgError> {
        let name = to_text(&group.group);
        let (kind, at) = start(group.start);
        let row: [&(dyn bugle_pg::ToSql + Sync); 6] =
            [&group.queue.0, &name, &kind, &at, &group.conflation, &group.created_at.0];
        let mut conn = self.pool.get().await?;
        let rows = conn.begin(Begin::Write, &[Step::new(&self.sql.group_update, &row)]).await?;
        self.finish(&mut conn, !rows[0].is_empty()).await
    }

    pub(crate) async fn forget_group(
        &self,
        queue: QueueId,
        group: Group,
        record: bool,
    ) -> Result<u64, Unavailable> {
        retry!(Tries::change(), self.forget_group_once(queue, &group, record)).map_err(unavailable)
    }

    async fn forget_group_once(&self, queue: QueueId, group: &str, record: bool) -> Result<u64, PgError> {
        let name = to_text(group);
        let buckets = self.all_buckets();
        let mut steps: Vec<Step<'_>> = buckets
            .iter()
            .map(|bucket| Step::new(&self.sql.group_cursors_delete, &[bucket, &queue.0, &name]))
            .collect();
        if record {
            steps.push(Step::new(&self.sql.group_delete, &[&queue.0, &name]));
        }
        let mut conn = self.pool.get().await?;
        let rows = conn.begin(Begin::Write, &steps).await?;
        let removed = rows[..buckets.len()]
            .iter()
            .map(|rows| rows.iter().map(|row| get(row, 0)).collect::<Result<Vec<Uuid>, _>>())
            .collect::<Result<Vec<_>, _>>()?;
        let (only, mut last) = (Some(name), Vec::new());
        for (bucket, lanes) in buckets.iter().zip(&removed).filter(|(_, lanes)| !lanes.is_empty()) {
            last.push(Step::new(&self.sql.tally_hold, &[bucket]));
            last.extend(self.uncount_cursors(bucket, lanes, &only));
        }
        if record && !rows[buckets.len()].is_empty() {
            last.push(Step::new(&self.sql.catalog_bump, &[]));
        }
        conn.commit(&last).await?;
        Ok(removed.iter().map(|lanes| lanes.len() as u64).sum())
    }
}
