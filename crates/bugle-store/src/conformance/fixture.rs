//! What the cases share: a queue of their own with a random name, and one-item forms of the batch calls.
//!
//! A case sees nothing but its own queue, so that any number of cases can run on one database at the same time.
//! Times are fixed moments of the recent past: the callers of a store pass them in, so no case has to wait.

use std::sync::Arc;

use bytes::Bytes;
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::{
    Append, AppendError, Appended, Commit, CommitError, Committed, Cursor, DeadLetter, DeadLetterFilter,
    Engine, Find, Found, Group, Guard, Lane, LaneCursor, LaneId, Load, Message, NewLane, NewSegment, Offset,
    Page, PutQueue, Queue, QueueId, QueueOptions, Read, Segment, Segments, Swap, SwapError, Swapped,
    Timestamp, Trim, Unavailable,
};

/// A page that holds everything a case can have.
pub(super) const ALL: Page = Page { offset: 0, limit: MANY };

/// More than a case can have.
pub(super) const MANY: usize = 100_000;

/// `seconds` after a fixed moment in 2023. Cases that expire rows work before 1990, so they never meet these.
pub(super) fn at(seconds: i64) -> Timestamp {
    Timestamp(1_700_000_000_000_000 + seconds * 1_000_000)
}

/// The answer of a call that must not fail: conformance is about a store that is available.
pub(super) fn up<T>(answer: Result<T, Unavailable>) -> T {
    answer.expect("the store answers")
}

/// The only item of a batch of one.
pub(super) fn one<T>(answer: Result<Vec<T>, Unavailable>) -> T {
    let mut items = up(answer);
    assert_eq!(items.len(), 1, "a batch of one has one outcome");
    items.remove(0)
}

/// A random number.
pub(super) fn random() -> u64 {
    Uuid::new_v4().as_u64_pair().1 ^ Uuid::new_v4().as_u64_pair().0
}

/// A name nobody else uses.
pub(super) fn unique(prefix: &str) -> Arc<str> {
    format!("{prefix}-{}", Uuid::new_v4()).into()
}

/// A queue that was never stored.
pub(super) fn new_queue(name: &str) -> Queue {
    Queue {
        id: QueueId::random(),
        name: name.into(),
        namespace: "".into(),
        task: "".into(),
        created_at: at(0),
        version: 1,
        options: QueueOptions::default(),
    }
}

/// A message with this transaction id.
pub(super) fn message(transaction: &str) -> Message {
    Message {
        id: Uuid::now_v7(),
        transaction_id: Bytes::copy_from_slice(transaction.as_bytes()),
        trace_id: None,
        producer_sub: None,
        context: None,
        encrypted: false,
        payload: Bytes::from(format!("{{\"n\":\"{transaction}\"}}")),
    }
}

/// A segment of messages with these transaction ids.
pub(super) fn segment(transactions: &[&str]) -> NewSegment {
    let messages: Vec<Message> = transactions.iter().map(|t| message(t)).collect();
    NewSegment::build(random(), &messages)
}

/// A segment with this body, which stores must not look into, and `count` random fingerprints.
pub(super) fn opaque(count: usize, body: impl Into<Bytes>) -> NewSegment {
    let fingerprints = (0..count).map(|_| random()).collect();
    NewSegment { id: random(), fingerprints, greatest: None, body: body.into() }
}

/// An append of `segment` without a guard.
pub(super) fn free(lane: LaneId, segment: NewSegment, now: Timestamp) -> Append {
    Append { lane, known_head: 0, guard: Guard::Free, segment, now }
}

/// An append of `segment` under `guard`.
pub(super) fn guarded(lane: LaneId, guard: Guard, known_head: Offset, segment: NewSegment) -> Append {
    Append { lane, known_head, guard, segment, now: at(1) }
}

/// The cursor that follows epoch `expect`, at `committed`.
pub(super) fn cursor(expect: u64, committed: Offset) -> Cursor {
    Cursor { epoch: expect + 1, ..Cursor::fresh(committed) }
}

/// An exchange of epoch `expect` for `next`.
pub(super) fn swap(lane: LaneId, group: &str, expect: u64, next: Cursor) -> Swap {
    Swap { lane, group: group.into(), expect, next, read: None, dead: Vec::new() }
}

/// What the tasks of a case answer, in order.
pub(super) async fn join<T>(tasks: Vec<JoinHandle<T>>) -> Vec<T> {
    let mut out = Vec::new();
    for task in tasks {
        out.push(task.await.expect("a task of the case"));
    }
    out
}

/// The transaction ids in `segments`, in order.
pub(super) fn transactions(segments: &[Segment]) -> Vec<String> {
    let messages = segments.iter().flat_map(|s| s.messages().expect("a body comes back as it was stored"));
    messages.map(|m| m.transaction().to_owned()).collect()
}

/// The bases of `segments`.
pub(super) fn bases(segments: &[Segment]) -> Vec<Offset> {
    segments.iter().map(|s| s.base).collect()
}

/// A queue of its own on an engine. Dereferences to the engine.
pub(super) struct Fixture {
    pub(super) engine: Arc<dyn Engine>,
    pub(super) queue: Queue,
}

impl std::ops::Deref for Fixture {
    type Target = dyn Engine;

    fn deref(&self) -> &Self::Target {
        &*self.engine
    }
}

impl Fixture {
    /// A queue with a random name.
    pub(super) async fn new(engine: Arc<dyn Engine>) -> Self {
        let queue = new_queue(&unique("conformance"));
        let put = up(engine.put_queue(queue.clone()).await);
        assert_eq!(put, PutQueue::Stored(queue.clone()));
        Self { engine, queue }
    }

    /// A second queue on the same engine.
    pub(super) async fn neighbour(&self) -> Self {
        Self::new(self.engine.clone()).await
    }

    /// This lane, created if needed.
    pub(super) async fn lane(&self, name: &str) -> LaneId {
        self.lane_at(name, at(0)).await.id
    }

    /// This lane, created at `now` if needed.
    pub(super) async fn lane_at(&self, name: &str, now: Timestamp) -> Lane {
        let new = NewLane { queue: self.queue.id, name: name.into(), now };
        one(self.ensure_lanes(vec![new]).await).expect("the queue exists")
    }

    /// `count` lanes in the order of their ids.
    pub(super) async fn sorted_lanes(&self, count: usize) -> Vec<LaneId> {
        let new = |i| NewLane { queue: self.queue.id, name: format!("lane-{i}").into(), now: at(0) };
        let lanes = up(self.ensure_lanes((0..count).map(new).collect()).await);
        let mut ids: Vec<LaneId> = lanes.into_iter().map(|lane| lane.expect("the queue exists").id).collect();
        ids.sort_unstable();
        ids
    }

    pub(super) async fn append_one(&self, item: Append) -> Result<Appended, AppendError> {
        one(self.append(vec![item]).await)
    }

    /// Append without a guard what must be stored.
    pub(super) async fn put(&self, lane: LaneId, segment: NewSegment, now: Timestamp) -> Appended {
        self.append_one(free(lane, segment, now)).await.expect("a free append to a lane that exists")
    }

    /// Append messages with these transaction ids.
    pub(super) async fn push(&self, lane: LaneId, transactions: &[&str]) -> Appended {
        self.put(lane, segment(transactions), at(1)).await
    }

    pub(super) async fn swap_one(&self, item: Swap) -> Result<Swapped, SwapError> {
        one(self.swap(vec![item]).await)
    }

    /// Store the first cursor of a group, at `committed`.
    pub(super) async fn seed(&self, lane: LaneId, group: &str, committed: Offset) -> Cursor {
        let next = cursor(0, committed);
        self.swap_one(swap(lane, group, 0, next.clone())).await.expect("the group had no cursor");
        next
    }

    pub(super) async fn commit_one(&self, item: Commit) -> Result<Committed, CommitError> {
        one(self.commit(vec![item]).await)
    }

    pub(super) async fn read_one(
        &self,
        lane: LaneId,
        from: Offset,
        to: Offset,
        max_bytes: usize,
    ) -> Segments {
        one(self.read(vec![Read { lane, from, to, max_bytes }]).await)
    }

    /// Everything kept in a lane.
    pub(super) async fn read_all(&self, lane: LaneId) -> Segments {
        self.read_one(lane, 0, i64::MAX as Offset, usize::MAX).await
    }

    pub(super) async fn find_one(&self, query: Find) -> Vec<Found> {
        one(self.find(vec![query]).await)
    }

    pub(super) async fn load_one(&self, what: Load) -> Vec<LaneCursor> {
        one(self.load(vec![what]).await)
    }

    /// The lane as it is now, if there is one.
    pub(super) async fn state(&self, lane: LaneId) -> Option<Lane> {
        self.load_one(Load::Lane(lane, "nobody".into())).await.pop().map(|found| found.lane)
    }

    /// Head and tail of a lane that exists.
    pub(super) async fn ends(&self, lane: LaneId) -> (Offset, Offset) {
        let lane = self.state(lane).await.expect("the lane exists");
        (lane.head, lane.tail)
    }

    /// A group's cursor on a lane.
    pub(super) async fn cursor_of(&self, lane: LaneId, group: &str) -> Option<Cursor> {
        self.load_one(Load::Lane(lane, group.into())).await.pop().and_then(|found| found.cursor)
    }

    pub(super) async fn trim_one(&self, lane: LaneId, to: Offset) -> u64 {
        one(self.trim(vec![Trim { lane, to }]).await)
    }

    /// A dead letter of this queue that failed `seconds` after the fixed moment.
    pub(super) fn letter(&self, lane: LaneId, group: &str, transaction: &str, seconds: i64) -> DeadLetter {
        DeadLetter {
            id: Uuid::now_v7(),
            queue: self.queue.id,
            lane,
            partition: "partition".into(),
            group: Group::from(group),
            offset: 7,
            message: message(transaction).to_bytes(),
            transaction_id: transaction.to_owned(),
            error: "boom".to_owned(),
            attempts: 4,
            created_at: at(0),
            failed_at: at(seconds),
        }
    }

    /// A filter for this queue only.
    pub(super) fn own(&self) -> DeadLetterFilter {
        DeadLetterFilter { queue: Some(self.queue.id), ..DeadLetterFilter::default() }
    }

    /// The dead letters of this queue.
    pub(super) async fn letters(&self) -> Vec<DeadLetter> {
        up(self.dead_letters(self.own(), ALL).await).0
    }
}
