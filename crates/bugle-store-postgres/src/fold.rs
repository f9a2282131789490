//! Counting into the sums what changed since the last time, when somebody asks.
//!
//! One transaction per bucket. It holds the bucket's state row, so that one server counts at a time; it locks no lane and
//! no cursor. One statement, hence one moment, tells which lanes and cursors differ from what was counted of them; the
//! difference goes into the sums. What is seen twice differs only once.
//!
//! Looked at is what was marked with a second from the last time on, less [`parts/counted_until.sql`] for changes that
//! were slow to commit; of that only rows written by transactions that may not have ended the last time
//! ([`parts/settled_age.sql`]). The first time all lanes are walked, a page in each transaction.
//!
//! [`parts/counted_until.sql`]: ../sql/parts/counted_until.sql
//! [`parts/settled_age.sql`]: ../sql/parts/settled_age.sql

use std::collections::BTreeMap;

use bugle_pg::{Begin, Conn, PgError, Row, Step};
use bugle_store::{Ends, Lease, Timestamp};
use uuid::Uuid;

use crate::row::{get, unexpected, unsigned};
use crate::sql::Sql;
use crate::store::{PostgresStore, Tries, retry};

/// Lanes counted by one transaction.
const LANES_AT_ONCE: i64 = 20_000;
/// Dead letters counted by one transaction.
const LETTERS_AT_ONCE: i64 = 10_000;
/// Transactions for one question and bucket, at most.
const MOST_PASSES: usize = 10_000;
/// The place in time moves at least so often, in seconds, while somebody asks and there is nothing to count.
const MOVE_AFTER: i64 = 30;
/// The place among transactions too, after so many of them: rows that they wrote are looked at until then.
const SETTLE_AFTER: i64 = 1_000;

/// What to add to the sums of a queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueueSum {
    lanes: i64,
    filled: i64,
    kept: i64,
    appended: i64,
    pub(crate) dead: i64,
}

/// The same for several queues.
#[derive(Default)]
pub(crate) struct QueueSums(BTreeMap<Uuid, QueueSum>);

/// [`QueueSums`] as columns.
pub(crate) struct QueueColumns {
    queues: Vec<Uuid>,
    sums: [Vec<i64>; 5],
}

impl QueueSums {
    pub(crate) fn of(&mut self, queue: Uuid) -> &mut QueueSum {
        self.0.entry(queue).or_default()
    }

    pub(crate) fn columns(&self) -> QueueColumns {
        let column = |field: fn(&QueueSum) -> i64| self.0.values().map(field).collect();
        QueueColumns {
            queues: self.0.keys().copied().collect(),
            sums: [
                column(|s| s.lanes),
                column(|s| s.filled),
                column(|s| s.kept),
                column(|s| s.appended),
                column(|s| s.dead),
            ],
        }
    }
}

impl QueueColumns {
    pub(crate) fn step<'s>(&'s self, sql: &'s Sql, bucket: &'s i32) -> Step<'s> {
        let [lanes, filled, kept, appended, dead] = &self.sums;
        Step::new(&sql.tally_add_queues, &[bucket, &self.queues, lanes, filled, kept, appended, dead])
    }
}

/// What to add to the sums of a group.
#[derive(Clone, Copy, Default)]
struct GroupSum {
    cursors: i64,
    passed: i64,
    finished: i64,
    consumed: i64,
    served_at: i64,
}

/// Lanes as they are now, as columns.
#[derive(Default)]
struct Lanes {
    lane: Vec<Uuid>,
    queue: Vec<Uuid>,
    head: Vec<i64>,
    tail: Vec<i64>,
}

/// Cursors as they are now, and their share, as columns.
#[derive(Default)]
struct Cursors<'r> {
    lane: Vec<Uuid>,
    group: Vec<&'r str>,
    queue: Vec<Uuid>,
    committed: Vec<i64>,
    consumed: Vec<i64>,
    served_at: Vec<i64>,
    until: Vec<Option<i64>>,
    end: Vec<Option<i64>>,
    passed: Vec<i64>,
    finished: Vec<i64>,
    leased: Vec<i64>,
}

/// What the rows of `parts/uncounted.sql` and the dead letters come to.
#[derive(Default)]
struct Fold<'r> {
    lanes: Lanes,
    cursors: Cursors<'r>,
    queues: QueueSums,
    groups: BTreeMap<(Uuid, &'r str), GroupSum>,
    last: Option<Uuid>,
    /// Lanes that differed.
    seen: i64,
}

/// How far was counted.
struct Reach {
    since: i64,
    walked: Option<Uuid>,
    settled: Option<i64>,
}

impl<'r> Fold<'r> {
    fn of(rows: &'r [Row], letters: &[Row]) -> Result<Self, PgError> {
        let mut fold = Self::default();
        rows.iter().try_for_each(|row| fold.take(row))?;
        for row in letters {
            fold.queues.of(get(row, 0)?).dead += 1;
        }
        Ok(fold)
    }

    fn is_empty(&self) -> bool {
        self.queues.0.is_empty() && self.cursors.lane.is_empty()
    }

    fn take(&mut self, row: &'r Row) -> Result<(), PgError> {
        let (lane, queue): (Uuid, Uuid) = (get(row, 0)?, get(row, 1)?);
        let ends = Ends { head: unsigned(row, 2)?, tail: unsigned(row, 3)? };
        if self.last != Some(lane) {
            self.last = Some(lane);
            self.seen += 1;
            let counted = match (get::<Option<i64>>(row, 4)?, get::<Option<i64>>(row, 5)?) {
                (Some(head), Some(tail)) => Some(Ends { head: head as u64, tail: tail as u64 }),
                _ => None,
            };
            self.take_lane(lane, queue, ends, counted);
        }
        if let Some(group) = get::<Option<&str>>(row, 6)? {
            self.take_cursor(row, (lane, queue, group), ends)?;
        }
        Ok(())
    }

    fn take_lane(&mut self, lane: Uuid, queue: Uuid, ends: Ends, counted: Option<Ends>) {
        if counted == Some(ends) {
            return;
        }
        let before = counted.unwrap_or_default();
        let sum = self.queues.of(queue);
        sum.lanes += i64::from(counted.is_none());
        sum.filled += i64::from(ends.filled()) - i64::from(before.filled());
        sum.kept += ends.kept() as i64 - before.kept() as i64;
        sum.appended += ends.head as i64 - before.head as i64;
        self.lanes.lane.push(lane);
        self.lanes.queue.push(queue);
        self.lanes.head.push(ends.head as i64);
        self.lanes.tail.push(ends.tail as i64);
    }

    fn take_cursor(
        &mut self,
        row: &'r Row,
        (lane, queue, group): (Uuid, Uuid, &'r str),
        ends: Ends,
    ) -> Result<(), PgError> {
        let (committed, consumed, served_at): (i64, i64, i64) = (get(row, 7)?, get(row, 8)?, get(row, 9)?);
        let (until, end): (Option<i64>, Option<i64>) = (get(row, 10)?, get(row, 11)?);
        let at = committed as u64;
        let (passed, finished) = (ends.passed(at) as i64, i64::from(ends.finished(at)));
        let leased = until.zip(end).map_or(0, |(until, end)| {
            let lease = Lease { id: Uuid::nil(), until: Timestamp(until), end: end as u64 };
            ends.leased(at, &lease) as i64
        });
        let before = |column| Ok::<i64, PgError>(get::<Option<i64>>(row, column)?.unwrap_or(0));
        let sum = self.groups.entry((queue, group)).or_default();
        sum.cursors += i64::from(!get::<bool>(row, 12)?);
        sum.passed += passed - before(13)?;
        sum.finished += finished - before(14)?;
        sum.consumed += consumed - before(15)?;
        sum.served_at = sum.served_at.max(served_at);
        let columns = &mut self.cursors;
        columns.lane.push(lane);
        columns.group.push(group);
        columns.queue.push(queue);
        columns.committed.push(committed);
        columns.consumed.push(consumed);
        columns.served_at.push(served_at);
        columns.until.push(until);
        columns.end.push(end);
        columns.passed.push(passed);
        columns.finished.push(finished);
        columns.leased.push(leased);
        Ok(())
    }

    /// Write it all, as the last statements of the transaction.
    async fn write(
        &self,
        conn: &mut Conn,
        sql: &Sql,
        bucket: i32,
        Reach { since, walked, settled }: Reach,
    ) -> Result<(), PgError> {
        let changes = !self.is_empty();
        let (lanes, cursors, queues) = (&self.lanes, &self.cursors, self.queues.columns());
        let (of, groups): (Vec<Uuid>, Vec<&str>) = self.groups.keys().copied().unzip();
        let column = |field: fn(&GroupSum) -> i64| self.groups.values().map(field).collect::<Vec<i64>>();
        let sums = [
            column(|s| s.cursors),
            column(|s| s.passed),
            column(|s| s.finished),
            column(|s| s.consumed),
            column(|s| s.served_at),
        ];
        let [made, passed, finished, consumed, served_at] = &sums;
        let steps = [
            // First: what follows has its version.
            Step::new(&sql.tally_end, &[&bucket, &since, &walked, &settled, &changes]),
            Step::new(&sql.tally_put_lanes, &[&bucket, &lanes.lane, &lanes.queue, &lanes.head, &lanes.tail]),
            Step::new(
                &sql.tally_put_cursors,
                &[
                    &bucket,
                    &cursors.lane,
                    &cursors.group,
                    &cursors.queue,
                    &cursors.committed,
                    &cursors.consumed,
                    &cursors.served_at,
                    &cursors.until,
                    &cursors.end,
                    &cursors.passed,
                    &cursors.finished,
                    &cursors.leased,
                ],
            ),
            queues.step(sql, &bucket),
            Step::new(
                &sql.tally_add_groups,
                &[&bucket, &of, &groups, made, passed, finished, consumed, served_at],
            ),
        ];
        conn.commit(&steps).await.map(drop)
    }
}

impl PostgresStore {
    /// Count all of a bucket that is not in the sums yet. `again` = this server has done so before.
    pub(crate) async fn fold(&self, bucket: i32, again: bool) -> Result<(), PgError> {
        // How far was counted is remembered by the last pass; it may find nothing more to count.
        let mut remember = !again;
        for _ in 0..MOST_PASSES {
            // What was counted twice by a lost answer differs no more.
            if !retry!(Tries::question(), self.fold_once(bucket, again, remember))? {
                return Ok(());
            }
            remember = true;
        }
        Err(unexpected("more changes than can be counted"))
    }

    /// Answers whether there is more.
    async fn fold_once(&self, bucket: i32, again: bool, remember: bool) -> Result<bool, PgError> {
        let (sql, now) = (&self.sql, self.second());
        let mut conn = self.pool.get().await?;
        let steps = [
            Step::new(&sql.tally_begin, &[&bucket]),
            Step::new(&sql.tally_changed, &[&bucket, &LANES_AT_ONCE, &now, &again]),
            Step::new(&sql.tally_letters, &[&bucket, &LETTERS_AT_ONCE]),
        ];
        let rows = conn.begin(Begin::Write, &steps).await?;
        let [state, changed, letters] = &rows[..] else { return Err(unexpected("answers are missing")) };
        let state = state.first().ok_or_else(|| unexpected("the tally_state table is incomplete"))?;
        let (since, walked): (i64, Option<Uuid>) = (get(state, 0)?, get(state, 1)?);
        if let Some(after) = walked {
            let (page, next) = self.tally_page(&mut conn, bucket, after).await?;
            let fold = Fold::of(&page, letters)?;
            fold.write(&mut conn, sql, bucket, Reach { since, walked: next, settled: None }).await?;
            return Ok(true);
        }
        let fold = Fold::of(changed, letters)?;
        let more = fold.seen >= LANES_AT_ONCE || letters.len() as i64 >= LETTERS_AT_ONCE;
        let (settled, ended): (Option<i64>, Option<i64>) = (get(state, 2)?, get(state, 3)?);
        // What had ended before it was looked, if everything was looked at.
        let (next, ended) = if more { (since, None) } else { (now, ended) };
        let moved = (next - since).abs() >= MOVE_AFTER
            || ended.is_some_and(|ended| ended - settled.unwrap_or(0) >= SETTLE_AFTER);
        if fold.is_empty() && !remember && !moved {
            conn.commit(&[]).await?;
        } else {
            fold.write(&mut conn, sql, bucket, Reach { since: next, walked: None, settled: ended }).await?;
        }
        Ok(more)
    }

    /// What differs on the next page of lanes, and where it ends if it is not the last one.
    async fn tally_page(
        &self,
        conn: &mut Conn,
        bucket: i32,
        after: Uuid,
    ) -> Result<(Vec<Row>, Option<Uuid>), PgError> {
        let sql = &self.sql;
        let end = conn.query(&sql.tally_page, &[&bucket, &after, &LANES_AT_ONCE]).await?;
        let end: Option<Uuid> = end.first().map(|row| get(row, 0)).transpose()?;
        let to = end.unwrap_or(Uuid::max());
        let rows = conn.query(&sql.tally_walked, &[&bucket, &i64::MAX, &after, &to]).await?;
        Ok((rows, end))
    }
}
