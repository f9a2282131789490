//! Forward-only migrations of tables while servers of the version before go on working.
//!
//! Every migration says whether programs that do not know it can go on ([`Effect`]), and the list in the schema keeps the
//! lowest version a program must know. So a program can tell whether it may work with a schema that is newer than itself.
//! `docs/decisions/0011-migrations.md` says why it is done so.

mod plan;
mod presence;
mod runner;

pub use plan::{Plan, plan};
pub use presence::presence;

use crate::error::PgError;
use crate::pool::Pool;
use crate::statement::Schema;

/// What a migration means for programs that know only the versions before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// They go on working: it adds what they neither read nor have to write.
    Expand,
    /// They cannot go on: it is applied only when none of them is connected.
    Breaking,
}

/// One step of a schema's history. Never changed once released.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    /// Counts from 1 without gaps.
    pub version: i32,
    /// For people.
    pub name: &'static str,
    /// What it means for older programs.
    pub effect: Effect,
    /// What it does.
    pub change: Change,
}

/// Statements; `{schema}` in them is replaced.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// One transaction. It holds locks that traffic waits for, so it is short.
    Whole(&'static str),
    /// What PostgreSQL runs outside of transactions only (`CREATE INDEX CONCURRENTLY`), each statement by itself. If one
    /// fails, all are run again from the first at the next attempt: they must allow that.
    Online(&'static [&'static str]),
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
        "schema {schema} is at version {found} and can be used by programs that know at least version {needs}; this program \
         knows only up to {known}: use a newer program"
    )]
    Newer {
        /// The schema.
        schema: String,
        /// Version in the database.
        found: i32,
        /// Version that a program must know.
        needs: i32,
        /// Latest version known.
        known: i32,
    },
    /// Older programs are connected that could not go on.
    #[error(
        "schema {schema}: migration {version} ({name}) ends the work of programs that do not know it, and {connections} \
         connections of such programs are open (process {process} of the database and others): stop these programs, then try \
         again"
    )]
    InUse {
        /// The schema.
        schema: String,
        /// The migration.
        version: i32,
        /// Its name.
        name: &'static str,
        /// Connections of older programs.
        connections: i64,
        /// One of them, as the database lists it.
        process: i32,
    },
    /// Somebody holds a lock for too long.
    #[error(
        "migrating schema {schema}: a lock on its tables was not to be had in {attempts} attempts; look for long transactions \
         in pg_stat_activity: {error}"
    )]
    Locked {
        /// The schema.
        schema: String,
        /// How often it was tried.
        attempts: u32,
        /// What the database said last.
        error: PgError,
    },
}

/// Bring `schema` to the latest of `migrations`; answers the number applied. A newer schema that allows it is left as it is.
pub async fn migrate(pool: &Pool, schema: &Schema, migrations: &[Migration]) -> Result<usize, MigrateError> {
    runner::Runner::new(pool, schema, migrations).run().await
}
