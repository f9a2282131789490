//! What queues hold: what changed is counted first (`fold.rs`), then the sums are read.

use std::collections::HashMap;

use bugle_pg::{Begin, PgError, Row, Step};
use bugle_store::{Group, QueueId, QueueTally, Timestamp, Unavailable};
use uuid::Uuid;

use crate::row::{from_text, get, text, unexpected, unsigned};
use crate::store::{PostgresStore, Tries, retry, unavailable};

/// Tallies being put together, by queue id.
struct Tallies {
    all: Vec<QueueTally>,
    places: HashMap<Uuid, usize>,
    /// Most rows name the group of the row before.
    name: Group,
}

impl Tallies {
    fn new(queues: Vec<Uuid>) -> Self {
        let places = queues.iter().enumerate().map(|(place, id)| (*id, place)).collect();
        let all = queues.into_iter().map(|id| QueueTally::empty(QueueId(id))).collect();
        Self { all, places, name: "".into() }
    }

    fn of(&mut self, queue: Uuid) -> Option<&mut QueueTally> {
        self.places.get(&queue).map(|place| &mut self.all[*place])
    }

    fn named(&mut self, kept: &str) -> Group {
        let name = from_text(kept);
        if *name != *self.name {
            self.name = name.into();
        }
        self.name.clone()
    }

    fn add_lanes(&mut self, row: &Row) -> Result<(), PgError> {
        let queues: Vec<Uuid> = get(row, 0)?;
        let sums: Vec<Vec<i64>> = (1..6).map(|column| get(row, column)).collect::<Result<_, _>>()?;
        for (n, queue) in queues.into_iter().enumerate() {
            let sum = |column: usize| sums[column][n] as u64;
            if let Some(tally) = self.of(queue) {
                tally.lanes += sum(0);
                tally.filled += sum(1);
                tally.kept += sum(2);
                tally.appended += sum(3);
                tally.dead += sum(4);
            }
        }
        Ok(())
    }

    fn add_groups(&mut self, row: &Row) -> Result<(), PgError> {
        let (queues, groups): (Vec<Uuid>, Vec<&str>) = (get(row, 0)?, get(row, 1)?);
        let sums: Vec<Vec<i64>> = (2..7).map(|column| get(row, column)).collect::<Result<_, _>>()?;
        for (n, (queue, group)) in queues.into_iter().zip(groups).enumerate() {
            let (group, sum) = (self.named(group), |column: usize| sums[column][n]);
            if let Some(tally) = self.of(queue) {
                let tally = tally.group(&group);
                tally.cursors += sum(0) as u64;
                tally.passed += sum(1) as u64;
                tally.finished += sum(2) as u64;
                tally.consumed += sum(3) as u64;
                tally.served_at = tally.served_at.max(Timestamp(sum(4)));
            }
        }
        Ok(())
    }

    fn add_leases(&mut self, row: &Row) -> Result<(), PgError> {
        let (queue, group): (Uuid, Group) = (get(row, 0)?, text(row, 1)?.into());
        let (leases, leased) = (unsigned(row, 2)?, unsigned(row, 3)?);
        if let Some(tally) = self.of(queue) {
            let tally = tally.group(&group);
            tally.leases += leases;
            tally.leased += leased;
        }
        Ok(())
    }
}

impl PostgresStore {
    pub(crate) async fn tally_queues(
        &self,
        queues: Option<Vec<QueueId>>,
        now: Timestamp,
    ) -> Result<Vec<QueueTally>, Unavailable> {
        let ids = queues.as_ref().map(|queues| queues.iter().map(|queue| queue.0));
        let range = match ids {
            None => Some((Uuid::nil(), Uuid::max())),
            Some(ids) => ids.clone().min().zip(ids.max()),
        };
        let Some(range) = range else { return Ok(Vec::new()) };
        {
            let _alone = self.counting.lock().await;
            for bucket in self.all_buckets() {
                self.fold(bucket).await.map_err(unavailable)?;
            }
        }
        let mut all = retry!(Tries::question(), self.tally_once(range, now)).map_err(unavailable)?;
        if let Some(mut queues) = queues {
            queues.sort_unstable();
            all.retain(|tally| queues.binary_search(&tally.queue).is_ok());
        }
        Ok(all)
    }

    /// The sums of all queues in a range of ids, of one moment.
    async fn tally_once(&self, (from, to): (Uuid, Uuid), now: Timestamp) -> Result<Vec<QueueTally>, PgError> {
        let (sql, buckets) = (&self.sql, self.all_buckets());
        let mut steps = vec![Step::new(&sql.tally_queues, &[&from, &to])];
        for bucket in &buckets {
            steps.push(Step::new(&sql.tally_lane_sums, &[bucket, &from, &to]));
            steps.push(Step::new(&sql.tally_group_sums, &[bucket, &from, &to]));
            steps.push(Step::new(&sql.tally_leases, &[bucket, &from, &to, &now.0]));
        }
        let rows = self.pool.get().await?.transaction_as(Begin::Snapshot, &steps).await?;
        let only = |at: usize| rows[at].first().ok_or_else(|| unexpected("sums without a row"));
        let mut tallies = Tallies::new(get(only(0)?, 0)?);
        for at in (1..rows.len()).step_by(3) {
            tallies.add_lanes(only(at)?)?;
            tallies.add_groups(only(at + 1)?)?;
            rows[at + 2].iter().try_for_each(|row| tallies.add_leases(row))?;
        }
        Ok(tallies.all)
    }
}
