//! Screening: which of the messages about to be appended are already there.
//!
//! Three places are looked at, cheapest first: the other messages of the same append, the fingerprints in memory, and
//! the stored blocks for what memory does not cover. A fingerprint that matches is compared with the stored id.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use uuid::Uuid;

use bugle_store::{Find, LaneId, Offset, Read, Segment, Timestamp, fingerprint, uuid_v7};

use crate::api::Refused;
use crate::dedupe::Ids;
use crate::inner::Inner;
use crate::lanes::LaneState;

use super::append::Work;

/// Messages of others that are not read just to keep the fingerprints complete: the store looks through fewer than these with each append.
const GAP: Offset = 64;
const GAP_BYTES: usize = 16 << 20;

/// What screening says of one message.
pub(crate) enum Slot {
    /// Not there: append it.
    Fresh,
    /// The same id as the message at this index of the same append.
    SameAs(usize),
    /// Stored before under this message id.
    Known(Uuid),
    /// One of these offsets may hold the same id.
    Ask(Vec<Offset>),
}

impl Inner {
    /// Decide for every message of `open` whether it is new.
    pub(crate) async fn screen(&self, open: &mut [Work]) -> Result<(), Refused> {
        let now = self.engine.now().latest;
        let mut finds = Vec::new();
        for (w, work) in open.iter_mut().enumerate() {
            if !work.screens() {
                work.slots = work.messages().map(|_| Slot::Fresh).collect();
                continue;
            }
            let window = work.window.filter(|_| !work.once);
            let since = window.map_or(Timestamp::ZERO, |window| now.minus(window));
            if let Some((find, slots)) = screen_in_memory(work, since) {
                finds.push((w, find, slots));
            }
        }
        if !finds.is_empty() {
            let batch = finds.iter().map(|(_, find, _)| find.clone()).collect();
            let found = self.watch(self.engine.find(batch).await)?;
            for ((w, _, slots), found) in finds.into_iter().zip(found) {
                for hit in found {
                    match &mut open[w].slots[slots[hit.index]] {
                        Slot::Ask(offsets) => offsets.push(hit.offset),
                        slot => *slot = Slot::Ask(vec![hit.offset]),
                    }
                }
            }
        }
        self.confirm(open, now).await
    }

    /// Compare the ids behind matching fingerprints.
    async fn confirm(&self, open: &mut [Work], now: Timestamp) -> Result<(), Refused> {
        let mut wanted: Vec<(LaneId, Offset)> = Vec::new();
        for work in open.iter() {
            for slot in &work.slots {
                if let Slot::Ask(offsets) = slot {
                    wanted.extend(offsets.iter().map(|at| (work.lane.id, *at)));
                }
            }
        }
        if wanted.is_empty() {
            return Ok(());
        }
        wanted.sort_unstable();
        wanted.dedup();
        let stored = self.messages_at(&wanted).await?;
        for work in open {
            let since = work.window.map(|window| now.minus(window));
            let ids: Vec<(bytes::Bytes, Uuid)> =
                work.messages().map(|m| (m.transaction_id.clone(), m.id)).collect();
            for (slot, (id, own)) in work.slots.iter_mut().zip(ids) {
                let Slot::Ask(offsets) = slot else { continue };
                let original = offsets.iter().find_map(|at| {
                    let (message, created_at) = stored.get(&(work.lane.id, *at))?;
                    // A message is itself whatever the window says.
                    let counts = message.id == own || since.is_some_and(|since| *created_at >= since);
                    (message.transaction_id == id && counts).then_some(message.id)
                });
                *slot = original.map_or(Slot::Fresh, Slot::Known);
            }
            same_in_append(work);
        }
        Ok(())
    }

    /// Read what other servers appended, so that memory covers up to the heads. Small gaps are left to the store's own check, the first
    /// time: it looks through them under the lane's lock.
    pub(super) async fn read_gaps(&self, open: &[Work]) -> Result<(), Refused> {
        loop {
            let gaps: Vec<(&Arc<LaneState>, Range<Offset>)> = open.iter().filter_map(Work::gap).collect();
            if gaps.is_empty() {
                return Ok(());
            }
            let max_bytes = GAP_BYTES / gaps.len();
            let reads = gaps.iter().map(|(lane, gap)| Read {
                lane: lane.id,
                from: gap.start,
                to: gap.end,
                max_bytes,
            });
            let read = self.watch(self.engine.read(reads.collect()).await)?;
            for ((lane, gap), segments) in gaps.into_iter().zip(read) {
                self.fill_gap(lane, gap, &segments);
            }
        }
    }

    fn fill_gap(&self, lane: &LaneState, gap: Range<Offset>, segments: &[Segment]) {
        let mut guard = lane.inner.lock();
        let inner = &mut *guard;
        if segments.first().is_none_or(|s| s.base > gap.start) {
            // Trimmed meanwhile: nothing to know about what is gone.
            inner.recent.start_over(segments.first().map_or(gap.end, |s| s.base), inner.lane.greatest);
        }
        for segment in segments {
            let (fingerprints, ids) = ids_of(segment);
            // An append that went past what others wrote has not told their ids.
            inner.lane.greatest = inner.lane.greatest.max(ids.greatest());
            inner.recent.insert(segment.base, &fingerprints, ids, segment.created_at);
        }
        if inner.recent.covered().end == gap.start {
            // A segment that cannot be decoded: its ids are not known, and it must not be read forever.
            inner.recent.start_over(segments.last().map_or(gap.end, Segment::end), inner.lane.greatest);
        }
        self.bound_dedupe(&mut inner.recent);
    }
}

impl Work {
    /// What others wrote to the lane that is worth reading before it is screened.
    fn gap(&self) -> Option<(&Arc<LaneState>, Range<Offset>)> {
        let (from, to) = {
            let inner = self.lane.inner.lock();
            (inner.recent.covered().end, inner.lane.head)
        };
        let least = if self.tries > 0 || self.once { 1 } else { GAP };
        (self.screens() && to >= from + least).then_some((&self.lane, from..to))
    }
}

/// Screen against the same append and memory. Answers what must be looked for in the store, with the slots it is for.
fn screen_in_memory(work: &mut Work, since: Timestamp) -> Option<(Find, Vec<usize>)> {
    let mut slots = Vec::with_capacity(work.messages().count());
    let (mut fingerprints, mut asked) = (Vec::new(), Vec::new());
    let mut inner = work.lane.inner.lock();
    inner.recent.expire(since);
    let covered = inner.recent.covered();
    let uncovered = covered.start > inner.lane.tail;
    let greatest = inner.lane.greatest;
    for (i, message) in work.messages().enumerate() {
        let id = uuid_v7(&message.transaction_id);
        if id.is_some() && id > greatest {
            slots.push(Slot::Fresh);
            continue;
        }
        let fp = fingerprint(&message.transaction_id);
        let candidates = inner.recent.candidates(fp, id);
        if uncovered && !inner.recent.above_unseen(id) {
            fingerprints.push(fp);
            asked.push(i);
        }
        slots.push(if candidates.is_empty() { Slot::Fresh } else { Slot::Ask(candidates) });
    }
    let screened = covered.end;
    let find = Find { lane: work.lane.id, fingerprints, from: inner.lane.tail, to: covered.start, since };
    drop(inner);
    work.slots = slots;
    work.screened = screened;
    same_in_append(work);
    (!asked.is_empty()).then_some((find, asked))
}

/// Mark messages that repeat an earlier one of the same append.
fn same_in_append(work: &mut Work) {
    if work.window.is_none() {
        return;
    }
    let ids: Vec<bytes::Bytes> = work.messages().map(|m| m.transaction_id.clone()).collect();
    if ids.len() < 2 {
        return;
    }
    let mut first: HashMap<&[u8], usize, foldhash::fast::RandomState> =
        HashMap::with_capacity_and_hasher(ids.len(), Default::default());
    for (i, id) in ids.iter().enumerate() {
        if let Some(earlier) = first.get(&id[..]) {
            work.slots[i] = Slot::SameAs(*earlier);
        } else {
            first.insert(id, i);
        }
    }
}

/// Fingerprints and UUIDv7 range of a stored segment.
fn ids_of(segment: &Segment) -> (Vec<u64>, Ids) {
    let mut ids = Ids::default();
    let messages = segment.messages().unwrap_or_default();
    let fingerprints = messages
        .iter()
        .map(|m| {
            if let Some(id) = uuid_v7(&m.transaction_id) {
                ids.add(id);
            }
            fingerprint(&m.transaction_id)
        })
        .collect();
    (fingerprints, ids)
}
