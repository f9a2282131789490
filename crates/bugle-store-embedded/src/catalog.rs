//! Queues, lanes, groups, dead letters and traces: the [`Catalog`] half of the engine.

use std::io;
use std::ops::Bound;
use std::sync::Arc;

use bugle_store::{
    Answer, Catalog, DeadLetter, DeadLetterFilter, Expire, Group, GroupRecord, Lane, LaneError, NewLane,
    Page, PutQueue, PutSwitches, Queue, QueueId, QueueTally, Snapshot, Switches, Timestamp, Trace,
    TraceFilter, TraceName,
};
use uuid::Uuid;

use crate::EmbeddedStore;
use crate::codec::Malformed;
use crate::evaluate::Evaluation;
use crate::op::Op;
use crate::read;
use crate::record::{DEAD_UID, TRACE_UID};
use crate::rows::{decode_dead, decode_trace};
use crate::shared::Shared;
use crate::tally::tallies;

/// About what a catalog change costs in a record.
const ROW: usize = 512;

impl Catalog for EmbeddedStore {
    fn ping(&self) -> Answer<'_, ()> {
        Box::pin(async move { self.shared.check() })
    }

    fn snapshot(&self, known: Option<u64>) -> Answer<'_, Option<Snapshot>> {
        Box::pin(async move {
            self.shared.check()?;
            let state = &self.shared.core.read().state;
            Ok((known != Some(state.version)).then(|| Snapshot {
                version: state.version,
                switches: state.switches,
                queues: state.queues.values().map(|q| q.queue.clone()).collect(),
                groups: state.groups.values().cloned().collect(),
            }))
        })
    }

    fn put_switches(&self, change: PutSwitches) -> Answer<'_, Switches> {
        Box::pin(self.change(ROW, true, move |evaluation| {
            let switches = change.apply(evaluation.shared.core.read().state.switches);
            evaluation.ops.push(Op::Switches(switches));
            Ok(switches)
        }))
    }

    fn put_queue(&self, queue: Queue) -> Answer<'_, PutQueue> {
        Box::pin(self.change(ROW, true, |evaluation| Ok(put_queue(evaluation, queue))))
    }

    fn delete_queue(&self, id: QueueId) -> Answer<'_, bool> {
        Box::pin(self.change(ROW, true, move |evaluation| {
            let known = evaluation.shared.core.read().state.queues.contains_key(&id);
            if known {
                evaluation.ops.push(Op::DropQueue(id));
            }
            Ok(known)
        }))
    }

    fn ensure_lanes(&self, batch: Vec<NewLane>) -> Answer<'_, Vec<Result<Lane, LaneError>>> {
        Box::pin(async move {
            self.shared.check()?;
            if let Some(known) = known_lanes(&self.shared, &batch) {
                return Ok(known);
            }
            self.change(batch.len() * ROW, false, |evaluation| {
                Ok(batch.into_iter().map(|new| evaluation.ensure_lane(new)).collect())
            })
            .await
        })
    }

    fn lanes(&self, queue: QueueId, after: Option<Arc<str>>, limit: usize) -> Answer<'_, Vec<Lane>> {
        Box::pin(async move {
            self.shared.check()?;
            let state = &self.shared.core.read().state;
            let Some(queue) = state.queues.get(&queue) else { return Ok(Vec::new()) };
            let from = after.map_or(Bound::Unbounded, Bound::Excluded);
            let uids = queue.by_name.range((from, Bound::Unbounded)).map(|(_, uid)| uid);
            Ok(uids.take(limit).map(|uid| state.lanes[*uid].lane.clone()).collect())
        })
    }

    fn tallies(&self, queues: Option<Vec<QueueId>>, now: Timestamp) -> Answer<'_, Vec<QueueTally>> {
        Box::pin(async move {
            self.shared.check()?;
            Ok(tallies(&self.shared.core.read().state, queues, now))
        })
    }

    fn put_group(&self, group: GroupRecord) -> Answer<'_, Option<GroupRecord>> {
        Box::pin(self.change(ROW, true, |evaluation| {
            let state = &evaluation.shared.core.read().state;
            if !state.queues.contains_key(&group.queue) {
                return Ok(None);
            }
            if let Some(stored) = state.groups.get(&(group.queue, group.group.clone())) {
                return Ok(Some(stored.clone()));
            }
            evaluation.ops.push(Op::Group(group.clone()));
            Ok(Some(group))
        }))
    }

    fn update_group(&self, group: GroupRecord) -> Answer<'_, bool> {
        Box::pin(self.change(ROW, true, |evaluation| {
            let key = (group.queue, group.group.clone());
            let known = evaluation.shared.core.read().state.groups.contains_key(&key);
            if known {
                evaluation.ops.push(Op::Group(group));
            }
            Ok(known)
        }))
    }

    fn delete_group(&self, queue: QueueId, group: Group, record: bool) -> Answer<'_, u64> {
        Box::pin(self.change(ROW, true, move |evaluation| {
            let (cursors, known) = {
                let state = &evaluation.shared.core.read().state;
                let uids = state.queues.get(&queue).into_iter().flat_map(|q| q.by_id.values());
                let cursors = uids.filter(|uid| state.lanes[**uid].cursor(&group).is_some()).count();
                (cursors as u64, record && state.groups.contains_key(&(queue, group.clone())))
            };
            if cursors > 0 || known {
                evaluation.ops.push(Op::DropGroup { queue, group, record });
            }
            Ok(cursors)
        }))
    }

    fn dead_letters(&self, filter: DeadLetterFilter, page: Page) -> Answer<'_, (Vec<DeadLetter>, u64)> {
        Box::pin(self.look_up(true, move |shared| {
            if filter.error.is_none() {
                let (rows, total) = shared.core.read().state.dead.page(&filter, page);
                return Ok((rows_of(shared, DEAD_UID, rows, decode_dead)?, total));
            }
            let all = Page { offset: 0, limit: usize::MAX };
            let rows = shared.core.read().state.dead.page(&filter, all).0;
            let (mut found, mut total) = (Vec::new(), 0);
            for letter in with_error(shared, &filter, rows) {
                let letter = letter?;
                if total >= page.offset && found.len() < page.limit {
                    found.push(letter);
                }
                total += 1;
            }
            Ok((found, total as u64))
        }))
    }

    fn dead_letters_after(
        &self,
        filter: DeadLetterFilter,
        after: Option<(Timestamp, Uuid)>,
        limit: usize,
    ) -> Answer<'_, Vec<DeadLetter>> {
        Box::pin(self.look_up(true, move |shared| {
            let most = if filter.error.is_none() { limit } else { usize::MAX };
            let rows = shared.core.read().state.dead.after(&filter, after, most);
            with_error(shared, &filter, rows).take(limit).collect()
        }))
    }

    fn delete_dead_letters(&self, ids: Vec<Uuid>) -> Answer<'_, u64> {
        Box::pin(self.change(ROW, true, move |evaluation| {
            let mut rows: Vec<u64> = {
                let known = &evaluation.shared.core.read().state.dead.ids;
                ids.iter().filter_map(|id| known.get(id)).copied().collect()
            };
            rows.sort_unstable();
            rows.dedup();
            Ok(drop_rows(evaluation, rows, Op::DropDead))
        }))
    }

    fn put_trace(&self, trace: Trace) -> Answer<'_, ()> {
        Box::pin(self.change(ROW + trace.data.len(), false, move |evaluation| {
            evaluation.put_trace(&trace);
            Ok(())
        }))
    }

    fn traces(&self, filter: TraceFilter, page: Page) -> Answer<'_, (Vec<Trace>, u64)> {
        Box::pin(self.look_up(true, move |shared| {
            let (rows, total) = shared.core.read().state.traces.page(&filter, page);
            Ok((rows_of(shared, TRACE_UID, rows, decode_trace)?, total))
        }))
    }

    fn trace_names(&self, page: Page) -> Answer<'_, (Vec<TraceName>, u64)> {
        Box::pin(self.look_up(true, move |shared| Ok(shared.core.read().state.traces.names(page))))
    }

    fn expire(&self, what: Expire, limit: usize) -> Answer<'_, u64> {
        Box::pin(self.change(ROW, true, move |evaluation| Ok(expire(evaluation, what, limit))))
    }
}

fn put_queue(evaluation: &mut Evaluation<'_>, queue: Queue) -> PutQueue {
    let in_the_way = {
        let state = &evaluation.shared.core.read().state;
        let stored = |id: &QueueId| state.queues.get(id).map(|q| q.queue.clone());
        if queue.version == 1 {
            let by_name = state.names.get(&queue.name).and_then(stored);
            by_name.or_else(|| stored(&queue.id)).map(Some)
        } else {
            let stored = stored(&queue.id);
            let fits = stored.as_ref().is_some_and(|q| q.version + 1 == queue.version);
            (!fits).then_some(stored)
        }
    };
    match in_the_way {
        Some(other) => PutQueue::Exists(other),
        None => {
            evaluation.ops.push(Op::Queue(queue.clone()));
            PutQueue::Stored(queue)
        }
    }
}

/// The answer when there is nothing to create, which is the common case and needs no commit.
fn known_lanes(shared: &Shared, batch: &[NewLane]) -> Option<Vec<Result<Lane, LaneError>>> {
    let state = &shared.core.read().state;
    let known = |new: &NewLane| {
        let queue = state.queues.get(&new.queue)?;
        Some(Ok(state.lanes[*queue.by_name.get(&new.name)?].lane.clone()))
    };
    batch.iter().map(known).collect()
}

fn rows_of<T>(
    shared: &Shared,
    uid: u64,
    rows: Vec<u64>,
    decode: impl Fn(&bytes::Bytes) -> Result<T, Malformed>,
) -> io::Result<Vec<T>> {
    let mut out = Vec::with_capacity(rows.len());
    for row in rows {
        if let Some(frame) = read::row(shared, uid, row)? {
            out.push(decode(&frame.body).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?);
        }
    }
    Ok(out)
}

/// The dead letters of these rows whose error fits, read one by one: the text is not in memory.
fn with_error<'a>(
    shared: &'a Shared,
    filter: &'a DeadLetterFilter,
    rows: Vec<u64>,
) -> impl Iterator<Item = io::Result<DeadLetter>> + 'a {
    let fits = move |letter: &DeadLetter| {
        filter.error.as_ref().is_none_or(|text| letter.error.contains(text.as_str()))
    };
    rows.into_iter().filter_map(move |row| match rows_of(shared, DEAD_UID, vec![row], decode_dead) {
        Ok(mut letters) => letters.pop().filter(|letter| fits(letter)).map(Ok),
        Err(error) => Some(Err(error)),
    })
}

fn drop_rows(evaluation: &mut Evaluation<'_>, rows: Vec<u64>, op: impl Fn(u64) -> Op) -> u64 {
    let count = rows.len() as u64;
    evaluation.ops.extend(rows.into_iter().map(op));
    count
}

fn expire(evaluation: &mut Evaluation<'_>, what: Expire, limit: usize) -> u64 {
    let shared = evaluation.shared;
    match what {
        Expire::DeadLetters(before) => {
            let rows = shared.core.read().state.dead.before(before, limit);
            drop_rows(evaluation, rows, Op::DropDead)
        }
        Expire::Traces(before) => {
            let rows = shared.core.read().state.traces.before(before, limit);
            drop_rows(evaluation, rows, Op::DropTrace)
        }
        Expire::Lanes(before) => {
            let uids: Vec<u64> = {
                let state = &shared.core.read().state;
                let old = state.queues.values().flat_map(|q| {
                    q.by_written.iter().take_while(|(at, _)| *at < before).map(|(_, id)| q.by_id[id])
                });
                let empty = old.filter(|uid| state.lanes[*uid].lane.head == state.lanes[*uid].lane.tail);
                empty.take(limit).collect()
            };
            drop_rows(evaluation, uids, |uid| Op::DropLane { uid })
        }
    }
}
