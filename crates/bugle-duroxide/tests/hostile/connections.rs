//! How many connections there are, and that none stays.

use std::time::Duration;

use bugle_duroxide::{Options, PostgresProvider};
use bugle_pg::testdb::private_server;
use bugle_pg::{Config, Pool, PoolOptions, Schema, Statement};
use duroxide::providers::{Provider, TagFilter};

use crate::stage::{HOPELESS, LEASE, activity, start};

/// A server nobody else uses, seen from a connection of the test's own.
struct Watched {
    pool: Pool,
    count: Statement,
}

impl Watched {
    fn new(address: &str) -> Self {
        let options = PoolOptions { application_name: "the test".to_owned(), ..PoolOptions::default() };
        let sql = "SELECT count(*) FILTER (WHERE application_name LIKE 'bugle-duroxide/%'),
                       count(*) FILTER (WHERE application_name = 'bugle-duroxide listen')
                   FROM pg_stat_activity";
        let schema = Schema::new("unused").unwrap();
        Self {
            pool: Pool::new(Config::parse(address).unwrap(), options),
            count: Statement::new(&schema, sql, &[]),
        }
    }

    /// Connections for statements, and for listening.
    async fn connections(&self) -> (i64, i64) {
        let rows = self.pool.get().await.unwrap().query(&self.count, &[]).await.unwrap();
        (rows[0].get(0), rows[0].get(1))
    }

    /// A backend needs a moment to notice that its client is gone.
    async fn until_gone(&self) {
        let gone = async {
            while self.connections().await != (0, 0) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(HOPELESS, gone).await.unwrap();
    }
}

async fn until_listening(provider: &PostgresProvider) {
    let listening = async {
        while !provider.is_listening() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(HOPELESS, listening).await.unwrap();
}

#[tokio::test]
async fn clones_share_one_listener_and_the_last_one_closes_everything() {
    let server = private_server().await;
    let watched = Watched::new(server.address());
    let options = Options::new(server.address()).pool_size(3);
    let first = PostgresProvider::connect(options).await.unwrap();
    let second = first.clone();
    until_listening(&first).await;
    assert!(second.is_listening());

    // More callers than connections.
    let work = (0..20).map(|n| {
        let provider = if n % 2 == 0 { first.clone() } else { second.clone() };
        tokio::spawn(async move {
            provider.enqueue_for_worker(activity("i", n)).await.unwrap();
            let item = provider.fetch_work_item(LEASE, HOPELESS, None, &TagFilter::Any).await.unwrap();
            provider.ack_work_item(&item.unwrap().1, None).await.unwrap();
        })
    });
    for done in work.collect::<Vec<_>>() {
        done.await.unwrap();
    }
    let (statements, listeners) = watched.connections().await;
    assert!((1..=3).contains(&statements), "{statements}");
    assert_eq!(listeners, 1);

    drop(first);
    second.enqueue_for_orchestrator(start("i"), None).await.unwrap();
    let found = second.fetch_orchestration_item(LEASE, HOPELESS, None).await.unwrap();
    assert_eq!(found.unwrap().0.instance, "i");
    assert_eq!(watched.connections().await.1, 1);
    drop(second);
    watched.until_gone().await;
}

#[tokio::test]
async fn a_provider_dropped_while_a_fetch_waits_closes_everything_with_the_fetch() {
    let server = private_server().await;
    let watched = Watched::new(server.address());
    let provider = PostgresProvider::connect(Options::new(server.address())).await.unwrap();
    until_listening(&provider).await;
    let clone = provider.clone();
    let waiting = tokio::spawn(async move { clone.fetch_orchestration_item(LEASE, HOPELESS, None).await });
    drop(provider);
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    watched.until_gone().await;
}

#[tokio::test]
async fn without_long_polling_nobody_listens() {
    let server = private_server().await;
    let watched = Watched::new(server.address());
    let options = Options::new(server.address()).long_poll(false);
    let provider = PostgresProvider::connect(options).await.unwrap();
    assert!(provider.fetch_orchestration_item(LEASE, HOPELESS, None).await.unwrap().is_none());
    assert_eq!(watched.connections().await.1, 0);
    drop(provider);
    watched.until_gone().await;
}
