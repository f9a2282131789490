//! Reading, beside the writer: what is durable and visible, from memory if it is there, else from disk.
//!
//! No lock is held while the disk is read. A file may therefore be recycled under a reader; checksums are seeded with
//! the file's salt, so that shows, and the look-up is made again.

use std::io;

use bugle_store::{
    Aged, AgedLane, Find, Found, Lane, LaneId, Offset, Position, Read, Segment, Segments, Timestamp,
};
use std::ops::Bound;

use crate::index::{Entry, Located, Older, find_older};
use crate::record::{FIRST_UID, Frame};
use crate::shared::Shared;

/// Entries looked up at once.
const RUN: usize = 256;
/// Look-ups repeated because a file was recycled in between.
const RETRIES: usize = 5;

/// The whole answer, if it is in memory.
pub(crate) fn read_cached(shared: &Shared, read: &Read) -> Option<Segments> {
    let (uid, mut next, to) = {
        let core = shared.core.read();
        let Some(state) = core.state.lane(read.lane) else { return Some(Vec::new()) };
        (state.uid, read.from.max(state.lane.tail), read.to.min(state.lane.head))
    };
    let mut out = Segments::new();
    let mut bytes = 0;
    let cache = shared.cache.lock();
    while next < to && (out.is_empty() || bytes < read.max_bytes) {
        let segment = cache.get(uid, next)?;
        next = segment.end();
        bytes += segment.body.len();
        out.push(segment.clone());
    }
    Some(out)
}

/// The answer, from wherever it is.
pub(crate) fn read_range(shared: &Shared, read: &Read) -> io::Result<Segments> {
    let mut out = Segments::new();
    read_into(shared, read, &mut out).map(|()| out)
}

/// As much of the answer as can be read, and why there is no more.
pub(crate) fn read_readable(shared: &Shared, read: &Read) -> (Segments, Option<io::Error>) {
    let mut out = Segments::new();
    let failed = read_into(shared, read, &mut out).err();
    (out, failed)
}

fn read_into(shared: &Shared, read: &Read, out: &mut Segments) -> io::Result<()> {
    let (mut bytes, mut retries, mut next) = (0, 0, read.from);
    let mut first_uid = None;
    'runs: loop {
        let (uid, from, to, active, older) = {
            let core = shared.core.read();
            let Some(state) = core.state.lane(read.lane) else { break };
            let (from, to) = (next.max(state.lane.tail), read.to.min(state.lane.head));
            // Collected and created again: what follows is another lane's.
            if from >= to || *first_uid.get_or_insert(state.uid) != state.uid {
                break;
            }
            let active = core.index.active.run(state.uid, from, to, RUN);
            let file = core.index.active.file.clone();
            let active: Vec<Located> = active.into_iter().map(|entry| (file.clone(), entry)).collect();
            let older = if active.is_empty() { Some(core.index.older.clone()) } else { None };
            (state.uid, from, to, active, older)
        };
        let run = match older {
            Some(older) => older.run(uid, from, to, RUN)?,
            None => active,
        };
        if run.is_empty() {
            retries += 1;
            if retries > RETRIES {
                return Err(missing(read.lane, from));
            }
        }
        for located in run {
            if !out.is_empty() && bytes >= read.max_bytes {
                break 'runs;
            }
            match segment(shared, uid, &located) {
                Ok(segment) => {
                    next = segment.end();
                    bytes += segment.body.len();
                    out.push(segment);
                }
                Err(e) if retries >= RETRIES => return Err(e),
                Err(_) => {
                    retries += 1;
                    continue 'runs;
                }
            }
        }
    }
    Ok(())
}

fn missing(lane: LaneId, offset: Offset) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("lane {lane}: no file holds offset {offset}"))
}

fn segment(shared: &Shared, uid: u64, (file, entry): &Located) -> io::Result<Segment> {
    if let Some(segment) = shared.cache.lock().get(uid, entry.base) {
        return Ok(segment.clone());
    }
    let Frame { base, count, created_at, id, body, .. } = checked_frame(uid, file, entry)?;
    Ok(Segment { base, count, created_at, id, body })
}

fn checked_frame(uid: u64, file: &crate::log::LogFile, entry: &Entry) -> io::Result<Frame> {
    let frame = file.frame(entry.position, entry.len)?;
    if frame.uid == uid && frame.base == entry.base && frame.count == entry.count {
        Ok(frame)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidData, "an index entry names another segment"))
    }
}

/// The body of a catalog row; `None` = it was deleted meanwhile.
pub(crate) fn row(shared: &Shared, uid: u64, row: u64) -> io::Result<Option<Frame>> {
    debug_assert!(uid < FIRST_UID);
    let mut last = None;
    for _ in 0..=RETRIES {
        let (active, older) = {
            let core = shared.core.read();
            if !core.state.is_live(uid, row, 1) {
                return Ok(None);
            }
            let file = core.index.active.file.clone();
            let active = core.index.active.run(uid, row, row + 1, 1).pop().map(|entry| (file, entry));
            (active, core.index.older.clone())
        };
        let located = match active {
            Some(located) => Some(located),
            None => older.run(uid, row, row + 1, 1)?.pop(),
        };
        match located.map(|(file, entry)| checked_frame(uid, &file, &entry)) {
            Some(Ok(frame)) => return Ok(Some(frame)),
            Some(Err(e)) => last = Some(e),
            None => last = Some(io::Error::new(io::ErrorKind::NotFound, format!("no file holds row {row}"))),
        }
    }
    Err(last.unwrap_or_else(|| io::ErrorKind::NotFound.into()))
}

/// The entry that holds an offset of a lane that is kept; `None` = it was trimmed meanwhile.
fn covering(shared: &Shared, lane: LaneId, uid: u64, offset: Offset) -> io::Result<Option<Entry>> {
    for _ in 0..=RETRIES {
        let older: Older = {
            let core = shared.core.read();
            let Some(state) = core.state.lane(lane).filter(|s| s.uid == uid && s.lane.tail <= offset) else {
                return Ok(None);
            };
            match core.index.active.run(state.uid, offset, offset + 1, 1).pop() {
                Some(entry) => return Ok(Some(entry)),
                None => core.index.older.clone(),
            }
        };
        if let Some((_, entry)) = older.run(uid, offset, offset + 1, 1)?.pop() {
            return Ok(Some(entry));
        }
    }
    Err(missing(lane, offset))
}

/// The first kept offset whose stamp is `late`, or the head. Stamps never decrease along a lane.
fn first_offset(
    shared: &Shared,
    lane: &Lane,
    uid: u64,
    late: impl Fn(Timestamp) -> bool,
) -> io::Result<Offset> {
    let (mut low, mut high) = (lane.tail, lane.head);
    while low < high {
        let middle = low + (high - low) / 2;
        match covering(shared, lane.id, uid, middle)? {
            Some(entry) if late(entry.created_at) => high = entry.base.max(low),
            Some(entry) => low = entry.end(),
            None => low = middle + 1,
        }
    }
    Ok(low)
}

pub(crate) fn position(shared: &Shared, query: &Position) -> io::Result<Offset> {
    let found = shared.core.read().state.lane(query.lane).map(|state| (state.uid, state.lane.clone()));
    let Some((uid, lane)) = found else { return Ok(0) };
    first_offset(shared, &lane, uid, |stamp| stamp > query.at)
}

pub(crate) fn find(shared: &Shared, query: &Find) -> io::Result<Vec<Found>> {
    let (uid, range, all_recent, mut found, older) = {
        let core = shared.core.read();
        let Some(state) = core.state.lane(query.lane) else { return Ok(Vec::new()) };
        let range = query.from.max(state.lane.tail)..query.to.min(state.lane.head);
        let found = core.index.find_active(state.uid, &query.fingerprints);
        (state.uid, range, state.oldest_at >= query.since, found, core.index.older.clone())
    };
    find_older(&older, uid, &range, &query.fingerprints, &mut found)?;
    let mut out = Vec::new();
    for (index, offsets) in found.into_iter().enumerate() {
        for offset in offsets.into_iter().filter(|offset| range.contains(offset)) {
            let recent = all_recent
                || covering(shared, query.lane, uid, offset)?.is_some_and(|e| e.created_at >= query.since);
            if recent {
                out.push(Found { index, offset });
            }
        }
    }
    Ok(out)
}

/// A lane that may hold old messages.
struct Candidate {
    uid: u64,
    lane: Lane,
    slowest: Option<Offset>,
}

pub(crate) fn aged(shared: &Shared, query: &Aged) -> io::Result<Vec<AgedLane>> {
    let mut out = Vec::new();
    let mut after = query.after;
    while out.len() < query.limit {
        let candidates = candidates(shared, query, after, query.limit - out.len());
        let Some(last) = candidates.last() else { break };
        after = Some(last.lane.id);
        let mut young = Vec::new();
        for Candidate { uid, lane, slowest } in candidates {
            let cut = first_offset(shared, &lane, uid, |stamp| stamp >= query.before)?;
            if cut > lane.tail {
                out.push(AgedLane { lane, cut, slowest });
            } else if let Some(oldest) = covering(shared, lane.id, uid, lane.tail)? {
                young.push((uid, oldest.created_at));
            }
        }
        remember_oldest(shared, &young);
    }
    Ok(out)
}

fn candidates(shared: &Shared, query: &Aged, after: Option<LaneId>, most: usize) -> Vec<Candidate> {
    let core = shared.core.read();
    let Some(queue) = core.state.queues.get(&query.queue) else { return Vec::new() };
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    let lanes = queue.by_id.range((from, Bound::Unbounded)).map(|(_, uid)| &core.state.lanes[*uid]);
    let maybe = lanes.filter(|s| s.lane.tail < s.lane.head && s.oldest_at < query.before);
    let candidate = maybe.map(|s| Candidate {
        uid: s.uid,
        lane: s.lane.clone(),
        slowest: s.cursors.iter().map(|(_, cursor)| cursor.committed).min(),
    });
    candidate.take(most).collect()
}

/// So that the next walk passes these lanes by. Still a lower bound: tails only move up.
fn remember_oldest(shared: &Shared, young: &[(u64, Timestamp)]) {
    if young.is_empty() {
        return;
    }
    let mut core = shared.core.write();
    for (uid, oldest) in young {
        if let Some(state) = core.state.lanes.get_mut(*uid) {
            state.oldest_at = state.oldest_at.max(*oldest);
        }
    }
}
