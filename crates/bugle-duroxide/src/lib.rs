//! A PostgreSQL provider for the [duroxide](https://docs.rs/duroxide) durable-execution framework that sleeps without
//! polling and never sleeps through work.
//!
//! ```no_run
//! use std::sync::Arc;
//! use bugle_duroxide::{Options, PostgresProvider};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let provider = PostgresProvider::connect(Options::new("postgres://app@localhost/app")).await?;
//! let store: Arc<dyn duroxide::providers::Provider> = Arc::new(provider);
//! # Ok(())
//! # }
//! ```
//!
//! Waiting fetches are woken within a millisecond or two of whatever makes an item fetchable: a message, a timer, an
//! abandoned item, a released instance, a lease that ends; on this node or on another. While nothing happens a node asks
//! the database nothing but a look every minute. How that works is in the `waking` module.
//!
//! Modules in reading order; each uses only those above it.

mod planted;
mod text;
mod token;

mod error;
mod options;

mod schema;

mod item;
mod turn;

mod db;

mod waking;

mod provider;

mod activities;
mod admin;
mod import;
mod orchestrations;
mod reads;

pub use error::ConnectError;
pub use import::{ImportError, Imported};
pub use options::{LongPoll, Options};
pub use provider::PostgresProvider;
pub use waking::counters::Stats;
