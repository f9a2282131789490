//! Appending: one transaction per bucket, in one round trip; a single statement where that suffices.
//!
//! The heads are moved under the lanes' row locks, which are held until the commit: so offsets are gapless and in
//! commit order, and whoever sees a head sees all segments below it.
//!
//! With `early_release` that commit waits for no disk, and a second one in the same round trip does (docs/decisions/0019).

use std::collections::HashMap;

use bugle_pg::{PgError, Row, Step};
use bugle_store::{Append, AppendError, Appended, Guard, Lane, Unavailable};
use futures_util::future::try_join_all;
use uuid::Uuid;

use crate::row::{get, lane, limit, time, unsigned};
use crate::sql::Sql;
use crate::store::{PARALLEL, PostgresStore, Tries, mark, retry, unavailable};

/// Outcome of an append.
pub(crate) type Outcome = Result<Appended, AppendError>;

/// Appends of one bucket as columns.
pub(crate) struct Appends<'a> {
    bucket: i32,
    writer: i64,
    /// See [`PostgresStore::second`].
    second: i64,
    lanes: Vec<Uuid>,
    known: Vec<i64>,
    guards: Vec<i32>,
    counts: Vec<i32>,
    stamps: Vec<i64>,
    greatest: Vec<Option<Uuid>>,
    ids: Vec<i64>,
    bodies: Vec<&'a [u8]>,
    prints: Vec<i64>,
    first: Vec<i32>,
    last: Vec<i32>,
    checked: bool,
    /// Some are to be stored whatever the head is.
    free: bool,
}

impl<'a> Appends<'a> {
    pub(crate) fn new(bucket: i32, second: i64, items: impl Iterator<Item = &'a Append>) -> Self {
        let mut out = Self {
            bucket,
            writer: mark(),
            second,
            lanes: Vec::new(),
            known: Vec::new(),
            guards: Vec::new(),
            counts: Vec::new(),
            stamps: Vec::new(),
            greatest: Vec::new(),
            ids: Vec::new(),
            bodies: Vec::new(),
            prints: Vec::new(),
            first: Vec::new(),
            last: Vec::new(),
            checked: false,
            free: false,
        };
        items.for_each(|item| out.push(item));
        out
    }

    fn push(&mut self, item: &'a Append) {
        self.checked |= item.guard == Guard::Fingerprints;
        self.free |= item.guard == Guard::Free;
        self.lanes.push(item.lane.0);
        self.known.push(limit(item.known_head));
        self.guards.push(match item.guard {
            Guard::Free => 0,
            Guard::Head => 1,
            Guard::Fingerprints => 2,
        });
        self.counts.push(item.segment.count() as i32);
        self.stamps.push(item.now.0);
        self.greatest.push(item.segment.greatest);
        self.ids.push(item.segment.id as i64);
        self.bodies.push(&item.segment.body);
        // SQL counts array elements from 1 and includes the last.
        self.first.push(self.prints.len() as i32 + 1);
        self.prints.extend(item.segment.fingerprints.iter().map(|f| *f as i64));
        self.last.push(self.prints.len() as i32);
    }

    /// Whether the lanes must be locked by a statement of its own before [`Self::steps`]: where more is looked at than a head, and where
    /// those who had to wait for others are to be stored all the same.
    pub(crate) fn needs_lock(&self) -> bool {
        self.checked || self.free
    }

    pub(crate) fn lock<'s>(&'s self, sql: &'s Sql) -> Step<'s> {
        Step::new(&sql.lanes_lock, &[&self.bucket, &self.lanes])
    }

    /// Everything in one statement; its rows tell what was stored. None where it takes several.
    fn whole<'s>(&'s self, sql: &'s Sql, early: bool) -> Option<Step<'s>> {
        if self.needs_lock() {
            return None;
        }
        Some(Step::new(
            if early { &sql.append_early } else { &sql.append_whole },
            &[
                &self.bucket,
                &self.writer,
                &self.lanes,
                &self.known,
                &self.counts,
                &self.stamps,
                &self.greatest,
                &self.second,
                &self.ids,
                &self.bodies,
                &self.prints,
                &self.first,
                &self.last,
            ],
        ))
    }

    /// The two statements; the first one's rows tell what was stored.
    pub(crate) fn steps<'s>(&'s self, sql: &'s Sql) -> [Step<'s>; 2] {
        let (bucket, writer) = (&self.bucket, &self.writer);
        let move_heads = if self.checked {
            Step::new(
                &sql.append_lanes_checked,
                &[
                    bucket,
                    writer,
                    &self.lanes,
                    &self.known,
                    &self.guards,
                    &self.counts,
                    &self.stamps,
                    &self.greatest,
                    &self.prints,
                    &self.first,
                    &self.last,
                    &self.second,
                ],
            )
        } else {
            Step::new(
                &sql.append_lanes,
                &[
                    bucket,
                    writer,
                    &self.lanes,
                    &self.known,
                    &self.guards,
                    &self.counts,
                    &self.stamps,
                    &self.greatest,
                    &self.second,
                ],
            )
        };
        let store = Step::new(
            &sql.append_segments,
            &[
                bucket,
                writer,
                &self.lanes,
                &self.counts,
                &self.ids,
                &self.bodies,
                &self.prints,
                &self.first,
                &self.last,
            ],
        );
        [move_heads, store]
    }
}

/// What was stored, by lane.
pub(crate) fn appended(rows: &[Row]) -> Result<HashMap<Uuid, Appended>, PgError> {
    rows.iter()
        .map(|row| Ok((get(row, 0)?, Appended { base: unsigned(row, 1)?, created_at: time(row, 2)? })))
        .collect()
}

/// Lanes by id.
pub(crate) fn lanes_by_id(rows: &[Row]) -> Result<HashMap<Uuid, Lane>, PgError> {
    rows.iter().map(|row| lane(row, 0).map(|lane| (lane.id.0, lane))).collect()
}

/// Why an append was refused, from its lane as it is now.
pub(crate) fn refusal(lane: Option<&Lane>) -> AppendError {
    lane.map_or(AppendError::NoLane, |lane| AppendError::Moved(lane.clone()))
}

/// Whether nothing about the lane refuses the append. It was passed by all the same if somebody trimmed the lane between the beginning
/// of the statement and its lock: the row's place is not where the statement sees it (`row_places` of the extras).
fn is_free(item: &Append, lane: &Lane) -> bool {
    item.guard == Guard::Head && lane.head == item.known_head
}

impl PostgresStore {
    /// On the timeline on which it was called, see [`bugle_store::Store::timeline`].
    pub(crate) async fn append_all(
        &self,
        timeline: u64,
        batch: Vec<Append>,
    ) -> Result<Vec<Outcome>, Unavailable> {
        let buckets: Vec<_> = self.by_bucket(&batch, |item| item.lane).into_iter().collect();
        let mut out: Vec<Option<Outcome>> = batch.iter().map(|_| None).collect();
        for some in buckets.chunks(PARALLEL) {
            let running = some.iter().map(|(bucket, items)| self.append_bucket(timeline, *bucket, items));
            for (i, outcome) in try_join_all(running).await.map_err(unavailable)?.into_iter().flatten() {
                out[i] = Some(outcome);
            }
        }
        Ok(out.into_iter().flatten().collect())
    }

    async fn append_bucket(
        &self,
        timeline: u64,
        bucket: i32,
        items: &[(usize, &Append)],
    ) -> Result<Vec<(usize, Outcome)>, PgError> {
        let mut stored = retry!(Tries::change(), self.append_once(timeline, bucket, items, false))?;
        let mut now = self.refused_now(bucket, items, &stored).await?;
        let passed_by = |(_, item): &&(usize, &Append)| {
            !stored.contains_key(&item.lane.0)
                && now.get(&item.lane.0).is_some_and(|lane| is_free(item, lane))
        };
        let again: Vec<(usize, &Append)> = items.iter().filter(passed_by).copied().collect();
        if !again.is_empty() {
            stored.extend(retry!(Tries::change(), self.append_once(timeline, bucket, &again, true))?);
            now = self.refused_now(bucket, items, &stored).await?;
        }
        let outcome = |item: &Append| match stored.get(&item.lane.0) {
            Some(appended) => Ok(*appended),
            None => Err(refusal(now.get(&item.lane.0))),
        };
        Ok(items.iter().map(|(i, item)| (*i, outcome(item))).collect())
    }

    /// With `locked` the lanes are locked by a statement of its own before, so that the next one sees them as they are.
    async fn append_once(
        &self,
        timeline: u64,
        bucket: i32,
        items: &[(usize, &Append)],
        locked: bool,
    ) -> Result<HashMap<Uuid, Appended>, PgError> {
        let columns = Appends::new(bucket, self.second(), items.iter().map(|(_, item)| *item));
        if self.chains
            && !locked
            && let Some(whole) = columns.whole(&self.sql, self.early_release)
        {
            let mut conn = self.pool.get_at(timeline).await?;
            let rows = match self.early_release {
                true => conn.change_early(whole).await?,
                false => conn.change(whole).await?,
            };
            return appended(&rows);
        }
        let mut steps = Vec::with_capacity(3);
        if locked || columns.needs_lock() {
            steps.push(columns.lock(&self.sql));
        }
        let heads = steps.len();
        steps.extend(columns.steps(&self.sql));
        let mut conn = self.pool.get_at(timeline).await?;
        let rows = match self.early_release {
            true => conn.transaction_early(&steps).await?,
            false => conn.transaction(&steps).await?,
        };
        appended(&rows[heads])
    }

    /// Make durable what was seen, whoever wrote it: another server may let go of lanes early, and a commit that stopped waiting for
    /// its standby is seen as well.
    pub(crate) async fn flush_seen(&self) -> Result<(), Unavailable> {
        if !self.flushes {
            return Ok(());
        }
        retry!(Tries::question(), self.flush_once()).map_err(unavailable)
    }

    async fn flush_once(&self) -> Result<(), PgError> {
        self.pool.get().await?.flush().await
    }

    /// Lanes of appends that were refused, as they are now.
    async fn refused_now(
        &self,
        bucket: i32,
        items: &[(usize, &Append)],
        stored: &HashMap<Uuid, Appended>,
    ) -> Result<HashMap<Uuid, Lane>, PgError> {
        let refused: Vec<Uuid> =
            items.iter().map(|(_, item)| item.lane.0).filter(|lane| !stored.contains_key(lane)).collect();
        if refused.is_empty() {
            return Ok(HashMap::new());
        }
        retry!(Tries::question(), self.lanes_now(bucket, &refused))
    }

    pub(crate) async fn lanes_now(
        &self,
        bucket: i32,
        lanes: &Vec<Uuid>,
    ) -> Result<HashMap<Uuid, Lane>, PgError> {
        let rows = self.pool.get().await?.query(&self.sql.lanes_by_id, &[&bucket, lanes]).await?;
        lanes_by_id(&rows)
    }
}
