//! Faults of clocks: of servers, and of PostgreSQL.

mod database;
mod server;

use std::sync::Arc;

use crate::scenario::{Engine, Scenario};

/// All of them.
pub(crate) fn all() -> Vec<Arc<dyn Scenario>> {
    vec![
        Arc::new(server::Server(Engine::Embedded)),
        Arc::new(server::Server(Engine::Postgres)),
        Arc::new(database::Database),
    ]
}

/// Jumps that have been seen in the world, in seconds: a leap, a wrong time zone, a dead battery, a typing error.
const JUMPS: [i64; 10] = [1, -1, 3, -3, 60, -60, 3600, -3600, 86_400, -86_400];
