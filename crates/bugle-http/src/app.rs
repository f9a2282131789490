//! What every handler has at hand, and the settings of the HTTP layer.

use std::time::Duration;

use bugle_broker::Broker;
use bugle_store::{Group, QUEUE_MODE};
use tokio_util::sync::CancellationToken;

/// Settings of the routes.
#[derive(Clone, Debug)]
pub struct HttpConfig {
    /// Most bytes of a request body; more is a 413.
    pub max_body: usize,
    /// Longest pause between two pieces of a body.
    pub body_timeout: Duration,
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
}

impl App {
    pub(crate) fn new(broker: Broker, config: HttpConfig) -> Self {
        Self { broker, terms: Terms::of(&config), config }
    }
}
