//! Sums that a server keeps from one question to the next: read again when they changed, whoever changed them, and never
//! taken for what they were in a past that was lost.

mod support;

use bugle_pg::testdb;
use bugle_store::conformance::tally::{assert_tally, recount};
use bugle_store::{Catalog, Expire, LaneId, NewLane, QueueId, Store, Timestamp, Trim};
use bugle_store_postgres::{Extras, PostgresOptions, PostgresStore};
use support::counted::{NOW, check, client, fill, filled, new_queue, open, push};

/// Messages kept, as told for all queues together.
async fn kept(store: &PostgresStore, queue: QueueId) -> u64 {
    let all = store.tallies(None, NOW).await.expect("counted");
    all.iter().find(|tally| tally.queue == queue).expect("the queue is there").kept
}

/// Whether all queues are as they are, by one question.
async fn check_all(store: &PostgresStore, queues: &[QueueId]) {
    let all = store.tallies(None, NOW).await.expect("counted");
    assert_eq!(all.len(), queues.len());
    for tally in &all {
        assert!(queues.contains(&tally.queue));
        assert_tally(tally, &recount(store, tally.queue, NOW).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_changed_is_read_again() {
    let (dsn, schema) = (testdb::server().await, testdb::fresh_schema());
    let store = open(&dsn, &schema, 1).await;
    let (still, _) = filled(&store, 2).await;
    let (moving, lanes) = filled(&store, 2).await;
    assert_eq!((kept(&store, still).await, kept(&store, moving).await), (4, 4));
    // Nobody does this: a sum that is another one without a new version shows who reads it.
    let secretly = format!("UPDATE {schema}.queue_tallies SET kept = kept + 100");
    client(&dsn).await.batch_execute(&secretly).await.expect("changed");
    push(&store, &lanes[..1]).await;
    assert_eq!((kept(&store, still).await, kept(&store, moving).await), (4, 106));
    let other = open(&dsn, &schema, 1).await;
    assert_eq!(kept(&other, still).await, 104, "a server that has read nothing yet reads everything");
    // Rows are deleted, so nobody goes on from what it has.
    store.delete_queue(moving).await.expect("deleted");
    assert_eq!(kept(&store, still).await, 104);
}

/// Each server makes every kind of change, and the other sees it, having read everything before.
#[tokio::test(flavor = "multi_thread")]
async fn what_another_server_changed_is_read() {
    let (dsn, schema) = (testdb::server().await, testdb::fresh_schema());
    for buckets in [1, 4] {
        let schema = format!("{schema}_{buckets}");
        let servers = [open(&dsn, &schema, buckets).await, open(&dsn, &schema, buckets).await];
        let (first, lanes) = filled(&servers[0], 12).await;
        let (doomed, _) = filled(&servers[1], 3).await;
        let both = [first, doomed];
        for (n, server) in [0, 1, 0].into_iter().map(|n| &servers[n]).enumerate() {
            let check = async |queues: &[QueueId]| {
                check_all(&servers[1], queues).await;
                check_all(&servers[0], queues).await;
            };
            check(&both).await;
            push(server, &lanes[n..n + 3]).await;
            check(&both).await;
            server.trim(vec![Trim { lane: lanes[n], to: 1 }]).await.expect("trimmed");
            check(&both).await;
            server.delete_group(first, "g".into(), false).await.expect("deleted");
            check(&both).await;
            expired_lane(server, first).await;
            check(&both).await;
            server.delete_queue(doomed).await.expect("deleted");
            check(&[first]).await;
            // With its old id, and fewer lanes than it had.
            fill(server, new_queue(doomed), 2 - n.min(1)).await;
            check(&both).await;
        }
    }
}

/// A lane that was counted, with the only cursor of a group, and expires.
async fn expired_lane(store: &PostgresStore, queue: QueueId) -> LaneId {
    let old = NewLane { queue, name: "old".into(), now: Timestamp(1) };
    let made = store.ensure_lanes(vec![old]).await.expect("made").remove(0).expect("the queue exists");
    support::counted::seed(store, made.id, "rare").await;
    let all = store.tallies(None, NOW).await.expect("counted");
    let counted = all.iter().find(|tally| tally.queue == queue).expect("the queue is there");
    assert!(counted.groups.iter().any(|group| &*group.group == "rare"), "{counted:?}");
    let expired = store.expire(Expire::Lanes(Timestamp(2_000_000)), 10).await.expect("expired");
    assert_eq!(expired, 1);
    made.id
}

/// A failover to a copy that had not got the last changes, and another server that counts there first.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_lost_is_not_kept() {
    let (dsn, schema) = (testdb::server().await, testdb::fresh_schema());
    let servers = [open(&dsn, &schema, 1).await, open(&dsn, &schema, 1).await];
    let (queue, lanes) = filled(&servers[0], 4).await;
    let (other, others) = filled(&servers[0], 4).await;
    check_all(&servers[0], &[queue, other]).await;
    check_all(&servers[1], &[queue, other]).await;
    let client = client(&dsn).await;
    let tables = [
        "tally_state",
        "queue_tallies",
        "group_tallies",
        "lane_tallies",
        "cursor_tallies",
        "lanes",
        "segments",
    ];
    for table in tables {
        let copy = format!("CREATE TABLE {schema}.copy_of_{table} AS SELECT * FROM {schema}.{table}");
        client.batch_execute(&copy).await.expect("copied");
    }
    push(&servers[0], &lanes[..2]).await;
    assert_eq!(kept(&servers[0], queue).await, 12);
    for table in tables {
        let back = format!(
            "DELETE FROM {schema}.{table}; INSERT INTO {schema}.{table} SELECT * FROM {schema}.copy_of_{table}"
        );
        client.batch_execute(&back).await.expect("as it was");
    }
    push(&servers[1], &others[..1]).await;
    check_all(&servers[1], &[queue, other]).await;
    check_all(&servers[0], &[queue, other]).await;
    assert_eq!((kept(&servers[0], queue).await, kept(&servers[0], other).await), (8, 10));
}

/// Tables copied to another database bring along a place among transactions that means nothing there.
#[tokio::test(flavor = "multi_thread")]
async fn a_place_among_transactions_of_another_database_is_not_trusted() {
    let (dsn, schema) = (testdb::server().await, testdb::fresh_schema());
    let store = open(&dsn, &schema, 1).await;
    let (queue, lanes) = filled(&store, 2).await;
    check(&store, queue).await;
    let client = client(&dsn).await;
    for ahead in ["0", "1000000", "1500000000", "-1500000000", "NULL"] {
        push(&store, &lanes[..1]).await;
        let strange = format!(
            "UPDATE {schema}.tally_state
             SET settled = pg_snapshot_xmax(pg_current_snapshot())::text::bigint + {ahead}"
        );
        client.batch_execute(&strange).await.expect("changed");
        let again = open(&dsn, &schema, 1).await;
        check(&again, queue).await;
        // From then on it is its own.
        push(&store, &lanes[1..]).await;
        check(&again, queue).await;
    }
}

/// The portable subset counts the same, also beside a server that passes rows by.
#[tokio::test(flavor = "multi_thread")]
async fn servers_with_and_without_extras_count_together() {
    let (dsn, schema) = (testdb::server().await, testdb::fresh_schema());
    let with = open(&dsn, &schema, 1).await;
    let (queue, lanes) = filled(&with, 6).await;
    let options =
        PostgresOptions { schema: schema.clone(), extras: Extras::NONE, ..PostgresOptions::new(&dsn) };
    let without = PostgresStore::open(options).await.expect("open the store");
    for n in 0..4 {
        push([&with, &without][n % 2], &lanes[n..=n]).await;
        check([&with, &without][n / 2], queue).await;
        check([&without, &with][n / 2], queue).await;
    }
}
