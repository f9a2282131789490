//! What every handler has at hand, and the settings of the HTTP layer.

use std::sync::Arc;
use std::time::Duration;

use bugle_broker::Broker;
use bugle_store::{Group, QUEUE_MODE};
use tokio_util::sync::CancellationToken;

use crate::edge::Edge;
use crate::hub::Hub;

/// Settings of the routes.
#[derive(Clone, Debug)]
pub struct HttpConfig {
    /// Most bytes of a request body; more is a 413.
    pub max_body: usize,
    /// Longest pause between two pieces of a body, and head start of a slow one.
    pub body_timeout: Duration,
    /// Fewest bytes in a second of a body that comes in pieces.
    pub min_body_rate: usize,
    /// Most bytes of all bodies together that came in pieces and are not stored yet; more is a 429.
    pub max_body_memory: usize,
    /// Counters of what happens before a route, those of the gate.
    pub edge: Edge,
    /// How long `wait=true` waits when no `timeout` is given.
    pub default_wait: Duration,
    /// Longest wait; larger timeouts are cut to it.
    pub max_wait: Duration,
    /// Name of the storage engine, for `/health`.
    pub engine: String,
    /// Cancelled when the server is about to stop: `/health/ready` turns 503.
    pub draining: CancellationToken,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            max_body: 64 << 20,
            body_timeout: Duration::from_secs(30),
            min_body_rate: 1 << 10,
            max_body_memory: 512 << 20,
            edge: Edge::default(),
            default_wait: Duration::from_secs(30),
            max_wait: Duration::from_secs(120),
            engine: "unknown".into(),
            draining: CancellationToken::new(),
        }
    }
}

/// What a pop that does not say otherwise gets.
pub(crate) struct Terms {
    /// The group of those who name none, made once.
    pub(crate) anonymous: Group,
    /// See [`HttpConfig`].
    pub(crate) default_wait: Duration,
    /// See [`HttpConfig`].
    pub(crate) max_wait: Duration,
}

impl Terms {
    pub(crate) fn of(config: &HttpConfig) -> Self {
        Self { anonymous: QUEUE_MODE.into(), default_wait: config.default_wait, max_wait: config.max_wait }
    }
}

/// Shared by all handlers.
pub(crate) struct App {
    pub(crate) broker: Broker,
    pub(crate) terms: Terms,
    pub(crate) config: HttpConfig,
    /// Those who listen to events.
    pub(crate) hub: Arc<Hub>,
}

impl App {
    pub(crate) fn new(broker: Broker, config: HttpConfig) -> Self {
        Self { broker, terms: Terms::of(&config), config, hub: Arc::default() }
    }
}
