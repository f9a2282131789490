//! The contract's traits, each call handed to the file that makes it.

use std::sync::Arc;

use bugle_store::{
    Aged, AgedLane, Answer, Append, AppendError, Appended, BackupAnswer, BackupError, Catalog, Commit,
    CommitError, Committed, Connections, DeadLetter, DeadLetterFilter, Engine, Expire, Find, Found, Group,
    GroupRecord, Inbox, Lane, LaneCursor, LaneError, Load, NewLane, Now, Offset, Page, Position, Probe,
    Probed, PutQueue, PutSwitches, Queue, QueueId, QueueTally, Read, Segments, Snapshot, Store, Survey,
    Surveyed, Swap, SwapError, Swapped, Switches, Timestamp, Trace, TraceFilter, TraceName, Trim,
    Unavailable,
};
use uuid::Uuid;

use crate::store::{PostgresStore, unavailable};

impl Store for PostgresStore {
    fn now(&self) -> Now {
        self.time()
    }

    fn exclusive(&self) -> bool {
        false
    }

    fn timeline(&self) -> u64 {
        self.pool.timeline()
    }

    fn append(&self, batch: Vec<Append>) -> Answer<'_, Vec<Result<Appended, AppendError>>> {
        Box::pin(self.append_all(self.pool.timeline(), batch))
    }

    fn flush(&self) -> Answer<'_, ()> {
        Box::pin(self.flush_seen())
    }

    fn swap(&self, batch: Vec<Swap>) -> Answer<'_, Vec<Result<Swapped, SwapError>>> {
        Box::pin(self.swap_all(self.pool.timeline(), batch))
    }

    fn commit(&self, batch: Vec<Commit>) -> Answer<'_, Vec<Result<Committed, CommitError>>> {
        Box::pin(self.commit_all(self.pool.timeline(), batch))
    }

    fn read(&self, batch: Vec<Read>) -> Answer<'_, Vec<Segments>> {
        Box::pin(self.read_all(batch))
    }

    fn find(&self, batch: Vec<Find>) -> Answer<'_, Vec<Vec<Found>>> {
        Box::pin(self.find_all(batch))
    }

    fn probe(&self, batch: Vec<Probe>) -> Answer<'_, Vec<Probed>> {
        Box::pin(self.probe_all(batch))
    }

    fn load(&self, batch: Vec<Load>) -> Answer<'_, Vec<Vec<LaneCursor>>> {
        Box::pin(self.load_all(batch))
    }

    fn position(&self, batch: Vec<Position>) -> Answer<'_, Vec<Offset>> {
        Box::pin(self.position_all(batch))
    }

    fn trim(&self, batch: Vec<Trim>) -> Answer<'_, Vec<u64>> {
        Box::pin(self.trim_all(self.pool.timeline(), batch))
    }

    fn aged(&self, batch: Vec<Aged>) -> Answer<'_, Vec<Vec<AgedLane>>> {
        Box::pin(self.aged_all(batch))
    }

    fn survey(&self, survey: Survey) -> Answer<'_, Surveyed> {
        Box::pin(self.survey_now(survey))
    }
}

impl Catalog for PostgresStore {
    fn ping(&self) -> Answer<'_, ()> {
        Box::pin(async move {
            let asked: Result<(), bugle_pg::PgError> = async { self.pool.get().await?.ping().await }.await;
            asked.map_err(unavailable)
        })
    }

    fn snapshot(&self, known: Option<u64>) -> Answer<'_, Option<Snapshot>> {
        Box::pin(self.snapshot_now(known))
    }

    fn put_switches(&self, change: PutSwitches) -> Answer<'_, Switches> {
        Box::pin(self.switch(change))
    }

    fn put_queue(&self, queue: Queue) -> Answer<'_, PutQueue> {
        Box::pin(self.put(queue))
    }

    fn delete_queue(&self, id: QueueId) -> Answer<'_, bool> {
        Box::pin(self.delete(id))
    }

    fn ensure_lanes(&self, batch: Vec<NewLane>) -> Answer<'_, Vec<Result<Lane, LaneError>>> {
        Box::pin(self.ensure_all(batch))
    }

    fn lanes(&self, queue: QueueId, after: Option<Arc<str>>, limit: usize) -> Answer<'_, Vec<Lane>> {
        Box::pin(self.list_lanes(queue, after, limit))
    }

    fn tallies(&self, queues: Option<Vec<QueueId>>, now: Timestamp) -> Answer<'_, Vec<QueueTally>> {
        Box::pin(self.tally_queues(queues, now))
    }

    fn put_group(&self, group: GroupRecord) -> Answer<'_, Option<GroupRecord>> {
        Box::pin(self.first_contact(group))
    }

    fn update_group(&self, group: GroupRecord) -> Answer<'_, bool> {
        Box::pin(self.replace_group(group))
    }

    fn delete_group(&self, queue: QueueId, group: Group, record: bool) -> Answer<'_, u64> {
        Box::pin(self.forget_group(queue, group, record))
    }

    fn dead_letters(&self, filter: DeadLetterFilter, page: Page) -> Answer<'_, (Vec<DeadLetter>, u64)> {
        Box::pin(self.list_dead(filter, page))
    }

    fn dead_letters_after(
        &self,
        filter: DeadLetterFilter,
        after: Option<(Timestamp, Uuid)>,
        limit: usize,
    ) -> Answer<'_, Vec<DeadLetter>> {
        Box::pin(self.dead_after(filter, after, limit))
    }

    fn delete_dead_letters(&self, ids: Vec<Uuid>) -> Answer<'_, u64> {
        Box::pin(self.delete_dead(ids))
    }

    fn put_trace(&self, trace: Trace) -> Answer<'_, ()> {
        Box::pin(self.record_trace(trace))
    }

    fn traces(&self, filter: TraceFilter, page: Page) -> Answer<'_, (Vec<Trace>, u64)> {
        Box::pin(self.list_traces(filter, page))
    }

    fn trace_names(&self, page: Page) -> Answer<'_, (Vec<TraceName>, u64)> {
        Box::pin(self.list_trace_names(page))
    }

    fn expire(&self, what: Expire, limit: usize) -> Answer<'_, u64> {
        Box::pin(self.expire_some(what, limit))
    }
}

impl Engine for PostgresStore {
    fn connections(&self) -> Connections {
        Connections { in_use: self.pool.in_use(), idle: self.pool.idle(), max: self.pool.max() }
    }

    fn internals(&self) -> Answer<'_, Vec<(String, String)>> {
        Box::pin(self.internals_now())
    }

    fn inbox(&self) -> Option<&dyn Inbox> {
        Some(self)
    }

    fn backup(&self) -> BackupAnswer<'_> {
        const ELSEWHERE: &str = "messages are kept in PostgreSQL: back them up with pg_dump or pg_basebackup, see docs/backup.md \
                                 (spool=only copies what this server holds in its spool)";
        Box::pin(async { Err(BackupError::Elsewhere(ELSEWHERE)) })
    }

    fn close(&self) -> Answer<'_, ()> {
        Box::pin(async move {
            self.pool.close().await;
            Ok::<(), Unavailable>(())
        })
    }
}
