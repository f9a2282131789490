//! Faults of the network: between clients and servers, and between servers and PostgreSQL.

mod client;
mod database;

use std::sync::Arc;
use std::time::Duration;

use crate::proxy::Weather;
use crate::scenario::{Engine, Scenario};

/// What goes wrong on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Everything comes late.
    Delay,
    /// Connections break in the middle of what is said.
    Cut,
    /// What is asked is done, and the answer never comes; nobody is told that the connection is dead.
    Silence,
    /// Half of the connections say what they say a few bytes at a time.
    Trickle,
}

impl Trouble {
    const ALL: [Self; 4] = [Self::Delay, Self::Cut, Self::Silence, Self::Trickle];

    fn weather(self) -> Weather {
        match self {
            Self::Delay => Weather::Delay(Duration::from_millis(150)),
            Self::Trickle => Weather::Trickle(Duration::from_millis(20)),
            Self::Cut | Self::Silence => Weather::Clear,
        }
    }
}

/// All of them.
pub(crate) fn all() -> Vec<Arc<dyn Scenario>> {
    let mut all: Vec<Arc<dyn Scenario>> = Vec::new();
    for trouble in Trouble::ALL {
        for engine in [Engine::Embedded, Engine::Postgres] {
            all.push(Arc::new(client::Client { trouble, engine }));
        }
        all.push(Arc::new(database::Database(trouble)));
    }
    all
}
