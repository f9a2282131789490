//! A standby takes over: the store tells, and makes no change that was meant for what was before.

#[path = "support/one_lane.rs"]
mod one_lane;

use std::time::Duration;

use bugle_pg::testdb::{self, PrivateServer, Stop};
use bugle_store::{Append, Catalog, Guard, LaneId, Load, NewSegment, QUEUE_MODE, Store, Timestamp, Trim};
use bugle_store_postgres::{PostgresOptions, PostgresStore};
use one_lane::one_lane;

const LIMIT: Duration = Duration::from_secs(60);

fn place(server: &PrivateServer) -> &str {
    let place = server.address().split('@').next_back().unwrap_or_default();
    place.split('/').next().unwrap_or_default()
}

fn append(lane: LaneId, id: u64) -> Append {
    let segment = NewSegment { id, fingerprints: [id].into(), greatest: None, body: bytes::Bytes::new() };
    Append { lane, known_head: 0, guard: Guard::Free, segment, now: Timestamp(1) }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_made_on_the_timeline_on_which_they_were_called() {
    let primary = testdb::private_server().await;
    let standby = primary.standby().await;
    let dsn = format!("postgres://postgres@{},{}/postgres", place(&primary), place(&standby));
    let store = PostgresStore::open(PostgresOptions::new(dsn)).await.expect("opened");
    let lane = one_lane(&store).await;
    store.append(vec![append(lane, 1)]).await.expect("answered")[0].as_ref().expect("stored");
    assert_eq!(store.timeline(), 0);

    let (late, late_trim) = (store.append(vec![append(lane, 2)]), store.trim(vec![Trim { lane, to: 1 }]));
    // In good order, so that the standby has everything.
    primary.stop(Stop::Fast).await;
    standby.promote().await;
    let back = async {
        while store.ping().await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(LIMIT, back).await.expect("the standby is found");
    assert_eq!(store.timeline(), 1);

    assert!(late.await.is_err() && late_trim.await.is_err());
    let found = store.load(vec![Load::Lane(lane, QUEUE_MODE.into())]).await.expect("answered");
    assert_eq!(
        (found[0][0].lane.head, found[0][0].lane.tail),
        (1, 0),
        "nothing was lost, and nothing changed"
    );
    let stored = store.append(vec![append(lane, 3)]).await.expect("answered");
    assert_eq!(stored[0].as_ref().expect("stored").base, 1);
}
