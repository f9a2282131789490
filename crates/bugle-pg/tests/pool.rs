//! The pool and its connections against a real server.

use std::time::{Duration, Instant};

use bugle_pg::{Begin, Config, PgErrorKind, Pool, PoolOptions, Schema, Statement, Step, Type, testdb};

const INT: &[Type] = &[Type::INT4];

struct Fixture {
    pool: Pool,
    insert: Statement,
    count: Statement,
    pid: Statement,
    kill: Statement,
    sleep: Statement,
}

async fn fixture(dsn: String, change: impl FnOnce(&mut PoolOptions)) -> Fixture {
    let mut options = PoolOptions { max: 2, ..PoolOptions::default() };
    change(&mut options);
    let pool = Pool::new(Config::parse(&dsn).expect("an address"), options);
    let schema = Schema::new(&testdb::fresh_schema()).expect("a name");
    let mut conn = pool.get().await.expect("connect");
    let sql = "CREATE SCHEMA {schema}; CREATE TABLE {schema}.t (n int PRIMARY KEY)";
    conn.execute_batch(&schema.fill(sql)).await.expect("create");
    Fixture {
        insert: Statement::new(&schema, "INSERT INTO {schema}.t VALUES ($1)", INT),
        count: Statement::new(&schema, "SELECT count(*) FROM {schema}.t", &[]),
        pid: Statement::new(&schema, "SELECT pg_backend_pid()", &[]),
        kill: Statement::new(&schema, "SELECT pg_terminate_backend($1)", INT),
        sleep: Statement::new(&schema, "SELECT pg_sleep(60)", &[]),
        pool,
    }
}

impl Fixture {
    async fn rows(&self) -> i64 {
        let mut conn = self.pool.get().await.expect("connect");
        conn.query(&self.count, &[]).await.expect("count")[0].get(0)
    }
}

/// A connection that was left in the middle of a call is closed although its answer never comes.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_without_an_answer_is_closed_when_it_is_left() {
    let dsn = testdb::server().await;
    let mark = if dsn.contains('?') { '&' } else { '?' };
    // The server then notices by itself that its client is gone.
    let dsn = format!("{dsn}{mark}options=-c%20client_connection_check_interval%3D50");
    let f = fixture(dsn, |o| o.statement_timeout = Duration::from_secs(600)).await;
    let mut left = f.pool.get().await.expect("connect");
    let pid: i32 = left.query(&f.pid, &[]).await.expect("its number")[0].get(0);
    assert!(tokio::time::timeout(Duration::from_millis(300), left.query(&f.sleep, &[])).await.is_err());
    drop(left);
    let schema = Schema::new("unused").expect("a name");
    let there = Statement::new(&schema, "SELECT count(*) FROM pg_stat_activity WHERE pid = $1", INT);
    let mut conn = f.pool.get().await.expect("connect");
    let begun = Instant::now();
    while conn.query(&there, &[&pid]).await.expect("count")[0].get::<_, i64>(0) > 0 {
        assert!(begun.elapsed() < Duration::from_secs(30), "it is still there");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Whatever the database's defaults are, and behind a pooler too.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_one_statement_is_a_transaction_by_itself() {
    for pooled in [false, true] {
        let dsn = if pooled { testdb::pgbouncer().await } else { testdb::server().await };
        let mark = if dsn.contains('?') { '&' } else { '?' };
        let stricter = "options=-c%20default_transaction_isolation%3Dserializable%20-c%20default_transaction_read_only%3Don";
        let dsn = if pooled { dsn } else { format!("{dsn}{mark}{stricter}") };
        let f = fixture(dsn, |o| o.pooled = pooled).await;
        let mut conn = f.pool.get().await.expect("connect");
        conn.change(Step::new(&f.insert, &[&1])).await.expect("commit");
        let error = conn.change(Step::new(&f.insert, &[&1])).await.expect_err("a duplicate key");
        assert!(error.kind() == PgErrorKind::Refused && error.not_applied(), "{error:?}");
        // The connection stays usable, and answers come back.
        let schema = Schema::new("unused").expect("a name");
        let isolation = Statement::new(
            &schema,
            "SELECT current_setting('transaction_isolation')",
            &[] as &'static [Type],
        );
        let rows = conn.change(Step::new(&isolation, &[])).await.expect("an answer");
        assert_eq!(rows[0].get::<_, &str>(0), "read committed");
        drop(conn);
        assert_eq!(f.rows().await, 1);
    }
}

/// One that is cut off may have happened, and says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_whose_connection_breaks_is_in_doubt() {
    let f = fixture(testdb::server().await, |_| {}).await;
    let mut conn = f.pool.get().await.expect("connect");
    let pid: i32 = conn.query(&f.pid, &[]).await.expect("its number")[0].get(0);
    let mut other = f.pool.get().await.expect("connect");
    let cut = async {
        // Until it is under way there is nothing to cut.
        let schema = Schema::new("unused").expect("a name");
        let asleep = "SELECT count(*) FROM pg_stat_activity WHERE pid = $1 AND query LIKE '%pg_sleep%'";
        let asleep = Statement::new(&schema, asleep, INT);
        while other.query(&asleep, &[&pid]).await.expect("count")[0].get::<_, i64>(0) == 0 {}
        other.query(&f.kill, &[&pid]).await.expect("cut");
    };
    let (changed, ()) = tokio::join!(conn.change(Step::new(&f.sleep, &[])), cut);
    let error = changed.expect_err("a broken connection");
    assert!(error.kind() == PgErrorKind::Broken && !error.not_applied(), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_in_one_round_trip_is_all_or_nothing() {
    for pooled in [false, true] {
        let dsn = if pooled { testdb::pgbouncer().await } else { testdb::server().await };
        let f = fixture(dsn, |o| o.pooled = pooled).await;
        let mut conn = f.pool.get().await.expect("connect");
        let good = [Step::new(&f.insert, &[&1]), Step::new(&f.count, &[]), Step::new(&f.insert, &[&2])];
        let rows = conn.transaction(&good).await.expect("commit");
        assert_eq!(rows[1][0].get::<_, i64>(0), 1);
        let bad = [Step::new(&f.insert, &[&3]), Step::new(&f.insert, &[&1]), Step::new(&f.insert, &[&4])];
        let error = conn.transaction(&bad).await.expect_err("a duplicate key");
        assert_eq!(error.kind(), PgErrorKind::Refused);
        assert!(error.not_applied());
        // The connection stays usable.
        conn.transaction(&[Step::new(&f.insert, &[&5])]).await.expect("commit");
        drop(conn);
        assert_eq!(f.rows().await, 3, "pooled: {pooled}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_let_go_of_is_rolled_back() {
    let f = fixture(testdb::server().await, |_| ()).await;
    let mut conn = f.pool.get().await.expect("connect");
    conn.begin(Begin::Write, &[Step::new(&f.insert, &[&1])]).await.expect("insert");
    drop(conn);
    assert_eq!(f.rows().await, 0);
    // Its key is free again: the server has rolled back.
    let mut conn = f.pool.get().await.expect("connect");
    conn.transaction(&[Step::new(&f.insert, &[&1])]).await.expect("insert");
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_bounded_and_shrink_when_idle() {
    let f = fixture(testdb::server().await, |o| {
        o.min = 1;
        o.idle = Duration::from_millis(100);
        o.wait = Duration::from_millis(100);
    })
    .await;
    let (one, two) = (f.pool.get().await.expect("one"), f.pool.get().await.expect("two"));
    let error = f.pool.get().await.err().expect("there are only two");
    assert_eq!(error.kind(), PgErrorKind::Timeout);
    drop((one, two));
    assert_eq!(f.pool.idle(), 2);
    let shrunk = async {
        while f.pool.idle() > 1 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), shrunk).await.expect("the spare one is closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_connection_is_not_used_again() {
    let f = fixture(testdb::server().await, |_| ()).await;
    let mut victim = f.pool.get().await.expect("connect");
    let mut killer = f.pool.get().await.expect("connect");
    let pid: i32 = victim.query(&f.pid, &[]).await.expect("pid")[0].get(0);
    killer.query(&f.kill, &[&pid]).await.expect("kill");
    let error = victim.query(&f.pid, &[]).await.expect_err("it was killed");
    assert_eq!(error.kind(), PgErrorKind::Broken);
    assert!(error.is_retryable());
    drop(victim);
    let mut next = f.pool.get().await.expect("connect");
    assert_ne!(next.query(&f.pid, &[]).await.expect("pid")[0].get::<_, i32>(0), pid);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_ends_at_its_timeout() {
    for pooled in [false, true] {
        let dsn = if pooled { testdb::pgbouncer().await } else { testdb::server().await };
        let f = fixture(dsn, |o| {
            o.pooled = pooled;
            o.statement_timeout = Duration::from_millis(200);
        })
        .await;
        let begun = Instant::now();
        let mut conn = f.pool.get().await.expect("connect");
        let error = conn.transaction(&[Step::new(&f.sleep, &[])]).await.expect_err("too long");
        assert_eq!(error.kind(), PgErrorKind::Timeout, "{error}");
        assert!(error.not_applied());
        assert!(begun.elapsed() < Duration::from_secs(30));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clock_encloses_the_hosts_own_time() {
    let f = fixture(testdb::server().await, |_| ()).await;
    f.pool.get().await.expect("connect").ping().await.expect("ping");
    let bounds = f.pool.clock().now();
    let host = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    let host = host.as_micros() as i64;
    // Same machine, same clock; a second of slack for a busy one.
    assert!(bounds.earliest <= host + 1_000, "{bounds:?} {host}");
    assert!(bounds.latest >= host - 1_000_000 && bounds.latest <= host + 1_000_000, "{bounds:?} {host}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_server_is_told_without_the_password() {
    let config = Config::parse("postgres://u:s3cret@127.0.0.1:1/d").expect("an address");
    let pool = Pool::new(config, PoolOptions::default());
    let error = pool.get().await.err().expect("nobody listens there");
    assert_eq!(error.kind(), PgErrorKind::Connect);
    assert!(!error.to_string().contains("s3cret"), "{error}");
}
