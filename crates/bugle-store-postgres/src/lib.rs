//! The PostgreSQL engine: the store contract on plain tables.
//!
//! Offsets are assigned under the lane's row lock, cursors are exchanged by compare-and-set, and a whole batch is one
//! transaction sent in one round trip. Nothing here decides what a queue does; that is the broker's business.
//!
//! Modules in reading order; each uses only those above it.

mod append;
mod commit;
mod dead_letter;
mod engine;

mod find;
#[cfg(test)]
mod fixture;
mod fold;
mod group;
mod inbox;
mod internals;
mod kept;
mod lane;
mod load;
mod migrations;
mod options;
mod probe;
mod queue;
#[cfg(test)]
mod race;
mod read;
mod recode;
mod retention;
mod row;
mod run;
mod sql;
mod store;
mod survey;
mod swap;
mod tally;
mod trace;
mod uncount;

mod doctor;
#[cfg(test)]
mod upgrade_tests;

pub use doctor::examine;
pub use migrations::{Pending, Upgrade};
pub use options::{Extras, OpenError, PostgresOptions};
pub use recode::RecodeError;
pub use store::PostgresStore;
