//! A small pool of exclusive connections that grows with load and shrinks when idle.
//!
//! A caller has a connection for itself until it lets go of it, so a transaction can be sent in one piece without
//! anybody else's statements in between. A connection that was let go of in the middle of something is closed, which
//! makes the server roll back; that also covers callers whose future was dropped.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_postgres::types::Type;

use crate::clock::Clock;
use crate::config::Config;
use crate::conn::Conn;
use crate::error::{PgError, PgErrorKind};
use crate::statement::{Schema, Statement};

/// How a pool behaves.
#[derive(Clone, Debug)]
pub struct PoolOptions {
    /// Connections kept open when idle.
    pub min: usize,
    /// Most connections.
    pub max: usize,
    /// How long a connection above `min` may be idle.
    pub idle: Duration,
    /// Longest wait for a connection to become free.
    pub wait: Duration,
    /// Longest time for opening a connection.
    pub connect_timeout: Duration,
    /// Longest time for one statement.
    pub statement_timeout: Duration,
    /// Longest wait for a lock.
    pub lock_timeout: Duration,
    /// Shown in the server's list of connections.
    pub application_name: String,
    /// There is a pooler in transaction mode in between: no named statements, no session settings.
    pub pooled: bool,
    /// More server settings for each connection, by name; without effect when `pooled`.
    pub settings: Vec<(&'static str, &'static str)>,
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self {
            min: 1,
            max: 16,
            idle: Duration::from_secs(60),
            wait: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(30),
            lock_timeout: Duration::from_secs(10),
            application_name: "bugle".to_owned(),
            pooled: false,
            settings: Vec::new(),
        }
    }
}

/// The pool. Cloning shares it.
#[derive(Clone)]
pub struct Pool {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    config: Config,
    pub(crate) options: PoolOptions,
    pub(crate) clock: Clock,
    pub(crate) clock_statement: Statement,
    idle: Mutex<Vec<Idle>>,
    slots: Arc<Semaphore>,
    closed: AtomicBool,
}

/// An open connection and what was prepared on it.
pub(crate) struct Link {
    pub(crate) client: tokio_postgres::Client,
    pub(crate) prepared: HashMap<u32, tokio_postgres::Statement>,
}

struct Idle {
    link: Link,
    since: Instant,
}

impl Pool {
    /// A pool for `config`. Nothing is opened before it is needed. Must be called inside a tokio runtime.
    pub fn new(config: Config, options: PoolOptions) -> Self {
        let mut config = config;
        config.driver.application_name(&options.application_name);
        if !options.pooled {
            let given = config.driver.get_options().unwrap_or_default().to_owned();
            let mut words = format!(
                "{given} -c statement_timeout={} -c lock_timeout={} -c jit=off",
                options.statement_timeout.as_millis(),
                options.lock_timeout.as_millis()
            );
            for (name, value) in &options.settings {
                words.push_str(&format!(" -c {name}={value}"));
            }
            config.driver.options(words);
        }
        let none = Schema::new("unused").expect("a plain word is a schema name");
        let micros = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
        let shared = Arc::new(Shared {
            slots: Arc::new(Semaphore::new(options.max.max(1))),
            clock: Clock::new(),
            clock_statement: Statement::new(&none, micros, &[] as &'static [Type]),
            idle: Mutex::default(),
            closed: AtomicBool::new(false),
            config,
            options,
        });
        tokio::spawn(shrink(Arc::downgrade(&shared), shared.options.idle));
        Self { shared }
    }

    /// What was learned of the database's clock.
    pub fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// Whether named statements must not be used.
    pub fn pooled(&self) -> bool {
        self.shared.options.pooled
    }

    /// Connections that are open and idle.
    pub fn idle(&self) -> usize {
        self.shared.idle.lock().len()
    }

    /// Connections that somebody has now.
    pub fn in_use(&self) -> usize {
        self.max().saturating_sub(self.shared.slots.available_permits())
    }

    /// Most connections that may be open.
    pub fn max(&self) -> usize {
        self.shared.options.max
    }

    /// A connection for the caller alone.
    pub async fn get(&self) -> Result<Conn, PgError> {
        let shared = &self.shared;
        let slot = Arc::clone(&shared.slots).acquire_owned();
        let permit = tokio::time::timeout(shared.options.wait, slot)
            .await
            .map_err(|_| PgError::new(PgErrorKind::Timeout, "no database connection became free in time"))?
            .map_err(|_| PgError::new(PgErrorKind::Refused, "the connection pool is closed"))?;
        let link = match shared.take_idle() {
            Some(link) => link,
            None => shared.connect().await?,
        };
        Ok(Conn::new(Arc::clone(shared), link, permit))
    }

    /// Wait for what is under way, no longer than for a free connection; then close all connections and hand out no more.
    pub async fn close(&self) {
        let shared = &self.shared;
        let all = u32::try_from(shared.options.max.max(1)).unwrap_or(u32::MAX);
        let quiet = tokio::time::timeout(shared.options.wait, shared.slots.acquire_many(all)).await;
        if quiet.is_err() {
            tracing::warn!("database connections are still in use at the end");
        }
        shared.closed.store(true, Ordering::Release);
        shared.slots.close();
        shared.idle.lock().clear();
    }
}

impl Shared {
    fn take_idle(&self) -> Option<Link> {
        let mut idle = self.idle.lock();
        // The latest first, so that those on top of the load grow old and are closed.
        while let Some(candidate) = idle.pop() {
            if !candidate.link.client.is_closed() {
                return Some(candidate.link);
            }
        }
        None
    }

    /// Take a connection back that is known to be between statements.
    pub(crate) fn give_back(&self, link: Link, permit: OwnedSemaphorePermit) {
        if !self.closed.load(Ordering::Acquire) && !link.client.is_closed() {
            self.idle.lock().push(Idle { link, since: Instant::now() });
        }
        drop(permit);
    }

    async fn connect(&self) -> Result<Link, PgError> {
        let opening = self.config.driver.connect(self.config.tls.clone());
        let (client, connection) = tokio::time::timeout(self.options.connect_timeout, opening)
            .await
            .map_err(|_| {
                PgError::new(PgErrorKind::Connect, format!("{}: no connection in time", self.config))
            })?
            .map_err(|error| connect_error(&self.config, &error))?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "database connection ended");
            }
        });
        Ok(Link { client, prepared: HashMap::new() })
    }
}

/// Why no connection could be opened.
pub(crate) fn connect_error(config: &Config, error: &tokio_postgres::Error) -> PgError {
    let refused = error.as_db_error().is_some_and(|e| e.code().code().starts_with("28"));
    let kind = if refused { PgErrorKind::Refused } else { PgErrorKind::Connect };
    PgError::new(kind, format!("{config}: {}", reason(error)))
}

/// The error with what caused it: the driver's own text stops at "error performing TLS handshake".
fn reason(error: &tokio_postgres::Error) -> String {
    if let Some(db) = error.as_db_error() {
        return format!("{} ({})", db.message(), db.code().code());
    }
    match std::error::Error::source(error) {
        Some(source) if !error.to_string().contains(&source.to_string()) => format!("{error}: {source}"),
        _ => error.to_string(),
    }
}

/// Close what has been idle for too long, for as long as the pool exists.
async fn shrink(pool: std::sync::Weak<Shared>, idle: Duration) {
    let period = (idle / 2).max(Duration::from_millis(10));
    loop {
        tokio::time::sleep(period).await;
        let Some(shared) = pool.upgrade() else { return };
        let mut links = shared.idle.lock();
        links.retain(|i| !i.link.client.is_closed());
        let spare = links.len().saturating_sub(shared.options.min);
        let old = links.iter().take_while(|i| i.since.elapsed() >= idle).count();
        links.drain(..old.min(spare));
    }
}
