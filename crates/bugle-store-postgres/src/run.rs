//! Fingerprint runs: what makes a search fast in a lane of very many segments.
//!
//! Pushes write nothing but their segment. Only when a lane is searched and has a whole run of messages (16384) that no
//! run covers, runs are made for it, in the background, one transaction each. They hold copies of what never
//! changes, so two servers that make the same one do no harm; `lanes.indexed` tells searches how far they reach.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bugle_pg::{Begin, PgError, Pool, Step};
use uuid::Uuid;

use crate::row::get;
use crate::sql::Sql;
use crate::store::PostgresStore;

/// Most runs made in a row after one search; the next search goes on.
const MOST: usize = 256;

impl PostgresStore {
    /// Make runs for these lanes in the background, unless that is under way.
    pub(crate) fn index(&self, lanes: Vec<(i32, Uuid)>) {
        if lanes.is_empty() || self.indexing.swap(true, Ordering::AcqRel) {
            return;
        }
        let (pool, sql, indexing) = (self.pool.clone(), Arc::clone(&self.sql), Arc::clone(&self.indexing));
        tokio::spawn(async move {
            for (bucket, lane) in lanes {
                if let Err(error) = index_lane(&pool, &sql, bucket, lane).await {
                    tracing::debug!(%error, %lane, "fingerprint runs could not be made; searches work without");
                }
            }
            indexing.store(false, Ordering::Release);
        });
    }
}

/// Make all runs a lane is due, up to a bound. Answers how many.
pub(crate) async fn index_lane(pool: &Pool, sql: &Sql, bucket: i32, lane: Uuid) -> Result<usize, PgError> {
    for made in 0..MOST {
        if !index_next(pool, sql, bucket, lane).await? {
            return Ok(made);
        }
    }
    Ok(MOST)
}

/// Make the next run; `false` = none is due, or another server is at it.
async fn index_next(pool: &Pool, sql: &Sql, bucket: i32, lane: Uuid) -> Result<bool, PgError> {
    let mut conn = pool.get().await?;
    let due = conn.query(&sql.run_due, &[&bucket, &vec![lane]]).await?;
    let Some(row) = due.first() else { return Ok(false) };
    let (indexed, start): (i64, i64) = (get(row, 1)?, get(row, 2)?);
    // The lane is held while its segments are copied, and changed only at the end: pushes wait for the commit alone.
    let steps = [
        Step::new(&sql.run_hold, &[&bucket, &lane]),
        Step::new(&sql.run_insert, &[&bucket, &lane, &start]),
        Step::new(&sql.run_cover, &[&bucket, &lane, &indexed, &start]),
    ];
    let rows = conn.begin(Begin::Write, &steps).await?;
    if rows[2].is_empty() {
        conn.rollback().await?;
        return Ok(false);
    }
    conn.commit(&[]).await?;
    Ok(true)
}
