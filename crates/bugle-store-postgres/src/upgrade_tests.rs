//! A schema of every earlier version, with data in it, opens and is as sound as a new one.

use bugle_pg::{Config, Pool, PoolOptions, Schema, migrate, testdb};
use bugle_store::{LaneId, Load, QueueId, Read, Severity, Store};
use uuid::Uuid;

use crate::migrations::MIGRATIONS;
use crate::{PostgresOptions, PostgresStore, examine};

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_of_every_earlier_version_opens() {
    let address = testdb::server().await;
    for version in 1..MIGRATIONS.len() {
        let (name, pool) =
            (testdb::fresh_schema(), Pool::new(Config::parse(&address).unwrap(), PoolOptions::default()));
        let schema = Schema::new(&name).unwrap();
        migrate(&pool, &schema, &MIGRATIONS[..version]).await.unwrap();
        let queue = Uuid::new_v4();
        let lane = LaneId::derive(QueueId(queue), "p");
        // In the words of the first version.
        let data = format!(
            "INSERT INTO {{schema}}.meta (id, buckets, catalog_version) VALUES (1, 1, 1);
             INSERT INTO {{schema}}.queues VALUES ('{queue}', 'q', '', '', 1, 1, '{{}}');
             INSERT INTO {{schema}}.lanes (bucket, lane_id, queue_id, name, head, tail, created_at, written_at, written_s, tail_at)
                 VALUES (0, '{lane}', '{queue}', 'p', 2, 0, 1, 2, 0, 2);
             INSERT INTO {{schema}}.segments VALUES (0, '{lane}', 0, 2, 2, 7, '{{1,2}}', 'xy');
             INSERT INTO {{schema}}.cursors (bucket, lane_id, group_name, epoch, committed, attempts, deliveries, not_before, served_at, consumed, writer)
                 VALUES (0, '{lane}', 'g', 3, 1, 0, 0, 0, 0, 1, 0)"
        );
        pool.get().await.unwrap().execute_batch(&schema.fill(&data)).await.unwrap();
        let options = PostgresOptions { schema: name.clone(), ..PostgresOptions::new(&address) };
        let store = PostgresStore::open(options.clone()).await.unwrap();
        let read = Read { lane, from: 0, to: 2, max_bytes: 1000 };
        let segments = store.read(vec![read]).await.unwrap().remove(0);
        assert_eq!((segments.len(), &*segments[0].body), (1, &b"xy"[..]), "from version {version}");
        let cursor = store.load(vec![Load::Lane(lane, "g".into())]).await.unwrap().remove(0).remove(0);
        assert_eq!(cursor.cursor.unwrap().committed, 1);
        let found = examine(options, None).await;
        assert!(found.worst() <= Some(Severity::Warning), "from version {version}: {found:?}");
    }
}
