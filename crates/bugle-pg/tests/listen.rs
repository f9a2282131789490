//! The listening connection against a real server.

use std::time::Duration;

use bugle_pg::{Config, Listener, PgErrorKind, Pool, PoolOptions, Schema, Statement, Type, testdb};

const LIMIT: Duration = Duration::from_secs(30);

async fn pool() -> (Config, Pool) {
    let config = Config::parse(&testdb::server().await).expect("an address");
    (config.clone(), Pool::new(config, PoolOptions::default()))
}

async fn run(pool: &Pool, sql: &str, params: &[&str]) {
    let none = Schema::new("unused").expect("a name");
    let types: &[Type] = if params.len() == 2 { &[Type::TEXT, Type::TEXT] } else { &[Type::TEXT] };
    let statement = Statement::new(&none, sql, types.to_vec().leak());
    let params: Vec<&(dyn bugle_pg::ToSql + Sync)> = params.iter().map(|p| p as _).collect();
    pool.get().await.expect("connect").query(&statement, &params).await.expect("run");
}

#[tokio::test(flavor = "multi_thread")]
async fn payloads_arrive_in_order_whatever_the_channel_is_called() {
    let (config, pool) = pool().await;
    for name in ["Plain", "we\"ird; channel ä"] {
        let channel = format!("{name} {}", &testdb::fresh_schema()[..20]);
        let mut listener = Listener::connect(&config, &channel, "listen", LIMIT).await.expect("listen");
        for n in 0..20 {
            run(&pool, "SELECT pg_notify($1, $2)", &[&channel, &n.to_string()]).await;
        }
        for n in 0..20 {
            let payload =
                tokio::time::timeout(LIMIT, listener.recv()).await.expect("in time").expect("alive");
            assert_eq!(payload, n.to_string());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_the_connection_is_told() {
    let (config, pool) = pool().await;
    let name = testdb::fresh_schema();
    let mut listener = Listener::connect(&config, "channel", &name, LIMIT).await.expect("listen");
    let kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1";
    run(&pool, kill, &[&name]).await;
    let error = tokio::time::timeout(LIMIT, listener.recv()).await.expect("in time").expect_err("killed");
    assert_eq!(error.kind(), PgErrorKind::Broken, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn channels_that_would_be_cut_or_refused_are_refused_here() {
    let (config, _) = pool().await;
    for bad in ["", "a\0b", &"x".repeat(64)] {
        let error = Listener::connect(&config, bad, "listen", LIMIT).await.err().expect(bad);
        assert_eq!(error.kind(), PgErrorKind::Refused);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_server_is_told_without_the_password() {
    let config = Config::parse("postgres://u:s3cret@127.0.0.1:1/d").expect("an address");
    let error = Listener::connect(&config, "channel", "listen", LIMIT).await.err().expect("nobody is there");
    assert_eq!(error.kind(), PgErrorKind::Connect);
    assert!(!error.to_string().contains("s3cret"), "{error}");
}
