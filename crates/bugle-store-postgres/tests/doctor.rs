//! The doctor on a schema: content with a sound one, and finds each damage that is planted.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use bugle_pg::{Config, Pool, PoolOptions, Schema, Statement, Type, testdb};
use bugle_store::{
    Append, Catalog, Cursor, Examination, Guard, NewLane, NewSegment, Queue, QueueId, QueueOptions, Severity,
    Store, Swap, Timestamp,
};
use bugle_store_postgres::{PostgresOptions, PostgresStore, examine};

const NAME: &[Type] = &[Type::TEXT];

struct Patient {
    schema: String,
    store: Arc<PostgresStore>,
}

impl Patient {
    /// A queue with four lanes of three segments of two messages, and a cursor on each.
    async fn new(buckets: u32) -> Self {
        let schema = testdb::fresh_schema();
        let this =
            Self { store: PostgresStore::open(options(&schema, buckets).await).await.unwrap(), schema };
        let (id, options) = (QueueId::random(), QueueOptions::default());
        let (name, none, created_at) = ("q".into(), "".into(), Timestamp(1));
        let queue =
            Queue { id, name, namespace: Arc::clone(&none), task: none, created_at, version: 1, options };
        this.store.put_queue(queue).await.unwrap();
        for partition in ["a", "b", "c", "d"] {
            let new = NewLane { queue: id, name: partition.into(), now: Timestamp(1) };
            let lane = this.store.ensure_lanes(vec![new]).await.unwrap().remove(0).unwrap().id;
            for n in 0..3 {
                let fingerprints = vec![n, n + 100].into();
                let segment = NewSegment { id: n, fingerprints, greatest: None, body: "xx".into() };
                let append =
                    Append { lane, known_head: 2 * n, guard: Guard::Free, segment, now: Timestamp(2) };
                this.store.append(vec![append]).await.unwrap().remove(0).unwrap();
            }
            let next = Cursor { epoch: 1, ..Cursor::fresh(3) };
            let swap = Swap { lane, group: "g".into(), expect: 0, next, read: None, dead: Vec::new() };
            this.store.swap(vec![swap]).await.unwrap().remove(0).unwrap();
        }
        this
    }

    async fn sql(&self, sql: &str) {
        let pool = Pool::new(Config::parse(&testdb::server().await).unwrap(), PoolOptions::default());
        let sql = Schema::new(&self.schema).unwrap().fill(sql);
        pool.get().await.unwrap().execute_batch(&sql).await.unwrap();
    }

    async fn examined(&self) -> Examination {
        examine(options(&self.schema, 1).await, None).await
    }

    /// The findings, without those that the test server's own settings give rise to.
    async fn findings(&self) -> Vec<(Severity, String)> {
        let found = self.examined().await.findings.into_iter();
        let own =
            |place: &str| ["fsync", "full_page_writes", "session "].iter().any(|own| place.starts_with(own));
        let found = found.filter(|finding| !own(&finding.place));
        found.map(|finding| (finding.severity, format!("{}: {}", finding.place, finding.what))).collect()
    }
}

async fn options(schema: &str, buckets: u32) -> PostgresOptions {
    PostgresOptions { schema: schema.to_owned(), buckets, ..PostgresOptions::new(testdb::server().await) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sound_schema_gives_no_cause_for_complaint() {
    for buckets in [1, 4] {
        let patient = Patient::new(buckets).await;
        assert_eq!(patient.findings().await, []);
        let found = patient.examined().await;
        let fact = |name: &str| found.facts.iter().find(|fact| fact.0 == name).unwrap().1.clone();
        assert_eq!(
            (fact("lanes"), fact("messages"), fact("segments"), fact("cursors")),
            ("4".into(), "24".into(), "12".into(), "4".into())
        );
        assert_eq!(fact("buckets"), buckets.to_string());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_planted_damage_is_found() {
    for (damage, told) in [
        ("DELETE FROM {schema}.segments WHERE base = 2", "the message at 2 is in no segment"),
        ("DELETE FROM {schema}.segments WHERE base = 4", "the message at 4 is in no segment"),
        ("UPDATE {schema}.segments SET count = 1 WHERE base = 0", "the message at 1 is in no segment"),
        ("UPDATE {schema}.segments SET count = 3 WHERE base = 2", "two segments hold the message at 4"),
        ("UPDATE {schema}.segments SET count = 3 WHERE base = 4", "reaches to 7, but the lane ends at 6"),
        ("UPDATE {schema}.lanes SET head = 8", "the message at 6 is in no segment"),
        ("UPDATE {schema}.lanes SET tail = 9", "begins at 9 and ends at 6"),
        ("UPDATE {schema}.lanes SET tail = 2", "the segment at 0 holds nothing that is kept"),
        ("UPDATE {schema}.cursors SET committed = 7", "committed up to 7, but the lane ends at 6"),
        (
            "UPDATE {schema}.cursors SET lease_id = lane_id, lease_until = 5, lease_end = 9",
            "leased up to 9, but the lane ends at 6",
        ),
        ("UPDATE {schema}.lanes SET name = name || 'x'", "is not where its names put it"),
        ("DELETE FROM {schema}.queues", "is gone"),
        ("DELETE FROM {schema}.lanes WHERE name = 'a'", "is gone, but has 3 segments"),
        ("DELETE FROM {schema}.meta", "its row is missing"),
        ("DROP INDEX {schema}.lanes_aged", "index lanes_aged on lanes is missing"),
        ("ALTER TABLE {schema}.traces DROP COLUMN worker", "column traces.worker text is missing"),
        ("DROP FUNCTION {schema}.push(text, text, jsonb, text)", "push(text, text, jsonb, text) is missing"),
        ("DROP TABLE {schema}.trace_names", "trace_names.name text not null is missing"),
    ] {
        let patient = Patient::new(1).await;
        patient.sql(damage).await;
        let found = patient.findings().await;
        let hit =
            |(severity, what): &(Severity, String)| *severity == Severity::Damage && what.contains(told);
        assert!(found.iter().any(hit), "{damage}: {found:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_should_be_known_is_a_warning() {
    let patient = Patient::new(1).await;
    patient.sql("ALTER TABLE {schema}.lanes SET (autovacuum_enabled = false)").await;
    let found = patient.findings().await;
    assert_eq!(found, [(Severity::Warning, "table lanes: autovacuum is switched off for it".to_owned())]);
    patient.sql("ALTER TABLE {schema}.lanes SET (autovacuum_enabled = true)").await;
    patient.sql("SELECT {schema}.push('q', 'p', '1')").await;
    assert_eq!(patient.findings().await, [], "it was written just now");
    patient.sql("UPDATE {schema}.inbox SET written_at = written_at - 100 * 1000000").await;
    let found = patient.findings().await;
    assert!(
        found.len() == 1 && found[0].1.starts_with("inbox: 1 messages wait, the oldest for 10"),
        "{found:?}"
    );
    let nowhere = "postgres://postgres@127.0.0.1:1/postgres";
    let found = examine(options(&patient.schema, 1).await, Some(nowhere)).await;
    let listen = found.findings.iter().find(|finding| finding.place == "LISTEN").unwrap();
    assert_eq!((listen.severity, found.worst()), (Severity::Warning, Some(Severity::Warning)));
}

#[tokio::test(flavor = "multi_thread")]
async fn another_version_is_told_with_both_numbers() {
    let patient = Patient::new(1).await;
    patient.sql("DELETE FROM {schema}.migrations WHERE version > 4").await;
    let found = patient.findings().await;
    assert!(
        matches!(&found[0], (Severity::Warning, what) if what.contains("version 4: the next start brings it to 8")),
        "{found:?}"
    );
    patient.sql("INSERT INTO {schema}.migrations (version, name) VALUES (99, 'x')").await;
    let found = patient.findings().await;
    assert!(
        matches!(&found[0], (Severity::Unknown, what) if what.contains("version 99") && what.contains("up to 8")),
        "{found:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_that_is_not_there_cannot_be_judged() {
    let found = examine(options(&testdb::fresh_schema(), 1).await, None).await;
    assert_eq!(found.worst(), Some(Severity::Unknown), "{found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_of_objects_is_that_of_a_new_schema() {
    let patient = Patient::new(1).await;
    let pool = Pool::new(Config::parse(&testdb::server().await).unwrap(), PoolOptions::default());
    let schema = Schema::new(&patient.schema).unwrap();
    let objects = Statement::new(&schema, include_str!("../sql/doctor/objects.sql"), NAME);
    let rows = pool.get().await.unwrap().query(&objects, &[&patient.schema]).await.unwrap();
    let there: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    let listed: Vec<&str> =
        include_str!("../sql/objects.txt").lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(there, listed, "write sql/objects.txt anew when a migration changes them");
}
