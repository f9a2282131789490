//! What any program wants from PostgreSQL that keeps state in it: a small pool of exclusive connections, statements
//! that work behind a transaction pooler too, whole transactions in one round trip, migrations, errors sorted by what
//! to do about them, and bounds of the database's clock. It knows nothing of queues.
//!
//! Modules in reading order; each uses only those above it.

mod clock;
mod config;
mod conn;
mod error;
mod hosts;
mod listen;
mod migrate;
mod pool;
mod statement;
mod text;
mod timeline;

#[cfg(feature = "testdb")]
pub mod testdb;

pub use clock::{Bounds, Clock};
pub use config::{Config, ConfigError, SslMode};
pub use conn::{Begin, Conn};
pub use error::{PgError, PgErrorKind};
pub use listen::{Listener, channel_name};
pub use migrate::{Change, Effect, MigrateError, Migration, Plan, migrate, plan, presence};
pub use pool::{Pool, PoolOptions};
pub use statement::{Schema, SchemaError, Statement, Step};
pub use text::Escape;
pub use tokio_postgres::types::{FromSql, ToSql, Type};
pub use tokio_postgres::{Error as RowError, Row};
