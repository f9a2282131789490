//! Breaks servers, databases, networks, clocks and disks while clients use them, and has everything that the clients saw
//! checked by `bugle-history`.
//!
//! A [`Scenario`] is one fault on one engine. It plays a round on a [`Stage`]: servers are set up and put under load, the fault
//! is made again and again, the load ends, what is left is taken out, and the history is judged. [`play`] repeats rounds of
//! many scenarios and adds them up in a [`Table`].
//!
//! Modules in reading order; each uses only those above it, but for what a scenario is played on.

mod database;
mod faketime;
mod http;
mod proxy;
mod servers;

mod scenario;
mod stage;

mod clock;
mod disk;
mod ha;
mod network;
mod process;
mod store;

mod table;

mod run;

use std::sync::Arc;

pub use database::{Database, DatabaseOptions, is_root, programs};
pub use faketime::Clock;
pub use proxy::{Protocol, Proxy, Weather};
pub use run::{Plan, choose, play};
pub use scenario::{Engine, Outcome, Scenario};
pub use servers::{Manner, Server};
pub use stage::{Stage, Trial, checked, embedded, gap, judged, sharing};
pub use table::{Row, Table};

/// Every fault there is.
pub fn scenarios() -> Vec<Arc<dyn Scenario>> {
    [process::all(), network::all(), clock::all(), disk::all(), store::all(), ha::all()].concat()
}
