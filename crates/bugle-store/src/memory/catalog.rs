//! Queues, lanes, groups, dead letters and traces: the [`Catalog`] half of the reference store.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use uuid::Uuid;

use crate::catalog::{
    DeadLetterFilter, Expire, GroupRecord, LaneError, NewLane, Page, PutQueue, PutSwitches, Queue, Snapshot,
    Switches, Trace, TraceFilter, TraceName,
};
use crate::change::DeadLetter;
use crate::lane::Lane;
use crate::name::{Group, LaneId, QueueId};
use crate::tally::QueueTally;
use crate::time::Timestamp;
use crate::{Answer, Catalog};

use super::log::Log;
use super::{MemoryStore, State};

/// The rows of one page.
fn paged<T>(rows: impl IntoIterator<Item = T>, page: Page) -> Vec<T> {
    rows.into_iter().skip(page.offset).take(page.limit).collect()
}

impl State {
    fn snapshot(&self, known: Option<u64>) -> Option<Snapshot> {
        (known != Some(self.version)).then(|| Snapshot {
            version: self.version,
            switches: self.switches,
            queues: self.queues.values().cloned().collect(),
            groups: self.groups.values().cloned().collect(),
        })
    }

    fn put_switches(&mut self, change: PutSwitches) -> Switches {
        self.version += 1;
        self.switches = change.apply(self.switches);
        self.switches
    }

    fn put_queue(&mut self, queue: Queue) -> PutQueue {
        let in_the_way = if queue.version == 1 {
            let taken = self.queues.values().find(|q| q.name == queue.name || q.id == queue.id);
            taken.map(|q| Some(q.clone()))
        } else {
            let stored = self.queues.get(&queue.id);
            let fits = stored.is_some_and(|q| q.version + 1 == queue.version);
            (!fits).then(|| stored.cloned())
        };
        if let Some(other) = in_the_way {
            return PutQueue::Exists(other);
        }
        self.version += 1;
        self.queues.insert(queue.id, queue.clone());
        PutQueue::Stored(queue)
    }

    fn delete_queue(&mut self, id: QueueId) -> bool {
        if self.queues.remove(&id).is_none() {
            return false;
        }
        self.version += 1;
        self.groups.retain(|(queue, _), _| *queue != id);
        self.dead.retain(|_, letter| letter.queue != id);
        self.traces.retain(|trace| trace.queue != id);
        let lanes = self.lanes.values().filter(|log| log.lane.queue == id).map(|log| log.lane.id).collect();
        self.remove_lanes(&lanes);
        true
    }

    fn remove_lanes(&mut self, lanes: &BTreeSet<LaneId>) {
        self.lanes.retain(|id, _| !lanes.contains(id));
        self.cursors.retain(|(lane, _), _| !lanes.contains(lane));
    }

    fn ensure_lane(&mut self, new: NewLane) -> Result<Lane, LaneError> {
        if !self.queues.contains_key(&new.queue) {
            return Err(LaneError::NoQueue);
        }
        let id = LaneId::derive(new.queue, &new.name);
        let lane = Lane {
            id,
            queue: new.queue,
            name: new.name.clone(),
            head: 0,
            tail: 0,
            created_at: new.now,
            written_at: new.now,
            greatest: None,
        };
        let stored = &self.lanes.entry(id).or_insert(Log { lane, entries: Vec::new() }).lane;
        if stored.name == new.name {
            Ok(stored.clone())
        } else {
            Err(LaneError::Collision(stored.name.clone()))
        }
    }

    fn lanes(&self, queue: QueueId, after: Option<&str>, limit: usize) -> Vec<Lane> {
        let of_queue = self.lanes.values().map(|log| &log.lane).filter(|lane| lane.queue == queue);
        let later = of_queue.filter(|lane| after.is_none_or(|after| *lane.name > *after));
        let mut lanes: Vec<Lane> = later.cloned().collect();
        lanes.sort_by(|a, b| a.name.cmp(&b.name));
        lanes.truncate(limit);
        lanes
    }

    /// Counts everything there is: this is what the counters of engines must come to.
    fn tally(&self, queue: QueueId, now: Timestamp) -> QueueTally {
        let mut tally = QueueTally::empty(queue);
        for Log { lane, .. } in self.lanes.values().filter(|log| log.lane.queue == queue) {
            let of_lane = self.cursors.iter().filter(|((id, _), _)| *id == lane.id);
            tally.count(lane, of_lane.map(|((_, group), cursor)| (group, cursor)), now);
        }
        tally.dead = self.dead.values().filter(|letter| letter.queue == queue).count() as u64;
        tally
    }

    fn tallies(&self, queues: Option<Vec<QueueId>>, now: Timestamp) -> Vec<QueueTally> {
        let asked = |id: &&QueueId| queues.as_ref().is_none_or(|queues| queues.contains(id));
        self.queues.keys().filter(asked).map(|id| self.tally(*id, now)).collect()
    }

    fn put_group(&mut self, group: GroupRecord) -> Option<GroupRecord> {
        if !self.queues.contains_key(&group.queue) {
            return None;
        }
        let key = (group.queue, group.group.clone());
        if let Some(stored) = self.groups.get(&key) {
            return Some(stored.clone());
        }
        self.version += 1;
        self.groups.insert(key, group.clone());
        Some(group)
    }

    fn update_group(&mut self, group: GroupRecord) -> bool {
        let Some(stored) = self.groups.get_mut(&(group.queue, group.group.clone())) else { return false };
        *stored = group;
        self.version += 1;
        true
    }

    fn delete_group(&mut self, queue: QueueId, group: Group, record: bool) -> u64 {
        let before = self.cursors.len();
        let lanes = &self.lanes;
        self.cursors.retain(|(lane, of), _| *of != group || lanes[lane].lane.queue != queue);
        if record && self.groups.remove(&(queue, group)).is_some() {
            self.version += 1;
        }
        (before - self.cursors.len()) as u64
    }

    fn dead_letters(&self, filter: &DeadLetterFilter, page: Page) -> (Vec<DeadLetter>, u64) {
        let mut found: Vec<&DeadLetter> =
            self.dead.values().filter(|letter| matches(filter, letter)).collect();
        found.sort_by_key(|letter| Reverse((letter.failed_at, letter.id)));
        let total = found.len() as u64;
        (paged(found, page).into_iter().cloned().collect(), total)
    }

    fn dead_letters_after(
        &self,
        filter: &DeadLetterFilter,
        after: Option<(Timestamp, Uuid)>,
        limit: usize,
    ) -> Vec<DeadLetter> {
        let key = |letter: &DeadLetter| (letter.failed_at, letter.id);
        let later = |letter: &&DeadLetter| after.is_none_or(|after| key(letter) > after);
        let mut found: Vec<&DeadLetter> =
            self.dead.values().filter(later).filter(|letter| matches(filter, letter)).collect();
        found.sort_by_key(|letter| key(letter));
        found.into_iter().take(limit).cloned().collect()
    }

    fn traces(&self, filter: &TraceFilter, page: Page) -> (Vec<Trace>, u64) {
        let mut found: Vec<&Trace> = match filter {
            TraceFilter::Message(lane, transaction) => {
                self.traces.iter().filter(|t| t.lane == *lane && t.transaction_id == *transaction).collect()
            }
            TraceFilter::Name(name) => self.traces.iter().filter(|t| t.names.contains(name)).collect(),
        };
        found.sort_by_key(|trace| trace.created_at);
        if let TraceFilter::Name(_) = filter {
            found.reverse();
        }
        let total = found.len() as u64;
        (paged(found, page).into_iter().cloned().collect(), total)
    }

    fn trace_names(&self, page: Page) -> (Vec<TraceName>, u64) {
        let mut by_name: BTreeMap<&str, Vec<&Trace>> = BTreeMap::new();
        for trace in &self.traces {
            for name in trace.names.iter().collect::<BTreeSet<_>>() {
                by_name.entry(name).or_default().push(trace);
            }
        }
        let total = by_name.len() as u64;
        let mut names: Vec<TraceName> =
            by_name.into_iter().map(|(name, traces)| summary(name, &traces)).collect();
        names.sort_by_key(|name| Reverse(name.last_seen));
        (paged(names, page), total)
    }

    fn expire(&mut self, what: Expire, limit: usize) -> u64 {
        match what {
            Expire::DeadLetters(before) => {
                let old = self.dead.values().filter(|letter| letter.failed_at < before);
                let ids: Vec<Uuid> = old.map(|letter| letter.id).take(limit).collect();
                ids.iter().filter(|id| self.dead.remove(id).is_some()).count() as u64
            }
            Expire::Traces(before) => {
                let old = self.traces.iter().filter(|trace| trace.created_at < before);
                let ids: BTreeSet<Uuid> = old.map(|trace| trace.id).take(limit).collect();
                self.traces.retain(|trace| !ids.contains(&trace.id));
                ids.len() as u64
            }
            Expire::Lanes(before) => {
                let empty = self.lanes.values().map(|log| &log.lane).filter(|lane| lane.head == lane.tail);
                let old = empty.filter(|lane| lane.written_at < before);
                let ids: BTreeSet<LaneId> = old.map(|lane| lane.id).take(limit).collect();
                self.remove_lanes(&ids);
                ids.len() as u64
            }
        }
    }
}

fn matches(filter: &DeadLetterFilter, letter: &DeadLetter) -> bool {
    filter.queue.is_none_or(|queue| letter.queue == queue)
        && filter.lane.is_none_or(|lane| letter.lane == lane)
        && filter.group.as_ref().is_none_or(|group| letter.group == *group)
        && filter.transaction_id.as_ref().is_none_or(|transaction| letter.transaction_id == *transaction)
        && filter.id.is_none_or(|id| letter.id == id)
        && filter.from.is_none_or(|from| letter.failed_at >= from)
        && filter.to.is_none_or(|to| letter.failed_at < to)
        && filter.error.as_ref().is_none_or(|text| letter.error.contains(text.as_str()))
}

fn summary(name: &str, traces: &[&Trace]) -> TraceName {
    let messages: BTreeSet<_> = traces.iter().map(|t| (t.lane, t.transaction_id.as_str())).collect();
    TraceName {
        name: name.to_owned(),
        traces: traces.len() as u64,
        messages: messages.len() as u64,
        last_seen: traces.iter().map(|t| t.created_at).max().unwrap_or(Timestamp::ZERO),
    }
}

impl Catalog for MemoryStore {
    fn ping(&self) -> Answer<'_, ()> {
        self.answer(|_| ())
    }

    fn snapshot(&self, known: Option<u64>) -> Answer<'_, Option<Snapshot>> {
        self.answer(move |state| state.snapshot(known))
    }

    fn put_switches(&self, change: PutSwitches) -> Answer<'_, Switches> {
        self.answer(move |state| state.put_switches(change))
    }

    fn put_queue(&self, queue: Queue) -> Answer<'_, PutQueue> {
        self.answer(move |state| state.put_queue(queue))
    }

    fn delete_queue(&self, id: QueueId) -> Answer<'_, bool> {
        self.answer(move |state| state.delete_queue(id))
    }

    fn ensure_lanes(&self, batch: Vec<NewLane>) -> Answer<'_, Vec<Result<Lane, LaneError>>> {
        self.each(batch, State::ensure_lane)
    }

    fn lanes(&self, queue: QueueId, after: Option<Arc<str>>, limit: usize) -> Answer<'_, Vec<Lane>> {
        self.answer(move |state| state.lanes(queue, after.as_deref(), limit))
    }

    fn tallies(&self, queues: Option<Vec<QueueId>>, now: Timestamp) -> Answer<'_, Vec<QueueTally>> {
        self.answer(move |state| state.tallies(queues, now))
    }

    fn put_group(&self, group: GroupRecord) -> Answer<'_, Option<GroupRecord>> {
        self.answer(move |state| state.put_group(group))
    }

    fn update_group(&self, group: GroupRecord) -> Answer<'_, bool> {
        self.answer(move |state| state.update_group(group))
    }

    fn delete_group(&self, queue: QueueId, group: Group, record: bool) -> Answer<'_, u64> {
        self.answer(move |state| state.delete_group(queue, group, record))
    }

    fn dead_letters(&self, filter: DeadLetterFilter, page: Page) -> Answer<'_, (Vec<DeadLetter>, u64)> {
        self.answer(move |state| state.dead_letters(&filter, page))
    }

    fn dead_letters_after(
        &self,
        filter: DeadLetterFilter,
        after: Option<(Timestamp, Uuid)>,
        limit: usize,
    ) -> Answer<'_, Vec<DeadLetter>> {
        self.answer(move |state| state.dead_letters_after(&filter, after, limit))
    }

    fn delete_dead_letters(&self, ids: Vec<Uuid>) -> Answer<'_, u64> {
        self.answer(move |state| ids.iter().filter(|id| state.dead.remove(id).is_some()).count() as u64)
    }

    fn put_trace(&self, trace: Trace) -> Answer<'_, ()> {
        // What belongs to a queue that is gone would never be deleted with it.
        self.answer(move |state| {
            if state.queues.contains_key(&trace.queue) {
                state.traces.push(trace);
            }
        })
    }

    fn traces(&self, filter: TraceFilter, page: Page) -> Answer<'_, (Vec<Trace>, u64)> {
        self.answer(move |state| state.traces(&filter, page))
    }

    fn trace_names(&self, page: Page) -> Answer<'_, (Vec<TraceName>, u64)> {
        self.answer(move |state| state.trace_names(page))
    }

    fn expire(&self, what: Expire, limit: usize) -> Answer<'_, u64> {
        self.answer(move |state| state.expire(what, limit))
    }
}
