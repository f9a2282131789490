//! Bodies of recent segments in memory, so that a fresh message is delivered without reading it back.

use std::collections::{BTreeMap, VecDeque};

use bugle_store::{Offset, Segment};

/// What an entry costs beside its body.
const OVERHEAD: usize = 160;

/// Bounded by bytes; the oldest goes first.
pub(crate) struct Cache {
    limit: usize,
    bytes: usize,
    segments: BTreeMap<(u64, Offset), Segment>,
    order: VecDeque<(u64, Offset)>,
}

impl Cache {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, bytes: 0, segments: BTreeMap::new(), order: VecDeque::new() }
    }

    pub(crate) fn add(&mut self, uid: u64, segment: Segment) {
        let cost = segment.body.len() + OVERHEAD;
        if cost > self.limit {
            return;
        }
        self.order.push_back((uid, segment.base));
        if let Some(old) = self.segments.insert((uid, segment.base), segment) {
            self.bytes -= old.body.len() + OVERHEAD;
        }
        self.bytes += cost;
        while self.bytes > self.limit {
            let Some(oldest) = self.order.pop_front() else { break };
            if let Some(gone) = self.segments.remove(&oldest) {
                self.bytes -= gone.body.len() + OVERHEAD;
            }
        }
    }

    /// The segment that holds `offset`.
    pub(crate) fn get(&self, uid: u64, offset: Offset) -> Option<&Segment> {
        let (_, segment) = self.segments.range((uid, 0)..=(uid, offset)).next_back()?;
        (segment.end() > offset).then_some(segment)
    }
}
