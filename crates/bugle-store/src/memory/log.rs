//! Lanes, their segments, and cursors: the [`Store`] half of the reference store.
//!
//! Every change is split into a check that changes nothing and a step that cannot fail. A commit is then all checks
//! followed by all steps, which is what makes it atomic.

use std::sync::Arc;

use crate::change::{
    Append, AppendError, Appended, Commit, CommitError, Committed, Guard, Swap, SwapError, Swapped,
};
use crate::cursor::Cursor;
use crate::lane::{
    Aged, AgedLane, Find, Found, Lane, LaneCursor, Load, Position, Probe, Probed, Read, Segments, Trim,
};
use crate::name::{Group, LaneId};
use crate::segment::{Offset, Segment};
use crate::survey::{Survey, Surveyed, WrittenLane};
use crate::time::Now;
use crate::{Answer, Store};

use super::{MemoryStore, State};

/// A lane with its kept segments, oldest first.
pub(super) struct Log {
    pub(super) lane: Lane,
    pub(super) entries: Vec<Entry>,
}

/// A stored segment.
pub(super) struct Entry {
    segment: Segment,
    fingerprints: Arc<[u64]>,
}

impl Entry {
    /// Offsets at which `wanted` occurs.
    fn occurrences(&self, wanted: u64) -> impl Iterator<Item = Offset> {
        let found = self.fingerprints.iter().enumerate().filter(move |(_, have)| **have == wanted);
        found.map(|(i, _)| self.segment.base + i as Offset)
    }
}

impl Log {
    /// Whether `wanted` occurs at or above `from`.
    fn occurs_from(&self, from: Offset, wanted: u64) -> bool {
        let from = from.max(self.lane.tail);
        self.entries.iter().any(|e| e.occurrences(wanted).any(|offset| offset >= from))
    }

    fn push(&mut self, item: Append) -> Appended {
        let created_at = item.now.max(self.lane.written_at);
        let base = self.lane.head;
        let segment = Segment {
            base,
            count: item.segment.count(),
            created_at,
            id: item.segment.id,
            body: item.segment.body,
        };
        self.lane.head = segment.end();
        self.lane.written_at = created_at;
        // `None` is less than any id.
        self.lane.greatest = self.lane.greatest.max(item.segment.greatest);
        self.entries.push(Entry { segment, fingerprints: item.segment.fingerprints });
        Appended { base, created_at }
    }

    fn read(&self, from: Offset, to: Offset, max_bytes: usize) -> Segments {
        let mut out = Segments::new();
        let mut bytes = 0;
        if from >= to {
            return out;
        }
        for Entry { segment, .. } in &self.entries {
            if segment.end() <= from {
                continue;
            }
            if segment.base >= to || (!out.is_empty() && bytes >= max_bytes) {
                break;
            }
            bytes += segment.body.len();
            out.push(segment.clone());
        }
        out
    }

    fn find(&self, query: &Find) -> Vec<Found> {
        let range = query.from.max(self.lane.tail)..query.to;
        let mut out = Vec::new();
        for (index, wanted) in query.fingerprints.iter().enumerate() {
            let recent = self.entries.iter().filter(|e| e.segment.created_at >= query.since);
            let hits = recent.flat_map(|e| e.occurrences(*wanted)).filter(|offset| range.contains(offset));
            out.extend(hits.map(|offset| Found { index, offset }));
        }
        out
    }

    /// The first kept offset whose stamp satisfies `late`, or the head.
    fn first_offset(&self, late: impl Fn(&Segment) -> bool) -> Offset {
        let first = self.entries.iter().find(|e| late(&e.segment));
        first.map_or(self.lane.head, |e| e.segment.base.max(self.lane.tail))
    }

    fn trim(&mut self, to: Offset) -> u64 {
        let tail = to.clamp(self.lane.tail, self.lane.head);
        let removed = tail - self.lane.tail;
        self.lane.tail = tail;
        self.entries.retain(|e| e.segment.end() > tail);
        removed
    }
}

impl State {
    fn check_append(&self, item: &Append) -> Result<(), AppendError> {
        let log = self.lanes.get(&item.lane).ok_or(AppendError::NoLane)?;
        let head = log.lane.head;
        let passes = match item.guard {
            Guard::Free => true,
            Guard::Head => head == item.known_head,
            Guard::Fingerprints => {
                head >= item.known_head
                    && !item.segment.fingerprints.iter().any(|f| log.occurs_from(item.known_head, *f))
            }
        };
        if passes { Ok(()) } else { Err(AppendError::Moved(log.lane.clone())) }
    }

    /// After [`Self::check_append`].
    fn do_append(&mut self, item: Append) -> Appended {
        self.lanes.get_mut(&item.lane).expect("a checked append has a lane").push(item)
    }

    fn append(&mut self, item: Append) -> Result<Appended, AppendError> {
        self.check_append(&item)?;
        Ok(self.do_append(item))
    }

    fn check_swap(&self, item: &Swap) -> Result<(), SwapError> {
        if !self.lanes.contains_key(&item.lane) {
            return Err(SwapError::NoLane);
        }
        let stored = self.cursors.get(&(item.lane, item.group.clone()));
        if stored.map_or(0, |c| c.epoch) == item.expect {
            Ok(())
        } else {
            Err(SwapError::Moved(stored.cloned()))
        }
    }

    /// After [`Self::check_swap`].
    fn do_swap(&mut self, item: Swap) {
        let first = item.expect == 0 && item.next.epoch > 0;
        debug_assert!(first || item.next.epoch == item.expect + 1);
        self.cursors.insert((item.lane, item.group), item.next);
        self.dead.extend(item.dead.into_iter().map(|letter| (letter.id, letter)));
    }

    fn swap(&mut self, item: Swap) -> Result<Swapped, SwapError> {
        self.check_swap(&item)?;
        let (lane, span) = (item.lane, item.read);
        self.do_swap(item);
        let log = &self.lanes[&lane];
        Ok(Swapped { segments: span.map_or_else(Vec::new, |s| log.read(s.from, s.to, s.max_bytes)) })
    }

    fn commit(&mut self, set: Commit) -> Result<Committed, CommitError> {
        for (i, item) in set.appends.iter().enumerate() {
            self.check_append(item).map_err(|why| CommitError::Append(i, why))?;
        }
        for (i, item) in set.swaps.iter().enumerate() {
            self.check_swap(item).map_err(|why| CommitError::Swap(i, why))?;
        }
        for item in set.swaps {
            self.do_swap(item);
        }
        Ok(Committed { appended: set.appends.into_iter().map(|item| self.do_append(item)).collect() })
    }

    fn cursor(&self, lane: LaneId, group: &Group) -> Option<&Cursor> {
        self.cursors.get(&(lane, group.clone()))
    }

    fn probe(&self, query: &Probe) -> Probed {
        let mut out = Probed::default();
        for Log { lane, .. } in self.lanes.values().filter(|log| log.lane.queue == query.queue) {
            let cursor = self.cursor(lane.id, &query.group);
            // What was trimmed cannot be delivered, so a cursor below the tail counts as one at the tail.
            let next = cursor.map_or(lane.tail, |c| c.committed.max(lane.tail));
            let asked =
                query.since.is_none_or(|since| lane.written_at >= since) || query.recheck.contains(&lane.id);
            if lane.head <= next || !asked || query.after.is_some_and(|after| lane.id <= after) {
                continue;
            }
            if out.lanes.len() == query.limit {
                out.more = true;
                break;
            }
            let group = query.group.clone();
            out.lanes.push(LaneCursor { lane: lane.clone(), group, cursor: cursor.cloned() });
        }
        out
    }

    fn load(&self, what: &Load) -> Vec<LaneCursor> {
        let held = |keep: &dyn Fn(LaneId, &Cursor) -> bool| {
            let rows = self.cursors.iter().filter(|((lane, _), cursor)| keep(*lane, cursor));
            let with_lane = rows.map(|((lane, group), cursor)| LaneCursor {
                lane: self.lanes[lane].lane.clone(),
                group: group.clone(),
                cursor: Some(cursor.clone()),
            });
            with_lane.collect()
        };
        match what {
            Load::Lane(id, group) => {
                let cursor = self.cursor(*id, group).cloned();
                let log = self.lanes.get(id);
                log.map(|log| LaneCursor { lane: log.lane.clone(), group: group.clone(), cursor })
                    .into_iter()
                    .collect()
            }
            Load::Lease(lease) => held(&|_, cursor| cursor.lease.is_some_and(|held| held.id == *lease)),
            Load::Cursors(id) => held(&|lane, _| lane == *id),
        }
    }

    fn aged(&self, query: &Aged) -> Vec<AgedLane> {
        let lanes = self.lanes.values().filter(|log| log.lane.queue == query.queue);
        let rest = lanes.filter(|log| query.after.is_none_or(|after| log.lane.id > after));
        let aged = rest.filter_map(|log| {
            let cut = log.first_offset(|segment| segment.created_at >= query.before);
            let of_lane = self.cursors.iter().filter(|((lane, _), _)| *lane == log.lane.id);
            let slowest = of_lane.map(|(_, cursor)| cursor.committed).min();
            (cut > log.lane.tail).then(|| AgedLane { lane: log.lane.clone(), cut, slowest })
        });
        aged.take(query.limit).collect()
    }

    fn survey(&self, survey: Survey) -> Surveyed {
        let lanes = self.lanes.values().map(|log| &log.lane);
        let written = lanes.filter(|lane| lane.head > 0 && lane.written_at >= survey.since);
        let written = written.map(|lane| WrittenLane {
            id: lane.id,
            queue: lane.queue,
            head: lane.head,
            written_at: lane.written_at,
        });
        let (written, more) = WrittenLane::first(written.collect(), survey.limit);
        let rechecked = survey.recheck.into_iter().flat_map(|(id, group)| self.load(&Load::Lane(id, group)));
        Surveyed { written, more, rechecked: rechecked.collect(), catalog: self.version, inbox: false }
    }
}

impl Store for MemoryStore {
    fn now(&self) -> Now {
        Now::exactly((self.clock)())
    }

    fn exclusive(&self) -> bool {
        self.exclusive
    }

    fn append(&self, batch: Vec<Append>) -> Answer<'_, Vec<Result<Appended, AppendError>>> {
        self.each(batch, State::append)
    }

    fn swap(&self, batch: Vec<Swap>) -> Answer<'_, Vec<Result<Swapped, SwapError>>> {
        self.each(batch, State::swap)
    }

    fn commit(&self, batch: Vec<Commit>) -> Answer<'_, Vec<Result<Committed, CommitError>>> {
        self.each(batch, State::commit)
    }

    fn read(&self, batch: Vec<Read>) -> Answer<'_, Vec<Segments>> {
        self.each(batch, |state, r| {
            state.lanes.get(&r.lane).map_or_else(Vec::new, |log| log.read(r.from, r.to, r.max_bytes))
        })
    }

    fn find(&self, batch: Vec<Find>) -> Answer<'_, Vec<Vec<Found>>> {
        self.each(batch, |state, query| {
            state.lanes.get(&query.lane).map_or_else(Vec::new, |log| log.find(&query))
        })
    }

    fn probe(&self, batch: Vec<Probe>) -> Answer<'_, Vec<Probed>> {
        self.each(batch, |state, query| state.probe(&query))
    }

    fn load(&self, batch: Vec<Load>) -> Answer<'_, Vec<Vec<LaneCursor>>> {
        self.each(batch, |state, what| state.load(&what))
    }

    fn position(&self, batch: Vec<Position>) -> Answer<'_, Vec<Offset>> {
        self.each(batch, |state, p| {
            state.lanes.get(&p.lane).map_or(0, |log| log.first_offset(|segment| segment.created_at > p.at))
        })
    }

    fn trim(&self, batch: Vec<Trim>) -> Answer<'_, Vec<u64>> {
        self.each(batch, |state, t| state.lanes.get_mut(&t.lane).map_or(0, |log| log.trim(t.to)))
    }

    fn aged(&self, batch: Vec<Aged>) -> Answer<'_, Vec<Vec<AgedLane>>> {
        self.each(batch, |state, query| state.aged(&query))
    }

    fn survey(&self, survey: Survey) -> Answer<'_, Surveyed> {
        self.answer(move |state| state.survey(survey))
    }
}
