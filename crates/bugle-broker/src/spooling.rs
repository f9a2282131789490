//! Push maintenance: pushes are kept in this server's spool, and drained into the store when it ends.
//!
//! *Order.* While anything of a lane is in the spool, later pushes to that lane go behind it: into the spool too, or, when the
//! last batch is on its way to the store, after it. So no push overtakes an earlier one that the same server took.
//!
//! *Once.* A message's ids are minted when it is taken. The drain stores by [`crate::push`]'s `store_once`, which finds what an
//! earlier try has stored, and only then moves the spool's position. A crash at any point repeats at most one batch.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use tokio::sync::{Mutex, watch};
use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_64;

use bugle_store::{LaneId, Message, Spool, SpoolBatch, SpoolError, SpoolState, Spooled};

use crate::api::{Operation, PushItem, Pushed, Refused};
use crate::inner::Inner;
use crate::push::{Bundle, message};

/// Bytes drained at a time.
const BATCH_BYTES: usize = 4 << 20;
/// Lanes stored by one call.
const BATCH_LANES: usize = 1024;
/// How long a push waits for the last batch before it goes into the spool after all.
const LAST_BATCH: Duration = Duration::from_secs(5);
/// Pause after a failed try, and the longest it grows to.
const PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Pause while what is in the spool is not durable yet.
const SETTLING: Duration = Duration::from_millis(2);
/// Payloads in the spool are encrypted for this place, not for a lane: its queue may not exist yet.
const CONTEXT: &[u8] = b"bugle-spool";

/// A record, and what the producer of the item at this position is told of it.
type Kept = (Spooled, (usize, Pushed));

/// The spool, if the server has one, and how its drain stands.
pub(crate) struct Spooling {
    pub(crate) spool: Option<Arc<dyn Spool>>,
    draining: AtomicBool,
    /// The last batch is on its way to the store: who comes now waits for it.
    last_batch: watch::Sender<bool>,
    /// Held while a batch is on its way.
    busy: Mutex<()>,
}

impl Spooling {
    pub(crate) fn new(spool: Option<Arc<dyn Spool>>) -> Self {
        let last_batch = watch::Sender::new(false);
        Self { spool, draining: AtomicBool::new(false), last_batch, busy: Mutex::default() }
    }

    /// How the spool is; empty if there is none.
    pub(crate) fn state(&self) -> SpoolState {
        self.spool.as_ref().map(|spool| spool.state()).unwrap_or_default()
    }

    /// Wait for the batch that is on its way, but not for a store that is away.
    pub(crate) async fn settled(&self) {
        let _ = tokio::time::timeout(LAST_BATCH, self.busy.lock()).await;
    }
}

/// While it lives, pushes wait instead of going into the spool.
struct LastBatch<'a>(&'a watch::Sender<bool>);

impl Drop for LastBatch<'_> {
    fn drop(&mut self) {
        self.0.send_replace(false);
    }
}

impl Inner {
    /// A push while the store is maintained, or while the spool is drained.
    pub(crate) async fn push_around(self: &Arc<Self>, items: Vec<PushItem>) -> Result<Vec<Pushed>, Refused> {
        let maintained = || self.board.now().push_maintenance;
        let Some(spool) = &self.spooling.spool else {
            if maintained() {
                return Err(Refused::Maintenance(
                    "pushes are in maintenance, and this server has no spool".into(),
                ));
            }
            return self.push_to_store(items).await;
        };
        let held = |item: &PushItem| spool.holds(lane_number(&item.queue, &item.partition));
        if !maintained() && items.iter().any(held) {
            let mut last_batch = self.spooling.last_batch.subscribe();
            let _ = tokio::time::timeout(LAST_BATCH, last_batch.wait_for(|on_its_way| !on_its_way)).await;
        }
        let all = maintained();
        let (mut kept, mut free) = (Vec::new(), Vec::new());
        for (position, item) in items.into_iter().enumerate() {
            if all || held(&item) { kept.push((position, item)) } else { free.push((position, item)) }
        }
        let kept = self.spool_records(kept)?;
        let mut answers: Vec<(usize, Pushed)> = Vec::with_capacity(kept.len() + free.len());
        if !free.is_empty() {
            let (positions, items): (Vec<usize>, Vec<PushItem>) = free.into_iter().unzip();
            answers.extend(positions.into_iter().zip(self.push_to_store(items).await?));
        }
        if !kept.is_empty() {
            let (records, told): (Vec<Spooled>, Vec<(usize, Pushed)>) = kept.into_iter().unzip();
            let put = spool.put(records).await;
            // Also after an error: maintenance may have ended meanwhile.
            self.spool_changed();
            put.map_err(|error| self.not_spooled(&error))?;
            self.meters.spooled.add(told.len() as u64);
            answers.extend(told);
        }
        answers.sort_unstable_by_key(|(position, _)| *position);
        Ok(answers.into_iter().map(|(_, pushed)| pushed).collect())
    }

    /// A transaction's pushes and acknowledgements are one commit: the pushes can neither wait in the spool nor overtake what
    /// does.
    pub(crate) fn check_detour(&self, operations: &[Operation]) -> Result<(), Refused> {
        let maintained = self.board.now().push_maintenance;
        let spool = self.spooling.spool.as_ref();
        let held = |item: &PushItem| {
            spool.is_some_and(|spool| spool.holds(lane_number(&item.queue, &item.partition)))
        };
        let waits = |operation: &Operation| match operation {
            Operation::Push(item) => maintained || held(item),
            Operation::Ack(_) => false,
        };
        if !operations.iter().any(waits) {
            return Ok(());
        }
        Err(Refused::Maintenance(match maintained {
            true => "pushes are in maintenance: a transaction with pushes must wait".into(),
            false => "earlier pushes to the same partition are being stored: a transaction must wait".into(),
        }))
    }

    fn not_spooled(&self, error: &SpoolError) -> Refused {
        match error {
            SpoolError::Full { .. } => {
                Refused::Busy { reason: error.to_string(), retry_after: Duration::from_secs(5) }
            }
            SpoolError::Failed(_) => Refused::Unavailable(error.to_string()),
        }
    }

    /// What is kept of each item, and what its producer is told. Refuses all if one must be refused.
    fn spool_records(&self, items: Vec<(usize, PushItem)>) -> Result<Vec<Kept>, Refused> {
        let mut out = Vec::with_capacity(items.len());
        for (position, item) in items {
            let (queue, partition) = (item.queue.clone(), item.partition.clone());
            let known = self.catalog.queue(&queue);
            let secret = known.as_ref().is_some_and(|queue| queue.options.encryption_enabled);
            let mut message = message(item);
            self.seal_for_spool(&queue, secret, &mut message)?;
            let lane = known.map_or(LaneId(Uuid::nil()), |queue| LaneId::derive(queue.id, &partition));
            let pushed = Pushed {
                transaction_id: message.transaction_id.clone(),
                message_id: message.id,
                lane,
                duplicate: false,
                buffered: true,
            };
            let body = encode(&queue, &partition, &message);
            out.push((Spooled { lane: lane_number(&queue, &partition), body }, (position, pushed)));
        }
        Ok(out)
    }

    /// Every payload, if there is a key: whether its queue will be an encrypted one when it is stored is not known yet.
    fn seal_for_spool(&self, queue: &str, secret: bool, message: &mut Message) -> Result<(), Refused> {
        match self.keyring.encrypt(&message.payload, CONTEXT) {
            Some(sealed) => {
                message.payload = sealed.into();
                message.encrypted = true;
            }
            None if secret || self.keyring.has_keys() => {
                let text = format!("queue {queue:?} is encrypted and this server has no encryption key");
                return Err(Refused::Conflict(text));
            }
            None => (),
        }
        Ok(())
    }

    /// The spool or the switch changed: decide where pushes go, and drain what may be drained.
    pub(crate) fn spool_changed(self: &Arc<Self>) {
        let _turn = self.board.turn.lock();
        let maintained = self.board.now().push_maintenance;
        let spooled = self.spooling.state().records > 0;
        self.board.set_detours(maintained || spooled);
        if spooled && !maintained && !self.spooling.draining.swap(true, Ordering::AcqRel) {
            tokio::spawn(self.clone().run_drain());
        }
    }

    /// Whether the drain has nothing to do; then it has ended.
    fn drain_ended(&self) -> bool {
        let _turn = self.board.turn.lock();
        let maintained = self.board.now().push_maintenance;
        let spooled = self.spooling.state().records > 0;
        let ended = maintained || !spooled || self.stop.is_cancelled();
        if ended {
            self.spooling.draining.store(false, Ordering::Release);
            self.board.set_detours(maintained || spooled);
        }
        ended
    }

    async fn run_drain(self: Arc<Self>) {
        let Some(spool) = self.spooling.spool.clone() else { return };
        let mut pause = PAUSE;
        tracing::info!(messages = spool.state().records, "draining the spool");
        while !self.drain_ended() {
            match self.drain_some(&*spool).await {
                Ok(true) => pause = PAUSE,
                Ok(false) => tokio::time::sleep(SETTLING).await,
                Err(reason) => {
                    tracing::warn!(%reason, "the spool cannot be drained; trying again");
                    tokio::select! {
                        () = tokio::time::sleep(pause) => pause = (pause * 2).min(LONGEST_PAUSE),
                        () = self.stop.cancelled() => (),
                    }
                }
            }
        }
        let left = spool.state().records;
        tracing::info!(left, "the drain of the spool has ended");
    }

    /// Store the oldest records. `false` = there are none yet.
    async fn drain_some(self: &Arc<Self>, spool: &dyn Spool) -> Result<bool, Refused> {
        let _busy = self.spooling.busy.lock().await;
        let _last = (spool.state().bytes <= BATCH_BYTES as u64).then(|| {
            self.spooling.last_batch.send_replace(true);
            LastBatch(&self.spooling.last_batch)
        });
        let failed = |error: SpoolError| Refused::Unavailable(error.to_string());
        let batch = spool.front(BATCH_BYTES).await.map_err(failed)?;
        if batch.records.is_empty() {
            return Ok(false);
        }
        self.store_batch(&batch).await?;
        self.meters.drained.add(batch.records.len() as u64);
        spool.done(batch).await.map_err(failed)?;
        Ok(true)
    }

    /// In order, in pieces: a batch is as large as the largest put.
    async fn store_batch(self: &Arc<Self>, batch: &SpoolBatch) -> Result<(), Refused> {
        let mut records = batch.records.iter().peekable();
        while records.peek().is_some() {
            let (mut piece, mut bytes) = (Piece::default(), 0);
            while bytes < BATCH_BYTES
                && piece.bundles.len() < BATCH_LANES
                && let Some(record) = records.next()
            {
                bytes += record.body.len();
                let (queue, partition, message) = self.open_spooled(record)?;
                piece.add(queue, partition, message);
            }
            self.store_once(piece.bundles).await?;
        }
        Ok(())
    }

    fn open_spooled(&self, record: &Spooled) -> Result<(Arc<str>, Arc<str>, Message), Refused> {
        let unreadable = || Refused::Conflict("a record of the spool cannot be read".into());
        let (queue, partition, mut message) = decode(&record.body).ok_or_else(unreadable)?;
        if message.encrypted {
            let plain = self.keyring.decrypt(&message.payload, CONTEXT);
            message.payload = plain.map_err(|error| Refused::Conflict(error.to_string()))?.into();
            message.encrypted = false;
        }
        Ok((queue, partition, message))
    }
}

/// Messages by lane, in the order they came.
#[derive(Default)]
struct Piece {
    bundles: Vec<Bundle>,
    by_lane: HashMap<(Arc<str>, Arc<str>), usize>,
}

impl Piece {
    fn add(&mut self, queue: Arc<str>, partition: Arc<str>, message: Message) {
        let bundles = &mut self.bundles;
        let at = *self.by_lane.entry((queue.clone(), partition.clone())).or_insert_with(|| {
            bundles.push(Bundle { queue, partition, positions: Vec::new(), messages: Vec::new() });
            bundles.len() - 1
        });
        self.bundles[at].messages.push(message);
    }
}

/// The same for all messages of a lane. Names hold no NUL.
pub(crate) fn lane_number(queue: &str, partition: &str) -> u64 {
    xxh3_64(&[queue.as_bytes(), &[0], partition.as_bytes()].concat())
}

/// A message and where it goes. Names are at most 255 bytes.
fn encode(queue: &str, partition: &str, message: &Message) -> Bytes {
    let mut out = Vec::with_capacity(2 + queue.len() + partition.len() + message.encoded_len());
    for name in [queue, partition] {
        out.put_u8(name.len() as u8);
        out.put_slice(name.as_bytes());
    }
    message.encode(&mut out);
    out.into()
}

fn decode(record: &Bytes) -> Option<(Arc<str>, Arc<str>, Message)> {
    let mut rest = record.clone();
    let mut name = || {
        let length = usize::from(*rest.first()?);
        rest.advance(1);
        (rest.len() >= length).then(|| rest.split_to(length))
    };
    let (queue, partition) = (name()?, name()?);
    let text = |bytes: &Bytes| std::str::from_utf8(bytes).ok().map(Arc::from);
    let message = Message::decode(&mut rest).ok()?;
    rest.is_empty().then_some(())?;
    Some((text(&queue)?, text(&partition)?, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_and_cut_ones_do_not() {
        let message = Message {
            id: Uuid::now_v7(),
            transaction_id: "t".into(),
            trace_id: None,
            producer_sub: Some("me".into()),
            context: None,
            encrypted: true,
            payload: "{}".into(),
        };
        let (queue, partition) = ("q".repeat(255), "größe");
        let record = encode(&queue, partition, &message);
        assert_eq!(decode(&record), Some((queue.as_str().into(), partition.into(), message)));
        for end in 0..record.len() {
            assert_eq!(decode(&record.slice(..end)), None, "{end}");
        }
    }

    #[test]
    fn lanes_are_told_apart() {
        assert_ne!(lane_number("a", "bc"), lane_number("ab", "c"));
        assert_eq!(lane_number("a", "b"), lane_number("a", "b"));
    }
}
