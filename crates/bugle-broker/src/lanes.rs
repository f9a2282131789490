//! What the broker remembers of lanes: head and tail as last seen, recent ids, fresh segments, pushes that wait.
//!
//! All of it is a cache. The head is trusted for one purpose only: as the condition of the next append. Whatever the
//! store answers replaces it, and a head below the one last seen drops everything remembered of that lane.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use bugle_store::{Appended, Lane, LaneId, NewSegment, Offset, QueueId, Segment, Timestamp};

use crate::dedupe::{Meter, Recent};
use crate::push::PushJob;

const SHARDS: usize = 64;

/// What a remembered segment takes besides its body: itself, its body's owner, its place in both queues, and what the allocator rounds up.
const SEGMENT_OVERHEAD: usize = 192;

/// One lane.
pub(crate) struct LaneState {
    pub(crate) id: LaneId,
    pub(crate) queue: QueueId,
    pub(crate) name: Arc<str>,
    pub(crate) inner: Mutex<LaneInner>,
}

/// The changing part of a lane.
pub(crate) struct LaneInner {
    /// As last seen in the store.
    pub(crate) lane: Lane,
    /// The head may have moved unseen (a call failed): load before the next append.
    pub(crate) stale: bool,
    /// Another server writes here too.
    pub(crate) contended: bool,
    /// This server stored the lane's first message, so hardly anybody else can have a cursor here.
    pub(crate) begun_here: bool,
    pub(crate) recent: Recent,
    /// Pushes that wait for the append in flight.
    pub(crate) waiting: VecDeque<PushJob>,
    /// An append is in flight, or the lane waits for a slot.
    pub(crate) pushing: bool,
    /// Fresh segments in order, for delivery without reading them back.
    segments: VecDeque<Segment>,
}

impl LaneState {
    fn new(lane: Lane, meter: &Meter) -> Arc<Self> {
        let recent = Recent::starting_at(lane.head, lane.greatest, meter);
        Arc::new(Self {
            id: lane.id,
            queue: lane.queue,
            name: lane.name.clone(),
            inner: Mutex::new(LaneInner {
                lane,
                stale: false,
                contended: false,
                begun_here: false,
                recent,
                waiting: VecDeque::new(),
                pushing: false,
                segments: VecDeque::new(),
            }),
        })
    }

    /// Head and tail as last seen.
    pub(crate) fn bounds(&self) -> (Offset, Offset) {
        let inner = self.inner.lock();
        (inner.lane.head, inner.lane.tail)
    }

    /// The lane as last seen.
    pub(crate) fn view(&self) -> Lane {
        self.inner.lock().lane.clone()
    }

    /// Take over what the store says of this lane. `true` = it has grown since it was last seen.
    pub(crate) fn absorb(&self, lane: &Lane) -> bool {
        self.inner.lock().absorb(lane)
    }

    /// Take over what the store says in refusing an append. A head that went back is believed when it is said again
    /// (`insist`): the first time it may be an answer that a later commit has overtaken.
    pub(crate) fn correct(&self, lane: &Lane, insist: bool) {
        let mut inner = self.inner.lock();
        let other = lane.head < inner.lane.head || lane.created_at != inner.lane.created_at;
        if other && insist {
            inner.start_over(lane);
        } else {
            inner.absorb(lane);
        }
        inner.contended = true;
    }

    /// The segments that cover `from..to`, if all of them are remembered.
    pub(crate) fn cached(&self, from: Offset, to: Offset) -> Option<Vec<Segment>> {
        let inner = self.inner.lock();
        let first = inner.segments.partition_point(|s| s.end() <= from);
        let mut next = from;
        let mut found = Vec::new();
        for segment in inner.segments.iter().skip(first) {
            if next >= to {
                break;
            }
            if segment.base > next {
                return None;
            }
            next = segment.end();
            found.push(segment.clone());
        }
        (next >= to).then_some(found)
    }
}

impl LaneInner {
    /// See [`LaneState::absorb`]. An answer may be older than what is known by now, so a smaller head of the same
    /// incarnation is ignored; a lane created later is another one.
    fn absorb(&mut self, lane: &Lane) -> bool {
        if lane.created_at > self.lane.created_at {
            self.start_over(lane);
            return true;
        }
        let grown = lane.created_at == self.lane.created_at && lane.head > self.lane.head;
        if grown {
            self.contended = true;
            self.lane.head = lane.head;
        }
        if lane.created_at == self.lane.created_at {
            self.lane.tail = self.lane.tail.max(lane.tail).min(self.lane.head);
            self.lane.written_at = self.lane.written_at.max(lane.written_at);
            self.lane.greatest = self.lane.greatest.max(lane.greatest);
        }
        self.stale = false;
        grown
    }

    /// A segment was appended by this server.
    pub(crate) fn grow(&mut self, appended: Appended, segment: &NewSegment) {
        self.begun_here |= appended.base == 0;
        self.lane.head = self.lane.head.max(appended.base + u64::from(segment.count()));
        self.lane.written_at = self.lane.written_at.max(appended.created_at);
        self.lane.greatest = self.lane.greatest.max(segment.greatest);
    }

    /// Forget what belongs to an earlier incarnation.
    fn start_over(&mut self, lane: &Lane) {
        self.recent.start_over(lane.head, lane.greatest);
        self.segments.clear();
        self.lane = lane.clone();
        self.stale = false;
        self.begun_here = false;
    }

    /// Forget everything: the store tells what the lane is now, and is asked before the next append.
    fn forget(&mut self) {
        let (head, tail, created_at) = (0, 0, Timestamp::ZERO);
        let lane =
            Lane { head, tail, created_at, written_at: created_at, greatest: None, ..self.lane.clone() };
        self.start_over(&lane);
        self.stale = true;
    }

    /// Remember a segment that was just committed at the head.
    fn remember(&mut self, segment: Segment) {
        if self.segments.back().is_some_and(|last| last.end() > segment.base) {
            return;
        }
        // Most of many lanes have one.
        if self.segments.capacity() == 0 {
            self.segments.reserve_exact(1);
        }
        self.segments.push_back(segment);
    }
}

/// Part of the lanes, under a lock of its own.
#[derive(Default)]
struct Shard {
    lanes: HashMap<LaneId, Arc<LaneState>, foldhash::fast::RandomState>,
    /// Lanes that were left when spare ones were last looked for: all were held by somebody.
    kept: usize,
}

impl Shard {
    /// Let some lanes go that nobody else holds, if there are more than `most`: a push in progress or a consumer's entry keeps its
    /// lane. Where none can go the next look is for an eighth more of them.
    fn shed(&mut self, most: usize) {
        if self.lanes.len() < most.max(self.kept + self.kept / 8) {
            return;
        }
        let spare = self.lanes.iter().filter(|(_, s)| Arc::strong_count(s) == 1).map(|(id, _)| *id);
        let spare: Vec<LaneId> = spare.take(16).collect();
        spare.iter().for_each(|id| drop(self.lanes.remove(id)));
        self.kept = if spare.is_empty() { self.lanes.len() } else { 0 };
    }
}

/// All lanes in memory, bounded.
pub(crate) struct Lanes {
    shards: Vec<Mutex<Shard>>,
    most_per_shard: usize,
    cached: Mutex<VecDeque<(Weak<LaneState>, Offset, usize)>>,
    cached_bytes: AtomicUsize,
    cache_max: usize,
    dedupe: Meter,
}

impl Lanes {
    /// At most `most` lanes and `cache_max` bytes of segments.
    pub(crate) fn new(most: usize, cache_max: usize) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            most_per_shard: most.div_ceil(SHARDS),
            cached: Mutex::default(),
            cached_bytes: AtomicUsize::new(0),
            cache_max,
            dedupe: Meter::default(),
        }
    }

    /// Bytes of fingerprints over all lanes.
    pub(crate) fn dedupe_meter(&self) -> &AtomicUsize {
        &self.dedupe
    }

    fn shard(&self, id: LaneId) -> &Mutex<Shard> {
        &self.shards[(id.0.as_u128() >> 120) as usize % SHARDS]
    }

    /// A lane in memory.
    pub(crate) fn get(&self, id: LaneId) -> Option<Arc<LaneState>> {
        self.shard(id).lock().lanes.get(&id).cloned()
    }

    /// The lane as the store answered it, remembered from now on, and whether it has grown since it was last seen.
    pub(crate) fn absorb(&self, lane: &Lane) -> (Arc<LaneState>, bool) {
        let mut shard = self.shard(lane.id).lock();
        if let Some(state) = shard.lanes.get(&lane.id) {
            let state = state.clone();
            drop(shard);
            let grown = state.absorb(lane);
            return (state, grown);
        }
        shard.shed(self.most_per_shard);
        let state = LaneState::new(lane.clone(), &self.dedupe);
        shard.lanes.insert(lane.id, state.clone());
        (state, false)
    }

    /// Forget a lane (its queue is gone, or it was collected).
    pub(crate) fn forget(&self, id: LaneId) {
        self.shard(id).lock().lanes.remove(&id);
    }

    /// Forget all that was learned of lanes, whoever holds them.
    pub(crate) fn forget_all(&self) {
        for shard in &self.shards {
            let lanes: Vec<Arc<LaneState>> = shard.lock().lanes.values().cloned().collect();
            lanes.iter().for_each(|lane| lane.inner.lock().forget());
        }
        let dropped: usize = self.cached.lock().drain(..).map(|(_, _, bytes)| bytes).sum();
        self.cached_bytes.fetch_sub(dropped, Ordering::Relaxed);
    }

    /// Forget all lanes of a queue.
    pub(crate) fn forget_queue(&self, queue: QueueId) {
        for shard in &self.shards {
            shard.lock().lanes.retain(|_, lane| lane.queue != queue);
        }
    }

    /// Remember a fresh segment, if it still `counts`, and drop the oldest ones over the bound.
    pub(crate) fn remember(&self, lane: &Arc<LaneState>, segment: Segment, counts: impl Fn() -> bool) {
        let bytes = segment.body.len() + SEGMENT_OVERHEAD;
        if bytes > self.cache_max / 4 {
            return;
        }
        let base = segment.base;
        {
            let mut inner = lane.inner.lock();
            // Asked under the lock under which memory is emptied.
            if !counts() {
                return;
            }
            inner.remember(segment);
        }
        let mut used = self.cached_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let mut dropped = Vec::new();
        let mut cached = self.cached.lock();
        cached.push_back((Arc::downgrade(lane), base, bytes));
        while used > self.cache_max {
            let Some((lane, base, bytes)) = cached.pop_front() else { break };
            used = self.cached_bytes.fetch_sub(bytes, Ordering::Relaxed) - bytes;
            dropped.push((lane, base));
        }
        drop(cached);
        for (lane, base) in dropped {
            let Some(lane) = lane.upgrade() else { continue };
            let mut inner = lane.inner.lock();
            while inner.segments.front().is_some_and(|s| s.base <= base) {
                inner.segments.pop_front();
            }
            if inner.segments.is_empty() {
                inner.segments = VecDeque::new();
            }
        }
    }
}
