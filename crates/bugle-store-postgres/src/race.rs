//! What the lane's lock is for: pushers that are slow to commit, and a reader that follows.
//!
//! The same checker runs on the engine's own statements, where it must find nothing, and on a variant that fixes the
//! position before the commit, where it must find what that loses: a check that cannot fail proves nothing.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bugle_pg::{Begin, PgError, Schema, Statement, Step, Type};
use bugle_store::{Append, Guard, LaneId, Read, Segment, Store, Trim};
use tokio::task::JoinHandle;

use crate::PostgresStore;
use crate::append::Appends;
use crate::fixture::{Fixture, append, fixture};

const PUSHERS: u64 = 8;
const PUSHES: u64 = 30;
/// Appends beside trims.
const HEADS: u64 = 500;

struct Race {
    store: Arc<PostgresStore>,
    lane: LaneId,
    sleep: Statement,
    /// Takes its position from a sequence instead of from the locked lane.
    unlocked: Option<Statement>,
}

async fn race(locked: bool) -> Arc<Race> {
    let Fixture { store, schema, lane, .. } = fixture().await;
    let schema = Schema::new(&schema).unwrap();
    let mut unlocked = None;
    if !locked {
        const TYPES: &[Type] = &[Type::UUID, Type::INT8];
        let sql = "CREATE SEQUENCE {schema}.positions MINVALUE 0 START 0";
        store.pool.get().await.unwrap().execute_batch(&schema.fill(sql)).await.unwrap();
        let sql = "INSERT INTO {schema}.segments (bucket, lane_id, base, count, created_at, segment_id, fingerprints, body)
                   VALUES (0, $1, nextval('{schema}.positions'), 1, 1, $2, '{}', '')";
        unlocked = Some(Statement::new(&schema, sql, TYPES));
    }
    let sleep = Statement::new(&schema, "SELECT pg_sleep(random() * 0.005)", &[]);
    Arc::new(Race { store, lane, sleep, unlocked })
}

impl Race {
    /// Append a segment with this id, and take one's time before the commit.
    async fn push(&self, id: u64) -> Result<(), PgError> {
        let item = append(self.lane, id, Arc::new([id]), 1);
        let columns = Appends::new(0, 1, std::iter::once(&item));
        let signed = id as i64;
        let mut steps = match &self.unlocked {
            None => {
                let [heads, segments] = columns.steps(&self.store.sql);
                vec![columns.lock(&self.store.sql), heads, segments]
            }
            Some(unlocked) => vec![Step::new(unlocked, &[&self.lane.0, &signed])],
        };
        steps.push(Step::new(&self.sleep, &[]));
        let mut conn = self.store.pool.get().await?;
        conn.begin(Begin::Write, &steps).await?;
        conn.commit(&[]).await?;
        Ok(())
    }

    async fn pusher(self: Arc<Self>, number: u64) {
        for n in 0..PUSHES {
            self.push(number * 1_000 + n).await.unwrap();
        }
    }

    /// What a consumer sees that reads on from where it stopped, until all pushers are done.
    async fn follow(&self, pushers: &[JoinHandle<()>]) -> Vec<Segment> {
        let mut seen: Vec<Segment> = Vec::new();
        loop {
            let done = pushers.iter().all(JoinHandle::is_finished);
            let from = seen.last().map_or(0, Segment::end);
            let read = Read { lane: self.lane, from, to: u64::MAX, max_bytes: usize::MAX };
            let more = self.store.read(vec![read]).await.unwrap().remove(0);
            if more.is_empty() && done {
                return seen;
            }
            seen.extend(more);
        }
    }
}

/// What was promised and not kept.
fn violations(seen: &[Segment]) -> Vec<String> {
    let mut found = Vec::new();
    let ids: Vec<u64> = seen.iter().map(|s| s.id).collect();
    let all: HashSet<u64> = ids.iter().copied().collect();
    for number in 0..PUSHERS {
        let lost = (0..PUSHES).filter(|n| !all.contains(&(number * 1_000 + n))).count();
        if lost > 0 {
            found.push(format!("pusher {number}: {lost} acknowledged and never delivered"));
        }
        let own: Vec<u64> = ids.iter().copied().filter(|id| id / 1_000 == number).collect();
        if !own.is_sorted() {
            found.push(format!("pusher {number}: delivered out of order"));
        }
    }
    let mut next = 0;
    for segment in seen {
        if segment.base != next {
            found.push(format!("a gap before {}", segment.base));
        }
        next = segment.end();
    }
    found
}

async fn run(locked: bool) -> Vec<String> {
    let race = race(locked).await;
    let pushers: Vec<_> = (0..PUSHERS).map(|n| tokio::spawn(Arc::clone(&race).pusher(n))).collect();
    let seen = race.follow(&pushers).await;
    for pusher in pushers {
        pusher.await.unwrap();
    }
    violations(&seen)
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_commits_lose_and_reorder_nothing() {
    assert_eq!(run(true).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_check_finds_what_a_position_without_the_lock_loses() {
    assert!(!run(false).await.is_empty());
}

/// Whoever appends at the right head is never refused because somebody trims the lane in that moment.
#[tokio::test(flavor = "multi_thread")]
async fn an_append_is_not_refused_for_a_trim_at_the_same_time() {
    let Fixture { store, lane, .. } = fixture().await;
    let head = Arc::new(AtomicU64::new(0));
    let trimming = tokio::spawn({
        let (store, head) = (store.clone(), head.clone());
        async move {
            while head.load(Ordering::Acquire) < HEADS {
                let to = head.load(Ordering::Acquire);
                store.trim(vec![Trim { lane, to }]).await.unwrap();
            }
        }
    });
    for n in 0..HEADS {
        let item = append(lane, n, Arc::new([n]), 1);
        let item = Append { guard: Guard::Head, known_head: n, ..item };
        let stored = store.append(vec![item]).await.unwrap().remove(0);
        assert_eq!(stored.unwrap().base, n);
        head.store(n + 1, Ordering::Release);
    }
    trimming.await.unwrap();
}
