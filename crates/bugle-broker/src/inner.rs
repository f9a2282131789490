//! What all verbs share: the engine, the caches, the intakes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use bugle_store::{
    Engine, Group, LaneCursor, LaneId, Load, Message, Offset, Read, Segment, Spool, Timestamp, Unavailable,
};
use bugle_wake::{Bell, Timers};

use crate::ack::SettleKey;
use crate::api::{PopTarget, Refused};
use crate::atomic::{AtomicBool, AtomicUsize};
use crate::board::Board;
use crate::catalog::Catalog;
use crate::config::BrokerConfig;
use crate::crypto::Keyring;
use crate::dedupe::Recent;
use crate::dispatch::{Intake, Limit};
use crate::floor::Floor;
use crate::health::StoreHealth;
use crate::hearing::Look;
use crate::held::Held;
use crate::history::Book;
use crate::inbox::Mover;
use crate::lanes::{LaneState, Lanes};
use crate::meters::Meters;
use crate::news::News;
use crate::opened::Opened;
use crate::pop::PopJob;
use crate::room::Rooms;
use crate::spooling::Spooling;
use crate::stats::StatsMemory;
use crate::timeline::Followed;
use crate::waiting::{Channels, TimerKey};
use crate::watching::Witness;

/// Segments read in one call for the sake of single messages.
const READ_AT_ONCE: usize = 32;

/// What is worth another store call while one is in flight: fewer wait for it, and go out together.
const SOME: usize = 8;

/// See the module.
pub(crate) struct Inner {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) config: BrokerConfig,
    pub(crate) catalog: Catalog,
    pub(crate) lanes: Lanes,
    pub(crate) opened: Opened,
    pub(crate) channels: Channels,
    pub(crate) timers: Timers<TimerKey>,
    pub(crate) keyring: Keyring,
    pub(crate) rooms: Rooms,
    pub(crate) held: Held,
    /// Turns of filter pops, by filter and group.
    pub(crate) turns: Mutex<HashMap<(PopTarget, Group), u64>>,
    pub(crate) next_pop: AtomicU64,
    /// When the broker was opened; waits end on ticks counted from here.
    pub(crate) started: Instant,
    pub(crate) waiters: AtomicUsize,
    pub(crate) draining: AtomicBool,
    pub(crate) board: Board,
    pub(crate) spooling: Spooling,
    /// One backup at a time.
    pub(crate) backups: Arc<Semaphore>,
    pub(crate) stop: CancellationToken,
    intakes: OnceLock<Intakes>,
    pub(crate) health: Mutex<StoreHealth>,
    pub(crate) followed: Followed,
    pub(crate) recovering: AtomicBool,
    pub(crate) meters: Meters,
    pub(crate) witness: Witness,
    pub(crate) book: Book,
    pub(crate) stats: StatsMemory,
    pub(crate) bell: Bell<News>,
    pub(crate) floor: Floor,
    pub(crate) mover: Mover,
    /// Calls for a fresh catalog since the one that is running began.
    pub(crate) refreshes: AtomicUsize,
    /// Channels whose claim is running, and how many are.
    pub(crate) claiming: Mutex<HashMap<u64, usize>>,
}

struct Intakes {
    looks: Arc<Intake<Look>>,
    pushes: Arc<Intake<Arc<LaneState>>>,
    pops: Arc<Intake<PopJob>>,
    settles: Arc<Intake<SettleKey>>,
}

impl Inner {
    /// A broker on `engine`, with its intakes but without its background tasks.
    pub(crate) async fn open(
        engine: Arc<dyn Engine>,
        spool: Option<Arc<dyn Spool>>,
        config: BrokerConfig,
        name: &str,
        bell: Bell<News>,
    ) -> Result<Arc<Self>, Unavailable> {
        let followed = Followed::new(engine.timeline());
        let catalog = Catalog::open(engine.clone()).await?;
        let inner = Arc::new(Self {
            board: Board::new(catalog.switches()),
            spooling: Spooling::new(spool),
            backups: Arc::new(Semaphore::new(1)),
            catalog,
            lanes: Lanes::new(config.max_cached_lanes, config.segment_cache),
            opened: Opened::default(),
            channels: Channels::new(bell.clone()),
            timers: Timers::default(),
            keyring: Keyring::new(&config.encryption_keys),
            rooms: Rooms::default(),
            held: Held::default(),
            turns: Mutex::default(),
            next_pop: AtomicU64::new(0),
            started: Instant::now(),
            waiters: AtomicUsize::new(0),
            draining: AtomicBool::new(false),
            stop: CancellationToken::new(),
            intakes: OnceLock::new(),
            health: Mutex::default(),
            followed,
            recovering: AtomicBool::new(false),
            meters: Meters::default(),
            witness: Witness::default(),
            book: Book::new(&config, name),
            stats: StatsMemory::default(),
            bell,
            floor: Floor::new(config.floor, engine.now().earliest),
            mover: Mover::default(),
            refreshes: AtomicUsize::new(0),
            claiming: Mutex::default(),
            engine,
            config,
        });
        inner.start_intakes();
        Ok(inner)
    }

    fn start_intakes(self: &Arc<Self>) {
        let (min, max) = self.config.calls_in_flight;
        let limit = |backlog| Limit { min, max, backlog, batch: 1024 };
        let some = limit(SOME);
        let pop_limit = if self.config.pop_batching { some } else { Limit { batch: 1, ..limit(1) } };
        let pushes = self.intake(some, Self::append_lanes);
        let pops = self.intake(pop_limit, Self::serve_pops);
        let settles = self.intake(some, Self::settle_batch);
        let looks = self.intake(limit(1024), Self::look_at);
        let _ = self.intakes.set(Intakes { looks, pushes, pops, settles });
    }

    /// An intake whose batches go to `handle`. It holds the broker weakly: it is part of it.
    fn intake<T, F, Fut>(self: &Arc<Self>, limit: Limit, handle: F) -> Arc<Intake<T>>
    where
        T: Send + 'static,
        F: Fn(Arc<Self>, Vec<T>) -> Fut + Copy + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let inner = Arc::downgrade(self);
        Intake::new(limit, self.config.max_queued, move |batch| {
            let inner = inner.upgrade();
            async move {
                if let Some(inner) = inner {
                    handle(inner, batch).await;
                }
            }
        })
    }

    fn intakes(&self) -> &Intakes {
        self.intakes.get().expect("the intakes are set before the broker is handed out")
    }

    pub(crate) fn pushes(&self) -> &Arc<Intake<Arc<LaneState>>> {
        &self.intakes().pushes
    }

    pub(crate) fn pops(&self) -> &Arc<Intake<PopJob>> {
        &self.intakes().pops
    }

    pub(crate) fn looks(&self) -> &Arc<Intake<Look>> {
        &self.intakes().looks
    }

    pub(crate) fn settles(&self) -> &Arc<Intake<SettleKey>> {
        &self.intakes().settles
    }

    /// "Come back later", for a bound that was reached.
    pub(crate) fn busy(&self, reason: &str) -> Refused {
        Refused::Busy { reason: reason.into(), retry_after: Duration::from_secs(1) }
    }

    /// Answer every parked pop as empty.
    pub(crate) fn answer_waiting(&self) {
        for job in self.channels.unpark_all() {
            let answer = self.nothing_for(&job.request);
            let _ = job.reply.send(Ok(answer));
        }
    }

    /// Shed a lane's oldest fingerprints while there are too many in all.
    pub(crate) fn bound_dedupe(&self, recent: &mut Recent) {
        while self.lanes.dedupe_meter().load(Ordering::Relaxed) > self.config.dedupe_memory && recent.shed() {
        }
    }

    /// A lane and a group's cursor on it, as the store has them now.
    pub(crate) async fn load_one(&self, lane: LaneId, group: &Group) -> Result<Option<LaneCursor>, Refused> {
        let found = self.watch(self.engine.load(vec![Load::Lane(lane, group.clone())]).await)?;
        Ok(found.into_iter().flatten().next())
    }

    /// Read single messages, from memory where possible.
    pub(crate) async fn messages_at(
        &self,
        wanted: &[(LaneId, Offset)],
    ) -> Result<HashMap<(LaneId, Offset), (Message, Timestamp)>, Refused> {
        let mut found = HashMap::with_capacity(wanted.len());
        let mut missing = Vec::new();
        for (lane, at) in wanted {
            match self.lanes.get(*lane).and_then(|l| l.cached(*at, *at + 1)) {
                Some(segments) => self.pick(&segments, *lane, *at, &mut found),
                None => missing.push((*lane, *at)),
            }
        }
        // A message brings its whole segment along, so only some are read at a time.
        for some in missing.chunks(READ_AT_ONCE) {
            let reads =
                some.iter().map(|(lane, at)| Read { lane: *lane, from: *at, to: *at + 1, max_bytes: 1 });
            let segments = self.watch(self.engine.read(reads.collect()).await)?;
            for ((lane, at), segments) in some.iter().zip(segments) {
                self.pick(&segments, *lane, *at, &mut found);
            }
        }
        Ok(found)
    }

    fn pick(
        &self,
        segments: &[Segment],
        lane: LaneId,
        at: Offset,
        found: &mut HashMap<(LaneId, Offset), (Message, Timestamp)>,
    ) {
        for segment in segments {
            let messages = self.opened.open(lane, segment).and_then(|segment| segment.between(at, at + 1));
            if let Ok([message]) = messages.as_deref() {
                found.insert((lane, at), (message.detached(), segment.created_at));
            }
        }
    }
}

/// Whoever asked may go away: what was begun is finished, or those who must hear of it would not.
pub(crate) async fn to_its_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, Refused>> + Send + 'static,
) -> Result<T, Refused> {
    let interrupted = |_| Err(Refused::Unavailable("the change was interrupted".into()));
    tokio::spawn(work).await.unwrap_or_else(interrupted)
}
