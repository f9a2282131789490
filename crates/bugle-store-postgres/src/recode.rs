//! Writing stored messages anew while servers work, for the change of an encryption key.
//!
//! Bucket by bucket and in the order of keys, in small transactions. Nothing is written that was not read in the same state: a
//! segment that is gone meanwhile stays gone. Interrupted anywhere it can be begun again; what is done is passed by.

use bugle_pg::PgError;
use bugle_store::{LaneId, Recode, Recoded};
use bytes::Bytes;
use uuid::Uuid;

use crate::row::get;
use crate::store::{PostgresStore, Tries, mark, retry};

/// Keys read at a time, bytes of bodies held at a time, and letters read at a time.
const KEYS: i64 = 1000;
const BYTES: i64 = 8 << 20;
const LETTERS: i64 = 16;

/// Why the work ended early.
#[derive(Debug, thiserror::Error)]
pub enum RecodeError {
    /// The database said no.
    #[error("database: {0}")]
    Database(#[from] PgError),
    /// A segment or dead letter cannot be changed; what was done before it is done.
    #[error("partition {lane}: {reason}")]
    Refused {
        /// The lane.
        lane: Uuid,
        /// Why.
        reason: String,
    },
}

/// Where a segment is.
type Key = (Uuid, i64);

/// Segments to be written.
#[derive(Default)]
struct Changed {
    lanes: Vec<Uuid>,
    bases: Vec<i64>,
    ids: Vec<i64>,
    next: Vec<i64>,
    bodies: Vec<Vec<u8>>,
}

impl PostgresStore {
    /// Change all messages. `progress` hears of every batch. With `write` unset nothing is written, and what would be changed is
    /// counted.
    pub async fn recode(
        &self,
        recode: Recode<'_>,
        write: bool,
        progress: &mut (dyn FnMut(Recoded) + Send),
    ) -> Result<Recoded, RecodeError> {
        let mut total = Recoded::default();
        for bucket in self.all_buckets() {
            let mut after = (Uuid::nil(), -1);
            loop {
                let (keys, last) = self.recode_keys(bucket, after).await?;
                if keys.is_empty() {
                    break;
                }
                self.recode_segments(bucket, &keys, recode, write, &mut total).await?;
                progress(total);
                after = last;
            }
            self.recode_letters(bucket, recode, write, &mut total).await?;
            progress(total);
        }
        Ok(total)
    }

    /// The next segments, as many as may be held at a time, and the last of them.
    async fn recode_keys(&self, bucket: i32, after: Key) -> Result<(Vec<Key>, Key), PgError> {
        let work = || async {
            let params: [&(dyn bugle_pg::ToSql + Sync); 4] = [&bucket, &after.0, &after.1, &KEYS];
            self.pool.get().await?.query(&self.sql.recode_keys, &params).await
        };
        let rows = retry!(Tries::question(), work())?;
        let (mut keys, mut bytes, mut last) = (Vec::new(), 0, after);
        for row in &rows {
            bytes += get::<i64>(row, 2)?;
            if bytes > BYTES && !keys.is_empty() {
                break;
            }
            last = (get(row, 0)?, get(row, 1)?);
            keys.push(last);
        }
        Ok((keys, last))
    }

    async fn recode_segments(
        &self,
        bucket: i32,
        keys: &[Key],
        recode: Recode<'_>,
        write: bool,
        total: &mut Recoded,
    ) -> Result<(), RecodeError> {
        let (lanes, bases): (Vec<Uuid>, Vec<i64>) = keys.iter().copied().unzip();
        let read = || async {
            self.pool.get().await?.query(&self.sql.recode_read, &[&bucket, &lanes, &bases]).await
        };
        let rows = retry!(Tries::question(), read())?;
        let mut changed = Changed::default();
        for row in &rows {
            let lane: Uuid = get(row, 0)?;
            let body = Bytes::copy_from_slice(get(row, 3)?);
            let other =
                recode(LaneId(lane), &body).map_err(|reason| RecodeError::Refused { lane, reason })?;
            total.count(other.is_some());
            if let Some(other) = other {
                changed.lanes.push(lane);
                changed.bases.push(get(row, 1)?);
                changed.ids.push(get(row, 2)?);
                changed.next.push(mark());
                changed.bodies.push(other.into());
            }
        }
        if write && !changed.lanes.is_empty() {
            let Changed { lanes, bases, ids, next, bodies } = &changed;
            // Done twice it changes nothing: the second time finds other ids.
            let work = || async {
                let params: [&(dyn bugle_pg::ToSql + Sync); 6] = [&bucket, lanes, bases, ids, next, bodies];
                self.pool.get().await?.query(&self.sql.recode_write, &params).await
            };
            retry!(Tries::question(), work())?;
        }
        Ok(())
    }

    async fn recode_letters(
        &self,
        bucket: i32,
        recode: Recode<'_>,
        write: bool,
        total: &mut Recoded,
    ) -> Result<(), RecodeError> {
        let mut after = Uuid::nil();
        loop {
            let read = || async {
                self.pool.get().await?.query(&self.sql.recode_letters, &[&bucket, &after, &LETTERS]).await
            };
            let rows = retry!(Tries::question(), read())?;
            let Some(last) = rows.last() else { return Ok(()) };
            after = get(last, 0)?;
            let (mut ids, mut messages): (Vec<Uuid>, Vec<Vec<u8>>) = (Vec::new(), Vec::new());
            for row in &rows {
                let lane: Uuid = get(row, 1)?;
                let message = Bytes::copy_from_slice(get(row, 2)?);
                let other =
                    recode(LaneId(lane), &message).map_err(|reason| RecodeError::Refused { lane, reason })?;
                total.count(other.is_some());
                if let Some(other) = other {
                    ids.push(get(row, 0)?);
                    messages.push(other.into());
                }
            }
            if write && !ids.is_empty() {
                let work = || async {
                    let params: [&(dyn bugle_pg::ToSql + Sync); 3] = [&bucket, &ids, &messages];
                    self.pool.get().await?.query(&self.sql.recode_letters_write, &params).await
                };
                retry!(Tries::question(), work())?;
            }
        }
    }
}
