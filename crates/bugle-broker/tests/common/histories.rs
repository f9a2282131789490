//! A store with a copy that can stop following it, and takes its place when the first one fails: a failover to a standby.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use bugle_store::*;
use uuid::Uuid;

const FOLLOWING: u8 = 0;
const LAGGING: u8 = 1;
const PROMOTED: u8 = 2;

/// See the module. While the copy follows, whatever changes the first is done to it too.
pub struct Histories {
    first: Arc<dyn Engine>,
    copy: Arc<dyn Engine>,
    state: AtomicU8,
    timeline: AtomicU64,
}

impl Histories {
    pub fn new(first: Arc<dyn Engine>, copy: Arc<dyn Engine>) -> Arc<Self> {
        let (state, timeline) = (AtomicU8::new(FOLLOWING), AtomicU64::new(0));
        Arc::new(Self { first, copy, state, timeline })
    }

    /// From now on the copy gets nothing.
    pub fn lag(&self) {
        self.state.store(LAGGING, Ordering::SeqCst);
    }

    /// The copy is the store from now on, as it is.
    pub fn fail_over(&self) {
        self.state.store(PROMOTED, Ordering::SeqCst);
        self.timeline.fetch_add(1, Ordering::SeqCst);
    }

    fn now_serving(&self) -> &Arc<dyn Engine> {
        if self.state.load(Ordering::SeqCst) == PROMOTED { &self.copy } else { &self.first }
    }

    fn follows(&self) -> bool {
        self.state.load(Ordering::SeqCst) == FOLLOWING
    }
}

macro_rules! changes {
    ($($name:ident($($arg:ident: $type:ty),*) -> $answer:ty;)*) => {$(
        fn $name(&self, $($arg: $type),*) -> Answer<'_, $answer> {
            let called = self.timeline();
            Box::pin(async move {
                if self.timeline() != called {
                    return Err(Unavailable::new("another timeline"));
                }
                if self.follows() {
                    self.copy.$name($($arg.clone()),*).await?;
                }
                self.now_serving().$name($($arg),*).await
            })
        }
    )*};
}

macro_rules! questions {
    ($($name:ident($($arg:ident: $type:ty),*) -> $answer:ty;)*) => {$(
        fn $name(&self, $($arg: $type),*) -> Answer<'_, $answer> {
            Box::pin(async move { self.now_serving().$name($($arg),*).await })
        }
    )*};
}

impl Store for Histories {
    fn now(&self) -> Now {
        self.first.now()
    }

    fn exclusive(&self) -> bool {
        false
    }

    fn timeline(&self) -> u64 {
        self.timeline.load(Ordering::SeqCst)
    }

    changes! {
        append(batch: Vec<Append>) -> Vec<Result<Appended, AppendError>>;
        swap(batch: Vec<Swap>) -> Vec<Result<Swapped, SwapError>>;
        commit(batch: Vec<Commit>) -> Vec<Result<Committed, CommitError>>;
        trim(batch: Vec<Trim>) -> Vec<u64>;
    }

    questions! {
        read(batch: Vec<Read>) -> Vec<Segments>;
        find(batch: Vec<Find>) -> Vec<Vec<Found>>;
        probe(batch: Vec<Probe>) -> Vec<Probed>;
        load(batch: Vec<Load>) -> Vec<Vec<LaneCursor>>;
        position(batch: Vec<Position>) -> Vec<Offset>;
        aged(batch: Vec<Aged>) -> Vec<Vec<AgedLane>>;
        survey(survey: Survey) -> Surveyed;
    }
}

impl Catalog for Histories {
    changes! {
        put_switches(change: PutSwitches) -> Switches;
        put_queue(queue: Queue) -> PutQueue;
        delete_queue(id: QueueId) -> bool;
        ensure_lanes(batch: Vec<NewLane>) -> Vec<Result<Lane, LaneError>>;
        put_group(group: GroupRecord) -> Option<GroupRecord>;
        update_group(group: GroupRecord) -> bool;
        delete_group(queue: QueueId, group: Group, record: bool) -> u64;
        delete_dead_letters(ids: Vec<Uuid>) -> u64;
        put_trace(trace: Trace) -> ();
        expire(what: Expire, limit: usize) -> u64;
    }

    questions! {
        ping() -> ();
        snapshot(known: Option<u64>) -> Option<Snapshot>;
        lanes(queue: QueueId, after: Option<Arc<str>>, limit: usize) -> Vec<Lane>;
        tallies(queues: Option<Vec<QueueId>>, now: Timestamp) -> Vec<QueueTally>;
        dead_letters(filter: DeadLetterFilter, page: Page) -> (Vec<DeadLetter>, u64);
        dead_letters_after(filter: DeadLetterFilter, after: Option<(Timestamp, Uuid)>, limit: usize) -> Vec<DeadLetter>;
        traces(filter: TraceFilter, page: Page) -> (Vec<Trace>, u64);
        trace_names(page: Page) -> (Vec<TraceName>, u64);
    }
}

impl Engine for Histories {
    fn close(&self) -> Answer<'_, ()> {
        self.first.close()
    }
}
