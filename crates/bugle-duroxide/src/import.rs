//! Moving in: everything that a stopped application kept with the `duroxide-pg` provider, in one transaction.
//!
//! The source is only read. Until the transaction commits nobody else sees anything of it here, and a refusal leaves no
//! trace. Leases and sessions are left behind: nobody holds anything in a stopped application.

use bugle_pg::{Begin, Conn, PgError, Row, Schema, Statement, ToSql, Type};
use bugle_wake::Bell;

use crate::db::Repeat;
use crate::item::NAME;
use crate::provider::PostgresProvider;
use crate::waking::tiding::Hint;
use crate::waking::work::Queue;

/// Migrations of `duroxide-pg` 0.1.38; it has none with the missing numbers.
const LEVEL: [i64; 24] =
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 23, 25, 26];

/// The place in SQL where the quoted source goes.
const PLACE: &str = "{source}";

/// What was copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Imported {
    /// Instances that had been started.
    pub instances: u64,
    /// Their executions.
    pub executions: u64,
    /// Events in their histories.
    pub events: u64,
    /// Messages waiting for orchestrations, timers among them.
    pub messages: u64,
    /// Activities waiting for a worker.
    pub activities: u64,
    /// Values, and changes of values by running executions.
    pub values: u64,
}

/// Why nothing was copied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The schema to import from is not one of `duroxide-pg`.
    #[error("schema {schema:?} is not one of duroxide-pg: {problem}")]
    NotASource {
        /// As given.
        schema: String,
        /// What is wrong with it.
        problem: String,
    },
    /// It is one of another release.
    #[error(
        "schema {schema:?} has the migrations {found:?}, not those of duroxide-pg 0.1.38: start that release on it once"
    )]
    OtherRelease {
        /// As given.
        schema: String,
        /// The migrations that were applied.
        found: Vec<i64>,
    },
    /// Somebody still works there.
    #[error("{what} in schema {schema:?} is held until {until}: stop all who work there and wait until then")]
    Held {
        /// As given.
        schema: String,
        /// One of the things that are held.
        what: String,
        /// When its lease ends.
        until: String,
    },
    /// The schema to import into is in use.
    #[error("table {table} is not empty: an import needs a schema that was never used")]
    NotEmpty {
        /// One of the tables that hold something.
        table: String,
    },
    /// A name is longer than names may be here.
    #[error("{field} {name:?} is longer than {NAME} bytes")]
    TooLong {
        /// What it is the name of.
        field: String,
        /// The name.
        name: String,
    },
    /// The database said no.
    #[error(transparent)]
    Database(#[from] PgError),
}

impl PostgresProvider {
    /// Copy everything from a schema of `duroxide-pg` 0.1.38 in the same database into this one, which must be empty.
    /// Whatever ran there must have been stopped; its orchestrations go on here where they were, and must not be started
    /// there again. What still works on something is noticed, but a process that is idle holds nothing by which it could
    /// be. The role needs the right to lock the tables of the source: its owner has it.
    pub async fn import(&self, source: &str) -> Result<Imported, ImportError> {
        let db = &self.inner.db;
        let import = Import { schema: &db.schema, source: source_schema(source)? };
        let mut conn = db.pool.get().await?;
        // If anything goes wrong from here on the connection is closed, which rolls everything back.
        conn.begin(Begin::Unlimited, &[]).await?;
        import.check_source(&mut conn).await?;
        import.check_rest(&mut conn).await?;
        let imported = import.copy(&mut conn).await?;
        conn.commit(&[]).await?;
        drop(conn);
        tracing::info!(source, ?imported, "imported");
        self.wake_everybody().await;
        Ok(imported)
    }

    /// Those who already wait, here and elsewhere, learn that there is something. If not, they find it by their fallback.
    async fn wake_everybody(&self) {
        let inner = &self.inner;
        if let Some(watch) = &inner.watch {
            watch.room.rouse();
        }
        let hints = [Queue::Orchestrations, Queue::Activities].map(|queue| Hint::At(queue, 0));
        let Some(hint) = Bell::unsigned(&hints) else { return };
        let params: [&(dyn ToSql + Sync); 2] = [&inner.db.channel, &hint];
        if let Err(error) = inner.db.call("import", Repeat::Always, &inner.db.sql.publish, &params).await {
            tracing::debug!(%error, "other nodes were not told of an import");
        }
    }
}

/// That provider's own rule for names; what does not obey it is none of its schemas.
fn source_schema(name: &str) -> Result<Schema, ImportError> {
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let refused = |problem: String| ImportError::NotASource { schema: name.to_owned(), problem };
    if !plain {
        return Err(refused("it has letters and digits in its name, and nothing else".to_owned()));
    }
    Schema::new(name).map_err(|error| refused(error.to_string()))
}

struct Import<'a> {
    schema: &'a Schema,
    source: Schema,
}

macro_rules! query {
    ($name:literal) => {
        include_str!(concat!("../sql/queries/import_", $name, ".sql"))
    };
}

impl Import<'_> {
    fn name(&self) -> String {
        self.source.name().to_owned()
    }

    fn fill(&self, sql: &str) -> String {
        sql.replace(PLACE, &self.source.to_string())
    }

    async fn ask(
        &self,
        conn: &mut Conn,
        sql: &str,
        types: &'static [Type],
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Row>, PgError> {
        let statement = Statement::new(self.schema, &self.fill(sql), types);
        Ok(conn.query(&statement, params).await?.into_iter().next())
    }

    /// It is a schema of that provider, of the release we know.
    async fn check_source(&self, conn: &mut Conn) -> Result<(), ImportError> {
        let name = self.name();
        if let Some(row) = self.ask(conn, query!("missing"), &[Type::TEXT], &[&name]).await? {
            let problem = format!("there is no table {}", text(&row, 0)?);
            return Err(ImportError::NotASource { schema: name, problem });
        }
        let level = self.ask(conn, query!("level"), &[], &[]).await?;
        let found: Vec<i64> =
            level.map(|row| row.try_get(0)).transpose().map_err(PgError::from)?.unwrap_or_default();
        if found != LEVEL {
            return Err(ImportError::OtherRelease { schema: name, found });
        }
        Ok(())
    }

    /// Nobody works there, nothing is here, and all of it fits.
    async fn check_rest(&self, conn: &mut Conn) -> Result<(), ImportError> {
        conn.execute_batch(&self.schema.fill(&self.fill(query!("lock")))).await?;
        if let Some(row) = self.ask(conn, query!("held"), &[], &[]).await? {
            let (what, until) = (text(&row, 0)?, text(&row, 1)?);
            return Err(ImportError::Held { schema: self.name(), what, until });
        }
        if let Some(row) = self.ask(conn, query!("occupied"), &[], &[]).await? {
            return Err(ImportError::NotEmpty { table: text(&row, 0)? });
        }
        let longest = i32::try_from(NAME).unwrap_or(i32::MAX);
        if let Some(row) = self.ask(conn, query!("too_long"), &[Type::INT4], &[&longest]).await? {
            return Err(ImportError::TooLong { field: text(&row, 0)?, name: text(&row, 1)? });
        }
        Ok(())
    }

    async fn copy(&self, conn: &mut Conn) -> Result<Imported, PgError> {
        Ok(Imported {
            executions: self.count(conn, query!("executions")).await?,
            instances: self.count(conn, query!("instances")).await?,
            events: self.count(conn, query!("history")).await?,
            messages: self.count(conn, query!("messages")).await?,
            activities: self.count(conn, query!("activities")).await?,
            values: self.count(conn, query!("values")).await?,
        })
    }

    async fn count(&self, conn: &mut Conn, sql: &str) -> Result<u64, PgError> {
        let row = self.ask(conn, sql, &[], &[]).await?;
        let count: i64 = row.map(|row| row.try_get(0)).transpose()?.unwrap_or_default();
        Ok(count.cast_unsigned())
    }
}

fn text(row: &Row, column: usize) -> Result<String, PgError> {
    Ok(row.try_get(column)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_that_provider_are_taken() {
        assert_eq!(source_schema("my_Schema_1").unwrap().name(), "my_Schema_1");
        for bad in ["", "a b", "a\"b", "{schema}", "a\0", "pg_x", "a.b", &"x".repeat(64)] {
            assert!(matches!(source_schema(bad), Err(ImportError::NotASource { .. })), "{bad:?}");
        }
    }
}
