//! Starting: schemas with odd names, from the future, made by ten nodes at once; databases that do not answer.

use std::time::Duration;

use bugle_duroxide::{ConnectError, Options, PostgresProvider};
use bugle_pg::testdb::{fresh_schema, server};
use bugle_pg::{Config, MigrateError, PgErrorKind, Pool, PoolOptions, Schema, Statement, Type};
use duroxide::providers::{Provider, ProviderAdmin};

use crate::stage::{HOPELESS, LEASE, ack, start, take_turn};

async fn connect(schema: &str) -> Result<PostgresProvider, ConnectError> {
    PostgresProvider::connect(Options::new(server().await).schema(schema).pool_size(3)).await
}

/// One node waits, the other sends. Only a hint can bring the message before the patience ends: the fallback looks later.
async fn assert_two_nodes_work(schema: &str) {
    let (here, there) = (connect(schema).await.unwrap(), connect(schema).await.unwrap());
    let patience = Duration::from_secs(40);
    let waiting = tokio::spawn({
        let there = there.clone();
        async move { there.fetch_orchestration_item(LEASE, patience, None).await.unwrap() }
    });
    let parked = async {
        while !(here.is_listening() && there.is_listening() && there.stats().empty_looks > 0) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(HOPELESS, parked).await.unwrap();
    here.enqueue_for_orchestrator(start("i"), None).await.unwrap();
    let (item, token, _) = waiting.await.unwrap().unwrap();
    assert_eq!(item.instance, "i");
    ack(&there, &token, Vec::new(), Vec::new()).await.unwrap();
    assert_eq!(here.list_instances().await.unwrap(), ["i"]);
}

#[tokio::test]
async fn schema_names_that_need_quoting_work() {
    let unique = fresh_schema();
    for odd in [
        "We\"ird Näme".to_owned(),
        "'; DROP SCHEMA public; --".to_owned(),
        "{schema}".to_owned(),
        "a$$b".to_owned(),
        "$function$".to_owned(),
        "%I %s \\ \u{1} \n".to_owned(),
        "x".repeat(200),
        "ü".repeat(100),
    ] {
        // The end is cut off and hashed if it is too long; the beginning is what is odd.
        assert_two_nodes_work(&format!("{odd}{unique}")).await;
    }
}

#[tokio::test]
async fn impossible_schema_names_are_refused() {
    for bad in ["", "pg_mine", "a\0b"] {
        let error = connect(bad).await.unwrap_err();
        assert!(matches!(error, ConnectError::Schema(_)), "{bad:?}: {error}");
    }
}

/// Everything in a schema, as text.
async fn contents(pool: &Pool, schema: &Schema) -> Vec<String> {
    let sql = "SELECT p.oid::regprocedure || ' ' || p.xmin::text FROM pg_catalog.pg_proc p
               WHERE p.pronamespace = (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = $1)
               UNION ALL SELECT c.relname || ' ' || c.xmin::text FROM pg_catalog.pg_class c
               WHERE c.relnamespace = (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = $1)
               UNION ALL SELECT m.version || ' ' || m.name FROM {schema}.migrations m ORDER BY 1";
    let statement = Statement::new(schema, sql, &[Type::TEXT]);
    let rows = pool.get().await.unwrap().query(&statement, &[&schema.name()]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

#[tokio::test]
async fn a_schema_from_the_future_is_left_alone() {
    let name = fresh_schema();
    connect(&name).await.unwrap();
    let (pool, schema) = (
        Pool::new(Config::parse(&server().await).unwrap(), PoolOptions::default()),
        Schema::new(&name).unwrap(),
    );
    let newer = schema.fill("INSERT INTO {schema}.migrations (version, name) VALUES (4711, 'flying cars')");
    pool.get().await.unwrap().execute_batch(&newer).await.unwrap();
    let before = contents(&pool, &schema).await;
    assert!(before.len() > 20, "{before:?}");
    match connect(&name).await.unwrap_err() {
        ConnectError::Migrate(MigrateError::Newer { found: 4711, known, .. }) => assert!(known < 4711),
        other => panic!("{other}"),
    }
    assert_eq!(contents(&pool, &schema).await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_nodes_boot_at_once_on_a_fresh_schema() {
    let name = fresh_schema();
    let boots: Vec<_> = (0..10)
        .map(|_| {
            let name = name.clone();
            tokio::spawn(async move { connect(&name).await.unwrap() })
        })
        .collect();
    let mut nodes = Vec::new();
    for boot in boots {
        nodes.push(boot.await.unwrap());
    }
    for (n, node) in nodes.iter().enumerate() {
        node.enqueue_for_orchestrator(start(&n.to_string()), None).await.unwrap();
    }
    for node in &nodes {
        let token = take_turn(node).await;
        ack(node, &token, Vec::new(), Vec::new()).await.unwrap();
    }
    assert_eq!(nodes[0].list_instances().await.unwrap().len(), 10);
}

fn assert_no_connection(error: &ConnectError) {
    match error {
        ConnectError::Migrate(MigrateError::Database { error, .. }) => {
            assert_eq!(error.kind(), PgErrorKind::Connect, "{error}");
        }
        other => panic!("{other}"),
    }
}

/// The clock is not real: whenever everybody waits, it leaps to the end of the shortest wait.
#[tokio::test(start_paused = true)]
async fn an_address_that_does_not_answer_is_given_up() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("postgres://x@{}/x?sslmode=disable", silent.local_addr().unwrap());
    assert_no_connection(&PostgresProvider::connect(Options::new(url)).await.unwrap_err());
}

#[tokio::test]
async fn an_address_where_nobody_is_is_given_up() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("postgres://x:secret@127.0.0.1:{port}/x");
    let error = PostgresProvider::connect(Options::new(url)).await.unwrap_err();
    assert_no_connection(&error);
    assert!(!error.to_string().contains("secret"), "{error}");
    let error = PostgresProvider::connect(Options::new("nonsense")).await.unwrap_err();
    assert!(matches!(error, ConnectError::Address { field: "url", .. }), "{error}");
}
