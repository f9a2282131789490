//! Applies migrations one by one, each in a transaction of its own, giving way to traffic.
//!
//! Whoever migrates holds a table lock on the list of applied migrations: that needs no advisory locks, ends with the
//! process, and lets others read the list. Locks on the other tables are waited for shortly only, since all traffic queues
//! behind who waits for one; then traffic has its turn, and the migration another.

use std::time::Duration;

use tokio_postgres::types::Type;

use crate::conn::{Begin, Conn};
use crate::error::PgError;
use crate::pool::Pool;
use crate::statement::{Schema, Statement, Step};

use super::plan::{Applied, Plan};
use super::{Change, Effect, MigrateError, Migration, presence};

/// How often a migration is tried while others disturb it, and how long it waits in between at most.
const ATTEMPTS: u32 = 60;
const HASTY_ATTEMPTS: u32 = 7;
const PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// For so long traffic may queue behind a migration that waits for a lock, in milliseconds.
const LOCK_WAIT_MS: u32 = 500;

/// The database's code for a lock that was not to be had in time.
const LOCK_TIMEOUT: &str = "55P03";

pub(super) struct Runner<'a> {
    pool: &'a Pool,
    schema: &'a Schema,
    migrations: &'a [Migration],
    exists: Statement,
    applied: Statement,
    lock: Statement,
    record: Statement,
    older: Statement,
}

/// What stopped an attempt.
enum Stop {
    /// For good.
    Failed(MigrateError),
    /// The database said so; perhaps not for good.
    Database(PgError),
    /// Another program makes the schema and the list at the same moment.
    Raced(PgError),
}

impl From<PgError> for Stop {
    fn from(error: PgError) -> Self {
        Self::Database(error)
    }
}

impl From<MigrateError> for Stop {
    fn from(error: MigrateError) -> Self {
        Self::Failed(error)
    }
}

impl<'a> Runner<'a> {
    pub(super) fn new(pool: &'a Pool, schema: &'a Schema, migrations: &'a [Migration]) -> Self {
        const NAME: &[Type] = &[Type::TEXT];
        const RECORD: &[Type] = &[Type::INT4, Type::TEXT, Type::INT4];
        const OLDER: &[Type] = &[Type::TEXT, Type::TEXT, Type::INT4];
        let exists = "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1),
            EXISTS (SELECT FROM pg_catalog.pg_tables WHERE schemaname = $1 AND tablename = 'migrations'),
            EXISTS (SELECT FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
                JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
                WHERE n.nspname = $1 AND c.relname = 'migrations' AND a.attname = 'needs')";
        // A row without `needs` was written when every migration meant that all programs must know it.
        let applied = "SELECT coalesce(max(version), 0), coalesce(max(coalesce(needs, version)), 0)
            FROM {schema}.migrations";
        let record = "INSERT INTO {schema}.migrations (version, name, needs) VALUES ($1, $2, $3)";
        let make = |sql, types| Statement::new(schema, sql, types);
        Self {
            pool,
            schema,
            migrations,
            exists: make(exists, NAME),
            applied: make(applied, &[]),
            lock: make("LOCK TABLE {schema}.migrations IN SHARE ROW EXCLUSIVE MODE", &[]),
            record: make(record, RECORD),
            older: make(presence::OLDER, OLDER),
        }
    }

    fn failed(&self, error: PgError) -> MigrateError {
        MigrateError::Database { schema: self.schema.to_string(), error }
    }

    fn locked(&self, error: PgError) -> MigrateError {
        match error.code().map(|code| code.code()) {
            Some(LOCK_TIMEOUT) => {
                MigrateError::Locked { schema: self.schema.to_string(), attempts: ATTEMPTS, error }
            }
            _ => self.failed(error),
        }
    }

    /// Apply what is pending; how many were.
    pub(super) async fn run(&self) -> Result<usize, MigrateError> {
        let (mut count, mut attempt) = (0, 0);
        loop {
            let (error, attempts) = match self.next().await {
                Ok(None) => return Ok(count),
                Ok(Some(applied)) => {
                    (count, attempt) = (count + applied, 0);
                    continue;
                }
                Err(Stop::Failed(error)) => return Err(error),
                Err(Stop::Raced(error)) => (error, HASTY_ATTEMPTS),
                Err(Stop::Database(error)) => {
                    let attempts = patience(&error);
                    (error, attempts)
                }
            };
            attempt += 1;
            if attempt >= attempts {
                return Err(self.locked(error));
            }
            tracing::info!(%error, attempt, "a migration gives way; trying again");
            tokio::time::sleep((PAUSE * (1 << attempt.min(10))).min(LONGEST_PAUSE)).await;
        }
    }

    /// Apply the first that is pending, if any is; how many were, which is none if somebody else was faster.
    async fn next(&self) -> Result<Option<usize>, Stop> {
        let mut conn = self.pool.get().await?;
        self.prepare(&mut conn).await.map_err(|e| if raced(&e) { Stop::Raced(e) } else { e.into() })?;
        let applied = self.look(&mut conn).await?;
        let plan = Plan::new(self.schema, self.migrations, applied)?;
        if plan.found > plan.known {
            let (found, known) = (plan.found, plan.known);
            tracing::info!(found, known, "the schema is newer than this program, and allows it to go on");
        }
        if plan.pending.is_empty() {
            return Ok(None);
        }
        conn.begin(Begin::Unlimited, &[]).await?;
        conn.execute_batch(&format!("SET LOCAL lock_timeout = {LOCK_WAIT_MS}")).await?;
        conn.pipeline(&[Step::new(&self.lock, &[])]).await?;
        // Only now is the answer final: another program may have migrated while this one waited.
        let applied = self.applied(&mut conn).await?;
        let pending = Plan::new(self.schema, self.migrations, applied)?.pending;
        if let Some(migration) = pending.first() {
            self.apply(&mut conn, migration, applied).await?;
        }
        conn.commit(&[]).await?;
        Ok(Some(pending.len().min(1)))
    }

    async fn apply(&self, conn: &mut Conn, migration: &Migration, applied: Applied) -> Result<(), Stop> {
        self.alone(conn, migration).await?;
        tracing::info!(version = migration.version, name = migration.name, "migrating");
        match migration.change {
            Change::Whole(sql) => conn.execute_batch(&self.schema.fill(sql)).await?,
            Change::Online(statements) => {
                // An index waits for every snapshot older than itself: this plain statement lets go of the one that the
                // last question left behind. The lock is held by an idle transaction meanwhile, for long.
                conn.execute_batch("SET LOCAL idle_in_transaction_session_timeout = 0").await?;
                for statement in statements {
                    self.online(&self.schema.fill(statement)).await?;
                }
            }
        }
        let needs = applied.needs_after(migration);
        conn.query(&self.record, &[&migration.version, &migration.name, &needs]).await?;
        Ok(())
    }

    /// Refuse what would end the work of programs that are connected.
    async fn alone(&self, conn: &mut Conn, migration: &Migration) -> Result<(), Stop> {
        let name = &self.pool.shared.options.application_name;
        let Some((program, _, mark)) = presence::read(name) else { return Ok(()) };
        if migration.effect == Effect::Expand {
            return Ok(());
        }
        let rows = conn.query(&self.older, &[&program, &mark, &migration.version]).await?;
        let Some(row) = rows.first() else { return Ok(()) };
        let (connections, process): (i64, i32) =
            (row.try_get(0).map_err(PgError::from)?, row.try_get(1).map_err(PgError::from)?);
        if connections == 0 {
            return Ok(());
        }
        let schema = self.schema.to_string();
        let Migration { version, name, .. } = *migration;
        Err(MigrateError::InUse { schema, version, name, connections, process }.into())
    }

    /// Run a statement outside of the transaction, on a connection of its own. It may take long; traffic goes on meanwhile.
    async fn online(&self, sql: &str) -> Result<(), PgError> {
        let mut conn = self.pool.get().await?;
        if self.pool.shared.options.pooled {
            // Nothing limits its time there, since nothing is set for sessions.
            return conn.execute_batch(sql).await;
        }
        conn.execute_batch("SET statement_timeout = 0").await?;
        conn.execute_batch("SET lock_timeout = 0").await?;
        conn.execute_batch(sql).await?;
        conn.execute_batch("RESET lock_timeout").await?;
        conn.execute_batch("RESET statement_timeout").await
    }

    /// Make the schema and the list. Looks first: a role that may not create schemas can use one made for it.
    async fn prepare(&self, conn: &mut Conn) -> Result<(), PgError> {
        let [schema, list, needs] = self.exists(conn).await?;
        if !schema {
            conn.execute_batch(&self.schema.fill("CREATE SCHEMA IF NOT EXISTS {schema}")).await?;
        }
        if !list {
            let sql =
                "CREATE TABLE IF NOT EXISTS {schema}.migrations (version int PRIMARY KEY, name text NOT NULL,
                applied_at timestamptz NOT NULL DEFAULT now(), needs int)";
            conn.execute_batch(&self.schema.fill(sql)).await?;
        } else if !needs && self.version_alone(conn).await? <= self.known() {
            let sql = "ALTER TABLE {schema}.migrations ADD COLUMN IF NOT EXISTS needs int";
            conn.execute_batch(&self.schema.fill(sql)).await?;
        }
        Ok(())
    }

    /// What the list says, without making one.
    pub(super) async fn look(&self, conn: &mut Conn) -> Result<Applied, PgError> {
        match self.exists(conn).await? {
            [true, true, true] => self.applied(conn).await,
            [true, true, false] => {
                let version = self.version_alone(conn).await?;
                Ok(Applied { version, needs: version })
            }
            _ => Ok(Applied::default()),
        }
    }

    /// Whether there are the schema, the list, and what programs must know in it.
    async fn exists(&self, conn: &mut Conn) -> Result<[bool; 3], PgError> {
        let rows = conn.query(&self.exists, &[&self.schema.name()]).await?;
        let Some(row) = rows.first() else { return Ok([false; 3]) };
        Ok([row.try_get(0)?, row.try_get(1)?, row.try_get(2)?])
    }

    async fn applied(&self, conn: &mut Conn) -> Result<Applied, PgError> {
        let rows = conn.query(&self.applied, &[]).await?;
        let Some(row) = rows.first() else { return Ok(Applied::default()) };
        Ok(Applied { version: row.try_get(0)?, needs: row.try_get(1)? })
    }

    /// The version in a list of the time before it kept more.
    async fn version_alone(&self, conn: &mut Conn) -> Result<i32, PgError> {
        let sql = "SELECT coalesce(max(version), 0) FROM {schema}.migrations";
        let rows = conn.query(&Statement::new(self.schema, sql, &[]), &[]).await?;
        Ok(rows.first().map(|row| row.try_get(0)).transpose()?.unwrap_or(0))
    }

    fn known(&self) -> i32 {
        self.migrations.last().map_or(0, |m| m.version)
    }
}

/// How often to try in the face of this: for minutes if somebody holds a lock, for a few seconds if the database cannot be
/// reached, once if nothing will change.
fn patience(error: &PgError) -> u32 {
    match error.code().map(|code| code.code()) {
        Some(LOCK_TIMEOUT) => ATTEMPTS,
        _ if error.is_retryable() => HASTY_ATTEMPTS,
        _ => 1,
    }
}

/// `CREATE … IF NOT EXISTS` is not safe against itself: these are what the loser of such a race gets.
fn raced(error: &PgError) -> bool {
    let racing = ["23505", "42P06", "42P07", "42701", "42710", "XX000"];
    error.code().is_some_and(|c| racing.contains(&c.code()))
}
