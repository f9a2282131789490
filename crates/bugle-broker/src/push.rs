//! Push: from items to segments.
//!
//! Items of one request are grouped by lane. Each lane has one append in flight; what arrives meanwhile waits in the
//! lane and goes out as one segment. A call carries the segments of all lanes that wait (see [`crate::dispatch`]).
//! Before an append every id is screened for duplicates ([`crate::dedupe`]); the append itself is conditional, so an id
//! that another server stored in between cannot slip through.

mod append;
mod once;
mod pack;
mod screen;
mod split;
mod taken;
mod turn;

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::oneshot;
use uuid::Uuid;

use bugle_store::{LaneError, LaneId, Message, NewLane, Queue};

use crate::api::{PushItem, Pushed, Refused};
use crate::inner::Inner;
use crate::lanes::LaneState;
use crate::meters::WakeSource;
use crate::planted::race;

pub(crate) use append::Work;
pub(crate) use screen::Slot;
pub(crate) use taken::{Moved, Moving};

/// Rounds in which a push looks for its queue and lane again because they were deleted under it.
const MAX_ROUTES: u32 = 4;

/// Messages of one request for one lane.
pub(crate) struct PushJob {
    messages: Vec<Message>,
    reply: oneshot::Sender<Result<Vec<Pushed>, PushFailure>>,
}

/// Why a job came back.
pub(crate) enum PushFailure {
    /// The lane does not exist any more; here are the messages.
    Gone(Vec<Message>),
    /// Refused.
    Refused(Refused),
}

/// Items of one request that go to one lane, with their positions in the request.
pub(crate) struct Bundle {
    pub(crate) queue: Arc<str>,
    pub(crate) partition: Arc<str>,
    pub(crate) positions: Vec<usize>,
    pub(crate) messages: Vec<Message>,
}

impl Inner {
    /// See [`crate::Broker::push`].
    pub(crate) async fn push(self: &Arc<Self>, items: Vec<PushItem>) -> Result<Vec<Pushed>, Refused> {
        if self.keep_catalog_fresh() {
            Box::pin(self.catch_up_with_catalog()).await;
        }
        if self.board.detours() {
            return Box::pin(self.push_around(items)).await;
        }
        self.push_to_store(items).await
    }

    /// Push, whatever operators have switched.
    pub(crate) async fn push_to_store(
        self: &Arc<Self>,
        items: Vec<PushItem>,
    ) -> Result<Vec<Pushed>, Refused> {
        let count = items.len();
        let mut open = bundle(items);
        let mut answers: Vec<Option<Pushed>> = vec![None; count];
        for _ in 0..MAX_ROUTES {
            if open.is_empty() {
                break;
            }
            open = self.push_bundles(open, &mut answers).await?;
        }
        let whole: Option<Vec<Pushed>> = answers.into_iter().collect();
        whole.ok_or_else(|| Refused::Conflict("the queue is being deleted".into()))
    }

    /// Push every bundle; answers those whose lane vanished meanwhile.
    async fn push_bundles(
        self: &Arc<Self>,
        bundles: Vec<Bundle>,
        answers: &mut [Option<Pushed>],
    ) -> Result<Vec<Bundle>, Refused> {
        let routes = self.route(&bundles).await?;
        let mut bundles = bundles;
        // All that may refuse the request comes before anything of it is stored.
        for (bundle, (queue, lane)) in bundles.iter_mut().zip(&routes) {
            self.check_room(queue, bundle.messages.len()).await?;
            self.seal(queue, lane, &mut bundle.messages)?;
        }
        let mut waiting = Vec::with_capacity(bundles.len());
        for (mut bundle, (_, lane)) in bundles.into_iter().zip(routes) {
            let (reply, answer) = oneshot::channel();
            let job = PushJob { messages: std::mem::take(&mut bundle.messages), reply };
            self.enqueue(&lane, job)?;
            waiting.push((bundle, lane, answer));
        }
        let mut gone = Vec::new();
        let mut failed = None;
        for (mut bundle, lane, answer) in waiting {
            match answer.await.unwrap_or_else(|_| Err(PushFailure::Refused(lost_worker()))) {
                Ok(pushed) => {
                    for (position, pushed) in bundle.positions.iter().zip(pushed) {
                        answers[*position] = Some(pushed);
                    }
                }
                Err(PushFailure::Gone(messages)) => {
                    bundle.messages = self.unseal(&lane, messages);
                    gone.push(bundle);
                }
                Err(PushFailure::Refused(refused)) => failed = Some(refused),
            }
        }
        match failed {
            Some(refused) => Err(refused),
            None => Ok(gone),
        }
    }

    /// Queue and lane of every bundle, created where they do not exist.
    pub(crate) async fn route(
        self: &Arc<Self>,
        bundles: &[Bundle],
    ) -> Result<Vec<(Arc<Queue>, Arc<LaneState>)>, Refused> {
        for _ in 0..MAX_ROUTES {
            if let Some(routes) = self.try_route(bundles).await? {
                return Ok(routes);
            }
        }
        Err(self.busy("the queue was deleted while it was pushed to"))
    }

    /// `None` if a queue turned out to be deleted; it is forgotten, so the next try creates it again.
    async fn try_route(
        self: &Arc<Self>,
        bundles: &[Bundle],
    ) -> Result<Option<Vec<(Arc<Queue>, Arc<LaneState>)>>, Refused> {
        let mut found: Vec<Option<(Arc<Queue>, Arc<LaneState>)>> = Vec::with_capacity(bundles.len());
        let mut missing = Vec::new();
        for (i, bundle) in bundles.iter().enumerate() {
            let queue = match self.catalog.queue(&bundle.queue) {
                Some(queue) => queue,
                None => self.ensure_queue(&bundle.queue).await?,
            };
            let lane = self.lanes.get(LaneId::derive(queue.id, &bundle.partition));
            if lane.is_none() {
                missing.push((i, queue.clone()));
            }
            found.push(lane.map(|lane| (queue, lane)));
        }
        if !missing.is_empty() {
            let now = self.engine.now().latest;
            let batch = missing
                .iter()
                .map(|(i, queue)| NewLane { queue: queue.id, name: bundles[*i].partition.clone(), now })
                .collect();
            let lanes = self.watch(self.engine.ensure_lanes(batch).await)?;
            for ((i, queue), lane) in missing.into_iter().zip(lanes) {
                match lane {
                    Ok(lane) => {
                        if lane.created_at == now && lane.head == 0 {
                            self.meters.queues.of(queue.id).lanes_created.one();
                        }
                        found[i] = Some((queue, self.learn_lane(&lane, WakeSource::Local)));
                    }
                    Err(LaneError::NoQueue) => self.forget_queue(queue.id),
                    Err(e @ LaneError::Collision(_)) => return Err(Refused::Conflict(e.to_string())),
                }
            }
        }
        Ok(found.into_iter().collect())
    }

    /// Encrypt payloads for an encrypted queue.
    pub(crate) fn seal(
        &self,
        queue: &Queue,
        lane: &LaneState,
        messages: &mut [Message],
    ) -> Result<(), Refused> {
        if !queue.options.encryption_enabled {
            return Ok(());
        }
        for message in messages.iter_mut().filter(|m| !m.encrypted) {
            let sealed = self.keyring.encrypt(&message.payload, lane.id.0.as_bytes()).ok_or_else(|| {
                Refused::Conflict(format!(
                    "queue {:?} is encrypted and this server has no encryption key",
                    queue.name
                ))
            })?;
            message.payload = sealed.into();
            message.encrypted = true;
        }
        Ok(())
    }

    /// Undo [`Self::seal`] for messages that must go to another incarnation of their lane.
    fn unseal(&self, lane: &LaneState, mut messages: Vec<Message>) -> Vec<Message> {
        for message in messages.iter_mut().filter(|m| m.encrypted) {
            if let Ok(plain) = self.keyring.decrypt(&message.payload, lane.id.0.as_bytes()) {
                message.payload = plain.into();
                message.encrypted = false;
            }
        }
        messages
    }

    fn enqueue(&self, lane: &Arc<LaneState>, job: PushJob) -> Result<(), Refused> {
        let start = {
            let mut inner = lane.inner.lock();
            if inner.waiting.len() >= self.config.max_queued {
                return Err(self.busy("too many pushes wait for this partition"));
            }
            inner.waiting.push_back(job);
            !std::mem::replace(&mut inner.pushing, true) || race("append beside the append in flight")
        };
        if start && self.pushes().offer(lane.clone()).is_err() {
            lane.inner.lock().pushing = false;
            // Whoever pushes to this lane next starts it; until then nothing here is lost, only unanswered.
            for job in std::mem::take(&mut lane.inner.lock().waiting) {
                let _ = job.reply.send(Err(PushFailure::Refused(self.busy("too many pushes wait"))));
            }
        }
        Ok(())
    }
}

pub(crate) fn bundle(items: Vec<PushItem>) -> Vec<Bundle> {
    let mut bundles: Vec<Bundle> = Vec::new();
    let mut by_lane: HashMap<(Arc<str>, Arc<str>), usize> = HashMap::new();
    let mut last = usize::MAX;
    for (position, item) in items.into_iter().enumerate() {
        let same = bundles.get(last).is_some_and(|b| b.queue == item.queue && b.partition == item.partition);
        if !same {
            let key = (item.queue.clone(), item.partition.clone());
            last = *by_lane.entry(key).or_insert_with(|| {
                bundles.push(Bundle {
                    queue: item.queue.clone(),
                    partition: item.partition.clone(),
                    positions: Vec::new(),
                    messages: Vec::new(),
                });
                bundles.len() - 1
            });
        }
        bundles[last].positions.push(position);
        bundles[last].messages.push(message(item));
    }
    bundles
}

/// The message an item becomes; ids are minted here.
pub(crate) fn message(item: PushItem) -> Message {
    let id = Uuid::now_v7();
    Message {
        id,
        transaction_id: item
            .transaction_id
            .filter(|t| !t.is_empty())
            .unwrap_or_else(|| Bytes::from(Uuid::now_v7().to_string())),
        trace_id: item.trace_id,
        producer_sub: item.producer_sub,
        context: item.context,
        encrypted: false,
        payload: item.payload,
    }
}

fn lost_worker() -> Refused {
    Refused::Unavailable("the push was interrupted; its outcome is unknown".into())
}
