//! The log and the cursors: the [`Store`] half of the engine.

use std::collections::BTreeSet;
use std::ops::Bound;

use bugle_store::{
    Aged, AgedLane, Answer, Append, AppendError, Appended, BackupAnswer, BackupError, Commit, CommitError,
    Committed, Engine, Find, Found, LaneCursor, LaneId, Load, Now, Offset, Position, Probe, Probed, Read,
    Segments, Store, Survey, Surveyed, Swap, SwapError, Swapped, Trim, Unavailable, WrittenLane,
};
use tokio::sync::oneshot;

use crate::EmbeddedStore;
use crate::backup;
use crate::read;
use crate::shared::Shared;
use crate::state::{LaneState, State};
use crate::writer::Message;

/// About what an item costs in a record beside its body.
const ITEM: usize = 192;

fn append_bytes(items: &[Append]) -> usize {
    items.iter().map(|a| ITEM + a.segment.body.len() + 8 * a.segment.fingerprints.len()).sum()
}

fn swap_bytes(items: &[Swap]) -> usize {
    items.iter().map(|s| ITEM + s.dead.iter().map(|d| ITEM + d.message.len()).sum::<usize>()).sum()
}

impl Store for EmbeddedStore {
    fn now(&self) -> Now {
        Now::exactly(self.shared.now())
    }

    fn exclusive(&self) -> bool {
        true
    }

    fn append(&self, batch: Vec<Append>) -> Answer<'_, Vec<Result<Appended, AppendError>>> {
        Box::pin(self.change(append_bytes(&batch), false, |evaluation| {
            batch.into_iter().map(|item| evaluation.append(item)).collect()
        }))
    }

    fn swap(&self, batch: Vec<Swap>) -> Answer<'_, Vec<Result<Swapped, SwapError>>> {
        Box::pin(async move {
            let reads: Vec<Option<Read>> = batch
                .iter()
                .map(|s| {
                    let lane = s.lane;
                    s.read.map(|span| Read { lane, from: span.from, to: span.to, max_bytes: span.max_bytes })
                })
                .collect();
            let swapped: Vec<Result<(), SwapError>> = self
                .change(swap_bytes(&batch), false, |evaluation| {
                    Ok(batch.into_iter().map(|item| evaluation.swap(item)).collect())
                })
                .await?;
            let wanted = reads.iter().zip(&swapped).filter(|(_, done)| done.is_ok());
            let wanted: Vec<Read> = wanted.filter_map(|(read, _)| *read).collect();
            let mut segments = self.claimed(wanted).await?.into_iter();
            let mut answer = |read: Option<Read>| match read {
                Some(_) => segments.next().unwrap_or_default(),
                None => Segments::new(),
            };
            let answers = swapped.into_iter().zip(reads);
            Ok(answers.map(|(done, read)| done.map(|()| Swapped { segments: answer(read) })).collect())
        })
    }

    fn commit(&self, batch: Vec<Commit>) -> Answer<'_, Vec<Result<Committed, CommitError>>> {
        let bytes = batch.iter().map(|c| append_bytes(&c.appends) + swap_bytes(&c.swaps)).sum();
        Box::pin(
            self.change(bytes, false, |evaluation| {
                batch.into_iter().map(|set| evaluation.commit(set)).collect()
            }),
        )
    }

    fn read(&self, batch: Vec<Read>) -> Answer<'_, Vec<Segments>> {
        Box::pin(self.segments(batch))
    }

    fn find(&self, batch: Vec<Find>) -> Answer<'_, Vec<Vec<Found>>> {
        Box::pin(async move {
            let look = move |shared: &_| batch.iter().map(|query| read::find(shared, query)).collect();
            self.look_up(self.index_on_disk(), look).await
        })
    }

    fn probe(&self, batch: Vec<Probe>) -> Answer<'_, Vec<Probed>> {
        Box::pin(async move {
            self.shared.check()?;
            let core = self.shared.core.read();
            Ok(batch.iter().map(|query| probe(&core.state, query)).collect())
        })
    }

    fn load(&self, batch: Vec<Load>) -> Answer<'_, Vec<Vec<LaneCursor>>> {
        Box::pin(async move {
            self.shared.check()?;
            let core = self.shared.core.read();
            Ok(batch.iter().map(|what| load(&core.state, what)).collect())
        })
    }

    fn position(&self, batch: Vec<Position>) -> Answer<'_, Vec<Offset>> {
        Box::pin(async move {
            let look = move |shared: &_| batch.iter().map(|query| read::position(shared, query)).collect();
            self.look_up(self.index_on_disk(), look).await
        })
    }

    fn trim(&self, batch: Vec<Trim>) -> Answer<'_, Vec<u64>> {
        Box::pin(self.change(batch.len() * ITEM, false, |evaluation| {
            Ok(batch.into_iter().map(|item| evaluation.trim(item)).collect())
        }))
    }

    fn aged(&self, batch: Vec<Aged>) -> Answer<'_, Vec<Vec<AgedLane>>> {
        Box::pin(async move {
            let look = move |shared: &_| batch.iter().map(|query| read::aged(shared, query)).collect();
            self.look_up(self.index_on_disk(), look).await
        })
    }

    /// Goes through all queues, and in each only through what was written since. The only writer knows what it wrote
    /// and has no need to ask again and again, so there is no index over all queues.
    fn survey(&self, survey: Survey) -> Answer<'_, Surveyed> {
        Box::pin(async move {
            self.shared.check()?;
            Ok(surveyed(&self.shared.core.read().state, &survey))
        })
    }
}

impl EmbeddedStore {
    /// As [`Self::segments`], but the cursors are exchanged already: a lane that cannot be read must not take the others along.
    /// It gets what can be read of it, perhaps nothing.
    async fn claimed(&self, batch: Vec<Read>) -> Result<Vec<Segments>, Unavailable> {
        if let Ok(all) = self.segments(batch.clone()).await {
            return Ok(all);
        }
        let look = move |shared: &Shared| {
            let read = |item: &Read| {
                let (segments, failed) = read::read_readable(shared, item);
                if let Some(error) = failed {
                    tracing::error!(lane = %item.lane, %error, "messages cannot be read; their lane stays where it is");
                }
                segments
            };
            Ok(batch.iter().map(read).collect())
        };
        self.look_up(true, look).await
    }

    /// From memory at once if all of it is there, else on a thread that may wait for the disk.
    async fn segments(&self, batch: Vec<Read>) -> Result<Vec<Segments>, Unavailable> {
        self.shared.check()?;
        let cached: Option<Vec<Segments>> =
            batch.iter().map(|item| read::read_cached(&self.shared, item)).collect();
        if let Some(all) = cached {
            return Ok(all);
        }
        let look = move |shared: &_| batch.iter().map(|item| read::read_range(shared, item)).collect();
        self.look_up(true, look).await
    }
}

impl Engine for EmbeddedStore {
    fn stopped(&self) -> Option<String> {
        self.shared.check().err().map(|error| error.reason)
    }

    fn backup(&self) -> BackupAnswer<'_> {
        let shared = self.shared.clone();
        Box::pin(async move {
            // It may wait for files being given back, and opens many.
            let begun = tokio::task::spawn_blocking(move || backup::begin(&shared)).await;
            let begun = begun.map_err(|e| BackupError::Failed(e.to_string()))?;
            begun.map(|copy| Box::new(copy) as _)
        })
    }

    fn close(&self) -> Answer<'_, ()> {
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            // A second close finds the writer gone, which is what it wants.
            if self.send(Message::Close(reply)).await.is_err() {
                return Ok(());
            }
            answer.await.unwrap_or(Ok(()))
        })
    }
}

fn lane_cursor(state: &LaneState, group: &bugle_store::Group) -> LaneCursor {
    LaneCursor { lane: state.lane.clone(), group: group.clone(), cursor: state.cursor(group).cloned() }
}

fn has_messages(lane: &LaneState, query: &Probe) -> bool {
    // What was trimmed cannot be delivered, so a cursor below the tail counts as one at the tail.
    let next = lane.cursor(&query.group).map_or(lane.lane.tail, |c| c.committed.max(lane.lane.tail));
    lane.lane.head > next
}

fn probe(state: &State, query: &Probe) -> Probed {
    let Some(queue) = state.queues.get(&query.queue) else { return Probed::default() };
    let from = query.after.map_or(Bound::Unbounded, Bound::Excluded);
    let range = (from, Bound::Unbounded);
    let lanes: Box<dyn Iterator<Item = &u64>> = match query.since {
        None => Box::new(queue.by_id.range(range).map(|(_, uid)| uid)),
        Some(since) => {
            let written = queue.by_written.range((since, LaneId(uuid::Uuid::nil()))..).map(|(_, id)| *id);
            let ids: BTreeSet<LaneId> = written.chain(query.recheck.iter().copied()).collect();
            let ids: Vec<LaneId> = ids.range(range).copied().collect();
            Box::new(ids.into_iter().filter_map(|id| queue.by_id.get(&id)))
        }
    };
    let mut due = lanes.map(|uid| &state.lanes[*uid]).filter(|lane| has_messages(lane, query));
    let lanes = due.by_ref().take(query.limit).map(|lane| lane_cursor(lane, &query.group)).collect();
    Probed { lanes, more: due.next().is_some() }
}

fn surveyed(state: &State, survey: &Survey) -> Surveyed {
    let from = (survey.since, LaneId(uuid::Uuid::nil()));
    let ids = state.queues.values().flat_map(|queue| queue.by_written.range(from..));
    let lanes = ids.filter_map(|(_, id)| state.lane(*id)).map(|found| &found.lane);
    let written = lanes.filter(|lane| lane.head > 0).map(|lane| WrittenLane {
        id: lane.id,
        queue: lane.queue,
        head: lane.head,
        written_at: lane.written_at,
    });
    let (written, more) = WrittenLane::first(written.collect(), survey.limit);
    let again = survey.recheck.iter();
    let rechecked =
        again.filter_map(|(id, group)| state.lane(*id).map(|lane| lane_cursor(lane, group))).collect();
    Surveyed { written, more, rechecked, catalog: state.version, inbox: false }
}

fn load(state: &State, what: &Load) -> Vec<LaneCursor> {
    match what {
        Load::Lane(id, group) => state.lane(*id).into_iter().map(|lane| lane_cursor(lane, group)).collect(),
        Load::Lease(id) => {
            let held = state.leases.get(id).into_iter().flatten();
            held.map(|(uid, group)| lane_cursor(&state.lanes[*uid], group)).collect()
        }
        Load::Cursors(id) => state
            .lane(*id)
            .into_iter()
            .flat_map(|lane| lane.cursors.iter().map(|(group, _)| lane_cursor(lane, group)))
            .collect(),
    }
}
