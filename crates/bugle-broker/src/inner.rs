//! What all verbs share: the engine, the caches, the intakes, and the broker's view of the store's health.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use bugle_store::{
    Engine, Group, Lane, LaneId, Message, Offset, QueueId, Read, Segment, Timestamp, Unavailable,
};
use bugle_wake::Timers;

use crate::ack::SettleKey;
use crate::api::{PopTarget, Refused};
use crate::catalog::Catalog;
use crate::config::BrokerConfig;
use crate::crypto::Keyring;
use crate::dedupe::Recent;
use crate::dispatch::{Intake, Limit};
use crate::lanes::{LaneState, Lanes};
use crate::pop::PopJob;
use crate::room::Rooms;
use crate::waiting::{Channel, Channels, Place, TimerKey};

/// Segments read in one call for the sake of single messages.
const READ_AT_ONCE: usize = 32;

/// See the module.
pub(crate) struct Inner {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) config: BrokerConfig,
    pub(crate) catalog: Catalog,
    pub(crate) lanes: Lanes,
    pub(crate) channels: Channels,
    pub(crate) timers: Timers<TimerKey>,
    pub(crate) keyring: Keyring,
    pub(crate) rooms: Rooms,
    /// Turns of filter pops, by filter and group.
    pub(crate) turns: Mutex<HashMap<(PopTarget, Group), u64>>,
    pub(crate) next_pop: AtomicU64,
    pub(crate) waiters: AtomicUsize,
    pub(crate) draining: AtomicBool,
    pub(crate) stop: CancellationToken,
    intakes: OnceLock<Intakes>,
    health: Mutex<StoreHealth>,
    recovering: AtomicBool,
}

struct Intakes {
    pushes: Arc<Intake<Arc<LaneState>>>,
    pops: Arc<Intake<PopJob>>,
    settles: Arc<Intake<SettleKey>>,
}

/// What the last calls said of the store.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoreHealth {
    pub(crate) away: bool,
    pub(crate) last_error: Option<(String, Timestamp)>,
}

impl Inner {
    /// A broker on `engine`, with its intakes but without its background tasks.
    pub(crate) async fn open(
        engine: Arc<dyn Engine>,
        config: BrokerConfig,
    ) -> Result<Arc<Self>, Unavailable> {
        let catalog = Catalog::open(engine.clone()).await?;
        let inner = Arc::new(Self {
            catalog,
            lanes: Lanes::new(config.max_cached_lanes, config.segment_cache),
            channels: Channels::default(),
            timers: Timers::default(),
            keyring: Keyring::new(&config.encryption_keys),
            rooms: Rooms::default(),
            turns: Mutex::default(),
            next_pop: AtomicU64::new(0),
            waiters: AtomicUsize::new(0),
            draining: AtomicBool::new(false),
            stop: CancellationToken::new(),
            intakes: OnceLock::new(),
            health: Mutex::default(),
            recovering: AtomicBool::new(false),
            engine,
            config,
        });
        inner.start_intakes();
        Ok(inner)
    }

    fn start_intakes(self: &Arc<Self>) {
        let (min, max) = self.config.calls_in_flight;
        let limit = |backlog| Limit { min, max, backlog, batch: 1024 };
        let most = self.config.max_queued;
        // The intakes hold the broker weakly: they are part of it.
        let (a, b, c) = (Arc::downgrade(self), Arc::downgrade(self), Arc::downgrade(self));
        let pushes = Intake::new(limit(64), most, move |batch| {
            let inner = a.upgrade();
            async move {
                if let Some(inner) = inner {
                    inner.append_lanes(batch).await;
                }
            }
        });
        let pops = Intake::new(limit(64), most, move |batch| {
            let inner = b.upgrade();
            async move {
                if let Some(inner) = inner {
                    inner.serve_pops(batch).await;
                }
            }
        });
        let settles = Intake::new(limit(64), most, move |batch| {
            let inner = c.upgrade();
            async move {
                if let Some(inner) = inner {
                    inner.settle_batch(batch).await;
                }
            }
        });
        let _ = self.intakes.set(Intakes { pushes, pops, settles });
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

    pub(crate) fn settles(&self) -> &Arc<Intake<SettleKey>> {
        &self.intakes().settles
    }

    /// "Come back later", for a bound that was reached.
    pub(crate) fn busy(&self, reason: &str) -> Refused {
        Refused::Busy { reason: reason.into(), retry_after: Duration::from_secs(1) }
    }

    /// Note how a store call went.
    pub(crate) fn watch<T>(&self, answer: Result<T, Unavailable>) -> Result<T, Refused> {
        match answer {
            Ok(value) => {
                let mut health = self.health.lock();
                if health.away {
                    health.away = false;
                    tracing::info!("the store answers again");
                }
                Ok(value)
            }
            Err(error) => {
                let mut health = self.health.lock();
                if !health.away {
                    tracing::warn!(reason = %error.reason, "the store does not answer");
                }
                health.away = true;
                health.last_error = Some((error.reason.clone(), self.engine.now().latest));
                Err(error.into())
            }
        }
    }

    pub(crate) fn store_health(&self) -> StoreHealth {
        self.health.lock().clone()
    }

    /// After a failure with pops waiting: ask for the store until it answers, then serve them.
    pub(crate) fn recover(self: &Arc<Self>) {
        if self.recovering.swap(true, Ordering::AcqRel) {
            return;
        }
        let inner = self.clone();
        tokio::spawn(async move {
            let mut pause = Duration::from_millis(50);
            loop {
                tokio::select! {
                    () = tokio::time::sleep(pause) => (),
                    () = inner.stop.cancelled() => return,
                }
                if inner.watch(inner.engine.ping().await).is_ok() {
                    break;
                }
                pause = (pause * 2).min(Duration::from_secs(1));
            }
            inner.recovering.store(false, Ordering::Release);
            let mut jobs = inner.channels.unpark_all();
            for job in &mut jobs {
                job.asked = false;
            }
            inner.pops().offer_urgent(jobs);
        });
    }

    /// Answer every parked pop as empty.
    pub(crate) fn answer_waiting(&self) {
        for job in self.channels.unpark_all() {
            let _ = job.reply.send(Ok(self.nothing()));
        }
    }

    /// Shed a lane's oldest fingerprints while there are too many in all.
    pub(crate) fn bound_dedupe(&self, recent: &mut Recent) {
        while self.lanes.dedupe_meter().load(Ordering::Relaxed) > self.config.dedupe_memory && recent.shed() {
        }
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
                Some(segments) => pick(&segments, *lane, *at, &mut found),
                None => missing.push((*lane, *at)),
            }
        }
        // A message brings its whole segment along, so only some are read at a time.
        for some in missing.chunks(READ_AT_ONCE) {
            let reads =
                some.iter().map(|(lane, at)| Read { lane: *lane, from: *at, to: *at + 1, max_bytes: 1 });
            let segments = self.watch(self.engine.read(reads.collect()).await)?;
            for ((lane, at), segments) in some.iter().zip(segments) {
                pick(&segments, *lane, *at, &mut found);
            }
        }
        Ok(found)
    }

    /// Something was committed to a lane: every group of its queue may read it.
    pub(crate) fn lane_written(self: &Arc<Self>, lane: &Arc<LaneState>) {
        let queue = self.catalog.queue_by_id(lane.queue);
        let window = queue.as_ref().is_some_and(|q| q.options.window_buffer > 0);
        let mut woken = Vec::new();
        for channel in self.channels.of_queue(lane.queue) {
            let mut state = channel.state.lock();
            let most = self.config.max_cached_lanes;
            state.shrink(most);
            let place = state.entry(lane).place;
            let may_be_ready = match place {
                Place::Idle | Place::Ring => true,
                Place::Later => window,
                Place::Claiming | Place::Leased => false,
            };
            if !may_be_ready {
                continue;
            }
            let job = state.make_ready(lane.id);
            drop(state);
            woken.extend(job.or_else(|| self.channels.wake_filter(queue.as_deref()?, &channel.group)));
        }
        if let Some(queue) = &queue {
            let known = |group: &str| self.channels.get(queue.id, group).is_some();
            woken.extend(self.channels.wake_filters_new_to(queue, known));
        }
        if !woken.is_empty() {
            self.pops().offer_urgent(woken);
        }
    }

    /// A lane as the store answered it. If it has grown unseen, its consumers are told.
    pub(crate) fn learn_lane(self: &Arc<Self>, lane: &Lane) -> Arc<LaneState> {
        let (state, grown) = self.lanes.absorb(lane);
        if grown {
            self.lane_written(&state);
        }
        state
    }

    /// Put a lane into a channel's ring and dispatch a pop that waited for it.
    pub(crate) fn ring(self: &Arc<Self>, channel: &Arc<Channel>, lane: LaneId) {
        let mut job = channel.state.lock().make_ready(lane);
        if job.is_none()
            && let Some(queue) = self.catalog.queue_by_id(channel.queue)
        {
            job = self.channels.wake_filter(&queue, &channel.group);
        }
        self.pops().offer_urgent(job);
    }

    /// Wake a lane of a channel at a time of the store's clock.
    pub(crate) fn wake_at(&self, channel: &Channel, lane: LaneId, at: Timestamp) {
        let wait = at.since(self.engine.now().earliest) + Duration::from_millis(1);
        self.timers.set((channel.no, lane), Instant::now() + wait);
    }

    /// Background task: lanes that become ready by the clock.
    pub(crate) async fn run_timers(self: Arc<Self>) {
        loop {
            let due = tokio::select! {
                due = self.timers.due() => due,
                () = self.stop.cancelled() => return,
            };
            for (no, lane) in due {
                let Some(channel) = self.channels.by_no(no) else { continue };
                let ripe = channel
                    .state
                    .lock()
                    .entries
                    .get(&lane)
                    .is_some_and(|e| matches!(e.place, Place::Leased | Place::Later));
                if ripe {
                    self.ring(&channel, lane);
                }
            }
        }
    }

    /// A queue is gone: forget everything about it; its waiting pops look again.
    pub(crate) fn forget_queue(self: &Inner, id: QueueId) {
        self.catalog.forget(id);
        self.lanes.forget_queue(id);
        let jobs = self.channels.forget_queue(id);
        self.pops().offer_urgent(jobs);
    }

    /// Something in memory turned out to be wrong: read the catalog again soon.
    pub(crate) fn stale_catalog(self: &Arc<Self>) {
        let inner = self.clone();
        tokio::spawn(async move { inner.refresh_catalog().await });
    }

    /// Ask a shared store for catalog changes if the last look is old; costs nothing on an exclusive one.
    pub(crate) fn keep_catalog_fresh(self: &Arc<Self>) {
        if self.catalog.wants_refresh() {
            self.stale_catalog();
        }
    }

    /// Read the catalog again and forget what is gone.
    pub(crate) async fn refresh_catalog(&self) {
        if let Ok(gone) = self.watch(self.catalog.refresh().await) {
            for id in gone {
                self.forget_queue(id);
            }
        }
    }
}

fn pick(
    segments: &[Segment],
    lane: LaneId,
    at: Offset,
    found: &mut HashMap<(LaneId, Offset), (Message, Timestamp)>,
) {
    for segment in segments {
        if segment.base <= at
            && at < segment.end()
            && let Ok(mut messages) = segment.messages()
        {
            let message = messages.swap_remove((at - segment.base) as usize).detached();
            found.insert((lane, at), (message, segment.created_at));
        }
    }
}
