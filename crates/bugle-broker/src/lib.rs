//! The brain of Bugle: queue semantics and dispatch. Knows no SQL, no files, no HTTP.
//!
//! Requests come in as plain data ([`PushItem`], [`PopRequest`], [`AckItem`]…), pure functions in `semantics` decide what
//! they mean, `dispatch` gathers them into few large store calls, `waiting` holds the pops that have nothing to deliver
//! yet. Modules in reading order; each uses only those above it, except that the verbs share [`inner::Inner`].

mod api;
mod atomic;
mod config;
mod crypto;
mod planted;
mod semantics;

mod catalog;
mod dedupe;
mod dispatch;
mod lanes;
mod meters;
mod news;
mod opened;
mod waiting;

mod ack;
mod admin;
mod backup;
mod bell;
mod board;
mod clear;
mod dead;
mod floor;
mod groups;
mod health;
mod hearing;
mod held;
mod history;
mod inbox;
mod inner;
mod messages;
mod numbers;
mod operators;
mod pop;
mod push;
mod queues;
mod redrive;
mod rekey;
mod room;
mod spooling;
mod stats;
mod timeline;
mod traces;
mod transact;
mod upkeep;
mod watching;

#[cfg(feature = "counted")]
pub mod counted;
#[cfg(feature = "fuzz")]
pub mod fuzz;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bugle_store::{Engine, Group, NAME_MAX, Now, Spool};
use bugle_wake::{Bell, BellOptions, Carrier};

pub use api::{
    AckItem, AckStatus, Acked, Autopilot, Cleared, Configure, Configured, GaugeLooks, Gauges, GroupDeleted,
    GroupPartition, GroupQueue, GroupView, Health, History, HistoryQuery, LeaseToken, Letter, LetterQuery,
    Looks, MessageList, MessageQuery, MessageStatus, MessageView, NewTrace, Operation, OperationResult,
    Phases, PopAnswer, PopRequest, PopTarget, Popped, PoppedLane, PushItem, Pushed, QueueCounts, QueuePoint,
    ReadMode, Redrive, RedriveCursor, Redriven, Refused, Renewed, Replay, Replayed, SeekTo, ServerCounts,
    ServerHistory, ServerPoint, Sought, TraceView, Transacted, Vitals,
};
pub use api::{Consumer, SeekPreview, Served, Waiter, WaitingKey, WaitingRoom};
pub use api::{
    Depth, Family, GroupState, GroupStats, LaggingPartition, MessageCounts, Overview, PartitionStats,
    QueueDetail, QueueFilter, QueueStats, RankedPartition, Spread, Throughput, Totals,
};
pub use backup::BackupPieces;
pub use config::{BrokerConfig, EncryptionKey, FloorConfig};
pub use meters::{
    BlockedQueue, ClaimReading, FloorReading, HistogramReading, InboxReading, PackingReading, PendingReading,
    QueueReading, Reading, SpoolReading, StoreReading, VerbReading, WaitingReading, WakeSource,
};
pub use operators::read_time;
pub use pop::Receipt;
pub use rekey::Rekey;
pub use semantics::configure::option_bounds;
pub use stats::PartitionPage;
pub use watching::Watching;

use inner::{Inner, to_its_end};

/// Check a queue, partition, group or transaction name: 1 to 255 bytes without NUL. The error names `field`.
pub fn check_name(field: &str, name: &str) -> Result<(), Refused> {
    if name.is_empty() {
        return Err(Refused::Invalid(format!("{field} must not be empty")));
    }
    if name.len() > NAME_MAX {
        return Err(Refused::Invalid(format!("{field} is longer than {NAME_MAX} bytes")));
    }
    if name.as_bytes().contains(&0) {
        return Err(Refused::Invalid(format!("{field} must not contain NUL")));
    }
    Ok(())
}

/// Check a queue's name: a name that is not one of the system's own.
pub fn check_queue(field: &str, name: &str) -> Result<(), Refused> {
    check_name(field, name)?;
    check_free(field, name)
}

/// Check that a queue's name is not one of the system's own.
pub fn check_free(field: &str, name: &str) -> Result<(), Refused> {
    if is_system(name) {
        return Err(Refused::Invalid(format!(
            "{field} must not begin with {SYSTEM}, which is the server's own"
        )));
    }
    Ok(())
}

/// What the names of the system's own queues begin with.
const SYSTEM: &str = "__system_";

/// Queues of the system's own are kept like all others, but nobody sees or touches them from outside.
fn is_system(queue: &str) -> bool {
    queue.starts_with(SYSTEM)
}

/// What a debug line needs, made only if it will be written.
fn logged<T>(make: impl FnOnce() -> Option<T>) -> Option<T> {
    if tracing::enabled!(tracing::Level::DEBUG) { make() } else { None }
}

fn log_pop(target: &PopTarget, answer: &PopAnswer, took: Duration) {
    let (mode, queue) = match target {
        PopTarget::Lane { queue, .. } => ("direct", &**queue),
        PopTarget::Queue { queue } => ("queue", &**queue),
        PopTarget::Filter { .. } => ("filtered", answer.lanes.first().map_or("", |lane| &*lane.queue)),
    };
    if !is_system(queue) {
        let ms = |took: Duration| took.as_secs_f64() * 1e3;
        let phases = answer.phases;
        tracing::debug!(
            mode,
            queue,
            count = answer.count(),
            candidates = phases.candidates,
            lanes = answer.lanes.len(),
            lane = answer.lanes.first().map_or("", |lane| &*lane.partition),
            candidate_ms = ms(phases.find),
            lease_ms = ms(phases.lease),
            message_ms = ms(phases.messages),
            total_ms = ms(took),
            "pop"
        );
    }
}

/// A running broker; clones share it.
#[derive(Clone)]
pub struct Broker(Arc<Inner>);

impl Broker {
    /// Start a broker on `engine` that hears no other servers.
    pub async fn open(engine: Arc<dyn Engine>, config: BrokerConfig) -> Result<Self, Refused> {
        Self::open_with(engine, config, BellOptions::default(), Vec::new()).await
    }

    /// Start a broker on `engine` that tells other servers what moved, and hears them, through `carriers`.
    pub async fn open_with(
        engine: Arc<dyn Engine>,
        config: BrokerConfig,
        bell: BellOptions,
        carriers: Vec<Carrier>,
    ) -> Result<Self, Refused> {
        Self::open_spooling(engine, None, config, bell, carriers).await
    }

    /// The same with a spool, into which pushes go while they are in maintenance. What it still holds is drained.
    pub async fn open_spooling(
        engine: Arc<dyn Engine>,
        spool: Option<Arc<dyn Spool>>,
        config: BrokerConfig,
        bell: BellOptions,
        carriers: Vec<Carrier>,
    ) -> Result<Self, Refused> {
        let name = bell.name.clone();
        let (bell, heard) = Bell::start(bell, carriers);
        let inner = Inner::open(engine, spool, config, &name, bell).await?;
        inner.spool_changed();
        tokio::spawn(inner.clone().run_timers());
        tokio::spawn(inner.clone().run_upkeep());
        tokio::spawn(inner.clone().run_hearing(heard));
        tokio::spawn(inner.clone().run_floor());
        tokio::spawn(inner.clone().run_inbox());
        tokio::spawn(inner.clone().run_history());
        tokio::spawn(inner.clone().run_timelines());
        tracing::info!(max_waiters = inner.config.max_waiters, "waiting pops are taken");
        Ok(Self(inner))
    }

    /// Push messages; one outcome per item, in order.
    pub async fn push(&self, items: Vec<PushItem>) -> Result<Vec<Pushed>, Refused> {
        let queue = logged(|| items.iter().map(|item| item.queue.clone()).find(|queue| !is_system(queue)));
        let begun = Instant::now();
        let answer = self.0.push(items).await;
        self.0.meters.push.took.record(begun.elapsed());
        self.0.meters.push.count(&answer, |pushed| pushed.iter().filter(|p| !p.duplicate).count());
        self.0.meters.stir();
        if let (Some(queue), Ok(pushed)) = (queue, &answer) {
            let duplicates = pushed.iter().filter(|p| p.duplicate).count();
            tracing::debug!(%queue, count = pushed.len(), duplicates, "push");
        }
        answer
    }

    /// Pop messages. Dropping the future gives back what was claimed for it.
    ///
    /// The future is kept small, and so is everything it waits in: there may be tens of thousands.
    pub async fn pop(&self, request: impl Into<Arc<PopRequest>>) -> Result<PopAnswer, Refused> {
        let request = request.into();
        let begun = Instant::now();
        let answer = self.0.pop(&request).await;
        self.0.meters.pop.count(&answer, PopAnswer::count);
        if answer.as_ref().is_ok_and(|answer| answer.lanes.is_empty()) {
            self.0.count_empty(&request.target);
        }
        self.0.meters.stir();
        if let (Some(()), Ok(answer)) = (logged(|| Some(())), &answer) {
            log_pop(&request.target, answer, begun.elapsed());
        }
        answer
    }

    /// Take responsibility for an answer on its way to a consumer: unless it is sent, it is given back.
    pub fn receipt(&self, answer: &PopAnswer, group: &Group) -> Receipt {
        Receipt::new(&self.0, answer, group)
    }

    /// Acknowledge messages; one outcome per item, in order.
    pub async fn ack(&self, items: Vec<AckItem>) -> Result<Vec<Acked>, Refused> {
        let begun = Instant::now();
        let answer = self.0.ack(items).await;
        self.0.meters.ack.took.record(begun.elapsed());
        self.0.meters.ack.count(&answer, |acked| {
            let taken = acked.iter().filter(|a| a.success).count();
            if taken < acked.len() {
                self.0.meters.ack_failed.add((acked.len() - taken) as u64);
            }
            taken
        });
        self.0.meters.stir();
        answer
    }

    /// Extend a lease to at least `seconds` from now.
    pub async fn renew(&self, lease: LeaseToken, seconds: u64) -> Result<Renewed, Refused> {
        let inner = self.0.clone();
        to_its_end(async move { inner.renew(lease, seconds).await }).await
    }

    /// Pushes and acknowledgements, all or nothing. `required` are the leases named for acks that carry none.
    pub async fn transact(
        &self,
        operations: Vec<Operation>,
        required: Vec<LeaseToken>,
    ) -> Result<Transacted, Refused> {
        let (inner, begun) = (self.0.clone(), Instant::now());
        let answer = to_its_end(async move { inner.transact(operations, required).await }).await;
        self.0.meters.transact.took.record(begun.elapsed());
        self.0.meters.transact.count(&answer, |done| if done.success { done.results.len() } else { 0 });
        self.0.meters.stir();
        answer
    }

    /// Create or change a queue.
    pub async fn configure(&self, request: Configure) -> Result<Configured, Refused> {
        let inner = self.0.clone();
        to_its_end(async move { inner.configure(request).await }).await
    }

    /// Delete a queue with everything in it. Answers whether it existed.
    pub async fn delete_queue(&self, name: &str) -> Result<bool, Refused> {
        let (inner, name) = (self.0.clone(), name.to_owned());
        to_its_end(async move { inner.delete_queue(&name).await }).await
    }

    /// The store's health, by asking it.
    pub async fn health(&self) -> Health {
        let _ = self.0.watch(self.0.engine.ping().await);
        let health = self.0.store_health();
        Health {
            store_connected: !health.away,
            last_error: health.last_error.map(|(text, at)| (text, at.millis())),
            waiting: self.0.waiters.load(Ordering::Relaxed),
        }
    }

    /// Why the store of this server answers nothing more until the server is started again, if so. Costs no call.
    pub fn stopped(&self) -> Option<String> {
        self.0.engine.stopped()
    }

    /// Everything that is counted, now, except by queue.
    pub fn read(&self) -> Reading {
        self.0.read()
    }

    /// The same, and by queue.
    pub fn read_all(&self) -> Reading {
        Reading { queues: self.0.read_queues(), ..self.0.read() }
    }

    /// What happened when, as far as servers have told it and this one knows.
    pub async fn history(&self, query: &HistoryQuery) -> Result<History, Refused> {
        self.0.history(query).await
    }

    /// What the store's database tells of itself: sections by name, each a JSON text. Empty where there is none.
    pub async fn internals(&self) -> Result<Vec<(String, String)>, Refused> {
        self.0.watch(self.0.engine.internals().await)
    }

    /// The present by the store's clock.
    pub fn now(&self) -> Now {
        self.0.engine.now()
    }

    /// Answer all waiting pops as empty and refuse new waiting; everything else goes on.
    pub fn drain(&self) {
        self.0.draining.store(true, Ordering::Release);
        self.0.board.poke();
        self.0.answer_waiting();
    }

    /// Wait for calls in flight, stop background work, close the store.
    pub async fn shutdown(&self) {
        self.drain();
        self.0.pushes().settled().await;
        self.0.settles().settled().await;
        self.0.pops().settled().await;
        self.0.flush_history().await;
        self.0.stop.cancel();
        self.0.spooling.settled().await;
        self.0.bell.close().await;
        tracing::info!("waiting pops and carriers are stopped");
        if let Err(error) = self.0.engine.close().await {
            tracing::error!(%error, "the store did not close cleanly");
        }
    }
}
