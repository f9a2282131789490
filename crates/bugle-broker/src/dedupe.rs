//! Which transaction ids a lane has seen lately: fingerprints in memory, exact about what they cover.
//!
//! Fingerprints live in sorted runs that are merged like an LSM tree (8 bytes per id: half a fingerprint and an offset),
//! the newest few in a list that is scanned. A hit is a *candidate*: the caller compares the stored id before it calls anything a duplicate. Offsets outside
//! `covered()` must be looked up in the store. Runs remember the range of UUIDv7 ids in them, so that the ids of
//! well-behaved producers skip all runs but the newest, and the greatest UUIDv7 of all that is not in memory is kept, so
//! that ids above it need no look-up although they come a little out of order.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use uuid::Uuid;

use bugle_store::{Offset, Timestamp};

/// Fingerprints that are scanned one by one: few enough to be quick, enough to keep runs from being tiny.
const FRESH_MAX: usize = 256;
const RUN_MAX: usize = 1 << 20;

/// Bytes of fingerprints over many lanes.
pub(crate) type Meter = Arc<AtomicUsize>;

/// Recent fingerprints of one lane.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    meter: Meter,
    /// What this lane has added to the meter.
    metered: usize,
    covered: Range<Offset>,
    /// Not smaller than any UUIDv7 below `covered` that is in no run.
    unseen: Option<Uuid>,
    /// End of what was shed: `covered` never begins below, also where a gap before it is filled later.
    shed_to: Offset,
    /// Ranges known beyond a gap after `covered` (another server wrote in between).
    ahead: BTreeMap<Offset, Offset>,
    runs: VecDeque<Run>,
    fresh: Vec<(u32, Offset)>,
    fresh_from: Offset,
    fresh_to: Offset,
    fresh_ids: Ids,
    fresh_newest: Timestamp,
}

#[derive(Debug)]
struct Run {
    from: Offset,
    /// End (exclusive). Runs need not follow each other: a gap may have been filled later.
    to: Offset,
    newest: Timestamp,
    ids: Ids,
    fingerprints: Vec<u32>,
    /// Offsets relative to `from`, parallel to `fingerprints`.
    offsets: Vec<u32>,
}

/// Smallest and greatest UUIDv7 among some ids.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ids(Option<(Uuid, Uuid)>);

impl Ids {
    /// Take one id into account.
    pub(crate) fn add(&mut self, id: Uuid) {
        self.0 = Some(self.0.map_or((id, id), |(low, high)| (low.min(id), high.max(id))));
    }

    /// The greatest one.
    pub(crate) fn greatest(&self) -> Option<Uuid> {
        self.0.map(|(_, high)| high)
    }

    fn join(&mut self, other: Ids) {
        if let Some((low, high)) = other.0 {
            self.add(low);
            self.add(high);
        }
    }

    fn may_hold(&self, id: Option<Uuid>) -> bool {
        match (id, self.0) {
            (None, _) => true,
            (Some(id), Some((low, high))) => low <= id && id <= high,
            (Some(_), None) => false,
        }
    }
}

impl Recent {
    /// Nothing known yet of a lane whose head is `head`; no UUIDv7 below is above `greatest`.
    pub(crate) fn starting_at(head: Offset, greatest: Option<Uuid>, meter: &Meter) -> Self {
        let mut recent = Self::default();
        (recent.covered, recent.unseen, recent.meter) = (head..head, greatest, meter.clone());
        recent
    }

    /// Forget everything: the lane's head is `head`, and no UUIDv7 below is above `greatest`.
    pub(crate) fn start_over(&mut self, head: Offset, greatest: Option<Uuid>) {
        *self = Self::starting_at(head, greatest, &self.meter);
    }

    /// Bring the meter up to date.
    fn measure(&mut self) {
        let bytes = self.bytes();
        self.meter.fetch_add(bytes, Ordering::Relaxed);
        self.meter.fetch_sub(self.metered, Ordering::Relaxed);
        self.metered = bytes;
    }

    /// Offsets whose ids are all known here.
    pub(crate) fn covered(&self) -> Range<Offset> {
        self.covered.clone()
    }

    /// Whether this id cannot be below `covered()` without being among the candidates here.
    pub(crate) fn above_unseen(&self, id: Option<Uuid>) -> bool {
        id.is_some() && id > self.unseen
    }

    /// Bytes used, roughly.
    pub(crate) fn bytes(&self) -> usize {
        self.runs.iter().map(|r| r.fingerprints.len() * 8).sum::<usize>() + self.fresh.capacity() * 16
    }

    /// Remember the ids of a segment at `base`.
    pub(crate) fn insert(&mut self, base: Offset, fingerprints: &[u64], ids: Ids, created_at: Timestamp) {
        let end = base + fingerprints.len() as Offset;
        if self.fresh.is_empty() {
            self.fresh_from = base;
        }
        self.fresh_from = self.fresh_from.min(base);
        self.fresh_to = self.fresh_to.max(end);
        self.fresh_ids.join(ids);
        self.fresh_newest = self.fresh_newest.max(created_at);
        // Most of many lanes get one message at a time.
        if self.fresh.capacity() == 0 {
            self.fresh.reserve_exact(fingerprints.len());
        }
        self.fresh.extend(fingerprints.iter().zip(base..).map(|(fp, at)| (half(*fp), at)));
        self.cover(base, end);
        if self.fresh.len() >= FRESH_MAX || self.fresh_to - self.fresh_from > Offset::from(u32::MAX) {
            self.seal();
        }
        self.measure();
    }

    fn cover(&mut self, base: Offset, end: Offset) {
        if base > self.covered.end {
            self.ahead.insert(base, end);
            return;
        }
        self.covered.end = self.covered.end.max(end);
        while let Some((&from, &to)) = self.ahead.first_key_value() {
            if from > self.covered.end {
                break;
            }
            self.ahead.pop_first();
            self.covered.end = self.covered.end.max(to);
        }
        self.uncover();
    }

    /// Keep what was shed out of `covered`.
    fn uncover(&mut self) {
        self.covered.start = self.covered.start.max(self.shed_to).min(self.covered.end);
    }

    /// Offsets whose id may be the one with this fingerprint (`id` if it is a UUIDv7), newest first.
    pub(crate) fn candidates(&self, fingerprint: u64, id: Option<Uuid>) -> Vec<Offset> {
        let fingerprint = half(fingerprint);
        let mut found = Vec::new();
        if self.fresh_ids.may_hold(id) {
            found.extend(self.fresh.iter().rev().filter(|(fp, _)| *fp == fingerprint).map(|(_, at)| *at));
        }
        for run in self.runs.iter().rev().filter(|run| run.ids.may_hold(id)) {
            let first = run.fingerprints.partition_point(|fp| *fp < fingerprint);
            let same = run.fingerprints[first..].iter().take_while(|fp| **fp == fingerprint).count();
            found.extend(run.offsets[first..first + same].iter().map(|at| run.from + Offset::from(*at)));
        }
        found
    }

    /// Forget runs whose newest id is older than `before`.
    pub(crate) fn expire(&mut self, before: Timestamp) {
        while self.runs.front().is_some_and(|run| run.newest < before) {
            self.shed();
        }
    }

    /// Forget the oldest run to save memory; its ids must be looked up in the store from now on.
    pub(crate) fn shed(&mut self) -> bool {
        let Some(run) = self.runs.pop_front() else { return false };
        self.unseen = self.unseen.max(run.ids.greatest());
        self.shed_to = self.shed_to.max(run.to);
        self.uncover();
        self.measure();
        true
    }

    fn seal(&mut self) {
        let from = self.fresh_from;
        let mut fresh = std::mem::take(&mut self.fresh);
        fresh.sort_unstable();
        let fingerprints = fresh.iter().map(|(fp, _)| *fp).collect();
        let offsets = fresh.iter().map(|(_, at)| (at - from) as u32).collect();
        let ids = std::mem::take(&mut self.fresh_ids);
        let to = std::mem::take(&mut self.fresh_to);
        self.runs.push_back(Run { from, to, newest: self.fresh_newest, ids, fingerprints, offsets });
        while self.merge_last_two() {}
    }

    /// Merge the two newest runs while they are of similar size, so that a lane has few runs.
    fn merge_last_two(&mut self) -> bool {
        let n = self.runs.len();
        if n < 2 {
            return false;
        }
        let (a, b) = (&self.runs[n - 2], &self.runs[n - 1]);
        let total = a.fingerprints.len() + b.fingerprints.len();
        let from = a.from.min(b.from);
        let span = a.from.max(b.from) - from + RUN_MAX as Offset;
        if total > RUN_MAX || a.fingerprints.len() > 2 * b.fingerprints.len() || span > Offset::from(u32::MAX)
        {
            return false;
        }
        let (Some(b), Some(a)) = (self.runs.pop_back(), self.runs.pop_back()) else { return false };
        self.runs.push_back(merge(from, a, b));
        true
    }
}

/// What is kept of a fingerprint. Among ten million ids one look-up in 400 meets a stranger, and reads it to know better.
fn half(fingerprint: u64) -> u32 {
    (fingerprint >> 32) as u32
}

impl Drop for Recent {
    fn drop(&mut self) {
        self.meter.fetch_sub(self.metered, Ordering::Relaxed);
    }
}

fn merge(from: Offset, a: Run, b: Run) -> Run {
    let mut ids = a.ids;
    ids.join(b.ids);
    let total = a.fingerprints.len() + b.fingerprints.len();
    let (mut fingerprints, mut offsets) = (Vec::with_capacity(total), Vec::with_capacity(total));
    let (mut i, mut j) = (0, 0);
    while i < a.fingerprints.len() || j < b.fingerprints.len() {
        let take_a =
            j == b.fingerprints.len() || (i < a.fingerprints.len() && a.fingerprints[i] <= b.fingerprints[j]);
        let (run, at) = if take_a { (&a, &mut i) } else { (&b, &mut j) };
        fingerprints.push(run.fingerprints[*at]);
        offsets.push((run.from - from) as u32 + run.offsets[*at]);
        *at += 1;
    }
    Run { from, to: a.to.max(b.to), newest: a.newest.max(b.newest), ids, fingerprints, offsets }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fp(i: u64) -> u64 {
        xxhash_rust::xxh3::xxh3_64(&i.to_le_bytes())
    }

    fn starting_at(head: Offset) -> Recent {
        Recent::starting_at(head, None, &Meter::default())
    }

    fn filled(count: u64) -> Recent {
        let mut recent = starting_at(0);
        for base in (0..count).step_by(100) {
            let fps: Vec<u64> = (base..(base + 100).min(count)).map(fp).collect();
            recent.insert(base, &fps, Ids::default(), Timestamp(base as i64));
        }
        recent
    }

    #[test]
    fn finds_every_id_across_runs_and_nothing_else() {
        let recent = filled(100_000);
        assert!(recent.runs.len() < 12, "{} runs", recent.runs.len());
        assert_eq!(recent.covered(), 0..100_000);
        for i in (0..100_000).step_by(7) {
            assert_eq!(recent.candidates(fp(i), None), [i]);
        }
        assert!(recent.candidates(fp(100_001), None).is_empty());
    }

    #[test]
    fn shedding_and_expiry_shrink_what_is_covered() {
        let mut recent = filled(50_000);
        assert!(recent.shed());
        let covered = recent.covered();
        assert!(covered.start > 0 && covered.end == 50_000);
        assert!(recent.candidates(fp(covered.start), None) == [covered.start]);
        assert!(recent.candidates(fp(covered.start - 1), None).is_empty());
        recent.expire(Timestamp::MAX);
        assert!(recent.covered().start > covered.start);
    }

    #[test]
    fn shedding_a_run_of_a_gap_filled_later_covers_nothing_of_it() {
        let mut recent = starting_at(744);
        let fps: Vec<u64> = (1000..6000).map(fp).collect();
        recent.insert(1000, &fps, Ids::default(), Timestamp::ZERO);
        let fps: Vec<u64> = (744..1000).map(fp).collect();
        recent.insert(744, &fps, Ids::default(), Timestamp::ZERO);
        assert_eq!(recent.covered(), 744..6000);
        while recent.shed() {}
        assert!(recent.covered().is_empty(), "{:?}", recent.covered());
    }

    #[test]
    fn the_meter_counts_what_is_held() {
        let meter = Meter::default();
        let mut recent = Recent::starting_at(0, None, &meter);
        let fps: Vec<u64> = (0..5000).map(fp).collect();
        recent.insert(0, &fps, Ids::default(), Timestamp(1));
        assert_eq!(meter.load(Ordering::Relaxed), recent.bytes());
        recent.expire(Timestamp::MAX);
        assert_eq!(meter.load(Ordering::Relaxed), recent.bytes());
        drop(recent);
        assert_eq!(meter.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_gap_stops_coverage_until_it_is_filled() {
        let mut recent = starting_at(10);
        recent.insert(20, &[fp(20)], Ids::default(), Timestamp::ZERO);
        assert_eq!(recent.covered(), 10..10);
        let fps: Vec<u64> = (10..20).map(fp).collect();
        recent.insert(10, &fps, Ids::default(), Timestamp::ZERO);
        assert_eq!(recent.covered(), 10..21);
    }

    #[test]
    fn colliding_fingerprints_are_all_candidates() {
        let mut recent = starting_at(0);
        recent.insert(0, &[7 << 32, (7 << 32) + 1, 8 << 32], Ids::default(), Timestamp::ZERO);
        let mut found = recent.candidates(7 << 32, None);
        found.sort_unstable();
        assert_eq!(found, [0, 1]);
        recent.seal();
        let mut found = recent.candidates(7 << 32, None);
        found.sort_unstable();
        assert_eq!(found, [0, 1]);
    }

    #[test]
    fn a_uuid_v7_outside_a_runs_range_skips_it() {
        let (a, b, c) = (Uuid::now_v7(), Uuid::now_v7(), Uuid::now_v7());
        let mut ids = Ids::default();
        ids.add(a);
        ids.add(b);
        let mut recent = starting_at(0);
        recent.insert(0, &[1 << 32, 2 << 32], ids, Timestamp::ZERO);
        assert_eq!(recent.candidates(1 << 32, Some(a)), [0]);
        assert!(recent.candidates(1 << 32, Some(c)).is_empty());
    }

    /// The UUIDv7s with these numbers.
    fn v7(numbers: impl IntoIterator<Item = u128>) -> Ids {
        let mut ids = Ids::default();
        numbers.into_iter().for_each(|n| ids.add(Uuid::from_u128(n)));
        ids
    }

    fn above_unseen(recent: &Recent, n: u128) -> bool {
        recent.above_unseen(Some(Uuid::from_u128(n)))
    }

    #[test]
    fn only_ids_above_all_that_is_not_in_memory_need_no_look_up() {
        let mut recent = Recent::starting_at(50, Some(Uuid::from_u128(40)), &Meter::default());
        assert!(above_unseen(&recent, 41));
        assert!(!above_unseen(&recent, 40), "the greatest itself may be repeated");
        assert!(!above_unseen(&recent, 39));
        assert!(!recent.above_unseen(None), "an id that is no UUIDv7 may be anywhere");

        let fps: Vec<u64> = (50..350).map(fp).collect();
        recent.insert(50, &fps, v7([100, 200, 30]), Timestamp(1));
        recent.insert(350, &[fp(350)], v7([300]), Timestamp(2));
        assert!(above_unseen(&recent, 41), "what is in memory is found there");
        assert!(recent.shed());
        assert!(!above_unseen(&recent, 200) && above_unseen(&recent, 201));
        assert_eq!(recent.candidates(fp(350), Some(Uuid::from_u128(300))), [350]);
        assert!(!recent.shed());

        let fps: Vec<u64> = (351..651).map(fp).collect();
        recent.insert(351, &fps, Ids::default(), Timestamp(3));
        recent.expire(Timestamp::MAX);
        assert!(!above_unseen(&recent, 300), "what ages out of memory is not in memory either");
    }

    #[test]
    fn a_lane_without_a_uuid_v7_below_looks_up_none() {
        let recent = starting_at(10);
        assert!(above_unseen(&recent, 1));
        assert!(!recent.above_unseen(None));
    }

    #[test]
    fn starting_over_forgets_the_bound_of_before() {
        let mut recent = Recent::starting_at(50, Some(Uuid::from_u128(40)), &Meter::default());
        recent.start_over(0, None);
        assert!(above_unseen(&recent, 1));
        recent.start_over(70, Some(Uuid::from_u128(60)));
        assert!(!above_unseen(&recent, 60));
    }

    #[test]
    fn what_was_shed_beyond_a_gap_stays_uncovered_when_the_gap_is_filled() {
        let mut recent = starting_at(10);
        let fps: Vec<u64> = (20..320).map(fp).collect();
        recent.insert(20, &fps, v7([7]), Timestamp::ZERO);
        assert!(recent.shed());
        assert!(recent.covered().is_empty());
        let fps: Vec<u64> = (10..20).map(fp).collect();
        recent.insert(10, &fps, v7([3]), Timestamp::ZERO);
        recent.insert(320, &[fp(320)], v7([9]), Timestamp::ZERO);
        assert_eq!(recent.covered(), 320..321);
        assert!(!above_unseen(&recent, 7) && above_unseen(&recent, 8));
        assert_eq!(recent.candidates(fp(15), Some(Uuid::from_u128(3))), [15], "uncovered, but still found");
    }
}
