//! Sets of changes, each all or nothing: one transaction per set, whatever buckets it touches.
//!
//! Locks are taken in one order everywhere: lanes ascending, then cursors ascending. What still deadlocks is undone by the
//! server and tried again.

use std::collections::{BTreeMap, HashMap, HashSet};

use bugle_pg::{Begin, Conn, PgError, Step};
use bugle_store::{Append, Appended, Commit, CommitError, Committed, LaneId, Swap, Unavailable};
use futures_util::future::try_join_all;
use uuid::Uuid;

use crate::append::{Appends, appended, lanes_by_id};
use crate::store::{PARALLEL, PostgresStore, Tries, retry, unavailable};
use crate::swap::{Refused, Swaps, Won, has_won, won};

/// Outcome of a set.
type Outcome = Result<Committed, CommitError>;

impl PostgresStore {
    /// On the timeline on which it was called, see [`bugle_store::Store::timeline`].
    pub(crate) async fn commit_all(
        &self,
        timeline: u64,
        batch: Vec<Commit>,
    ) -> Result<Vec<Outcome>, Unavailable> {
        let mut out = Vec::with_capacity(batch.len());
        let mut rest = &batch[..];
        while !rest.is_empty() {
            let (together, later) = rest.split_at(disjoint(rest));
            let running = together.iter().map(|set| self.commit_set(timeline, set));
            out.extend(try_join_all(running).await.map_err(unavailable)?);
            rest = later;
        }
        Ok(out)
    }

    async fn commit_set(&self, timeline: u64, set: &Commit) -> Result<Outcome, PgError> {
        if set.appends.is_empty() && set.swaps.is_empty() {
            return Ok(Ok(Committed { appended: Vec::new() }));
        }
        retry!(Tries::change(), self.commit_once(timeline, set))
    }

    async fn commit_once(&self, timeline: u64, set: &Commit) -> Result<Outcome, PgError> {
        let sql = &self.sql;
        let locks: Vec<(i32, Vec<Uuid>)> = self.lanes_to_lock(set).into_iter().collect();
        let second = self.second();
        let by_bucket = self.by_bucket(&set.appends, |a| a.lane);
        let appends: Vec<Appends<'_>> = by_bucket
            .iter()
            .map(|(b, items)| Appends::new(*b, second, items.iter().map(|(_, a)| *a)))
            .collect();
        let by_bucket = self.by_bucket(&set.swaps, |s| s.lane);
        let swaps: Vec<Swaps<'_>> = by_bucket
            .iter()
            .map(|(b, items)| Swaps::new(*b, second, items.iter().map(|(_, s)| *s), false))
            .collect();

        let mut steps: Vec<Step<'_>> =
            locks.iter().map(|(bucket, lanes)| Step::new(&sql.lanes_lock, &[bucket, lanes])).collect();
        let appends_at = steps.len();
        steps.extend(appends.iter().flat_map(|a| a.steps(sql)));
        let swaps_at = steps.len();
        steps.extend(swaps.iter().flat_map(|s| s.exchange(sql)));
        let letters_at = steps.len();
        steps.extend(swaps.iter().filter_map(|s| s.letters(sql)));

        let mut conn = self.pool.get_at(timeline).await?;
        let rows = conn.begin(Begin::Write, &steps).await?;
        let mut stored = HashMap::new();
        for rows in rows[appends_at..swaps_at].iter().step_by(2) {
            stored.extend(appended(rows)?);
        }
        let won = won(rows[swaps_at..letters_at].iter().flatten())?;
        if let Some(refused) = self.first_refused(&mut conn, set, &stored, &won).await? {
            conn.rollback().await?;
            return Ok(Err(refused));
        }
        conn.commit(&[]).await?;
        Ok(Ok(Committed { appended: set.appends.iter().map(|a| stored[&a.lane.0]).collect() }))
    }

    /// Lanes whose heads move or that get a new cursor, by bucket.
    fn lanes_to_lock(&self, set: &Commit) -> BTreeMap<i32, Vec<Uuid>> {
        let fresh = set.swaps.iter().filter(|s| s.expect == 0).map(|s| s.lane);
        let mut out: BTreeMap<i32, Vec<Uuid>> = BTreeMap::new();
        for lane in set.appends.iter().map(|a| a.lane).chain(fresh) {
            out.entry(self.bucket(lane)).or_default().push(lane.0);
        }
        out
    }

    /// The first change that was refused, and why: read inside the transaction, where what refused it still holds.
    async fn first_refused(
        &self,
        conn: &mut Conn,
        set: &Commit,
        stored: &HashMap<Uuid, Appended>,
        won: &Won,
    ) -> Result<Option<CommitError>, PgError> {
        let is_refused = |a: &&Append| !stored.contains_key(&a.lane.0);
        if let Some((i, append)) = set.appends.iter().enumerate().find(|(_, a)| is_refused(a)) {
            let bucket = self.bucket(append.lane);
            let rows = conn.query(&self.sql.lanes_by_id, &[&bucket, &vec![append.lane.0]]).await?;
            let lanes = lanes_by_id(&rows)?;
            return Ok(Some(CommitError::Append(i, crate::append::refusal(lanes.get(&append.lane.0)))));
        }
        let Some((i, swap)) = set.swaps.iter().enumerate().find(|(_, s)| !has_won(won, s)) else {
            return Ok(None);
        };
        let keys = Refused::new(self.bucket(swap.lane), std::iter::once((swap.lane, &*swap.group)));
        let rows = conn.pipeline(&[keys.step(&self.sql)]).await?;
        let current = Refused::current(&rows[0])?;
        Ok(Some(CommitError::Swap(i, crate::swap::refusal(current.get(&0)))))
    }
}

/// How many sets from the front touch different lanes, so that they can run at the same time without waiting for, or
/// overtaking, each other.
fn disjoint(sets: &[Commit]) -> usize {
    let mut seen: HashSet<LaneId> = HashSet::new();
    let lanes = |set: &Commit| -> HashSet<LaneId> {
        let of_swap = |s: &Swap| s.lane;
        set.appends.iter().map(|a| a.lane).chain(set.swaps.iter().map(of_swap)).collect()
    };
    let mut count = 0;
    for set in sets.iter().take(PARALLEL) {
        let own = lanes(set);
        if !own.is_disjoint(&seen) {
            break;
        }
        seen.extend(own);
        count += 1;
    }
    count.max(1)
}
