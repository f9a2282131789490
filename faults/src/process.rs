//! Faults of processes: servers and databases that end, stop and come back.

mod away;
mod backends;
mod database;
mod frozen;
mod kill;
mod postmaster;
mod recreate;
mod rolling;

use std::sync::Arc;

use crate::scenario::{Engine, Scenario};
use database::OnDatabase;

/// All of them.
pub(crate) fn all() -> Vec<Arc<dyn Scenario>> {
    vec![
        Arc::new(kill::Kill(Engine::Embedded)),
        Arc::new(kill::Kill(Engine::Postgres)),
        Arc::new(frozen::Frozen(Engine::Embedded)),
        Arc::new(frozen::Frozen(Engine::Postgres)),
        Arc::new(rolling::Rolling(Engine::Embedded)),
        Arc::new(rolling::Rolling(Engine::Postgres)),
        Arc::new(recreate::Recreate(Engine::Embedded)),
        Arc::new(recreate::Recreate(Engine::Postgres)),
        Arc::new(OnDatabase(backends::Backends)),
        Arc::new(OnDatabase(postmaster::Postmaster)),
        Arc::new(OnDatabase(away::Away)),
    ]
}
