//! Faults of processes: servers and databases that end, stop and come back.

mod kill;

use std::sync::Arc;

use crate::scenario::{Engine, Scenario};

/// All of them.
pub(crate) fn all() -> Vec<Arc<dyn Scenario>> {
    vec![Arc::new(kill::Kill(Engine::Embedded)), Arc::new(kill::Kill(Engine::Postgres))]
}
