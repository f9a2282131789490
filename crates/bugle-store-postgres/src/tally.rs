//! What queues hold: what changed is counted first (`fold.rs`), then the sums are read; of all queues those that changed since
//! they were last read (`kept.rs`).

use bugle_pg::{Begin, PgError, Row, Step};
use bugle_store::{Group, QueueId, QueueTally, Timestamp, Unavailable};
use uuid::Uuid;

use crate::kept::{Counting, Kept, add, add_group, each_group_sum, each_lane_sum};
use crate::row::{get, text, unexpected, unsigned};
use crate::store::{PostgresStore, Tries, retry, unavailable};

/// One of the tallies, which are in the order of their ids.
fn of(all: &mut [QueueTally], queue: Uuid) -> Option<&mut QueueTally> {
    let at = all.binary_search_by_key(&QueueId(queue), |tally| tally.queue).ok()?;
    Some(&mut all[at])
}

fn add_leases(all: &mut [QueueTally], row: &Row) -> Result<(), PgError> {
    let (queue, group): (Uuid, Group) = (get(row, 0)?, text(row, 1)?.into());
    let (leases, leased) = (unsigned(row, 2)?, unsigned(row, 3)?);
    if let Some(tally) = of(all, queue) {
        let tally = tally.group(&group);
        tally.leases += leases;
        tally.leased += leased;
    }
    Ok(())
}

/// The row of a statement that always answers one.
fn only(rows: &[Vec<Row>], at: usize) -> Result<&Row, PgError> {
    rows.get(at).and_then(|rows| rows.first()).ok_or_else(|| unexpected("sums without a row"))
}

impl PostgresStore {
    pub(crate) async fn tally_queues(
        &self,
        queues: Option<Vec<QueueId>>,
        now: Timestamp,
    ) -> Result<Vec<QueueTally>, Unavailable> {
        let Some(mut queues) = queues else { return self.tally_all(now).await };
        let Some(range) = queues.iter().min().zip(queues.iter().max()) else { return Ok(Vec::new()) };
        let range = (range.0.0, range.1.0);
        self.count(&mut *self.counting.lock().await).await.map_err(unavailable)?;
        let mut all = retry!(Tries::question(), self.tally_range(range, now)).map_err(unavailable)?;
        queues.sort_unstable();
        all.retain(|tally| queues.binary_search(&tally.queue).is_ok());
        Ok(all)
    }

    /// Count all that is not in the sums yet.
    async fn count(&self, counting: &mut Counting) -> Result<(), PgError> {
        for bucket in self.all_buckets() {
            self.fold(bucket, counting.counted.contains(&bucket)).await?;
            counting.counted.insert(bucket);
        }
        Ok(())
    }

    /// The sums of all queues in a range of ids, of one moment.
    async fn tally_range(
        &self,
        (from, to): (Uuid, Uuid),
        now: Timestamp,
    ) -> Result<Vec<QueueTally>, PgError> {
        let (sql, buckets) = (&self.sql, self.all_buckets());
        let mut steps = vec![Step::new(&sql.tally_queues, &[&from, &to])];
        for bucket in &buckets {
            steps.push(Step::new(&sql.tally_lane_sums, &[bucket, &from, &to]));
            steps.push(Step::new(&sql.tally_group_sums, &[bucket, &from, &to]));
            steps.push(Step::new(&sql.tally_leases, &[bucket, &from, &to, &now.0]));
        }
        let rows = self.pool.get().await?.transaction_as(Begin::Snapshot, &steps).await?;
        let queues: Vec<Uuid> = get(only(&rows, 0)?, 0)?;
        let mut all: Vec<QueueTally> = queues.into_iter().map(|id| QueueTally::empty(QueueId(id))).collect();
        for at in (1..rows.len()).step_by(3) {
            each_lane_sum(only(&rows, at)?, 0, |queue, sum| {
                of(&mut all, queue).into_iter().for_each(|tally| add(tally, &sum));
            })?;
            each_group_sum(only(&rows, at + 1)?, 0, |queue, sum| {
                of(&mut all, queue).into_iter().for_each(|tally| add_group(tally, &sum));
            })?;
            rows[at + 2].iter().try_for_each(|row| add_leases(&mut all, row))?;
        }
        Ok(all)
    }

    /// The sums of all queues. One at a time asks: the next finds what this one has read.
    async fn tally_all(&self, now: Timestamp) -> Result<Vec<QueueTally>, Unavailable> {
        let mut counting = self.counting.lock().await;
        self.count(&mut counting).await.map_err(unavailable)?;
        let mut kept = counting.kept.take().unwrap_or_else(|| Kept::new(self.all_buckets().len()));
        let all = retry!(Tries::question(), self.tally_since(&mut kept, now)).map_err(unavailable)?;
        counting.kept = kept.fits().then_some(kept);
        Ok(all)
    }

    /// Bring what is kept up to date, and add the leases of that moment.
    async fn tally_since(&self, kept: &mut Kept, now: Timestamp) -> Result<Vec<QueueTally>, PgError> {
        let (sql, versions) = (&self.sql, kept.versions());
        let (buckets, from, to) = (self.all_buckets(), Uuid::nil(), Uuid::max());
        let mut steps = vec![Step::new(&sql.tally_queues_since, &[&kept.catalog])];
        for (bucket, version) in buckets.iter().zip(&versions) {
            steps.push(Step::new(&sql.tally_lane_sums_since, &[bucket, version]));
            steps.push(Step::new(&sql.tally_group_sums_since, &[bucket, version]));
            steps.push(Step::new(&sql.tally_leases, &[bucket, &from, &to, &now.0]));
        }
        let rows = self.pool.get().await?.transaction_as(Begin::Snapshot, &steps).await?;
        kept.take_queues(only(&rows, 0)?)?;
        for bucket in 0..buckets.len() {
            let at = 1 + 3 * bucket;
            kept.take_sums(bucket, only(&rows, at)?, only(&rows, at + 1)?)?;
        }
        let mut all = kept.tallies();
        for leases in rows.iter().skip(3).step_by(3) {
            leases.iter().try_for_each(|row| add_leases(&mut all, row))?;
        }
        Ok(all)
    }
}
