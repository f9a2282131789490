//! A primary that goes away and a standby that takes over, as the pool sees it. The servers are real.

use std::time::Duration;

use bugle_pg::testdb::{PrivateServer, Stop, private_server};
use bugle_pg::{
    Begin, Config, Listener, PgError, PgErrorKind, Pool, PoolOptions, Schema, Statement, Step, Type,
};

const LIMIT: Duration = Duration::from_secs(60);

struct Pair {
    primary: PrivateServer,
    standby: PrivateServer,
    insert: Statement,
    count: Statement,
}

fn statement(sql: &str, types: &'static [Type]) -> Statement {
    Statement::new(&Schema::new("unused").expect("a name"), sql, types)
}

async fn pair() -> Pair {
    let primary = private_server().await;
    let pool = Pool::new(Config::parse(primary.address()).expect("an address"), PoolOptions::default());
    let mut conn = pool.get().await.expect("connect");
    conn.execute_batch("CREATE TABLE t (n int PRIMARY KEY)").await.expect("create");
    let standby = primary.standby().await;
    Pair {
        primary,
        standby,
        insert: statement("INSERT INTO t VALUES ($1)", &[Type::INT4]),
        count: statement("SELECT count(*) FROM t", &[]),
    }
}

impl Pair {
    /// Both hosts in one address, the standby first.
    fn address(&self) -> String {
        let place = |server: &PrivateServer| {
            server.address().split('@').next_back().unwrap_or_default().split('/').next().map(str::to_owned)
        };
        let (one, two) = (place(&self.standby).unwrap_or_default(), place(&self.primary).unwrap_or_default());
        format!("postgres://postgres@{one},{two}/postgres?target_session_attrs=read-write")
    }

    fn pool(&self, change: impl FnOnce(&mut PoolOptions)) -> Pool {
        let mut options = PoolOptions { connect_timeout: Duration::from_secs(2), ..PoolOptions::default() };
        change(&mut options);
        Pool::new(Config::parse(&self.address()).expect("an address"), options)
    }

    async fn insert(&self, pool: &Pool, n: i32) -> Result<(), PgError> {
        pool.get().await?.transaction(&[Step::new(&self.insert, &[&n])]).await.map(drop)
    }
}

/// Try until it works.
async fn soon<T, F: Future<Output = Result<T, PgError>>>(mut attempt: impl FnMut() -> F) -> T {
    let trying = async {
        loop {
            match attempt().await {
                Ok(value) => return value,
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    };
    tokio::time::timeout(LIMIT, trying).await.expect("in time")
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_follow_the_primary_to_another_host() {
    let pair = pair().await;
    let pool = pair.pool(|_| ());
    pair.insert(&pool, 1).await.expect("the primary is found behind the standby");
    assert_eq!(pool.timeline(), 0);
    let old = pool.get().await.expect("connect");
    pair.primary.stop(Stop::Immediate).await;
    pair.standby.promote().await;
    soon(|| pair.insert(&pool, 2)).await;
    assert_eq!(pool.timeline(), 1, "a promoted standby is another timeline");
    drop(old);
    let mut conn = pool.get_at(1).await.expect("connect");
    assert_eq!(conn.query(&pair.count, &[]).await.expect("count").len(), 1);
    let error = pool.get_at(0).await.err().expect("that one was left");
    assert_eq!(error.kind(), PgErrorKind::Timeline);
    assert!(error.not_applied() && !error.is_retryable());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_former_primary_that_still_runs_is_left_and_not_returned_to() {
    let pair = pair().await;
    let pool = pair.pool(|_| ());
    pair.insert(&pool, 1).await.expect("insert");
    let mut open = pool.get().await.expect("connect");
    open.begin(Begin::Write, &[Step::new(&pair.insert, &[&2])]).await.expect("begin");
    pair.standby.promote().await;
    // Both take writes now. The first trouble is reason to look at all hosts.
    let mut conn = pool.get().await.expect("connect");
    let _ = conn.query(&statement("SELECT pg_terminate_backend(pg_backend_pid())", &[]), &[]).await;
    drop(conn);
    pool.get().await.expect("connect");
    assert_eq!(pool.timeline(), 1);
    let error = open.commit(&[]).await.expect_err("committed on a timeline that was left");
    assert!(!error.not_applied(), "{error}");
    pair.insert(&pool, 3).await.expect("insert");
    // The former one alone is not the database any more.
    let alone = pair.pool(|_| ());
    pair.insert(&alone, 4).await.expect("insert");
    assert_eq!(alone.timeline(), 0, "the first timeline seen is no change");
    pair.standby.stop(Stop::Immediate).await;
    let error = soon(|| async {
        match pair.insert(&pool, 5).await {
            Err(error) if error.to_string().contains("timeline") => Ok(error),
            Err(error) => Err(error),
            Ok(()) => panic!("written to a server that was replaced"),
        }
    })
    .await;
    assert!(error.to_string().contains("is on timeline 1, which was left for 2"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_hangs_is_in_doubt_and_ends_when_another_server_has_taken_over() {
    let pair = pair().await;
    let pool = pair.pool(|_| ());
    pair.primary.hold_commits().await;
    let mut conn = pool.get().await.expect("connect");
    let insert = statement("INSERT INTO t VALUES ($1)", &[Type::INT4]);
    let hanging = tokio::spawn(async move { conn.transaction(&[Step::new(&insert, &[&1])]).await.map(drop) });
    pair.standby.promote().await;
    let error = tokio::time::timeout(LIMIT, hanging).await.expect("in time").expect("ran");
    let error = error.expect_err("never replicated");
    assert!(!error.not_applied() && error.to_string().contains("another timeline"), "{error}");
    assert_eq!(pool.timeline(), 1);
    pair.insert(&pool, 2).await.expect("the other one takes writes");
}

/// PostgreSQL answers a commit whose wait for the standby was cancelled as if all were well.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_did_not_reach_its_standby_is_no_success() {
    let primary = private_server().await;
    let pool = Pool::new(Config::parse(primary.address()).expect("an address"), PoolOptions::default());
    let mut conn = pool.get().await.expect("connect");
    conn.execute_batch("CREATE TABLE t (n int PRIMARY KEY)").await.expect("create");
    conn.execute_batch("ALTER SYSTEM SET synchronous_standby_names = 'nobody'").await.expect("set");
    conn.execute_batch("SELECT pg_reload_conf()").await.expect("reload");
    let insert = statement("INSERT INTO t VALUES ($1)", &[Type::INT4]);
    let cancel =
        statement("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'", &[]);
    let canceller = tokio::spawn({
        let pool = pool.clone();
        async move {
            loop {
                pool.get().await.expect("connect").query(&cancel, &[]).await.expect("cancel");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    });
    // The server takes a moment to know that it should wait. A statement that stands alone commits too.
    let mut numbers = 0..;
    for alone in [false, true] {
        let failing = async {
            loop {
                let n = numbers.next().expect("enough numbers");
                let mut conn = pool.get().await.expect("connect");
                let outcome = if alone {
                    conn.query(&insert, &[&n]).await.map(drop)
                } else {
                    conn.transaction(&[Step::new(&insert, &[&n])]).await.map(drop)
                };
                if let Err(error) = outcome {
                    return error;
                }
            }
        };
        let error = tokio::time::timeout(LIMIT, failing).await.expect("in time");
        assert!(!error.not_applied() && error.to_string().contains("standby"), "{error}");
    }
    canceller.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn who_listens_is_at_the_primary() {
    let pair = pair().await;
    let config = Config::parse(&pair.address()).expect("an address");
    let mut listener = Listener::connect(&config, "news", "listen", LIMIT).await.expect("listen");
    let pool = pair.pool(|_| ());
    let tell = statement("SELECT pg_notify('news', 'hello')", &[]);
    pool.get().await.expect("connect").query(&tell, &[]).await.expect("notify");
    assert_eq!(tokio::time::timeout(LIMIT, listener.recv()).await.expect("in time").expect("alive"), "hello");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_takes_no_writes_is_not_connected_to() {
    let pair = pair().await;
    let pool = Pool::new(Config::parse(pair.standby.address()).expect("an address"), PoolOptions::default());
    let error = pool.get().await.err().expect("it is a standby");
    assert_eq!(error.kind(), PgErrorKind::Connect);
    assert!(error.to_string().contains("standby"), "{error}");
}
