//! The newest messages of some queues, within bounds on work.
//!
//! No index by time spans lanes, so the lanes written since `from` are walked, the one written last first, and each from
//! its end backwards. Where all messages are wanted, whatever their status, the walk ends as soon as no lane that is left
//! can hold anything newer than what was found; counting needs no reading at all.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use bugle_store::{
    DeadLetterFilter, Group, Lane, LaneId, Load, Offset, Position, QUEUE_MODE, Queue, Read, Segment,
    Timestamp,
};

use crate::api::{MessageList, MessageQuery, MessageView, ReadMode, Refused};
use crate::inner::Inner;
use crate::is_system;
use crate::opened::Opened;
use crate::semantics::status::Reader;

use super::Sighting;

/// Lanes looked at.
const MAX_LANES: usize = 10_000;
/// Lanes listed by one call.
const LANE_PAGE: usize = 1000;
/// Bytes of messages read.
const MAX_BYTES: usize = 64 << 20;
/// Lanes read at a time, and messages of each.
const LANES_AT_ONCE: usize = 32;
const MESSAGES_AT_ONCE: Offset = 128;
/// Dead letters looked at, about, and by one call.
const MAX_LETTERS: usize = 10_000;
const LETTER_PAGE: usize = 256;
/// How far back the list goes if it is not said.
const DEFAULT_SPAN: Duration = Duration::from_secs(3600);

/// A lane on the list.
struct Listed {
    queue: Arc<Queue>,
    lane: Lane,
    /// What is wanted of it and not read yet.
    open: std::ops::Range<Offset>,
    /// Messages to read of it at a time.
    step: Offset,
}

/// Which group gave up on which message.
type Dead = HashSet<(LaneId, Offset, Group)>;

/// What is left of the bounds.
struct Budget {
    bytes: usize,
    truncated: bool,
}

impl Inner {
    /// See [`crate::Broker::messages`].
    pub(crate) async fn messages(self: &Arc<Self>, query: &MessageQuery) -> Result<MessageList, Refused> {
        let from = query.from.unwrap_or_else(|| self.engine.now().earliest.minus(DEFAULT_SPAN));
        let queues = self.matching_queues(query).await;
        let mode = self.mode_of(&queues);
        let mut budget = Budget { bytes: MAX_BYTES, truncated: false };
        let mut lanes = self.lanes_since(&queues, query, from, &mut budget).await?;
        self.cut_to_time(&mut lanes, from, query.to).await?;
        let in_all: u64 = lanes.iter().map(|lane| lane.open.end - lane.open.start).sum();
        lanes.sort_by_key(|lane| Reverse(lane.lane.written_at));
        let need = query.offset.saturating_add(query.limit);
        let (found, total) = match query.status {
            None => (self.newest(lanes, need, &mut budget).await?, in_all),
            Some(wanted) => {
                let all = self.newest(lanes, usize::MAX, &mut budget).await?;
                let views = self.describe_all(all, &queues, from, &mut budget).await?;
                let fitting: Vec<MessageView> = views.into_iter().filter(|v| v.status == wanted).collect();
                let total = fitting.len() as u64;
                let messages = fitting.into_iter().skip(query.offset).take(query.limit).collect();
                return Ok(MessageList { messages, total, truncated: budget.truncated, mode });
            }
        };
        let page = found.into_iter().skip(query.offset).take(query.limit).collect();
        let messages = self.describe_all(page, &queues, from, &mut budget).await?;
        Ok(MessageList { messages, total, truncated: budget.truncated, mode })
    }

    async fn matching_queues(self: &Arc<Self>, query: &MessageQuery) -> Vec<Arc<Queue>> {
        if !self.engine.exclusive() {
            self.refresh_catalog().await;
        }
        let fits = |wanted: &Option<Arc<str>>, name: &Arc<str>| wanted.as_ref().is_none_or(|w| w == name);
        self.catalog.queues_where(|queue| {
            !is_system(&queue.name)
                && fits(&query.queue, &queue.name)
                && fits(&query.namespace, &queue.namespace)
                && fits(&query.task, &queue.task)
        })
    }

    fn mode_of(&self, queues: &[Arc<Queue>]) -> ReadMode {
        let groups: HashSet<Group> = queues
            .iter()
            .flat_map(|q| self.catalog.groups(q.id))
            .map(|record| record.group.clone())
            .collect();
        let queue_mode = groups.contains(QUEUE_MODE);
        ReadMode { queue_mode, bus_groups: groups.len() - usize::from(queue_mode) }
    }

    /// Lanes of these queues that were written since `from`.
    async fn lanes_since(
        self: &Arc<Self>,
        queues: &[Arc<Queue>],
        query: &MessageQuery,
        from: Timestamp,
        budget: &mut Budget,
    ) -> Result<Vec<Listed>, Refused> {
        let mut listed = Vec::new();
        let mut looked = 0;
        for queue in queues {
            let mut after: Option<Arc<str>> = None;
            loop {
                let lanes = match &query.partition {
                    Some(name) => self.lane_named(queue, name).await?,
                    None => self.watch(self.engine.lanes(queue.id, after, LANE_PAGE).await)?,
                };
                let last = query.partition.is_some() || lanes.len() < LANE_PAGE;
                looked += lanes.len().max(1);
                after = lanes.last().map(|lane| lane.name.clone());
                let recent =
                    lanes.into_iter().filter(|lane| lane.head > lane.tail && lane.written_at >= from);
                listed.extend(recent.map(|lane| Listed {
                    queue: queue.clone(),
                    lane,
                    open: 0..0,
                    step: MESSAGES_AT_ONCE,
                }));
                if looked >= MAX_LANES {
                    budget.truncated = true;
                    return Ok(listed);
                }
                if last {
                    break;
                }
            }
        }
        Ok(listed)
    }

    async fn lane_named(&self, queue: &Queue, name: &str) -> Result<Vec<Lane>, Refused> {
        let load = Load::Lane(LaneId::derive(queue.id, name), QUEUE_MODE.into());
        let found = self.watch(self.engine.load(vec![load]).await)?;
        Ok(found.into_iter().flatten().map(|found| found.lane).collect())
    }

    /// Cut every lane to what was pushed from `from` on and before `to`.
    async fn cut_to_time(
        &self,
        lanes: &mut [Listed],
        from: Timestamp,
        to: Option<Timestamp>,
    ) -> Result<(), Refused> {
        // A position is the first offset stamped *after* a time.
        let before = |at: Timestamp| Timestamp(at.0.saturating_sub(1));
        for some in lanes.chunks_mut(LANE_PAGE) {
            let ask = |at| some.iter().map(|l| Position { lane: l.lane.id, at: before(at) }).collect();
            let starts = self.watch(self.engine.position(ask(from)).await)?;
            let ends = match to {
                Some(to) => self.watch(self.engine.position(ask(to)).await)?,
                None => some.iter().map(|listed| listed.lane.head).collect(),
            };
            for ((listed, start), end) in some.iter_mut().zip(starts).zip(ends) {
                let start = start.max(listed.lane.tail);
                listed.open = start..end.min(listed.lane.head).max(start);
            }
        }
        Ok(())
    }

    /// The newest `need` messages of lanes that are sorted by their newest message, newest first.
    async fn newest(
        &self,
        lanes: Vec<Listed>,
        need: usize,
        budget: &mut Budget,
    ) -> Result<Vec<Sighting>, Refused> {
        let mut found: Vec<Sighting> = Vec::new();
        let mut waiting = lanes.into_iter().filter(|listed| !listed.open.is_empty()).peekable();
        let most = need as Offset;
        while let Some(next) = waiting.peek() {
            if found.len() >= need && found[need - 1].created_at > next.lane.written_at {
                break;
            }
            let mut batch: Vec<(Listed, Offset)> =
                waiting.by_ref().take(LANES_AT_ONCE).map(|listed| (listed, most)).collect();
            while !batch.is_empty() {
                if budget.bytes == 0 {
                    budget.truncated = true;
                    sort_newest(&mut found);
                    return Ok(found);
                }
                self.read_back(&mut batch, &mut found, budget).await?;
                batch.retain(|(listed, wanted)| !listed.open.is_empty() && *wanted > 0);
            }
            sort_newest(&mut found);
            found.truncate(need);
        }
        Ok(found)
    }

    /// Read some messages from the end of what is open of each lane.
    async fn read_back(
        &self,
        batch: &mut [(Listed, Offset)],
        found: &mut Vec<Sighting>,
        budget: &mut Budget,
    ) -> Result<(), Refused> {
        let max_bytes = (budget.bytes / batch.len()).max(1);
        let reads: Vec<Read> = batch
            .iter()
            .map(|(listed, wanted)| {
                let to = listed.open.end;
                let from = listed.open.start.max(to.saturating_sub(listed.step.min(*wanted)));
                Read { lane: listed.lane.id, from, to, max_bytes }
            })
            .collect();
        let read = self.watch(self.engine.read(reads.clone()).await)?;
        for (((listed, wanted), segments), asked) in batch.iter_mut().zip(read).zip(reads) {
            budget.bytes = budget.bytes.saturating_sub(segments.iter().map(Segment::plain_len).sum());
            let read_to = segments.last().map_or(asked.to, Segment::end);
            if read_to < asked.to {
                // Cut short: what is missing is newer than what came. Take smaller steps.
                listed.step = ((read_to - asked.from) / 2).max(1).min(listed.step / 2).max(1);
                continue;
            }
            listed.open.end = asked.from;
            *wanted -= (asked.to - asked.from).min(*wanted);
            found.extend(sightings(&self.opened, listed, &segments, asked.from, asked.to));
        }
        Ok(())
    }

    /// Messages with all that is known of them.
    async fn describe_all(
        self: &Arc<Self>,
        found: Vec<Sighting>,
        queues: &[Arc<Queue>],
        from: Timestamp,
        budget: &mut Budget,
    ) -> Result<Vec<MessageView>, Refused> {
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let of_lane: HashMap<LaneId, Arc<Queue>> = found.iter().map(|s| (s.lane, s.queue.clone())).collect();
        let ids: Vec<LaneId> = of_lane.keys().copied().collect();
        let mut readers: HashMap<LaneId, Vec<Reader>> = HashMap::with_capacity(ids.len());
        for some in ids.chunks(LANE_PAGE) {
            let loads = some.iter().map(|lane| Load::Cursors(*lane)).collect();
            for (lane, cursors) in some.iter().zip(self.watch(self.engine.load(loads).await)?) {
                readers.insert(*lane, self.readers(of_lane[lane].id, cursors));
            }
        }
        let dead = self.dead_since(queues, from, budget).await?;
        let views = found.into_iter().map(|sighting| {
            let (lane, offset) = (sighting.lane, sighting.offset);
            let dead = |group: &Group| dead.contains(&(lane, offset, group.clone()));
            self.describe(sighting, readers.get(&lane).map_or(&[], Vec::as_slice), dead)
        });
        Ok(views.collect())
    }

    /// What groups gave up on since `from`: no message fails before it is pushed.
    async fn dead_since(
        &self,
        queues: &[Arc<Queue>],
        from: Timestamp,
        budget: &mut Budget,
    ) -> Result<Dead, Refused> {
        let mut dead = Dead::new();
        let only = if let [queue] = queues { Some(queue.id) } else { None };
        let filter = DeadLetterFilter { queue: only, from: Some(from), ..DeadLetterFilter::default() };
        let mut after: Option<(Timestamp, Uuid)> = None;
        while dead.len() < MAX_LETTERS && budget.bytes > 0 {
            let found = self.engine.dead_letters_after(filter.clone(), after, LETTER_PAGE).await;
            let letters = self.watch(found)?;
            after = letters.last().map(|letter| (letter.failed_at, letter.id));
            let last = letters.len() < LETTER_PAGE;
            budget.bytes = budget.bytes.saturating_sub(letters.iter().map(|l| l.message.len()).sum());
            dead.extend(letters.into_iter().map(|letter| (letter.lane, letter.offset, letter.group)));
            if last {
                return Ok(dead);
            }
        }
        budget.truncated = true;
        Ok(dead)
    }
}

fn sort_newest(found: &mut [Sighting]) {
    found.sort_by_key(|sighting| Reverse((sighting.created_at, sighting.offset)));
}

fn sightings<'a>(
    opened: &'a Opened,
    listed: &'a Listed,
    segments: &'a [Segment],
    from: Offset,
    to: Offset,
) -> impl Iterator<Item = Sighting> + 'a {
    segments.iter().flat_map(move |segment| {
        let opened = opened.open(listed.lane.id, segment);
        let messages = opened.and_then(|opened| opened.between(from, to)).unwrap_or_default();
        (segment.base.max(from)..).zip(messages).map(move |(offset, message)| Sighting {
            queue: listed.queue.clone(),
            partition: listed.lane.name.clone(),
            lane: listed.lane.id,
            offset,
            segment: Some(segment.base..segment.end()),
            created_at: segment.created_at,
            message,
        })
    })
}
