//! How a provider behaves.

use std::time::Duration;

use bugle_pg::{Config, PoolOptions, Schema, channel_name};

use crate::error::ConnectError;

/// Options of a [`PostgresProvider`](crate::PostgresProvider). Only the address is needed.
///
/// ```
/// use std::time::Duration;
/// use bugle_duroxide::{LongPoll, Options};
///
/// let options = Options::new("postgres://app@localhost/app")
///     .schema("workflows")
///     .pool_size(24)
///     .long_poll(LongPoll::on().fallback(Duration::from_secs(30)));
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) url: String,
    pub(crate) listen_url: Option<String>,
    pub(crate) schema: String,
    pub(crate) pool_size: usize,
    pub(crate) transaction_pooler: bool,
    pub(crate) long_poll: LongPoll,
}

/// Whether and how a fetch waits for work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongPoll {
    pub(crate) enabled: bool,
    pub(crate) fallback: Duration,
    pub(crate) timer_grace: Duration,
}

impl Default for LongPoll {
    fn default() -> Self {
        Self { enabled: true, fallback: Duration::from_secs(60), timer_grace: Duration::ZERO }
    }
}

impl LongPoll {
    /// A fetch waits up to its poll timeout and is woken when there is something to do. This is the default.
    pub fn on() -> Self {
        Self::default()
    }

    /// A fetch looks once and returns at once; nothing listens. The runtime then polls at its own interval.
    pub fn off() -> Self {
        Self { enabled: false, ..Self::default() }
    }

    /// How often to look without a hint: finds rows that were inserted by hand and hints that a crash swallowed. 60 s by
    /// default; at least 100 ms.
    pub fn fallback(mut self, every: Duration) -> Self {
        self.fallback = every.max(Duration::from_millis(100));
        self
    }

    /// How much earlier than a timer is due to be awake for it. Zero by default: timers go by the database's clock, which
    /// the provider follows, so waking early only costs a look that finds nothing.
    pub fn timer_grace(mut self, grace: Duration) -> Self {
        self.timer_grace = grace;
        self
    }
}

impl From<bool> for LongPoll {
    fn from(on: bool) -> Self {
        if on { Self::on() } else { Self::off() }
    }
}

impl Options {
    /// Options for a database at `url`, with everything else at its default.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            listen_url: None,
            schema: "duroxide".to_owned(),
            pool_size: 16,
            transaction_pooler: false,
            long_poll: LongPoll::default(),
        }
    }

    /// The schema that holds the tables; `duroxide` by default. Any name: it is always quoted, and a name longer than
    /// PostgreSQL's 63 bytes is shortened to its beginning and a hash of it.
    pub fn schema(mut self, name: impl Into<String>) -> Self {
        self.schema = name.into();
        self
    }

    /// Most connections for statements; 16 by default. The listening connection is one more.
    pub fn pool_size(mut self, connections: usize) -> Self {
        self.pool_size = connections;
        self
    }

    /// Where to listen, if `url` leads through a pooler in transaction mode, which cannot LISTEN.
    pub fn listen_url(mut self, url: impl Into<String>) -> Self {
        self.listen_url = Some(url.into());
        self
    }

    /// `url` leads through a pooler in transaction mode: no named statements, no session settings.
    pub fn transaction_pooler(mut self, yes: bool) -> Self {
        self.transaction_pooler = yes;
        self
    }

    /// Whether and how a fetch waits; `true` and `false` will do.
    pub fn long_poll(mut self, long_poll: impl Into<LongPoll>) -> Self {
        self.long_poll = long_poll.into();
        self
    }

    pub(crate) fn config(&self) -> Result<Config, ConnectError> {
        Config::parse(&self.url).map_err(|error| ConnectError::Address { field: "url", error })
    }

    pub(crate) fn listen_config(&self) -> Result<Config, ConnectError> {
        let url = self.listen_url.as_ref().unwrap_or(&self.url);
        Config::parse(url).map_err(|error| ConnectError::Address { field: "listen_url", error })
    }

    pub(crate) fn schema_name(&self) -> Result<Schema, ConnectError> {
        // Channels and schemas are names alike: what makes a long one fit serves both.
        Ok(Schema::new(&channel_name(&self.schema))?)
    }

    pub(crate) fn pool(&self) -> Result<PoolOptions, ConnectError> {
        if !(1..=1000).contains(&self.pool_size) {
            let problem = format!("{} is not between 1 and 1000", self.pool_size);
            return Err(ConnectError::Option { field: "pool_size", problem });
        }
        Ok(PoolOptions {
            // A new connection must compile every function again: keep some.
            min: self.pool_size.min(4),
            max: self.pool_size,
            application_name: "bugle-duroxide".to_owned(),
            pooled: self.transaction_pooler,
            ..PoolOptions::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_of_any_length_have_a_name_of_their_own() {
        let name = |s: &str| Options::new("postgres://x/y").schema(s).schema_name().unwrap();
        let (one, two) = (name(&"s".repeat(200)), name(&"s".repeat(201)));
        assert!(one.name().len() <= 63);
        assert_ne!(one.name(), two.name());
        assert_eq!(name("We\"ird name").to_string(), "\"We\"\"ird name\"");
    }

    #[test]
    fn bad_options_name_the_field() {
        let error = Options::new("postgres://x/y").pool_size(0).pool().unwrap_err().to_string();
        assert!(error.starts_with("pool_size"), "{error}");
        let error = Options::new("nonsense").config().unwrap_err().to_string();
        assert!(error.starts_with("url"), "{error}");
    }
}
