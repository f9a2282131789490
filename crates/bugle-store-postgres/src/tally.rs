//! What queues hold, counted.

use std::collections::BTreeMap;

use bugle_pg::{Begin, PgError, Step};
use bugle_store::{GroupTally, QueueId, QueueTally, Timestamp, Unavailable};

use crate::row::{get, text, time, unsigned};
use crate::store::{PostgresStore, Tries, retry, unavailable};

impl PostgresStore {
    pub(crate) async fn tally_queues(
        &self,
        queues: Option<Vec<QueueId>>,
        now: Timestamp,
    ) -> Result<Vec<QueueTally>, Unavailable> {
        let mut all = retry!(Tries::question(), self.tally_once(now)).map_err(unavailable)?;
        all.retain(|tally| queues.as_ref().is_none_or(|queues| queues.contains(&tally.queue)));
        Ok(all)
    }

    async fn tally_once(&self, now: Timestamp) -> Result<Vec<QueueTally>, PgError> {
        let sql = &self.sql;
        let steps = [
            Step::new(&sql.tally_lanes, &[]),
            Step::new(&sql.tally_cursors, &[&now.0]),
            Step::new(&sql.tally_dead, &[]),
        ];
        let rows = self.pool.get().await?.transaction_as(Begin::Snapshot, &steps).await?;
        let mut out = BTreeMap::new();
        for row in &rows[0] {
            let tally = QueueTally {
                lanes: unsigned(row, 1)?,
                filled: unsigned(row, 2)?,
                kept: unsigned(row, 3)?,
                appended: unsigned(row, 4)?,
                ..QueueTally::empty(QueueId(get(row, 0)?))
            };
            out.insert(tally.queue, tally);
        }
        for row in &rows[1] {
            let Some(tally) = out.get_mut(&QueueId(get(row, 0)?)) else { continue };
            tally.groups.push(GroupTally {
                group: text(row, 1)?.into(),
                cursors: unsigned(row, 2)?,
                passed: unsigned(row, 3)?,
                finished: unsigned(row, 4)?,
                consumed: unsigned(row, 5)?,
                leases: unsigned(row, 6)?,
                leased: unsigned(row, 7)?,
                served_at: time(row, 8)?,
            });
        }
        for row in &rows[2] {
            if let Some(tally) = out.get_mut(&QueueId(get(row, 0)?)) {
                tally.dead = unsigned(row, 1)?;
            }
        }
        Ok(out.into_values().collect())
    }
}
