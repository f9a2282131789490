//! Dead letters: listing and deleting. They are stored with the swap that gives a message up.

use std::borrow::Cow;

use bugle_pg::{PgError, Row, Step, ToSql};
use bugle_store::{DeadLetter, DeadLetterFilter, LaneId, Page, QueueId, Timestamp, Unavailable};
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

/// A filter as the statements take it.
struct Filter<'a> {
    queue: Option<Uuid>,
    lane: Option<Uuid>,
    group: Option<Cow<'a, str>>,
    transaction: Option<Cow<'a, str>>,
    id: Option<Uuid>,
    from: i64,
    to: i64,
    error: Option<Cow<'a, str>>,
}

impl<'a> Filter<'a> {
    fn new(filter: &'a DeadLetterFilter) -> Self {
        Self {
            queue: filter.queue.map(|q| q.0),
            lane: filter.lane.map(|l| l.0),
            group: filter.group.as_deref().map(to_text),
            transaction: filter.transaction_id.as_deref().map(to_text),
            id: filter.id,
            from: filter.from.map_or(i64::MIN, |t| t.0),
            to: filter.to.map_or(i64::MAX, |t| t.0),
            error: filter.error.as_deref().map(to_text),
        }
    }

    /// The first parameters of every statement with `{dead_filter}`.
    fn parameters(&self) -> [&(dyn ToSql + Sync); 8] {
        [&self.queue, &self.lane, &self.group, &self.transaction, &self.id, &self.from, &self.to, &self.error]
    }
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
        let filter = Filter::new(filter);
        let (offset, most) = (limit(page.offset), limit(page.limit));
        let [a, b, c, d, e, f, g, h] = filter.parameters();
        let steps = [
            Step::new(&self.sql.dead_list, &[a, b, c, d, e, f, g, h, &offset, &most]),
            Step::new(&self.sql.dead_count, &[a, b, c, d, e, f, g, h]),
        ];
        let rows = self.pool.get().await?.pipeline(&steps).await?;
        Ok((rows[0].iter().map(dead_letter).collect::<Result<_, _>>()?, count(&rows[1])?))
    }

    pub(crate) async fn dead_after(
        &self,
        filter: DeadLetterFilter,
        after: Option<(Timestamp, Uuid)>,
        most: usize,
    ) -> Result<Vec<DeadLetter>, Unavailable> {
        retry!(Tries::question(), self.dead_after_once(&filter, after, most)).map_err(unavailable)
    }

    async fn dead_after_once(
        &self,
        filter: &DeadLetterFilter,
        after: Option<(Timestamp, Uuid)>,
        most: usize,
    ) -> Result<Vec<DeadLetter>, PgError> {
        let filter = Filter::new(filter);
        let (failed_at, id) = after.map_or((i64::MIN, Uuid::nil()), |(at, id)| (at.0, id));
        let most = limit(most);
        let [a, b, c, d, e, f, g, h] = filter.parameters();
        let parameters: [&(dyn ToSql + Sync); 11] = [a, b, c, d, e, f, g, h, &failed_at, &id, &most];
        let rows = self.pool.get().await?.query(&self.sql.dead_after, &parameters).await?;
        rows.iter().map(dead_letter).collect()
    }

    pub(crate) async fn delete_dead(&self, ids: Vec<Uuid>) -> Result<u64, Unavailable> {
        retry!(Tries::change(), self.delete_dead_once(&ids)).map_err(unavailable)
    }

    async fn delete_dead_once(&self, ids: &Vec<Uuid>) -> Result<u64, PgError> {
        let buckets = self.all_buckets();
        let mut conn = self.pool.get().await?;
        self.remove_letters(&mut conn, Step::new(&self.sql.dead_delete, &[&buckets, ids])).await
    }
}
