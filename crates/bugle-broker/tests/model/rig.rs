//! Engines under a clock that stands still until it is moved, and brokers on them.
//!
//! The runtime's time is paused, and the store's time is read from it, so that leases, delays and timers of the broker
//! all follow one clock. A paused runtime moves its clock by itself whenever it has nothing to do but to wait, also while
//! it waits for a disk or a database; a blocking task that never ends keeps it from that. A database's own waits (retries,
//! timeouts) need time that moves, so its store lives on a runtime of its own.

use std::sync::Arc;
use std::time::Duration;

use bugle_broker::{Broker, BrokerConfig};
use bugle_pg::testdb;
use bugle_store::*;
use bugle_store_embedded::{EmbeddedOptions, EmbeddedStore};
use bugle_store_postgres::{PostgresOptions, PostgresStore};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::time::Instant;

/// Start of the clock.
const START: i64 = 1_700_000_000_000_000;

/// Longer than any case: what runs at intervals does not run.
const NEVER: Duration = Duration::from_secs(400 * 86_400);

/// Which engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum On {
    /// The reference store, owned by one broker.
    Memory,
    /// The reference store, shared by two.
    SharedMemory,
    Embedded,
    /// PostgreSQL, shared by two brokers.
    Postgres,
}

/// An engine with the clock of this file instead of its own.
struct Clocked {
    inner: Arc<dyn Engine>,
    origin: Instant,
    /// Where its calls are made, if not where they come from.
    home: Option<Handle>,
}

impl Clocked {
    fn time(&self) -> Timestamp {
        Timestamp(START).plus(self.origin.elapsed())
    }
}

macro_rules! pass_on {
    ($($name:ident($($arg:ident: $type:ty),*) -> $answer:ty;)*) => {$(
        fn $name(&self, $($arg: $type),*) -> Answer<'_, $answer> {
            let Some(home) = self.home.clone() else { return self.inner.$name($($arg),*) };
            let inner = self.inner.clone();
            Box::pin(async move {
                let call = home.spawn(async move { inner.$name($($arg),*).await });
                call.await.unwrap_or_else(|error| Err(Unavailable::new(error.to_string())))
            })
        }
    )*};
}

impl Store for Clocked {
    fn now(&self) -> Now {
        Now::exactly(self.time())
    }

    fn exclusive(&self) -> bool {
        self.inner.exclusive()
    }

    fn timeline(&self) -> u64 {
        self.inner.timeline()
    }

    engine_calls!(append, swap, changes, questions => pass_on);
}

impl Catalog for Clocked {
    engine_calls!(catalog_changes, catalog_questions => pass_on);
}

impl Engine for Clocked {
    /// The engine outlives the brokers on it.
    fn close(&self) -> Answer<'_, ()> {
        Box::pin(async { Ok(()) })
    }
}

async fn open_postgres() -> Arc<PostgresStore> {
    let mut options = PostgresOptions::new(testdb::server().await);
    options.schema = testdb::fresh_schema();
    options.pool.max = 4;
    PostgresStore::open(options).await.unwrap()
}

/// One engine, used by case after case. Every case has brokers and queues of its own.
pub(crate) struct Rig {
    on: On,
    engine: Arc<Clocked>,
    /// Keeps the clock from moving by itself, until it is dropped.
    _still: std::sync::mpsc::Sender<()>,
    home: Option<Runtime>,
    _dir: Option<tempfile::TempDir>,
}

impl Drop for Rig {
    fn drop(&mut self) {
        if let Some(home) = self.home.take() {
            home.shutdown_background();
        }
    }
}

impl Rig {
    /// To be called on a runtime whose time is paused.
    pub(crate) async fn open(on: On) -> Self {
        let (still, end) = std::sync::mpsc::channel::<()>();
        tokio::task::spawn_blocking(move || end.recv());
        let (mut dir, mut home) = (None, None);
        let inner: Arc<dyn Engine> = match on {
            On::Memory => Arc::new(MemoryStore::new()),
            On::SharedMemory => Arc::new(MemoryStore::new().shared()),
            On::Embedded => {
                let place = dir.insert(tempfile::tempdir().unwrap());
                let mut options = EmbeddedOptions::new(place.path().join("data"));
                options.file_size = 1 << 20;
                EmbeddedStore::open(options).unwrap()
            }
            On::Postgres => {
                let home =
                    home.insert(Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap());
                home.spawn(open_postgres()).await.unwrap()
            }
        };
        let handle = home.as_ref().map(|home| home.handle().clone());
        let engine = Arc::new(Clocked { inner, origin: Instant::now(), home: handle });
        Self { on, engine, _still: still, home, _dir: dir }
    }

    /// How many brokers share the engine.
    pub(crate) fn servers(&self) -> usize {
        match self.on {
            On::Memory | On::Embedded => 1,
            On::SharedMemory | On::Postgres => 2,
        }
    }

    /// A broker that knows nothing yet, and can remember next to nothing if `tight`.
    pub(crate) async fn broker(&self, tight: bool) -> Broker {
        let mut config = BrokerConfig {
            retention_interval: NEVER,
            eviction_interval: NEVER,
            metrics_interval: NEVER,
            compression: Some(Codec::Zstd),
            ..BrokerConfig::default()
        };
        if tight {
            config.compression = Some(Codec::Lz4);
            (config.dedupe_memory, config.segment_cache, config.max_cached_lanes) = (0, 0, 2);
        }
        Broker::open(self.engine.clone(), config).await.unwrap()
    }

    /// Now, in microseconds.
    pub(crate) fn now(&self) -> i64 {
        self.engine.time().0
    }

    /// Move the clock, and let whatever became due by that happen.
    pub(crate) async fn advance(&self, by: Duration) {
        tokio::time::advance(by).await;
        // Each yield lets the timers be looked at once and what they woke run.
        for _ in 0..4 {
            tokio::task::yield_now().await;
        }
    }
}
