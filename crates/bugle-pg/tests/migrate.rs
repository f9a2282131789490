//! Migrations on a real server: what older programs may go on with, what they may not, and what is done again.
#![allow(clippy::unwrap_used)]

use bugle_pg::{
    Change, Config, Effect, MigrateError, Migration, Pool, PoolOptions, Schema, Statement, migrate, plan,
    presence, testdb,
};

const fn migration(version: i32, effect: Effect, change: Change) -> Migration {
    Migration { version, name: "x", effect, change }
}

const LIST: [Migration; 4] = [
    migration(1, Effect::Breaking, Change::Whole("CREATE TABLE {schema}.a (n int)")),
    migration(2, Effect::Expand, Change::Whole("ALTER TABLE {schema}.a ADD COLUMN m int")),
    migration(
        3,
        Effect::Expand,
        Change::Online(&[
            "DROP INDEX CONCURRENTLY IF EXISTS {schema}.a_n",
            "CREATE UNIQUE INDEX CONCURRENTLY a_n ON {schema}.a (n)",
        ]),
    ),
    migration(4, Effect::Breaking, Change::Whole("ALTER TABLE {schema}.a RENAME COLUMN m TO o")),
];

/// A program that knows the first `known` migrations.
struct Program {
    pool: Pool,
    schema: Schema,
    known: &'static [Migration],
}

impl Program {
    fn new(dsn: &str, schema: &str, known: usize, pooled: bool) -> Self {
        const ALL: &[Migration] = &LIST;
        let (schema, known) = (Schema::new(schema).unwrap(), &ALL[..known]);
        let options = PoolOptions {
            application_name: presence("program", &schema, known),
            pooled,
            ..PoolOptions::default()
        };
        Self { pool: Pool::new(Config::parse(dsn).unwrap(), options), schema, known }
    }

    async fn migrate(&self) -> Result<usize, MigrateError> {
        migrate(&self.pool, &self.schema, self.known).await
    }

    async fn run(&self, sql: &str) {
        self.pool.get().await.unwrap().execute_batch(&self.schema.fill(sql)).await.unwrap();
    }

    async fn number(&self, sql: &str) -> i64 {
        let statement = Statement::new(&self.schema, sql, &[]);
        self.pool.get().await.unwrap().query(&statement, &[]).await.unwrap()[0].get(0)
    }
}

#[tokio::test]
async fn older_programs_go_on_until_something_breaks_them() {
    let (dsn, schema) = (testdb::server().await, testdb::fresh_schema());
    let program = |known| Program::new(&dsn, &schema, known, false);
    assert_eq!(program(1).migrate().await.unwrap(), 1);
    assert_eq!(program(3).migrate().await.unwrap(), 2);
    assert_eq!(program(1).migrate().await.unwrap(), 0, "goes on");
    let seen = program(2);
    assert_eq!(plan(&seen.pool, &seen.schema, seen.known).await.unwrap().found, 3);

    let old = program(3);
    let held = old.pool.get().await.unwrap();
    match program(4).migrate().await.unwrap_err() {
        MigrateError::InUse { version: 4, connections: 1.., .. } => {}
        other => panic!("{other}"),
    }
    drop(held);
    old.pool.close().await;
    seen.pool.close().await;
    let gone = "SELECT count(*) FROM pg_stat_activity WHERE application_name IN ";
    let names = [1, 2, 3].map(|known| format!("'{}'", presence("program", &old.schema, &LIST[..known])));
    let last = program(4);
    // A backend needs a moment to notice that its client is gone.
    while last.number(&format!("{gone} ({})", names.join(","))).await > 0 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(last.migrate().await.unwrap(), 1);
    for known in 1..=3 {
        match program(known).migrate().await.unwrap_err() {
            MigrateError::Newer { found: 4, needs: 4, known: told, .. } => assert_eq!(told, known as i32),
            other => panic!("{other}"),
        }
    }
}

/// What programs did before the list kept what must be known.
#[tokio::test]
async fn a_list_of_the_time_before_is_taken_over() {
    let (dsn, schema) = (testdb::server().await, testdb::fresh_schema());
    let program = |known| Program::new(&dsn, &schema, known, false);
    let first = program(2);
    first
        .run(
            "CREATE SCHEMA {schema}; CREATE TABLE {schema}.a (n int, m int);
             CREATE TABLE {schema}.migrations (version int PRIMARY KEY, name text NOT NULL,
                 applied_at timestamptz NOT NULL DEFAULT now());
             INSERT INTO {schema}.migrations (version, name) VALUES (1, 'x'), (2, 'x')",
        )
        .await;
    let newer = program(1).migrate().await.unwrap_err();
    assert!(matches!(newer, MigrateError::Newer { found: 2, needs: 2, known: 1, .. }), "{newer}");
    assert_eq!(plan(&first.pool, &first.schema, first.known).await.unwrap().found, 2);
    assert_eq!(first.migrate().await.unwrap(), 0);
    assert_eq!(program(3).migrate().await.unwrap(), 1);
    assert_eq!(first.migrate().await.unwrap(), 0, "goes on");
    assert!(program(1).migrate().await.is_err(), "was never allowed to");
}

#[tokio::test]
async fn what_failed_outside_of_a_transaction_is_done_again() {
    let (server, bouncer) = (testdb::server().await, testdb::pgbouncer().await);
    for (dsn, pooled) in [(server, false), (bouncer, true)] {
        let schema = testdb::fresh_schema();
        let program = |known| Program::new(&dsn, &schema, known, pooled);
        program(2).migrate().await.unwrap();
        let third = program(3);
        third.run("INSERT INTO {schema}.a VALUES (1), (1)").await;
        // Two equal values: the index cannot be unique, and what was begun of it is left behind.
        assert!(matches!(third.migrate().await, Err(MigrateError::Database { .. })));
        assert_eq!(third.number("SELECT max(version)::bigint FROM {schema}.migrations").await, 2);
        third.run("TRUNCATE {schema}.a").await;
        assert_eq!(third.migrate().await.unwrap(), 1);
        let whole = format!(
            "SELECT count(*) FROM pg_index WHERE indisvalid AND indexrelid = '{schema}.a_n'::regclass"
        );
        assert_eq!(third.number(&whole).await, 1);
    }
}
