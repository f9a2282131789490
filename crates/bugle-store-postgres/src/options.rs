//! How the engine is opened, and why that can fail.

use bugle_pg::{ConfigError, MigrateError, PgError, PoolOptions, SchemaError};

/// What PostgreSQL has beyond the portable subset. Nothing here is needed for correctness; each can be switched off for
/// databases that lack it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extras {
    /// `SKIP LOCKED`: background work passes by rows in use instead of waiting.
    pub skip_locked: bool,
    /// NOTIFY: surveys announce what they are asked to, see [`crate::PostgresStore::channel`].
    pub listen: bool,
    /// `xmin` and snapshots: who counts for tallies passes by rows that were there the last time. Where tables are
    /// distributed it is not used in any case.
    pub row_ages: bool,
    /// `ctid`: a row that is to be changed is found once, newest version first, and then by its place. It counts where old versions
    /// cannot be removed because somebody holds a snapshot. Where tables are distributed it is not used in any case.
    pub row_places: bool,
    /// Changes that feed each other in one statement, which then is a transaction by itself. Where tables are distributed it is not
    /// used in any case.
    pub chains: bool,
    /// One log for all changes, into which something can be written that makes all before it durable
    /// (`pg_logical_emit_message`). Where tables are distributed it is not used in any case.
    pub log: bool,
}

impl Extras {
    /// The portable subset only.
    pub const NONE: Self = Self {
        skip_locked: false,
        listen: false,
        row_ages: false,
        row_places: false,
        chains: false,
        log: false,
    };

    /// What of it works on tables that are distributed over several servers.
    pub(crate) fn distributed(self) -> Self {
        Self { row_ages: false, row_places: false, chains: false, log: false, ..self }
    }
}

impl Default for Extras {
    fn default() -> Self {
        Self { skip_locked: true, listen: true, row_ages: true, row_places: true, chains: true, log: true }
    }
}

/// How to open the engine.
#[derive(Clone)]
pub struct PostgresOptions {
    /// `postgres://…`, see [`bugle_pg::Config::parse`].
    pub dsn: String,
    /// The connections; `pooled` in it switches to unnamed statements for poolers in transaction mode.
    pub pool: PoolOptions,
    /// Schema that holds all tables; created if it does not exist.
    pub schema: String,
    /// Number of buckets of a new installation; an existing one keeps its own.
    pub buckets: u32,
    /// What to use beyond the portable subset.
    pub extras: Extras,
    /// Appends let go of their lanes before they are durable. They are answered afterwards, as ever. Without effect, with a warning, where
    /// it cannot be done or what a crash takes away would not be noticed: see [`PostgresStore::early_release`].
    ///
    /// [`PostgresStore::early_release`]: crate::PostgresStore::early_release
    pub early_release: bool,
}

impl PostgresOptions {
    /// Defaults for this address.
    pub fn new(dsn: impl Into<String>) -> Self {
        Self {
            dsn: dsn.into(),
            pool: PoolOptions::default(),
            schema: "bugle".to_owned(),
            buckets: 1,
            extras: Extras::default(),
            early_release: false,
        }
    }
}

impl std::fmt::Debug for PostgresOptions {
    /// Everything but the address, which may hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresOptions")
            .field("pool", &self.pool)
            .field("schema", &self.schema)
            .field("buckets", &self.buckets)
            .field("extras", &self.extras)
            .field("early_release", &self.early_release)
            .finish_non_exhaustive()
    }
}

/// Why the engine cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The address is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The schema's name is wrong.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The tables cannot be brought up to date.
    #[error(transparent)]
    Migrate(#[from] MigrateError),
    /// The database does not answer as it should.
    #[error("database: {0}")]
    Database(#[from] PgError),
    /// The number of buckets is out of range.
    #[error("buckets: {0} is not between 1 and 1024")]
    Buckets(u32),
    /// The database cannot keep all text.
    #[error("the database's encoding is {0}, it must be UTF8")]
    Encoding(String),
}
