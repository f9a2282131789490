//! What removes old things: trims of lanes, aged lanes to trim, expiry of whatever nobody needs any more.

use std::collections::{BTreeMap, HashMap};

use bugle_pg::{Begin, PgError, Step};
use bugle_store::{Aged, AgedLane, Expire, Lane, Position, Timestamp, Trim, Unavailable};
use uuid::Uuid;

use crate::row::{LANE_COLUMNS, get, index, lane, limit};
use crate::store::{PostgresStore, Tries, retry, unavailable};

impl PostgresStore {
    /// On the timeline on which it was called, see [`bugle_store::Store::timeline`].
    pub(crate) async fn trim_all(&self, timeline: u64, batch: Vec<Trim>) -> Result<Vec<u64>, Unavailable> {
        let mut removed: HashMap<Uuid, u64> = HashMap::new();
        for (bucket, items) in self.by_bucket(&batch, |t| t.lane) {
            let mut targets: BTreeMap<Uuid, i64> = BTreeMap::new();
            for (_, trim) in items {
                let target = targets.entry(trim.lane.0).or_default();
                *target = limit(trim.to).max(*target);
            }
            removed.extend(
                retry!(Tries::change(), self.trim_once(timeline, bucket, &targets)).map_err(unavailable)?,
            );
        }
        // A lane named twice is trimmed once, and counted once.
        Ok(batch.iter().map(|trim| removed.remove(&trim.lane.0).unwrap_or(0)).collect())
    }

    async fn trim_once(
        &self,
        timeline: u64,
        bucket: i32,
        targets: &BTreeMap<Uuid, i64>,
    ) -> Result<HashMap<Uuid, u64>, PgError> {
        let (lanes, to): (Vec<Uuid>, Vec<i64>) = targets.iter().map(|(lane, to)| (*lane, *to)).unzip();
        let second = self.second();
        let steps = [
            Step::new(&self.sql.lanes_lock, &[&bucket, &lanes]),
            Step::new(&self.sql.trim_segments, &[&bucket, &lanes, &to]),
            Step::new(&self.sql.trim_lanes, &[&bucket, &lanes, &to, &second]),
            Step::new(&self.sql.trim_runs, &[&bucket, &lanes]),
        ];
        let rows = self.pool.get_at(timeline).await?.transaction(&steps).await?;
        rows[2].iter().map(|row| Ok((get(row, 0)?, get::<i64>(row, 1)? as u64))).collect()
    }

    pub(crate) async fn aged_all(&self, batch: Vec<Aged>) -> Result<Vec<Vec<AgedLane>>, Unavailable> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        retry!(Tries::question(), self.aged_once(&batch)).map_err(unavailable)
    }

    async fn aged_once(&self, batch: &[Aged]) -> Result<Vec<Vec<AgedLane>>, PgError> {
        let buckets = self.all_buckets();
        let queues: Vec<Uuid> = batch.iter().map(|query| query.queue.0).collect();
        let before: Vec<i64> = batch.iter().map(|query| query.before.0).collect();
        let after: Vec<Option<Uuid>> = batch.iter().map(|query| query.after.map(|lane| lane.0)).collect();
        let most: Vec<i64> = batch.iter().map(|query| limit(query.limit)).collect();
        let steps: Vec<Step<'_>> = buckets
            .iter()
            .map(|b| Step::new(&self.sql.aged, &[b, &queues, &before, &after, &most]))
            .collect();
        let answers = self.pool.get().await?.pipeline(&steps).await?;
        let mut found: Vec<(usize, Lane, Option<i64>)> = Vec::new();
        for row in answers.iter().flatten() {
            found.push((index(row)?, lane(row, 1)?, get(row, 1 + LANE_COLUMNS)?));
        }
        found.sort_unstable_by_key(|(n, lane, _)| (*n, lane.id));
        self.with_cuts(batch, found).await
    }

    /// Complete the answer: at most as many lanes as asked for each queue, with the first offset that is not old.
    async fn with_cuts(
        &self,
        batch: &[Aged],
        mut found: Vec<(usize, Lane, Option<i64>)>,
    ) -> Result<Vec<Vec<AgedLane>>, PgError> {
        let mut out: Vec<Vec<AgedLane>> = vec![Vec::new(); batch.len()];
        let mut taken = vec![0; batch.len()];
        found.retain(|(n, ..)| {
            taken[*n] += 1;
            taken[*n] <= batch[*n].limit
        });
        if found.is_empty() {
            return Ok(out);
        }
        // The first offset stamped at the time or later is the first stamped after the moment before it.
        let moment = |n: usize| Timestamp(batch[n].before.0.saturating_sub(1));
        let wanted: Vec<Position> =
            found.iter().map(|(n, lane, _)| Position { lane: lane.id, at: moment(*n) }).collect();
        let cuts = self.position_once(&wanted).await?;
        for ((n, lane, slowest), cut) in found.into_iter().zip(cuts) {
            // The lane was read a moment earlier: never answer a cut outside of it.
            let cut = cut.clamp(lane.tail, lane.head);
            if cut > lane.tail {
                out[n].push(AgedLane { cut, slowest: slowest.map(|s| s as u64), lane });
            }
        }
        Ok(out)
    }

    pub(crate) async fn expire_some(&self, what: Expire, most: usize) -> Result<u64, Unavailable> {
        let removed = match what {
            Expire::DeadLetters(before) => retry!(Tries::change(), self.expire_dead(before, most)),
            Expire::Traces(before) => retry!(Tries::change(), self.expire_traces(before, most)),
            Expire::Lanes(before) => self.expire_lanes(before, most).await,
        };
        removed.map_err(unavailable)
    }

    async fn expire_dead(&self, before: Timestamp, most: usize) -> Result<u64, PgError> {
        let most = limit(most);
        let mut conn = self.pool.get().await?;
        // Mostly there are none, and then nobody need be kept from counting.
        if conn.query(&self.sql.expire_dead_due, &[&before.0]).await?.is_empty() {
            return Ok(0);
        }
        self.remove_letters(&mut conn, Step::new(&self.sql.expire_dead, &[&before.0, &most])).await
    }

    async fn expire_traces(&self, before: Timestamp, most: usize) -> Result<u64, PgError> {
        let most = limit(most);
        let mut conn = self.pool.get().await?;
        let rows =
            conn.begin(Begin::Write, &[Step::new(&self.sql.expire_traces, &[&before.0, &most])]).await?;
        let ids: Vec<Uuid> = rows[0].iter().map(|row| get(row, 0)).collect::<Result<_, _>>()?;
        conn.commit(&[Step::new(&self.sql.expire_trace_names, &[&ids])]).await?;
        Ok(ids.len() as u64)
    }

    async fn expire_lanes(&self, before: Timestamp, most: usize) -> Result<u64, PgError> {
        let mut removed = 0;
        for bucket in self.all_buckets() {
            let left = most - removed;
            if left == 0 {
                break;
            }
            removed += retry!(Tries::change(), self.expire_lanes_once(bucket, before, left))?;
        }
        Ok(removed as u64)
    }

    /// Locked first: nobody can write to or read from a lane that is about to go.
    async fn expire_lanes_once(&self, bucket: i32, before: Timestamp, most: usize) -> Result<usize, PgError> {
        let most = limit(most);
        let mut conn = self.pool.get().await?;
        let pick = Step::new(&self.sql.expire_lanes_pick, &[&bucket, &before.0, &most]);
        let rows = conn.begin(Begin::Write, &[pick]).await?;
        let lanes: Vec<Uuid> = rows[0].iter().map(|row| get(row, 0)).collect::<Result<_, _>>()?;
        if lanes.is_empty() {
            conn.rollback().await?;
            return Ok(0);
        }
        let mut steps = vec![
            Step::new(&self.sql.expire_lanes_cursors, &[&bucket, &lanes]),
            Step::new(&self.sql.expire_lanes_runs, &[&bucket, &lanes]),
            Step::new(&self.sql.expire_lanes, &[&bucket, &lanes]),
            Step::new(&self.sql.tally_hold, &[&bucket]),
        ];
        steps.extend(self.uncount_cursors(&bucket, &lanes, &None));
        steps.extend(self.uncount_lanes(&bucket, &lanes));
        let rows = conn.commit(&steps).await?;
        Ok(rows[2].len())
    }
}
