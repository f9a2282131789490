//! A small pool of exclusive connections that grows with load and shrinks when idle.
//!
//! A caller has a connection for itself until it lets go of it, so a transaction can be sent in one piece without
//! anybody else's statements in between. A connection that was let go of in the middle of something is closed, which
//! makes the server roll back; that also covers callers whose future was dropped.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_postgres::types::Type;

use crate::clock::Clock;
use crate::config::Config;
use crate::conn::Conn;
use crate::error::{PgError, PgErrorKind};
use crate::hosts::{Driving, Opened, open, open_best};
use crate::statement::{Schema, Statement};
use crate::timeline::{IDENTITY, Identity, Noted, Place, TIME, Timelines};

/// A transaction that has something to make durable, and nothing else. Its commit waits, as those of the session do, for the disk and the
/// standby to have the log up to here. A transaction that wrote nothing into the log would not, nor one without a number of its own.
const FLUSH: &str = "SELECT pg_logical_emit_message(true, 'bugle', '')";

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
    pub(crate) timelines: Timelines,
    /// Asks for the time and who answers, and for the time alone where that is all that can be told.
    identity_statement: Statement,
    time_statement: Statement,
    pub(crate) flush_statement: Statement,
    mute: AtomicBool,
    idle: Mutex<Vec<Idle>>,
    slots: Arc<Semaphore>,
    closed: AtomicBool,
    /// The host that was connected to last.
    host: AtomicUsize,
    /// A connection broke or gave no answer since all hosts were last looked at.
    trouble: AtomicBool,
    /// Looks at all hosts: how many, and why the last one failed.
    looks: AtomicUsize,
    looking: tokio::sync::Mutex<Option<PgError>>,
    looking_around: AtomicBool,
}

/// An open connection and what was prepared on it.
pub(crate) struct Link {
    pub(crate) client: tokio_postgres::Client,
    /// Ends the connection when it is dropped.
    _driving: Driving,
    pub(crate) prepared: HashMap<u32, tokio_postgres::Statement>,
    /// See [`Pool::timeline`].
    pub(crate) timeline: u64,
    /// See [`Opened`].
    pub(crate) unreplicated: Arc<AtomicBool>,
}

struct Idle {
    link: Link,
    since: Instant,
}

impl Pool {
    /// A pool for `config`. Nothing is opened before it is needed. Must be called inside a tokio runtime.
    pub fn new(config: Config, options: PoolOptions) -> Self {
        let mut config = config;
        for driver in &mut config.drivers {
            driver.application_name(&options.application_name);
            if !options.pooled {
                let words = session_options(driver.get_options().unwrap_or_default(), &options);
                driver.options(words);
            }
        }
        let none = Schema::new("unused").expect("a plain word is a schema name");
        let statement = |sql| Statement::new(&none, sql, &[] as &'static [Type]);
        let shared = Arc::new(Shared {
            slots: Arc::new(Semaphore::new(options.max.max(1))),
            clock: Clock::new(),
            timelines: Timelines::default(),
            identity_statement: statement(IDENTITY),
            time_statement: statement(TIME),
            flush_statement: statement(FLUSH),
            mute: AtomicBool::new(false),
            idle: Mutex::default(),
            closed: AtomicBool::new(false),
            host: AtomicUsize::new(0),
            trouble: AtomicBool::new(true),
            looks: AtomicUsize::new(0),
            looking: tokio::sync::Mutex::default(),
            looking_around: AtomicBool::new(false),
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

    /// How often the database was seen to go on on another timeline: after a failover or a restore what was learned of it
    /// before may never have happened. Connections to the server that was left are closed, and what was under way on them
    /// ends in doubt.
    pub fn timeline(&self) -> u64 {
        self.shared.timelines.count()
    }

    /// Tells when [`Pool::timeline`] changes.
    pub fn timelines(&self) -> watch::Receiver<u64> {
        self.shared.timelines.watch()
    }

    /// Whether the server has told its timeline whenever it was asked, and so would tell that it has lost something.
    pub fn tells_timeline(&self) -> bool {
        !self.shared.mute.load(Ordering::Relaxed)
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

    /// A connection for the caller alone, for what was computed on this timeline; an error if the database is on another.
    pub async fn get_at(&self, timeline: u64) -> Result<Conn, PgError> {
        let conn = self.get().await?;
        if conn.timeline() != timeline {
            return Err(PgError::new(PgErrorKind::Timeline, "the database went on on another timeline"));
        }
        Ok(conn)
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
            if self.is_usable(&candidate.link) {
                return Some(candidate.link);
            }
        }
        None
    }

    /// Whether a connection is open, and leads to the server that the database is now.
    fn is_usable(&self, link: &Link) -> bool {
        !link.client.is_closed() && link.timeline == self.timelines.count()
    }

    /// Take a connection back that is known to be between statements.
    pub(crate) fn give_back(&self, link: Link, permit: OwnedSemaphorePermit) {
        if !self.closed.load(Ordering::Acquire) && self.is_usable(&link) {
            self.idle.lock().push(Idle { link, since: Instant::now() });
        }
        drop(permit);
    }

    /// Open a connection; where there are several hosts, to the last one unless there was trouble with it.
    async fn connect(&self) -> Result<Link, PgError> {
        let limit = self.options.connect_timeout;
        let looks = self.looks.load(Ordering::Acquire);
        let several = self.config.hosts() > 1;
        if !several || !self.trouble.load(Ordering::Acquire) {
            let host = self.host.load(Ordering::Relaxed);
            let opened = open(&self.config, host, limit, self.timelines.known()).await;
            match opened.and_then(|opened| self.admit(opened)) {
                Err(_) if several => {}
                other => return other,
            }
        }
        // All who need a connection at the same time need one look.
        let mut failed = self.looking.lock().await;
        if self.looks.load(Ordering::Acquire) != looks {
            if let Some(error) = failed.as_ref() {
                return Err(error.clone());
            }
            let host = self.host.load(Ordering::Relaxed);
            return self.admit(open(&self.config, host, limit, self.timelines.known()).await?);
        }
        self.trouble.store(false, Ordering::Release);
        let best = open_best(&self.config, limit, self.timelines.known()).await;
        let link = best.and_then(|opened| self.admit(opened));
        *failed = link.as_ref().err().cloned();
        if failed.is_some() {
            self.trouble.store(true, Ordering::Release);
        }
        self.looks.fetch_add(1, Ordering::AcqRel);
        link
    }

    /// Take a connection that was opened, unless its server is of a timeline that was left.
    fn admit(&self, opened: Opened) -> Result<Link, PgError> {
        let Opened { host, client, driving, identity, before, sent, received, unreplicated } = opened;
        if identity.place.is_none() && !self.mute.swap(true, Ordering::Relaxed) {
            tracing::info!(database = %self.config, "the database does not tell its timeline: a failover is noticed by its effects");
        }
        let timeline = self.note(before, &identity, sent, received).map_err(|error| {
            PgError::new(PgErrorKind::Connect, format!("{}: {error}", self.config.place_of(host)))
        })?;
        if self.host.swap(host, Ordering::Relaxed) != host {
            tracing::info!(database = self.config.place_of(host), "connecting to another host");
        }
        Ok(Link { client, _driving: driving, prepared: HashMap::new(), timeline, unreplicated })
    }

    /// Learn from what a server told of itself. Answers the count of timelines.
    pub(crate) fn note(
        &self,
        before: Option<Place>,
        identity: &Identity,
        sent: Instant,
        received: Instant,
    ) -> Result<u64, PgError> {
        match self.timelines.note(before, identity) {
            Noted::Same(count) => {
                self.clock.learn(sent, identity.micros, received);
                Ok(count)
            }
            Noted::Another(count) => {
                self.clock.restart(sent, identity.micros, received);
                self.idle.lock().retain(|idle| idle.link.timeline == count);
                Ok(count)
            }
            Noted::Gone(told, seen) => Err(PgError::new(
                PgErrorKind::Timeline,
                format!(
                    "is on timeline {told}, which was left for {seen}: it was replaced, or restored to an earlier state"
                ),
            )),
        }
    }

    /// What to ask a server for its time with.
    pub(crate) fn clock_statement(&self) -> &Statement {
        if self.mute.load(Ordering::Relaxed) { &self.time_statement } else { &self.identity_statement }
    }

    /// A connection broke, or gave no answer in time: another host may be the database now.
    pub(crate) fn troubled(&self) {
        self.trouble.store(true, Ordering::Release);
    }

    /// An answer is long in coming: see in the background whether the database went on elsewhere.
    pub(crate) fn look_around(self: &Arc<Self>) {
        if self.looking_around.swap(true, Ordering::AcqRel) {
            return;
        }
        self.troubled();
        let shared = Arc::clone(self);
        tokio::spawn(async move {
            // What was found out is worth more than the connection, which is kept only where there is room for it.
            if let Ok(link) = shared.connect().await
                && let Ok(permit) = Arc::clone(&shared.slots).try_acquire_owned()
                && shared.idle.lock().len() < shared.slots.available_permits()
            {
                shared.give_back(link, permit);
            }
            shared.looking_around.store(false, Ordering::Release);
        });
    }
}

/// How a statement runs that is a transaction by itself, see [`Conn::change`], whatever the database's own defaults are.
const CHANGES: &str =
    "-c default_transaction_isolation=read\\ committed -c default_transaction_read_only=off";

/// The address's own options for a session, and the pool's.
fn session_options(given: &str, options: &PoolOptions) -> String {
    let mut words = format!(
        "{given} -c statement_timeout={} -c lock_timeout={} -c jit=off {CHANGES}",
        options.statement_timeout.as_millis(),
        options.lock_timeout.as_millis()
    );
    for (name, value) in &options.settings {
        words.push_str(&format!(" -c {name}={value}"));
    }
    words
}

/// Close what has been idle for too long, for as long as the pool exists.
async fn shrink(pool: std::sync::Weak<Shared>, idle: Duration) {
    let period = (idle / 2).max(Duration::from_millis(10));
    loop {
        tokio::time::sleep(period).await;
        let Some(shared) = pool.upgrade() else { return };
        let mut links = shared.idle.lock();
        links.retain(|i| shared.is_usable(&i.link));
        let spare = links.len().saturating_sub(shared.options.min);
        let old = links.iter().take_while(|i| i.since.elapsed() >= idle).count();
        links.drain(..old.min(spare));
    }
}
