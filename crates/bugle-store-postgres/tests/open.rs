//! Opening the engine: many at once, on old and new installations, and after the connection was lost.

use bugle_pg::{Config, Pool, PoolOptions, Schema, Statement, Type, testdb};
use bugle_store::{Catalog, Engine};
use bugle_store_postgres::{OpenError, PostgresOptions, PostgresStore};

async fn options(schema: &str) -> PostgresOptions {
    PostgresOptions { schema: schema.to_owned(), ..PostgresOptions::new(testdb::server().await) }
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_servers_starting_at_once_agree() {
    let schema = testdb::fresh_schema();
    let mut starting = Vec::new();
    for buckets in 1..=8 {
        let options = PostgresOptions { buckets, ..options(&schema).await };
        starting.push(tokio::spawn(PostgresStore::open(options)));
    }
    let mut buckets = Vec::new();
    for started in starting {
        let store = started.await.expect("no panic").expect("opened");
        store.ping().await.expect("answers");
        buckets.push(store.buckets());
    }
    buckets.dedup();
    assert_eq!(buckets.len(), 1, "all use what the first one stored");
}

#[tokio::test(flavor = "multi_thread")]
async fn any_schema_name_can_be_used() {
    let unique = testdb::fresh_schema();
    let long = format!("{unique}{}", "x".repeat(63 - unique.len()));
    for name in [format!("A \"b\" {unique}"), long] {
        let store = PostgresStore::open(options(&name).await).await.expect("opened");
        store.snapshot(None).await.expect("answers");
        store.close().await.expect("closed");
        assert!(store.ping().await.is_err(), "a closed store answers nothing");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_schema_is_refused() {
    const VERSION: &[Type] = &[Type::INT4];
    let name = testdb::fresh_schema();
    drop(PostgresStore::open(options(&name).await).await.expect("opened"));
    let config = Config::parse(&testdb::server().await).expect("an address");
    let pool = Pool::new(config, PoolOptions::default());
    let schema = Schema::new(&name).expect("a name");
    let newer =
        Statement::new(&schema, "INSERT INTO {schema}.migrations (version, name) VALUES ($1, 'x')", VERSION);
    pool.get().await.expect("connect").query(&newer, &[&99]).await.expect("insert");
    let error = PostgresStore::open(options(&name).await).await.err().expect("refused");
    assert!(matches!(error, OpenError::Migrate(_)), "{error}");
    assert!(error.to_string().contains("version 99"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_connections_are_replaced_without_the_caller_noticing() {
    const NAME: &[Type] = &[Type::TEXT];
    let name = testdb::fresh_schema();
    let mut options = options(&name).await;
    options.pool.application_name.clone_from(&name);
    let store = PostgresStore::open(options).await.expect("opened");
    let config = Config::parse(&testdb::server().await).expect("an address");
    let pool = Pool::new(config, PoolOptions::default());
    let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE starts_with(application_name, $1 || '/')";
    let kill = Statement::new(&Schema::new(&name).expect("a name"), sql, NAME);
    let killed = pool.get().await.expect("connect").query(&kill, &[&name]).await.expect("kill");
    assert!(!killed.is_empty());
    assert!(store.snapshot(None).await.expect("a question is asked again").is_some());
}
