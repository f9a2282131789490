//! The reference store: everything in maps behind one lock, nothing durable. For tests and for reading.
//!
//! It is the contract in executable form: where a verb's meaning is unclear, this code is the shortest answer. It
//! favours obvious code over speed, scans where a real engine would have an index, and checks before it changes.

mod catalog;
mod log;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use uuid::Uuid;

use crate::catalog::{GroupRecord, Queue, Switches, Trace};
use crate::change::DeadLetter;
use crate::cursor::Cursor;
use crate::name::{Group, LaneId, QueueId};
use crate::time::Timestamp;
use crate::{Answer, Engine};

use log::Log;

/// Tells the time.
type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The reference store.
pub struct MemoryStore {
    clock: Clock,
    exclusive: bool,
    state: Mutex<State>,
}

/// Everything that is stored. Ordered maps, because several answers are ordered by id.
#[derive(Default)]
struct State {
    /// Grows with every change of a queue, a group or a switch.
    version: u64,
    switches: Switches,
    queues: BTreeMap<QueueId, Queue>,
    groups: BTreeMap<(QueueId, Group), GroupRecord>,
    lanes: BTreeMap<LaneId, Log>,
    cursors: BTreeMap<(LaneId, Group), Cursor>,
    dead: BTreeMap<Uuid, DeadLetter>,
    /// In the order they were recorded, which breaks ties of their times.
    traces: Vec<Trace>,
}

impl MemoryStore {
    /// An empty store on the system's clock: the wall time at this moment plus what a monotonic clock counts from it,
    /// so that a jump of the host's clock moves nothing.
    pub fn new() -> Self {
        let started = Instant::now();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let origin = Timestamp::ZERO.plus(wall);
        Self::with_clock(Arc::new(move || origin.plus(started.elapsed())))
    }

    /// An empty store on a clock of the caller's.
    pub fn with_clock(clock: Arc<dyn Fn() -> Timestamp + Send + Sync>) -> Self {
        Self { clock, exclusive: true, state: Mutex::default() }
    }

    /// The same store, but one that says that others may write to it too.
    #[must_use]
    pub fn shared(self) -> Self {
        Self { exclusive: false, ..self }
    }

    /// Do `work` under the lock when the answer is awaited, not before: like a call to a real engine, an answer that
    /// is dropped unawaited has changed nothing.
    fn answer<'a, T>(&'a self, work: impl FnOnce(&mut State) -> T + Send + 'a) -> Answer<'a, T>
    where
        T: Send + 'a,
    {
        Box::pin(async move { Ok(work(&mut self.state.lock())) })
    }

    /// [`Self::answer`] for a batch whose items are worked on one after the other.
    fn each<'a, I, T>(
        &'a self,
        batch: Vec<I>,
        work: impl Fn(&mut State, I) -> T + Send + 'a,
    ) -> Answer<'a, Vec<T>>
    where
        I: Send + 'a,
        T: Send + 'a,
    {
        self.answer(move |state| batch.into_iter().map(|item| work(state, item)).collect())
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("exclusive", &self.exclusive).finish_non_exhaustive()
    }
}

impl Engine for MemoryStore {
    fn close(&self) -> Answer<'_, ()> {
        self.answer(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Catalog, Now, QueueOptions, Store};

    #[test]
    fn the_clock_given_is_the_clock_used() {
        let store = MemoryStore::with_clock(Arc::new(|| Timestamp(42)));
        assert_eq!(store.now(), Now::exactly(Timestamp(42)));
    }

    #[test]
    fn a_store_is_exclusive_unless_said_to_be_shared() {
        assert!(MemoryStore::new().exclusive());
        assert!(!MemoryStore::new().shared().exclusive());
    }

    #[tokio::test]
    async fn an_answer_dropped_unawaited_changed_nothing() {
        let store = MemoryStore::new();
        let queue = Queue {
            id: QueueId::random(),
            name: "q".into(),
            namespace: "".into(),
            task: "".into(),
            created_at: Timestamp::ZERO,
            version: 1,
            options: QueueOptions::default(),
        };
        drop(store.put_queue(queue.clone()));
        assert!(store.snapshot(None).await.unwrap().unwrap().queues.is_empty());
        store.put_queue(queue).await.unwrap();
        assert_eq!(store.snapshot(None).await.unwrap().unwrap().queues.len(), 1);
    }
}
