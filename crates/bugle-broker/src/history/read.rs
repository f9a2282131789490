//! Reading the history: position by time, then records in bounded pieces, folded as they come.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use bugle_store::{Lane, LaneId, Offset, Position, QueueId, Read, Segment, Timestamp};

use crate::api::{History, HistoryQuery, Refused};
use crate::inner::Inner;
use crate::semantics::history::{Chart, Record, range};

use super::QUEUE;

/// Servers whose records are read: those that wrote last.
const MAX_SERVERS: usize = 100;
/// Lanes listed by one call, and at most.
const LANE_PAGE: usize = 1000;
const MAX_LANES: usize = 10_000;
/// Records read, by one round and at most.
const AT_ONCE: Offset = 128;
const MAX_RECORDS: u64 = 100_000;
/// Bytes read, by one call and at most.
const PIECE: usize = 1 << 20;
const MAX_BYTES: usize = 128 << 20;
/// A record is stored after it began: a minute, or longer where the store was away.
const LATE: Duration = Duration::from_secs(3600);

/// Says whether a queue of this name is asked for.
type QueueFilter = Box<dyn Fn(&str) -> bool + Send + Sync>;

/// A server's records to be read.
struct Stretch {
    lane: LaneId,
    from: Offset,
    to: Offset,
}

/// What is left of the bounds.
struct Budget {
    bytes: usize,
    truncated: bool,
}

impl Inner {
    /// See [`crate::Broker::history`].
    pub(crate) async fn history(self: &Arc<Self>, query: &HistoryQuery) -> Result<History, Refused> {
        let now = self.engine.now().latest;
        let chosen = range(query.from, query.to, query.span, query.bucket, now).map_err(Refused::Invalid)?;
        let mut budget = Budget { bytes: MAX_BYTES, truncated: false };
        let (stretches, mut own) = self.pages(chosen.0, chosen.1, &mut budget).await?;
        let unstored: Vec<Uuid> = own.iter().map(|record| record.id).collect();
        let mut chart = Chart::new(chosen, query.to.is_none(), query.by_queue);
        let matches = self.queue_filter(query);
        let mut put = |record: &Record| {
            let host = query.host.as_deref().is_none_or(|host| host == &*record.host);
            let server = query.server.as_deref().is_none_or(|server| server == &*record.server);
            if host && server {
                chart.put(record, matches.as_deref().map(|m| m as &dyn Fn(&str) -> bool));
            }
        };
        for stretch in stretches {
            // What is in memory, too, because it is not known to be stored, counts once.
            let mut fresh = |record: &Record| {
                if !unstored.contains(&record.id) {
                    put(record);
                }
            };
            self.read_stretch(&stretch, &mut budget, &mut fresh).await?;
        }
        own.drain(..).for_each(|record| put(&record));
        Ok(chart.finish(budget.truncated))
    }

    /// Whether a queue of this name is asked for; `None` = all are.
    fn queue_filter(self: &Arc<Self>, query: &HistoryQuery) -> Option<QueueFilter> {
        if query.queue.is_none() && query.namespace.is_none() && query.task.is_none() {
            return None;
        }
        let (inner, query) = (self.clone(), query.clone());
        let fits = |wanted: &Option<Arc<str>>, name: &str| wanted.as_deref().is_none_or(|w| w == name);
        Some(Box::new(move |name| {
            if !fits(&query.queue, name) {
                return false;
            }
            if query.namespace.is_none() && query.task.is_none() {
                return true;
            }
            let known = inner.catalog.queue(name);
            known.is_some_and(|queue| {
                fits(&query.namespace, &queue.namespace) && fits(&query.task, &queue.task)
            })
        }))
    }

    /// What is stored of this time, and what this server has not stored yet.
    async fn pages(
        self: &Arc<Self>,
        from: Timestamp,
        to: Timestamp,
        budget: &mut Budget,
    ) -> Result<(Vec<Stretch>, Vec<Record>), Refused> {
        // While this is held no record goes from memory into the store, where it would be counted twice or not at all.
        let page = self.book.page.lock().await;
        let mut lanes = match self.known_queue(QUEUE).await {
            Some(queue) => self.history_lanes(queue.id, from).await?,
            None => Vec::new(),
        };
        let mut own: Vec<Record> = page.open.iter().map(|open| open.record.clone()).collect();
        own.push(self.untold(&page));
        drop(page);
        lanes.sort_by_key(|lane| std::cmp::Reverse(lane.written_at));
        budget.truncated |= lanes.len() > MAX_SERVERS;
        lanes.truncate(MAX_SERVERS);
        if lanes.is_empty() {
            return Ok((Vec::new(), own));
        }
        let ask = |at: Timestamp| lanes.iter().map(|lane| Position { lane: lane.id, at }).collect();
        let starts = self.watch(self.engine.position(ask(Timestamp(from.0 - 1))).await)?;
        let ends = self.watch(self.engine.position(ask(to.plus(LATE))).await)?;
        let share = MAX_RECORDS / lanes.len() as u64;
        let mut stretches = Vec::with_capacity(lanes.len());
        for ((lane, start), end) in lanes.iter().zip(starts).zip(ends) {
            let (start, end) = (start.max(lane.tail), end.min(lane.head));
            let cut = start.max(end.saturating_sub(share));
            budget.truncated |= cut > start;
            stretches.push(Stretch { lane: lane.id, from: cut, to: end });
        }
        Ok((stretches, own))
    }

    /// Lanes of servers that have written since.
    async fn history_lanes(&self, queue: QueueId, since: Timestamp) -> Result<Vec<Lane>, Refused> {
        let (mut found, mut looked, mut after) = (Vec::new(), 0, None);
        while looked < MAX_LANES {
            let lanes = self.watch(self.engine.lanes(queue, after, LANE_PAGE).await)?;
            looked += lanes.len();
            let last = lanes.len() < LANE_PAGE;
            after = lanes.last().map(|lane| lane.name.clone());
            found.extend(lanes.into_iter().filter(|lane| lane.head > lane.tail && lane.written_at >= since));
            if last {
                break;
            }
        }
        Ok(found)
    }

    async fn read_stretch(
        &self,
        stretch: &Stretch,
        budget: &mut Budget,
        put: &mut (dyn FnMut(&Record) + Send),
    ) -> Result<(), Refused> {
        // The newest first: if not all can be read, the oldest is left out.
        let mut end = stretch.to;
        while end > stretch.from {
            if budget.bytes == 0 {
                budget.truncated = true;
                return Ok(());
            }
            let from = stretch.from.max(end.saturating_sub(AT_ONCE));
            self.read_some(&Stretch { from, to: end, ..*stretch }, budget, put).await?;
            end = from;
        }
        Ok(())
    }

    async fn read_some(
        &self,
        stretch: &Stretch,
        budget: &mut Budget,
        put: &mut (dyn FnMut(&Record) + Send),
    ) -> Result<(), Refused> {
        let mut from = stretch.from;
        while from < stretch.to {
            let read = Read { lane: stretch.lane, from, to: stretch.to, max_bytes: PIECE };
            let segments = self.watch(self.engine.read(vec![read]).await)?.pop().unwrap_or_default();
            let Some(end) = segments.last().map(Segment::end) else { return Ok(()) };
            for segment in &segments {
                budget.bytes = budget.bytes.saturating_sub(segment.plain_len());
                for message in segment.between(from, stretch.to).unwrap_or_default() {
                    match serde_json::from_slice::<Record>(&message.payload) {
                        Ok(record) => put(&record),
                        Err(error) => tracing::warn!(%error, id = %message.id, "a record cannot be read"),
                    }
                }
            }
            from = end.max(from + 1);
        }
        Ok(())
    }
}
