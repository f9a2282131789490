//! What tallies cost on PostgreSQL, and that nothing slips past whoever counts.

mod support;

use bugle_pg::testdb;
use bugle_store::{Catalog, Store, Trim};
use support::Counter;
use support::counted::{NOW, check, client, filled, open, push};

#[tokio::test(flavor = "multi_thread")]
async fn asking_again_is_a_handful_of_statements_however_many_lanes_there_are() {
    let (counter, dsn) = Counter::before(&testdb::server().await).await;
    let store = open(&dsn, &testdb::fresh_schema(), 1).await;
    let (_, lanes) = filled(&store, 500).await;
    for _ in 0..2 {
        store.tallies(None, NOW).await.expect("counted");
    }
    // Begin, hold, what changed, letters, commit; begin, four sums, commit. Both may ask for the time as well.
    let (least, most) = (11, 13);
    for _ in 0..2 {
        counter.take();
        store.tallies(None, NOW).await.expect("counted");
        let statements = counter.take().0;
        assert!((least..=most).contains(&statements), "{statements}");
    }
    push(&store, &lanes[..1]).await;
    counter.take();
    let tally = store.tallies(None, NOW).await.expect("counted").remove(0);
    // Lanes, cursors, queues, groups, and how far it was counted.
    let statements = counter.take().0;
    assert!((least + 5..=most + 5).contains(&statements), "{statements}");
    assert_eq!(tally.kept, 1002);
}

/// As after the migration: rows, and nothing counted yet.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_there_before_anybody_counted_is_walked() {
    let (dsn, schema) = (testdb::server().await, testdb::fresh_schema());
    for buckets in [1, 4] {
        let schema = format!("{schema}_{buckets}");
        let store = open(&dsn, &schema, buckets).await;
        let (queue, lanes) = filled(&store, 40).await;
        check(&store, queue).await;
        let before = format!(
            "DELETE FROM {schema}.lane_tallies; DELETE FROM {schema}.cursor_tallies;
             DELETE FROM {schema}.queue_tallies; DELETE FROM {schema}.group_tallies;
             UPDATE {schema}.lanes SET written_s = 1, written_at = 1, touched_s = NULL;
             UPDATE {schema}.cursors SET changed_s = 0; UPDATE {schema}.dead_letters SET counted = false;
             DELETE FROM {schema}.tally_state"
        );
        client(&dsn).await.batch_execute(&before).await.expect("as it was");
        let again = open(&dsn, &schema, buckets).await;
        push(&again, &lanes[..3]).await;
        check(&again, queue).await;
        store.trim(vec![Trim { lane: lanes[5], to: 2 }]).await.expect("trimmed");
        check(&again, queue).await;
    }
}

/// A server marks a change before it commits it, and takes its time; meanwhile others count.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_is_slow_to_commit_is_counted_later() {
    let (dsn, schema) = (testdb::server().await, testdb::fresh_schema());
    let store = open(&dsn, &schema, 1).await;
    let (queue, lanes) = filled(&store, 3).await;
    check(&store, queue).await;
    let second = store.now().latest.0 / 1_000_000;
    let mut slow = client(&dsn).await;
    let slow = slow.transaction().await.expect("begin");
    let change = format!(
        "UPDATE {schema}.lanes SET head = head + 7, written_s = {second} WHERE lane_id = '{}';
         UPDATE {schema}.cursors SET committed = 2, changed_s = {second} WHERE lane_id = '{}'",
        lanes[0], lanes[1]
    );
    slow.batch_execute(&change).await.expect("changed");
    push(&store, &lanes[2..]).await;
    check(&store, queue).await;
    // As if a minute had passed since.
    let later = format!("UPDATE {schema}.tally_state SET since_s = {second} + 60");
    client(&dsn).await.batch_execute(&later).await.expect("later");
    for _ in 0..3 {
        check(&store, queue).await;
    }
    slow.commit().await.expect("committed");
    check(&store, queue).await;
    let tally = store.tallies(None, NOW).await.expect("counted").remove(0);
    assert_eq!((tally.kept, tally.groups[0].passed), (15, 4));
    // One that began after all others had ended, with the mark it was given long before.
    let marked = format!(
        "UPDATE {schema}.lanes SET head = head + 1, written_s = {second} - 20 WHERE lane_id = '{}'",
        lanes[1]
    );
    client(&dsn).await.batch_execute(&marked).await.expect("changed");
    check(&store, queue).await;
    assert_eq!(store.tallies(None, NOW).await.expect("counted").remove(0).kept, 16);
}

/// Two servers count by turns; what one has counted the other does not count again.
#[tokio::test(flavor = "multi_thread")]
async fn servers_count_together() {
    let (dsn, schema) = (testdb::server().await, testdb::fresh_schema());
    let servers = [open(&dsn, &schema, 4).await, open(&dsn, &schema, 4).await];
    let (queue, lanes) = filled(&servers[0], 30).await;
    for n in 0..6 {
        push(&servers[n % 2], &lanes[n * 5..][..5]).await;
        let asked = servers.each_ref().map(|server| server.tallies(None, NOW));
        let (one, other) = {
            let [one, other] = asked;
            tokio::join!(one, other)
        };
        assert_eq!(one.expect("counted"), other.expect("counted"));
        check(&servers[n % 2], queue).await;
    }
}
