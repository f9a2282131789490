//! Dead letters and traces: what is kept of them in memory to find them by. Their bytes are frames in the log, found
//! by row number like any segment, and are alive as long as the row is listed here.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use bugle_store::{
    DeadLetter, DeadLetterFilter, LaneId, Offset, Page, QueueId, Timestamp, Trace, TraceFilter, TraceName,
};
use bytes::{BufMut, Bytes};
use uuid::Uuid;

use crate::codec::{Fields, Malformed, put_text, put_time, put_uuid};
use crate::op::{DeadIndex, TraceIndex};

/// Dead letters by row, id and time.
#[derive(Default)]
pub(crate) struct DeadRows {
    pub(crate) rows: BTreeMap<u64, DeadIndex>,
    pub(crate) ids: HashMap<Uuid, u64>,
    by_time: BTreeSet<(Timestamp, Uuid, u64)>,
    counts: HashMap<QueueId, u64>,
}

impl DeadRows {
    pub(crate) fn insert(&mut self, row: u64, dead: DeadIndex) {
        // Both are there already when a row is replayed over itself.
        if let Some(old) = self.ids.get(&dead.id).copied() {
            self.remove(old);
        }
        self.remove(row);
        self.ids.insert(dead.id, row);
        self.by_time.insert((dead.failed_at, dead.id, row));
        *self.counts.entry(dead.queue).or_default() += 1;
        self.rows.insert(row, dead);
    }

    pub(crate) fn remove(&mut self, row: u64) {
        if let Some(dead) = self.rows.remove(&row) {
            self.by_time.remove(&(dead.failed_at, dead.id, row));
            if self.ids.get(&dead.id) == Some(&row) {
                self.ids.remove(&dead.id);
            }
            if let Some(count) = self.counts.get_mut(&dead.queue) {
                *count -= 1;
                if *count == 0 {
                    self.counts.remove(&dead.queue);
                }
            }
        }
    }

    /// How many a queue has.
    pub(crate) fn count(&self, queue: QueueId) -> u64 {
        self.counts.get(&queue).copied().unwrap_or(0)
    }

    pub(crate) fn of_queue(&self, queue: QueueId) -> Vec<u64> {
        self.rows.iter().filter(|(_, dead)| dead.queue == queue).map(|(row, _)| *row).collect()
    }

    /// Rows of a page, latest failure first, and how many match in all.
    pub(crate) fn page(&self, filter: &DeadLetterFilter, page: Page) -> (Vec<u64>, u64) {
        let matching = self.by_time.iter().rev().filter(|(_, _, row)| matches(filter, &self.rows[row]));
        let mut rows = Vec::new();
        let mut total = 0;
        for (_, _, row) in matching {
            if total >= page.offset && rows.len() < page.limit {
                rows.push(*row);
            }
            total += 1;
        }
        (rows, total as u64)
    }

    /// Rows after a (failure, id), earliest failure first.
    pub(crate) fn after(
        &self,
        filter: &DeadLetterFilter,
        after: Option<(Timestamp, Uuid)>,
        limit: usize,
    ) -> Vec<u64> {
        let start = after.map_or(Bound::Unbounded, |(at, id)| Bound::Excluded((at, id, u64::MAX)));
        let later = self.by_time.range((start, Bound::Unbounded)).map(|(_, _, row)| *row);
        later.filter(|row| matches(filter, &self.rows[row])).take(limit).collect()
    }

    pub(crate) fn before(&self, time: Timestamp, limit: usize) -> Vec<u64> {
        self.by_time.iter().take_while(|(at, ..)| *at < time).take(limit).map(|(_, _, row)| *row).collect()
    }
}

/// Whether all fits but the error, which is not in memory.
fn matches(filter: &DeadLetterFilter, dead: &DeadIndex) -> bool {
    filter.queue.is_none_or(|queue| dead.queue == queue)
        && filter.lane.is_none_or(|lane| dead.lane == lane)
        && filter.group.as_ref().is_none_or(|group| dead.group == *group)
        && filter.transaction_id.as_ref().is_none_or(|id| *dead.transaction_id == **id)
        && filter.id.is_none_or(|id| dead.id == id)
        && filter.from.is_none_or(|from| dead.failed_at >= from)
        && filter.to.is_none_or(|to| dead.failed_at < to)
}

/// Traces by row, message, name and time.
#[derive(Default)]
pub(crate) struct TraceRows {
    pub(crate) rows: BTreeMap<u64, TraceIndex>,
    by_message: BTreeSet<(LaneId, Arc<str>, Timestamp, u64)>,
    by_name: BTreeSet<(Arc<str>, Timestamp, u64)>,
    by_time: BTreeSet<(Timestamp, u64)>,
}

impl TraceRows {
    pub(crate) fn insert(&mut self, row: u64, trace: TraceIndex) {
        let at = trace.created_at;
        self.by_time.insert((at, row));
        self.by_message.insert((trace.lane, trace.transaction_id.clone(), at, row));
        trace.names.iter().for_each(|name| {
            self.by_name.insert((name.clone(), at, row));
        });
        self.rows.insert(row, trace);
    }

    pub(crate) fn remove(&mut self, row: u64) {
        let Some(trace) = self.rows.remove(&row) else { return };
        let at = trace.created_at;
        self.by_time.remove(&(at, row));
        self.by_message.remove(&(trace.lane, trace.transaction_id, at, row));
        for name in trace.names {
            self.by_name.remove(&(name, at, row));
        }
    }

    pub(crate) fn of_queue(&self, queue: QueueId) -> Vec<u64> {
        self.rows.iter().filter(|(_, trace)| trace.queue == queue).map(|(row, _)| *row).collect()
    }

    /// Rows of a page and how many match in all.
    pub(crate) fn page(&self, filter: &TraceFilter, page: Page) -> (Vec<u64>, u64) {
        let all: Vec<u64> = match filter {
            TraceFilter::Message(lane, transaction) => {
                let key: Arc<str> = transaction.as_str().into();
                let range =
                    (*lane, key.clone(), Timestamp(i64::MIN), 0)..=(*lane, key, Timestamp::MAX, u64::MAX);
                self.by_message.range(range).map(|(.., row)| *row).collect()
            }
            TraceFilter::Name(name) => {
                let key: Arc<str> = name.as_str().into();
                let range = (key.clone(), Timestamp(i64::MIN), 0)..=(key, Timestamp::MAX, u64::MAX);
                self.by_name.range(range).rev().map(|(.., row)| *row).collect()
            }
        };
        let total = all.len() as u64;
        (all.into_iter().skip(page.offset).take(page.limit).collect(), total)
    }

    /// Names, latest first, and how many there are.
    pub(crate) fn names(&self, page: Page) -> (Vec<TraceName>, u64) {
        let mut names: Vec<TraceName> = Vec::new();
        let mut messages: BTreeSet<(LaneId, &str)> = BTreeSet::new();
        for (name, at, row) in &self.by_name {
            if names.last().is_none_or(|last| last.name != **name) {
                messages.clear();
                names.push(TraceName { name: name.to_string(), traces: 0, messages: 0, last_seen: *at });
            }
            let trace = &self.rows[row];
            messages.insert((trace.lane, &trace.transaction_id));
            if let Some(last) = names.last_mut() {
                last.traces += 1;
                last.messages = messages.len() as u64;
                last.last_seen = *at;
            }
        }
        names.sort_by_key(|name| std::cmp::Reverse(name.last_seen));
        let total = names.len() as u64;
        (names.into_iter().skip(page.offset).take(page.limit).collect(), total)
    }

    pub(crate) fn before(&self, time: Timestamp, limit: usize) -> Vec<u64> {
        self.by_time.iter().take_while(|(at, _)| *at < time).take(limit).map(|(_, row)| *row).collect()
    }
}

/// What of a dead letter goes into memory.
pub(crate) fn dead_index(dead: &DeadLetter) -> DeadIndex {
    DeadIndex {
        id: dead.id,
        queue: dead.queue,
        lane: dead.lane,
        group: dead.group.clone(),
        transaction_id: dead.transaction_id.as_str().into(),
        failed_at: dead.failed_at,
    }
}

/// What of a trace goes into memory.
pub(crate) fn trace_index(trace: &Trace) -> TraceIndex {
    let mut names: Vec<Arc<str>> = trace.names.iter().map(|name| name.as_str().into()).collect();
    names.sort();
    names.dedup();
    let (queue, lane, created_at) = (trace.queue, trace.lane, trace.created_at);
    TraceIndex { queue, lane, transaction_id: trace.transaction_id.as_str().into(), names, created_at }
}

/// The frame body of a dead letter.
pub(crate) fn encode_dead(dead: &DeadLetter) -> Bytes {
    let mut out = Vec::with_capacity(dead.message.len() + 256);
    put_uuid(&mut out, dead.id);
    put_uuid(&mut out, dead.queue.0);
    put_uuid(&mut out, dead.lane.0);
    put_text(&mut out, &dead.partition);
    put_text(&mut out, &dead.group);
    out.put_u64_le(dead.offset);
    put_text(&mut out, &dead.transaction_id);
    put_text(&mut out, &dead.error);
    out.put_u32_le(dead.attempts);
    put_time(&mut out, dead.created_at);
    put_time(&mut out, dead.failed_at);
    out.put_slice(&dead.message);
    out.into()
}

/// The dead letter in a frame body; shares its memory.
pub(crate) fn decode_dead(body: &Bytes) -> Result<DeadLetter, Malformed> {
    let mut from = Fields(body);
    let (id, queue, lane) = (from.uuid()?, QueueId(from.uuid()?), LaneId(from.uuid()?));
    let (partition, group) = (from.shared()?, from.shared()?);
    let offset: Offset = from.u64()?;
    let (transaction_id, error) = (from.text()?.to_owned(), from.text()?.to_owned());
    let attempts = from.u32()?;
    let (created_at, failed_at) = (from.time()?, from.time()?);
    let message = body.slice(body.len() - from.0.len()..);
    Ok(DeadLetter {
        id,
        queue,
        lane,
        partition,
        group,
        offset,
        message,
        transaction_id,
        error,
        attempts,
        created_at,
        failed_at,
    })
}

/// The frame body of a trace.
pub(crate) fn encode_trace(trace: &Trace) -> Bytes {
    let mut out = Vec::with_capacity(trace.data.len() + 256);
    put_uuid(&mut out, trace.id);
    put_uuid(&mut out, trace.queue.0);
    put_uuid(&mut out, trace.lane.0);
    for text in [&trace.transaction_id, &trace.event_type, &trace.data] {
        put_text(&mut out, text);
    }
    put_text(&mut out, &trace.group);
    put_time(&mut out, trace.created_at);
    out.put_u8(u8::from(trace.worker.is_some()));
    put_text(&mut out, trace.worker.as_deref().unwrap_or_default());
    out.put_u32_le(trace.names.len() as u32);
    trace.names.iter().for_each(|name| put_text(&mut out, name));
    out.into()
}

/// The trace in a frame body.
pub(crate) fn decode_trace(body: &Bytes) -> Result<Trace, Malformed> {
    let mut from = Fields(body);
    let (id, queue, lane) = (from.uuid()?, QueueId(from.uuid()?), LaneId(from.uuid()?));
    let mut text = || Ok::<_, Malformed>(from.text()?.to_owned());
    let (transaction_id, event_type, data) = (text()?, text()?, text()?);
    let (group, created_at) = (from.shared()?, from.time()?);
    let has_worker = from.u8()? != 0;
    let worker = Some(from.text()?.to_owned()).filter(|_| has_worker);
    let names = (0..from.u32()?).map(|_| Ok(from.text()?.to_owned())).collect::<Result<_, Malformed>>()?;
    Ok(Trace { id, queue, lane, transaction_id, event_type, data, group, names, worker, created_at })
}
