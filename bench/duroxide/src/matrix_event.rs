//! The events of the wake matrix, the two nodes they happen between, and the node that dies.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use duroxide::providers::Provider;
use tokio::task::JoinHandle;

use crate::dispatcher::{Fetched, Patience};
use crate::samples::ms_between;
use crate::stage::{Knife, Stage};

/// Time for a dispatcher to find nothing and park; random, so that a poller is met at any phase.
const PARK_MS: std::ops::RangeInclusive<u64> = 600..=800;
/// Delays of enqueues and abandons.
pub(crate) const DELAY: Duration = Duration::from_secs(1);
/// Locks and leases of those that die.
pub(crate) const SHORT_LOCK: Duration = Duration::from_secs(2);
/// Locks of those that live.
pub(crate) const LONG_LOCK: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    Enqueue,
    EnqueueDelayed,
    EarlierTimer,
    Abandon,
    AbandonDelayed,
    HolderDies,
    MessageBehindLock,
    Work,
    WorkAbandon,
    WorkAbandonDelayed,
    WorkHolderDies,
    SessionOwnerDies,
    SessionOfSecondSlot,
    ListenCutBefore,
    ListenCutAt,
}

impl Event {
    pub(crate) const ALL: [Self; 15] = [
        Self::Enqueue,
        Self::EnqueueDelayed,
        Self::EarlierTimer,
        Self::Abandon,
        Self::AbandonDelayed,
        Self::HolderDies,
        Self::MessageBehindLock,
        Self::Work,
        Self::WorkAbandon,
        Self::WorkAbandonDelayed,
        Self::WorkHolderDies,
        Self::SessionOwnerDies,
        Self::SessionOfSecondSlot,
        Self::ListenCutBefore,
        Self::ListenCutAt,
    ];

    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Enqueue => "orchestration: enqueue",
            Self::EnqueueDelayed => "orchestration: enqueue with 1 s delay",
            Self::EarlierTimer => "orchestration: earlier timer after a later one",
            Self::Abandon => "orchestration: abandon",
            Self::AbandonDelayed => "orchestration: abandon with 1 s delay",
            Self::HolderDies => "orchestration: holder dies, 2 s lock expires",
            Self::MessageBehindLock => "orchestration: message came while locked, holder acks",
            Self::Work => "work: enqueue",
            Self::WorkAbandon => "work: abandon",
            Self::WorkAbandonDelayed => "work: abandon with 1 s delay",
            Self::WorkHolderDies => "work: holder dies, 2 s lock expires",
            Self::SessionOwnerDies => "work: session's owner dies, 2 s lease expires",
            Self::SessionOfSecondSlot => "work: for a session that the second of two parked slots holds",
            Self::ListenCutBefore => "LISTEN cut 200 ms before an enqueue",
            Self::ListenCutAt => "LISTEN cut at an enqueue",
        }
    }
}

/// Node A, where things happen, and node B, where somebody waits.
pub(crate) struct Pair<'s> {
    stage: &'s Stage,
    pub(crate) a: Arc<dyn Provider>,
    pub(crate) b: Arc<dyn Provider>,
    pub(crate) knife: Knife,
    poll: Duration,
}

impl<'s> Pair<'s> {
    pub(crate) async fn connect(stage: &'s Stage, poll: Duration) -> Result<Self> {
        let (a, b) = (stage.node().await?.provider, stage.node().await?.provider);
        Ok(Self { stage, a, b, knife: stage.knife().await?, poll })
    }

    /// One round: by how many milliseconds B was late.
    pub(crate) async fn round(&self, event: Event, round: usize) -> Result<f64> {
        let id = format!("item-{round}");
        match event {
            Event::Enqueue => self.enqueue(&id, None).await,
            Event::EnqueueDelayed => self.enqueue(&id, Some(DELAY)).await,
            Event::EarlierTimer => self.earlier_timer(&id).await,
            Event::Abandon => self.abandon(&id, None).await,
            Event::AbandonDelayed => self.abandon(&id, Some(DELAY)).await,
            Event::HolderDies => self.holder_dies(&id).await,
            Event::MessageBehindLock => self.message_behind_lock(&id).await,
            Event::ListenCutBefore => self.listen_cut(&id, true).await,
            Event::ListenCutAt => self.listen_cut(&id, false).await,
            Event::Work => self.work(&id).await,
            Event::WorkAbandon => self.work_abandon(&id, None).await,
            Event::WorkAbandonDelayed => self.work_abandon(&id, Some(DELAY)).await,
            Event::WorkHolderDies => self.work_holder_dies(&id).await,
            Event::SessionOwnerDies => self.session_owner_dies(&id).await,
            Event::SessionOfSecondSlot => self.session_of_second_slot(&id).await,
        }
    }

    /// How a dispatcher that lives fetches.
    pub(crate) fn patience(&self) -> Patience {
        Patience { lock: LONG_LOCK, poll: self.poll }
    }

    /// Returns when a dispatcher that was just started has parked.
    pub(crate) async fn until_parked(&self) {
        tokio::time::sleep(Duration::from_millis(fastrand::u64(PARK_MS))).await;
    }

    /// What a parked dispatcher got, once it has it.
    pub(crate) async fn delivery<T>(&self, mut parked: Parked<T>) -> Result<Fetched<T>> {
        let limit = self.poll * 2 + Duration::from_secs(10);
        let fetched = tokio::time::timeout(limit, &mut parked.0).await;
        fetched
            .with_context(|| format!("not found within {} s", limit.as_secs()))?
            .context("parked dispatcher")
    }

    /// A node that does something and then dies: its threads stop where they are, as after a kill.
    pub(crate) async fn dying_node<T: Send + 'static>(
        &self,
        act: impl AsyncFnOnce(&dyn Provider) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (url, contender) = (self.stage.url.clone(), self.stage.contender);
        let life = move || {
            let runtime =
                tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
            let outcome = runtime.block_on(async {
                let node = contender.node(&url, Stage::SCHEMA).await?;
                let outcome = act(&*node.provider).await;
                // Dropped, it might say goodbye.
                std::mem::forget(node);
                outcome
            });
            runtime.shutdown_background();
            outcome
        };
        tokio::task::spawn_blocking(life).await.context("the dying node")?
    }
}

/// A dispatcher that waits; it ends with this value.
pub(crate) struct Parked<T>(pub(crate) JoinHandle<Fetched<T>>);

impl<T> Drop for Parked<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Lateness against a moment that has to lie in the future when `parked` is known.
pub(crate) fn still_to_come(due: Instant) -> Result<()> {
    ensure!(due > Instant::now(), "the machine is too slow: it was due before the dispatcher had parked");
    Ok(())
}

pub(crate) fn lateness<T>(due: Instant, fetched: &Fetched<T>) -> f64 {
    ms_between(due, fetched.at)
}
