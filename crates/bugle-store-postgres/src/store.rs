//! The engine itself: opening, buckets, retries.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bugle_pg::{Conn, PgError, Pool, Schema, Step, migrate, presence};
use bugle_store::{LaneId, Now, Timestamp, Unavailable};
use uuid::Uuid;

use crate::kept::Counting;
use crate::migrations::migrations;
use crate::options::{OpenError, PostgresOptions};
use crate::row::{get, unexpected};
use crate::sql::Sql;
use crate::survey::notify_channel;

/// Ask for the database's time when nothing was heard of it for so long.
const CLOCK_STALE: Duration = Duration::from_secs(30);

/// Every statement finds its rows by key. A plan kept for a prepared statement may have been made while the tables were
/// small, and must not read them whole when they have grown. (Unnamed statements are planned anew each time.)
///
/// Left to itself the server would plan each call anew as well: it takes a plan for arrays of unknown length to be worse than one for
/// the few elements at hand. Planning an append or an exchange costs it 200 to 260 µs, more than running it.
///
/// A bitmap is made of all versions of a row before the first one is looked at; an index is read backwards until the newest one is found.
const PLANNING: &[(&str, &str)] = &[
    ("enable_bitmapscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("enable_seqscan", "off"),
    ("plan_cache_mode", "force_generic_plan"),
];

/// Pings at the start, until the database's clock is known this well (in microseconds).
const CLOCK_PINGS: usize = 8;
const CLOCK_GOOD_US: i64 = 1_000;

/// How often a call is tried when it certainly changed nothing.
const TRIES: u32 = 3;

/// Transactions of one call that run at the same time, each on its own connection.
pub(crate) const PARALLEL: usize = 4;

/// A store in PostgreSQL.
pub struct PostgresStore {
    pub(crate) pool: Pool,
    pub(crate) sql: Arc<Sql>,
    /// See [`PostgresStore::channel`].
    pub(crate) channel: String,
    buckets: u32,
    /// See [`crate::Extras`].
    pub(crate) chains: bool,
    /// Whether what was seen can be made durable, see [`Conn::flush`].
    pub(crate) flushes: bool,
    pub(crate) early_release: bool,
    asking: Arc<AtomicBool>,
    /// A search has started the making of fingerprint runs.
    pub(crate) indexing: Arc<AtomicBool>,
    /// Held by who counts: the others need not wait each on a connection of its own.
    pub(crate) counting: tokio::sync::Mutex<Counting>,
}

impl PostgresStore {
    /// Connect, bring the tables up to date, and learn the time.
    pub async fn open(options: PostgresOptions) -> Result<Arc<Self>, OpenError> {
        if !(1..=1024).contains(&options.buckets) {
            return Err(OpenError::Buckets(options.buckets));
        }
        let config = bugle_pg::Config::parse(&options.dsn)?;
        let schema = Schema::new(&options.schema)?;
        let mut sql = Arc::new(Sql::new(&schema, options.extras));
        let mut pool_options = options.pool;
        pool_options.settings.extend_from_slice(PLANNING);
        let migrations = migrations();
        pool_options.application_name = presence(&pool_options.application_name, &schema, &migrations);
        let pool = Pool::new(config, pool_options);
        migrate(&pool, &schema, &migrations).await?;
        let mut conn = pool.get().await?;
        let Meta { buckets, encoding, distributed } = meta(&mut conn, &sql, options.buckets).await?;
        if encoding != "UTF8" {
            return Err(OpenError::Encoding(encoding));
        }
        let extras = if distributed { options.extras.distributed() } else { options.extras };
        if extras != options.extras {
            sql = Arc::new(Sql::new(&schema, extras));
        }
        if buckets != options.buckets {
            tracing::warn!(
                asked = options.buckets,
                stored = buckets,
                "the number of buckets is fixed at install"
            );
        }
        // The first answers are slow ones; what is known of the database's clock is as good as the fastest of them.
        for _ in 0..CLOCK_PINGS {
            conn.ping().await?;
            let now = pool.clock().now();
            if now.latest - now.earliest < CLOCK_GOOD_US {
                break;
            }
        }
        conn.query(&sql.tally_open, &[&(buckets as i32), &second(&pool)]).await?;
        let flushes = extras.log && conn.can_flush().await?;
        drop(conn);
        let early_release = options.early_release && can_release_early(&pool, flushes);
        let channel = notify_channel(schema.name());
        let (asking, indexing, counting) = (Arc::default(), Arc::default(), tokio::sync::Mutex::default());
        let chains = extras.chains;
        Ok(Arc::new(Self {
            pool,
            sql,
            channel,
            buckets,
            chains,
            flushes,
            early_release,
            asking,
            indexing,
            counting,
        }))
    }

    /// Whether appends let go of their lanes before they are durable: it was asked for, and nothing is in the way.
    pub fn early_release(&self) -> bool {
        self.early_release
    }

    /// Its connections, for what travels beside the store's own calls.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The channel on which surveys announce, for LISTEN; all servers of this installation share it.
    pub fn channel(&self) -> &str {
        &self.channel
    }

    /// Number of buckets of this installation.
    pub fn buckets(&self) -> u32 {
        self.buckets
    }

    /// All buckets, ascending.
    pub(crate) fn all_buckets(&self) -> Vec<i32> {
        (0..self.buckets as i32).collect()
    }

    /// The bucket of a lane.
    pub(crate) fn bucket(&self, lane: LaneId) -> i32 {
        lane.bucket(self.buckets) as i32
    }

    /// Items with their place in the batch, by the bucket of their lane, ascending.
    pub(crate) fn by_bucket<'a, T>(
        &self,
        items: &'a [T],
        lane: impl Fn(&T) -> LaneId,
    ) -> BTreeMap<i32, Vec<(usize, &'a T)>> {
        let mut out: BTreeMap<i32, Vec<(usize, &'a T)>> = BTreeMap::new();
        for (i, item) in items.iter().enumerate() {
            out.entry(self.bucket(lane(item))).or_default().push((i, item));
        }
        out
    }

    /// End a change of the catalog: count it if it changed anything.
    pub(crate) async fn finish(&self, conn: &mut Conn, changed: bool) -> Result<bool, PgError> {
        if changed {
            conn.commit(&[Step::new(&self.sql.catalog_bump, &[])]).await?;
        } else {
            conn.rollback().await?;
        }
        Ok(changed)
    }

    /// The database's time in seconds, by which changes are marked for whoever counts them.
    pub(crate) fn second(&self) -> i64 {
        second(&self.pool)
    }

    /// The database's time; asks for it in the background when the last answer is old.
    pub(crate) fn time(&self) -> Now {
        let clock = self.pool.clock();
        if clock.age().is_none_or(|age| age > CLOCK_STALE) && !self.asking.swap(true, Ordering::AcqRel) {
            self.ask_for_time();
        }
        let bounds = clock.now();
        Now { earliest: Timestamp(bounds.earliest), latest: Timestamp(bounds.latest) }
    }

    fn ask_for_time(&self) {
        let (pool, asking) = (self.pool.clone(), Arc::clone(&self.asking));
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            asking.store(false, Ordering::Release);
            return;
        };
        runtime.spawn(async move {
            let asked = async { pool.get().await?.ping().await };
            if let Err(error) = asked.await {
                tracing::debug!(%error, "the database's time could not be asked");
            }
            asking.store(false, Ordering::Release);
        });
    }
}

/// What was seen before it was durable is gone after a crash, and memory must follow. A crash ends all connections and the next ones
/// tell of it; but not those to a pooler, and not where the database does not tell.
fn can_release_early(pool: &Pool, flushes: bool) -> bool {
    let reason = if !flushes {
        "the database cannot write messages into its log (pg_logical_emit_message), or its tables are distributed"
    } else if pool.pooled() {
        "there is a pooler in between"
    } else if !pool.tells_timeline() {
        "the database does not tell its timeline"
    } else {
        return true;
    };
    tracing::warn!(reason, "early-lock-release is without effect");
    false
}

fn second(pool: &Pool) -> i64 {
    pool.clock().now().latest / 1_000_000
}

/// What an installation is.
struct Meta {
    buckets: u32,
    encoding: String,
    /// Tables lie on several servers.
    distributed: bool,
}

async fn meta(conn: &mut Conn, sql: &Sql, buckets: u32) -> Result<Meta, PgError> {
    let mut rows = conn.query(&sql.meta_get, &[]).await?;
    if rows.is_empty() {
        conn.query(&sql.meta_insert, &[&(buckets as i32)]).await?;
        rows = conn.query(&sql.meta_get, &[]).await?;
    }
    let row = rows.first().ok_or_else(|| unexpected("the meta table is empty"))?;
    let buckets = u32::try_from(get::<i32>(row, 0)?).map_err(|_| unexpected("negative number of buckets"))?;
    Ok(Meta { buckets, encoding: get(row, 1)?, distributed: get(row, 2)? })
}

/// A random mark for the rows that one call changes.
pub(crate) fn mark() -> i64 {
    Uuid::new_v4().as_u64_pair().0 as i64 ^ Uuid::new_v4().as_u64_pair().1 as i64
}

/// An outage, as the contract tells it.
pub(crate) fn unavailable(error: PgError) -> Unavailable {
    Unavailable::new(error.to_string())
}

/// Counts the tries of one call.
pub(crate) struct Tries {
    left: u32,
    idempotent: bool,
}

impl Tries {
    /// For a change: tried again only if it certainly did not happen.
    pub(crate) fn change() -> Self {
        Self { left: TRIES - 1, idempotent: false }
    }

    /// For a question, or a change that can be repeated.
    pub(crate) fn question() -> Self {
        Self { left: TRIES - 1, idempotent: true }
    }

    /// Whether to try again; waits a little, differently each time, so that those who collided part.
    pub(crate) async fn again(&mut self, error: &PgError) -> bool {
        if self.left == 0 || !error.is_retryable() || !(self.idempotent || error.not_applied()) {
            return false;
        }
        self.left -= 1;
        let random = u64::from(mark() as u8) % 20;
        tokio::time::sleep(Duration::from_millis(5 + random)).await;
        true
    }
}

/// Run a call again while [`Tries`] allows it.
macro_rules! retry {
    ($tries:expr, $work:expr) => {{
        let mut tries = $tries;
        loop {
            match $work.await {
                Ok(value) => break Ok(value),
                Err(error) => {
                    if !tries.again(&error).await {
                        break Err(error);
                    }
                }
            }
        }
    }};
}
pub(crate) use retry;
