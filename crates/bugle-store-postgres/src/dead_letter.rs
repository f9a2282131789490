//! Dead letters: listing and deleting. They are stored with the swap that gives a message up.

use bugle_pg::{PgError, Row, Step, ToSql};
use bugle_store::{DeadLetter, DeadLetterFilter, LaneId, Page, QueueId, Unavailable};
use bytes::Bytes;
use uuid::Uuid;

use crate::row::{get, limit, small, text, time, to_text, unexpected, unsigned};
use crate::store::{PostgresStore, Tries, retry, unavailable};

fn dead_letter(row: &Row) -> Result<DeadLetter, PgError> {
    Ok(DeadLetter {
        id: get(row, 0)?,
        queue: QueueId(get(row, 1)?),
        lane: LaneId(get(row, 2)?),
        partition: text(row, 3)?.into(),
        group: text(row, 4)?.into(),
        offset: unsigned(row, 5)?,
        message: Bytes::copy_from_slice(get(row, 6)?),
        transaction_id: text(row, 7)?.into_owned(),
        error: text(row, 8)?.into_owned(),
        attempts: small(row, 9)?,
        created_at: time(row, 10)?,
        failed_at: time(row, 11)?,
    })
}

/// The only number of an answer.
pub(crate) fn count(rows: &[Row]) -> Result<u64, PgError> {
    unsigned(rows.first().ok_or_else(|| unexpected("a count without a row"))?, 0)
}

impl PostgresStore {
    pub(crate) async fn list_dead(
        &self,
        filter: DeadLetterFilter,
        page: Page,
    ) -> Result<(Vec<DeadLetter>, u64), Unavailable> {
        retry!(Tries::question(), self.list_dead_once(&filter, page)).map_err(unavailable)
    }

    async fn list_dead_once(
        &self,
        filter: &DeadLetterFilter,
        page: Page,
    ) -> Result<(Vec<DeadLetter>, u64), PgError> {
        let queue = filter.queue.map(|q| q.0);
        let lane = filter.lane.map(|l| l.0);
        let group = filter.group.as_deref().map(to_text);
        let transaction = filter.transaction_id.as_deref().map(to_text);
        let from = filter.from.map_or(i64::MIN, |t| t.0);
        let to = filter.to.map_or(i64::MAX, |t| t.0);
        let (offset, most) = (limit(page.offset), limit(page.limit));
        let all: [&(dyn ToSql + Sync); 9] =
            [&queue, &lane, &group, &transaction, &filter.id, &from, &to, &offset, &most];
        let steps = [Step::new(&self.sql.dead_list, &all), Step::new(&self.sql.dead_count, &all[..7])];
        let rows = self.pool.get().await?.pipeline(&steps).await?;
        Ok((rows[0].iter().map(dead_letter).collect::<Result<_, _>>()?, count(&rows[1])?))
    }

    pub(crate) async fn delete_dead(&self, ids: Vec<Uuid>) -> Result<u64, Unavailable> {
        retry!(Tries::change(), self.delete_dead_once(&ids)).map_err(unavailable)
    }

    async fn delete_dead_once(&self, ids: &Vec<Uuid>) -> Result<u64, PgError> {
        let buckets = self.all_buckets();
        let rows = self.pool.get().await?.query(&self.sql.dead_delete, &[&buckets, ids]).await?;
        Ok(rows.len() as u64)
    }
}
