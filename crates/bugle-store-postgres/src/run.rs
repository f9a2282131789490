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

#[cfg(test)]
mod tests {
    use bugle_pg::{Schema, Statement};
    use bugle_store::{Catalog, Find, Found, Store, Timestamp, Trim};

    use super::*;
    use crate::fixture::{Fixture, append, fixture};

    const RUN: u64 = 16384;

    impl Fixture {
        /// `count` messages in segments of `size`, stamped by their first offset; message n has fingerprint n * 7.
        async fn fill(&self, from: u64, count: u64, size: u64) {
            let mut at = from;
            while at < from + count {
                let end = (at + size).min(from + count);
                let prints = (at..end).map(|n| n.wrapping_mul(7)).collect();
                self.store.append(vec![append(self.lane, at, prints, at as i64 + 1)]).await.unwrap();
                at = end;
            }
        }

        async fn find(&self, wanted: &[u64], from: u64, to: u64, since: i64) -> Vec<Found> {
            let fingerprints = wanted.iter().map(|n| n.wrapping_mul(7)).collect();
            let query = Find { lane: self.lane, fingerprints, from, to, since: Timestamp(since) };
            // Not through the store's own verb: that would start the making of runs.
            self.store.find_hits(&[query]).await.unwrap().0.remove(0)
        }

        /// What many questions answer, to compare before and after.
        async fn answers(&self) -> Vec<Vec<Found>> {
            let wanted =
                [0, 1, 5000, RUN - 1, RUN, RUN + 1, 2 * RUN, 2 * RUN + 99, 3 * RUN - 1, 3 * RUN + 10, 1];
            let mut out = Vec::new();
            for (from, to) in [(0, u64::MAX), (1, 2 * RUN), (RUN, RUN + 1), (RUN + 1, 3 * RUN + 10), (7, 7)] {
                for since in [0, 1, 5000, RUN as i64, RUN as i64 + 2, 3 * RUN as i64] {
                    out.push(self.find(&wanted, from, to, since).await);
                }
            }
            out
        }

        async fn runs(&self) -> i64 {
            let sql = "SELECT count(DISTINCT run) FROM {schema}.fingerprint_runs";
            let count = Statement::new(&Schema::new(&self.schema).unwrap(), sql, &[]);
            self.store.pool.get().await.unwrap().query(&count, &[]).await.unwrap()[0].get(0)
        }

        async fn index_all(&self) -> usize {
            index_lane(&self.store.pool, &self.store.sql, 0, self.lane.0).await.unwrap()
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn searches_answer_the_same_with_and_without_runs() {
        let f = fixture().await;
        // Sizes that do not divide the run, so that segments lie across its ends.
        f.fill(0, RUN - 3, 1000).await;
        f.fill(RUN - 3, 2 * RUN, 777).await;
        f.fill(3 * RUN - 3, 100, 1).await;
        let before = f.answers().await;
        assert_eq!(before[0].len(), 11, "every message is there, one was asked for twice");
        assert_eq!(f.index_all().await, 3);
        assert_eq!(f.runs().await, 3);
        assert_eq!(f.answers().await, before);
        assert_eq!(f.index_all().await, 0, "the rest is less than a run");

        f.store.trim(vec![Trim { lane: f.lane, to: RUN + 1 }]).await.unwrap();
        assert_eq!(f.runs().await, 2, "what lies wholly below the tail is gone");
        assert_eq!(f.find(&[RUN], 0, u64::MAX, 0).await, []);
        assert_eq!(f.find(&[RUN + 1], 0, u64::MAX, 0).await, [Found { index: 0, offset: RUN + 1 }]);

        f.store.delete_queue(f.queue).await.unwrap();
        assert_eq!(f.runs().await, 0);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn two_makers_do_no_harm() {
        let f = fixture().await;
        f.fill(0, 4 * RUN, 4000).await;
        let before = f.answers().await;
        let (one, two) = tokio::join!(f.index_all(), f.index_all());
        let rest = f.index_all().await;
        assert_eq!(one + two + rest, 4, "each run is made once");
        assert_eq!(f.answers().await, before);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn runs_begin_at_the_tail_of_a_trimmed_lane() {
        let f = fixture().await;
        f.fill(0, 4 * RUN, 5000).await;
        f.store.trim(vec![Trim { lane: f.lane, to: 2 * RUN + 5 }]).await.unwrap();
        let before = f.answers().await;
        assert_eq!(f.index_all().await, 2);
        assert_eq!(f.answers().await, before);
    }
}
