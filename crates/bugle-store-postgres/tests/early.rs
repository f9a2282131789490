//! Lanes are free before their appends are durable, which are answered afterwards: `early_release`.

#[path = "support/one_lane.rs"]
mod one_lane;

use std::sync::Arc;
use std::time::Duration;

use bugle_pg::testdb::{self, PrivateServer};
use bugle_store::{
    Append, Appended, Guard, LaneId, Load, NewSegment, QUEUE_MODE, Store, Timestamp, Unavailable,
};
use bugle_store_postgres::{Extras, PostgresOptions, PostgresStore};
use one_lane::one_lane;
use tokio::task::JoinHandle;
use tokio_postgres::Client;

const LIMIT: Duration = Duration::from_secs(60);

struct Rig {
    server: PrivateServer,
    store: Arc<PostgresStore>,
    lane: LaneId,
    client: Client,
}

impl Rig {
    async fn new(early_release: bool) -> Self {
        let server = testdb::private_server().await;
        let options = PostgresOptions { early_release, ..PostgresOptions::new(server.address()) };
        let store = PostgresStore::open(options).await.expect("opened");
        assert_eq!(store.early_release(), early_release);
        let lane = one_lane(&store).await;
        let client = server.client().await;
        let rig = Self { server, store, lane, client };
        rig.append(0, Guard::Head).await.expect("not lost").expect("stored");
        rig
    }

    fn append(&self, head: u64, guard: Guard) -> JoinHandle<Result<Appended, Unavailable>> {
        let segment = NewSegment {
            id: head + 1,
            fingerprints: [head + 1].into(),
            greatest: None,
            body: bytes::Bytes::new(),
        };
        let append = Append { lane: self.lane, known_head: head, guard, segment, now: Timestamp(1) };
        let store = Arc::clone(&self.store);
        tokio::spawn(async move {
            let outcome = store.append(vec![append]).await?.remove(0);
            Ok(outcome.expect("nothing refuses it"))
        })
    }

    /// Wait until so many calls of stores wait for the standby.
    async fn waiting(&self, count: i64) {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name LIKE 'bugle%'";
        let waits = async {
            while self.client.query_one(sql, &[]).await.expect("told").get::<_, i64>(0) < count {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(LIMIT, waits).await.expect("they wait");
    }

    /// The head of the lane, locked by another session; none if it is locked already.
    async fn head_locked(&self) -> Option<i64> {
        let sql = "SELECT head FROM bugle.lanes FOR UPDATE NOWAIT";
        self.client.batch_execute("BEGIN").await.expect("begun");
        let locked = self.client.query_one(sql, &[]).await.ok().map(|row| row.get(0));
        self.client.batch_execute("ROLLBACK").await.expect("ended");
        locked
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lane_is_free_before_its_append_is_durable_and_answered() {
    let rig = Rig::new(true).await;
    for (head, guard) in [(1, Guard::Head), (2, Guard::Free), (3, Guard::Fingerprints)] {
        rig.server.hold_commits().await;
        let running = rig.append(head, guard);
        rig.waiting(1).await;
        assert_eq!(rig.head_locked().await, Some(head as i64 + 1), "{guard:?}");
        assert!(!running.is_finished(), "{guard:?}: it was answered before it was durable");
        rig.server.release_commits().await;
        let appended = tokio::time::timeout(LIMIT, running).await.expect("released").expect("no panic");
        assert_eq!(appended.expect("answered").base, head, "{guard:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_option_it_is_held_until_then() {
    let rig = Rig::new(false).await;
    rig.server.hold_commits().await;
    let running = rig.append(1, Guard::Head);
    rig.waiting(1).await;
    assert_eq!(rig.head_locked().await, None);
    assert!(!running.is_finished());
    rig.server.release_commits().await;
    running.await.expect("no panic").expect("answered");
    assert_eq!(rig.head_locked().await, Some(2));
}

/// Several appends of one lane are under way at once.
#[tokio::test(flavor = "multi_thread")]
async fn appends_of_several_servers_wait_for_durability_together() {
    let rig = Rig::new(true).await;
    rig.server.hold_commits().await;
    let running: Vec<_> = (1..4).map(|n| rig.append(n, Guard::Free)).collect();
    let seen = async {
        while rig.head_locked().await != Some(4) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LIMIT, seen).await.expect("nobody waits for another");
    assert!(running.iter().all(|one| !one.is_finished()));
    rig.server.release_commits().await;
    let mut bases = Vec::new();
    for one in running {
        bases.push(one.await.expect("no panic").expect("answered").base);
    }
    bases.sort_unstable();
    assert_eq!(bases, [1, 2, 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flush_is_answered_when_what_was_seen_is_durable() {
    let rig = Rig::new(true).await;
    rig.server.hold_commits().await;
    let appending = rig.append(1, Guard::Head);
    rig.waiting(1).await;
    // Another server, which does not do so itself.
    let other = PostgresStore::open(PostgresOptions::new(rig.server.address())).await.expect("opened");
    let found = other.load(vec![Load::Lane(rig.lane, QUEUE_MODE.into())]).await.expect("answered");
    assert_eq!(found[0][0].lane.head, 2);
    let flushing = tokio::spawn(async move { other.flush().await });
    rig.waiting(2).await;
    assert!(!flushing.is_finished() && !appending.is_finished());
    rig.server.release_commits().await;
    flushing.await.expect("no panic").expect("durable");
    appending.await.expect("no panic").expect("answered");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_without_effect_where_it_cannot_be_done() {
    let dsn = testdb::server().await;
    let options = |dsn: &str| PostgresOptions {
        early_release: true,
        schema: testdb::fresh_schema(),
        ..PostgresOptions::new(dsn)
    };
    let portable = PostgresOptions { extras: Extras::NONE, ..options(&dsn) };
    assert!(!PostgresStore::open(portable).await.expect("opened").early_release());
    // As it is used behind a pooler.
    let mut pooled = options(&dsn);
    pooled.pool.pooled = true;
    assert!(!PostgresStore::open(pooled).await.expect("opened").early_release());
    assert!(PostgresStore::open(options(&dsn)).await.expect("opened").early_release());
}
