//! Forward-only migrations of tables, safe when several servers start at once.
//!
//! The lock is a table lock on the list of applied migrations: it needs no advisory locks and is released by the server
//! if a migrating process dies. Everything is applied in one transaction, so a server sees all of it or nothing.

use tokio_postgres::types::Type;

use crate::conn::{Begin, Conn};
use crate::error::PgError;
use crate::pool::Pool;
use crate::statement::{Schema, Statement, Step};

/// Servers that create the schema at the same moment disturb each other; the loser looks again this often.
const ATTEMPTS: u32 = 10;

/// One step of a schema's history. Never changed once released.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    /// Counts from 1 without gaps.
    pub version: i32,
    /// For people.
    pub name: &'static str,
    /// Statements; `{schema}` is replaced.
    pub sql: &'static str,
}

/// Why a schema could not be brought up to date.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// The database said no.
    #[error("migrating schema {schema}: {error}")]
    Database {
        /// The schema.
        schema: String,
        /// What the database said.
        error: PgError,
    },
    /// A newer program has been here.
    #[error(
        "schema {schema} is at version {found}, this program knows only up to {known}: use a newer program"
    )]
    Newer {
        /// The schema.
        schema: String,
        /// Version in the database.
        found: i32,
        /// Latest version known.
        known: i32,
    },
}

/// Bring `schema` to the latest of `migrations`; answers the number applied.
pub async fn migrate(pool: &Pool, schema: &Schema, migrations: &[Migration]) -> Result<usize, MigrateError> {
    let runner = Runner::new(schema, migrations);
    let mut attempt = 0;
    loop {
        attempt += 1;
        match runner.run(pool).await {
            Err(MigrateError::Database { error, .. }) if attempt < ATTEMPTS && disturbed(&error) => {
                tracing::debug!(%error, attempt, "another server is migrating too; looking again");
                tokio::time::sleep(std::time::Duration::from_millis(20) * attempt).await;
            }
            other => return other,
        }
    }
}

/// `CREATE … IF NOT EXISTS` is not safe against itself: these are what the loser of such a race gets.
fn disturbed(error: &PgError) -> bool {
    let racing = ["23505", "42P06", "42P07", "42710", "XX000"];
    error.is_retryable() || error.code().is_some_and(|c| racing.contains(&c.code()))
}

struct Runner<'a> {
    schema: &'a Schema,
    migrations: &'a [Migration],
    exists: Statement,
    version: Statement,
    lock: Statement,
    record: Statement,
}

impl<'a> Runner<'a> {
    fn new(schema: &'a Schema, migrations: &'a [Migration]) -> Self {
        const NAME: &[Type] = &[Type::TEXT];
        const RECORD: &[Type] = &[Type::INT4, Type::TEXT];
        let exists = "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1),
            EXISTS (SELECT FROM pg_catalog.pg_tables WHERE schemaname = $1 AND tablename = 'migrations')";
        let make = |sql, types| Statement::new(schema, sql, types);
        Self {
            schema,
            migrations,
            exists: make(exists, NAME),
            version: make("SELECT coalesce(max(version), 0) FROM {schema}.migrations", &[]),
            lock: make("LOCK TABLE {schema}.migrations IN ACCESS EXCLUSIVE MODE", &[]),
            record: make("INSERT INTO {schema}.migrations (version, name) VALUES ($1, $2)", RECORD),
        }
    }

    fn failed(&self, error: PgError) -> MigrateError {
        MigrateError::Database { schema: self.schema.to_string(), error }
    }

    async fn run(&self, pool: &Pool) -> Result<usize, MigrateError> {
        let mut conn = pool.get().await.map_err(|e| self.failed(e))?;
        self.prepare(&mut conn).await.map_err(|e| self.failed(e))?;
        let rows = conn.query(&self.version, &[]).await.map_err(|e| self.failed(e))?;
        if self.pending(first(&rows))?.is_empty() {
            return Ok(0);
        }
        let locked = [Step::new(&self.lock, &[])];
        conn.begin(Begin::Unlimited, &locked).await.map_err(|e| self.failed(e))?;
        // Only now is the answer final: another server may have migrated while this one waited.
        let rows = conn.query(&self.version, &[]).await.map_err(|e| self.failed(e))?;
        let pending = self.pending(first(&rows))?;
        for migration in pending {
            self.apply(&mut conn, migration).await.map_err(|e| self.failed(e))?;
        }
        conn.commit(&[]).await.map_err(|e| self.failed(e))?;
        Ok(pending.len())
    }

    /// Make the schema and the list. Looks first: a role that may not create schemas can use one made for it.
    async fn prepare(&self, conn: &mut Conn) -> Result<(), PgError> {
        let rows = conn.query(&self.exists, &[&self.schema.name()]).await?;
        let (schema, list) = match rows.first() {
            Some(row) => (row.try_get(0)?, row.try_get(1)?),
            None => (false, false),
        };
        if !schema {
            conn.execute_batch(&self.schema.fill("CREATE SCHEMA IF NOT EXISTS {schema}")).await?;
        }
        if !list {
            let sql = "CREATE TABLE IF NOT EXISTS {schema}.migrations (
                version int PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())";
            conn.execute_batch(&self.schema.fill(sql)).await?;
        }
        Ok(())
    }

    fn pending(&self, found: i32) -> Result<&'a [Migration], MigrateError> {
        let known = self.migrations.last().map_or(0, |m| m.version);
        if found > known {
            return Err(MigrateError::Newer { schema: self.schema.to_string(), found, known });
        }
        let done = self.migrations.iter().take_while(|m| m.version <= found).count();
        Ok(&self.migrations[done..])
    }

    async fn apply(&self, conn: &mut Conn, migration: &Migration) -> Result<(), PgError> {
        tracing::info!(version = migration.version, name = migration.name, "migrating");
        conn.execute_batch(&self.schema.fill(migration.sql)).await?;
        conn.query(&self.record, &[&migration.version, &migration.name]).await?;
        Ok(())
    }
}

fn first(rows: &[tokio_postgres::Row]) -> i32 {
    rows.first().and_then(|row| row.try_get(0).ok()).unwrap_or(0)
}
