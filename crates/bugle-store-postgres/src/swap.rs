//! Exchanging cursors: one transaction per bucket, in one round trip, with dead letters and reads along.
//!
//! A row that another call changed first is found with another epoch once its lock is free, matches nothing and stays
//! as it is. Rows that were exchanged carry this call's mark; dead letters and reads follow the mark.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use bugle_pg::{PgError, Row, Step};
use bugle_store::{Cursor, DeadLetter, LaneId, Read, Segments, Swap, SwapError, Swapped, Unavailable};
use futures_util::future::try_join_all;
use uuid::Uuid;

use crate::read::collect;
use crate::row::{LANE_COLUMNS, cursor, get, index, limit, to_text};
use crate::sql::Sql;
use crate::store::{PARALLEL, PostgresStore, Tries, mark, retry, unavailable};

/// Outcome of a swap.
pub(crate) type Outcome = Result<Swapped, SwapError>;

/// Which cursors were exchanged, by lane and group as kept.
pub(crate) type Won = HashSet<(Uuid, String)>;

/// New cursor rows as columns.
#[derive(Default)]
struct Rows<'a> {
    lanes: Vec<Uuid>,
    groups: Vec<Cow<'a, str>>,
    expect: Vec<i64>,
    epoch: Vec<i64>,
    committed: Vec<i64>,
    lease: Vec<Option<Uuid>>,
    until: Vec<Option<i64>>,
    end: Vec<Option<i64>>,
    attempts: Vec<i64>,
    deliveries: Vec<i64>,
    not_before: Vec<i64>,
    served_at: Vec<i64>,
    consumed: Vec<i64>,
}

impl<'a> Rows<'a> {
    fn push(&mut self, swap: &'a Swap) {
        let next = &swap.next;
        self.lanes.push(swap.lane.0);
        self.groups.push(to_text(&swap.group));
        self.expect.push(swap.expect as i64);
        self.epoch.push(next.epoch as i64);
        self.committed.push(next.committed as i64);
        self.lease.push(next.lease.map(|l| l.id));
        self.until.push(next.lease.map(|l| l.until.0));
        self.end.push(next.lease.map(|l| l.end as i64));
        self.attempts.push(next.attempts.into());
        self.deliveries.push(next.deliveries.into());
        self.not_before.push(next.not_before.0);
        self.served_at.push(next.served_at.0);
        self.consumed.push(next.consumed as i64);
    }

    fn step<'s>(&'s self, statement: &'s bugle_pg::Statement, of: &'s Swaps<'_>) -> Step<'s> {
        Step::new(
            statement,
            &[
                &of.bucket,
                &of.writer,
                &self.lanes,
                &self.groups,
                &self.expect,
                &self.epoch,
                &self.committed,
                &self.lease,
                &self.until,
                &self.end,
                &self.attempts,
                &self.deliveries,
                &self.not_before,
                &self.served_at,
                &self.consumed,
                &of.second,
            ],
        )
    }
}

/// Dead letters as columns, each with the cursor it rides on.
#[derive(Default)]
struct Letters<'a> {
    of_lane: Vec<Uuid>,
    of_group: Vec<Cow<'a, str>>,
    id: Vec<Uuid>,
    queue: Vec<Uuid>,
    lane: Vec<Uuid>,
    partition: Vec<Cow<'a, str>>,
    group: Vec<Cow<'a, str>>,
    offset: Vec<i64>,
    message: Vec<&'a [u8]>,
    transaction: Vec<Cow<'a, str>>,
    error: Vec<Cow<'a, str>>,
    attempts: Vec<i64>,
    created_at: Vec<i64>,
    failed_at: Vec<i64>,
}

impl<'a> Letters<'a> {
    fn push(&mut self, swap: &'a Swap, letter: &'a DeadLetter) {
        self.of_lane.push(swap.lane.0);
        self.of_group.push(to_text(&swap.group));
        self.id.push(letter.id);
        self.queue.push(letter.queue.0);
        self.lane.push(letter.lane.0);
        self.partition.push(to_text(&letter.partition));
        self.group.push(to_text(&letter.group));
        self.offset.push(letter.offset as i64);
        self.message.push(&letter.message);
        self.transaction.push(to_text(&letter.transaction_id));
        self.error.push(to_text(&letter.error));
        self.attempts.push(letter.attempts.into());
        self.created_at.push(letter.created_at.0);
        self.failed_at.push(letter.failed_at.0);
    }

    fn step<'s>(&'s self, sql: &'s Sql, bucket: &'s i32, writer: &'s i64) -> Step<'s> {
        Step::new(
            &sql.swap_dead,
            &[
                bucket,
                writer,
                &self.of_lane,
                &self.of_group,
                &self.id,
                &self.queue,
                &self.lane,
                &self.partition,
                &self.group,
                &self.offset,
                &self.message,
                &self.transaction,
                &self.error,
                &self.attempts,
                &self.created_at,
                &self.failed_at,
            ],
        )
    }
}

/// Spans to read along as columns.
#[derive(Default)]
struct Spans<'a> {
    /// Place of each in the caller's list.
    place: Vec<usize>,
    lanes: Vec<Uuid>,
    groups: Vec<Cow<'a, str>>,
    from: Vec<i64>,
    to: Vec<i64>,
    bytes: Vec<i64>,
}

/// Swaps of one bucket as columns.
pub(crate) struct Swaps<'a> {
    bucket: i32,
    writer: i64,
    /// See [`PostgresStore::second`].
    second: i64,
    fresh: Rows<'a>,
    moved: Rows<'a>,
    letters: Letters<'a>,
    spans: Spans<'a>,
}

impl<'a> Swaps<'a> {
    pub(crate) fn new(bucket: i32, second: i64, items: impl Iterator<Item = &'a Swap>, reads: bool) -> Self {
        let mut out = Self {
            bucket,
            writer: mark(),
            second,
            fresh: Rows::default(),
            moved: Rows::default(),
            letters: Letters::default(),
            spans: Spans::default(),
        };
        for (i, swap) in items.enumerate() {
            if swap.expect == 0 {
                out.fresh.push(swap)
            } else {
                out.moved.push(swap)
            }
            swap.dead.iter().for_each(|letter| out.letters.push(swap, letter));
            if let Some(span) = swap.read.filter(|_| reads) {
                out.spans.place.push(i);
                out.spans.lanes.push(swap.lane.0);
                out.spans.groups.push(to_text(&swap.group));
                out.spans.from.push(limit(span.from));
                out.spans.to.push(limit(span.to));
                out.spans.bytes.push(limit(span.max_bytes));
            }
        }
        out
    }

    /// The statements that exchange: their rows are [`won`]. Lanes are locked before cursors, as everywhere.
    pub(crate) fn exchange<'s>(&'s self, sql: &'s Sql) -> Vec<Step<'s>> {
        let mut steps = Vec::with_capacity(2);
        if !self.fresh.lanes.is_empty() {
            steps.push(self.fresh.step(&sql.swap_insert, self));
        }
        if !self.moved.lanes.is_empty() {
            steps.push(self.moved.step(&sql.swap_update, self));
        }
        steps
    }

    /// The statement that stores dead letters, if there are any.
    pub(crate) fn letters<'s>(&'s self, sql: &'s Sql) -> Option<Step<'s>> {
        (!self.letters.id.is_empty()).then(|| self.letters.step(sql, &self.bucket, &self.writer))
    }

    fn spans<'s>(&'s self, sql: &'s Sql) -> Option<Step<'s>> {
        let s = &self.spans;
        (!s.lanes.is_empty()).then(|| {
            let (bucket, writer) = (&self.bucket, &self.writer);
            Step::new(&sql.swap_read, &[bucket, writer, &s.lanes, &s.groups, &s.from, &s.to, &s.bytes])
        })
    }
}

/// Which cursors the rows of [`Swaps::exchange`] name.
pub(crate) fn won<'r>(rows: impl Iterator<Item = &'r Row>) -> Result<Won, PgError> {
    rows.map(|row| Ok((get(row, 0)?, get(row, 1)?))).collect()
}

/// Whether this one was exchanged.
pub(crate) fn has_won(won: &Won, swap: &Swap) -> bool {
    won.contains(&(swap.lane.0, to_text(&swap.group).into_owned()))
}

/// Lanes and cursors for refusals: no entry = no such lane.
pub(crate) type Current = HashMap<usize, Option<Cursor>>;

/// The step that finds out why swaps were refused, and what its rows mean.
pub(crate) struct Refused<'a> {
    bucket: i32,
    lanes: Vec<Uuid>,
    groups: Vec<Cow<'a, str>>,
}

impl<'a> Refused<'a> {
    pub(crate) fn new(bucket: i32, keys: impl Iterator<Item = (LaneId, &'a str)>) -> Self {
        let (lanes, groups) = keys.map(|(lane, group)| (lane.0, to_text(group))).unzip();
        Self { bucket, lanes, groups }
    }

    pub(crate) fn step<'s>(&'s self, sql: &'s Sql) -> Step<'s> {
        Step::new(&sql.load_lane, &[&self.bucket, &self.lanes, &self.groups])
    }

    pub(crate) fn current(rows: &[Row]) -> Result<Current, PgError> {
        rows.iter()
            .map(|row| Ok((index(row)?, cursor(row, 1 + LANE_COLUMNS)?.map(|(_, cursor)| cursor))))
            .collect()
    }
}

/// Why a swap was refused.
pub(crate) fn refusal(current: Option<&Option<Cursor>>) -> SwapError {
    current.map_or(SwapError::NoLane, |cursor| SwapError::Moved(cursor.clone()))
}

impl PostgresStore {
    /// On the timeline on which it was called, see [`bugle_store::Store::timeline`].
    pub(crate) async fn swap_all(
        &self,
        timeline: u64,
        batch: Vec<Swap>,
    ) -> Result<Vec<Outcome>, Unavailable> {
        let buckets: Vec<_> = self.by_bucket(&batch, |item| item.lane).into_iter().collect();
        let mut out: Vec<Option<Outcome>> = batch.iter().map(|_| None).collect();
        for some in buckets.chunks(PARALLEL) {
            let running = some.iter().map(|(bucket, items)| self.swap_bucket(timeline, *bucket, items));
            for (i, outcome) in try_join_all(running).await.map_err(unavailable)?.into_iter().flatten() {
                out[i] = Some(outcome);
            }
        }
        Ok(out.into_iter().flatten().collect())
    }

    async fn swap_bucket(
        &self,
        timeline: u64,
        bucket: i32,
        items: &[(usize, &Swap)],
    ) -> Result<Vec<(usize, Outcome)>, PgError> {
        let (won, mut segments) = retry!(Tries::change(), self.swap_once(timeline, bucket, items))?;
        let refused: Vec<&Swap> =
            items.iter().map(|(_, item)| *item).filter(|item| !has_won(&won, item)).collect();
        let mut current = HashMap::new();
        if !refused.is_empty() {
            current = retry!(Tries::question(), self.swap_refused(bucket, &refused))?;
        }
        let spans = items.iter().enumerate().filter_map(|(n, (_, item))| {
            let span = item.read?;
            Some((n, Read { lane: item.lane, from: span.from, to: span.to, max_bytes: span.max_bytes }))
        });
        self.read_rest(spans.collect(), &mut segments).await?;
        let mut lost = 0;
        let outcomes = items.iter().zip(segments).map(|((i, item), segments)| {
            if has_won(&won, item) {
                return (*i, Ok(Swapped { segments }));
            }
            lost += 1;
            (*i, Err(refusal(current.get(&(lost - 1)))))
        });
        Ok(outcomes.collect())
    }

    async fn swap_once(
        &self,
        timeline: u64,
        bucket: i32,
        items: &[(usize, &Swap)],
    ) -> Result<(Won, Vec<Segments>), PgError> {
        let columns = Swaps::new(bucket, self.second(), items.iter().map(|(_, item)| *item), true);
        let mut steps = columns.exchange(&self.sql);
        let exchanges = steps.len();
        steps.extend(columns.letters(&self.sql));
        let reads = columns.spans(&self.sql).map(|step| {
            steps.push(step);
            steps.len() - 1
        });
        let mut conn = self.pool.get_at(timeline).await?;
        let rows = match steps.len() {
            1 => vec![conn.change(steps.remove(0)).await?],
            _ => conn.transaction(&steps).await?,
        };
        drop(conn);
        let mut segments = vec![Segments::new(); items.len()];
        if let Some(at) = reads {
            collect(&rows[at], &mut segments, |n| columns.spans.place[n])?;
        }
        Ok((won(rows[..exchanges].iter().flatten())?, segments))
    }

    async fn swap_refused(&self, bucket: i32, refused: &[&Swap]) -> Result<Current, PgError> {
        let keys = Refused::new(bucket, refused.iter().map(|s| (s.lane, &*s.group)));
        let rows = self.pool.get().await?.pipeline(&[keys.step(&self.sql)]).await?;
        Refused::current(&rows[0])
    }
}
