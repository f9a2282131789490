//! The database behind both providers, and how to wait for something.

use std::time::Duration;

use bugle_duroxide::{Options, PostgresProvider};
use bugle_pg::testdb::{fresh_schema, server};
use bugle_pg::{Config, Pool, PoolOptions, Row, Schema};

/// Nothing takes this long.
pub(crate) const HOPELESS: Duration = Duration::from_secs(60);

/// A provider of ours in an empty schema; its name.
pub(crate) async fn ours() -> (PostgresProvider, String) {
    let schema = fresh_schema();
    let options = Options::new(server().await).schema(&schema).pool_size(6);
    (PostgresProvider::connect(options).await.unwrap(), schema)
}

async fn pool() -> Pool {
    Pool::new(Config::parse(&server().await).unwrap(), PoolOptions::default())
}

/// Statements without an answer.
pub(crate) async fn execute(sql: &str) {
    pool().await.get().await.unwrap().execute_batch(sql).await.unwrap();
}

/// Ask something in a schema.
pub(crate) async fn ask(schema: &str, sql: &str) -> Vec<Row> {
    let statement = bugle_pg::Statement::new(&Schema::new(schema).unwrap(), sql, &[]);
    pool().await.get().await.unwrap().query(&statement, &[]).await.unwrap()
}

/// Look until it is so.
pub(crate) async fn until(what: &str, mut so: impl AsyncFnMut() -> bool) {
    let looking = async {
        while !so().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(HOPELESS, looking).await.unwrap_or_else(|_| panic!("in vain: {what}"));
}
