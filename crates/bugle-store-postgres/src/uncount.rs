//! Taking out of the sums what is deleted, in the transaction that deletes it.
//!
//! Who counts next cannot see what is gone. So whoever deletes takes the bucket's state row first ([`tally_hold`], after
//! the locks of lanes and cursors, before those of dead letters) and then subtracts what was counted, which nobody can
//! change meanwhile.
//!
//! [`tally_hold`]: ../sql/queries/tally_hold.sql

use std::borrow::Cow;
use std::collections::BTreeMap;

use bugle_pg::{Begin, Conn, PgError, Step};
use uuid::Uuid;

use crate::fold::QueueSums;
use crate::row::get;
use crate::store::PostgresStore;

impl PostgresStore {
    /// Take the cursors on these lanes, of all groups or of one, out of the sums.
    pub(crate) fn uncount_cursors<'s>(
        &'s self,
        bucket: &'s i32,
        lanes: &'s Vec<Uuid>,
        group: &'s Option<Cow<'s, str>>,
    ) -> [Step<'s>; 4] {
        let sql = &self.sql;
        [&sql.tally_take_cursors, &sql.tally_part_groups, &sql.tally_drop_groups, &sql.tally_drop_cursors]
            .map(|statement| Step::new(statement, &[bucket, lanes, group]))
    }

    /// Take these lanes out of the sums.
    pub(crate) fn uncount_lanes<'s>(&'s self, bucket: &'s i32, lanes: &'s Vec<Uuid>) -> [Step<'s>; 2] {
        let sql = &self.sql;
        [&sql.tally_take_lanes, &sql.tally_drop_lanes].map(|statement| Step::new(statement, &[bucket, lanes]))
    }

    /// Delete dead letters by a statement that answers bucket, queue and whether it was counted of each. Answers how many.
    pub(crate) async fn remove_letters(&self, conn: &mut Conn, delete: Step<'_>) -> Result<u64, PgError> {
        let buckets = self.all_buckets();
        let mut steps: Vec<Step<'_>> =
            buckets.iter().map(|bucket| Step::new(&self.sql.tally_hold, &[bucket])).collect();
        steps.push(delete);
        let rows = conn.begin(Begin::Write, &steps).await?.pop().unwrap_or_default();
        let mut counted: BTreeMap<i32, QueueSums> = BTreeMap::new();
        for row in &rows {
            if get(row, 2)? {
                counted.entry(get(row, 0)?).or_default().of(get(row, 1)?).dead -= 1;
            }
        }
        let columns: Vec<_> = counted.iter().map(|(bucket, sums)| (bucket, sums.columns())).collect();
        let last: Vec<Step<'_>> =
            columns.iter().map(|(bucket, columns)| columns.step(&self.sql, bucket)).collect();
        conn.commit(&last).await?;
        Ok(rows.len() as u64)
    }
}
