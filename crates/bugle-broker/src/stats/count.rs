//! Queues with their tallies, and every group's backlog on them: what all lists are made of.

use std::sync::Arc;

use foldhash::HashMap;

use bugle_store::{Group, GroupRecord, GroupTally, QUEUE_MODE, Queue, QueueId, QueueTally, Start};

use crate::api::{QueueFilter, QueueStats, Refused};
use crate::inner::Inner;
use crate::is_system;
use crate::semantics::backlog::{self, Backlog};

use super::Wanted;

/// Queues asked for one by one; beyond that all are, and those not wanted are passed over.
const ONE_BY_ONE: usize = 64;

/// A queue, counted.
pub(super) struct Counted {
    pub(super) queue: Arc<Queue>,
    pub(super) tally: QueueTally,
    /// All groups that have met it, by name.
    pub(super) readers: Vec<Reader>,
}

/// A group on a queue, counted.
pub(super) struct Reader {
    pub(super) group: Group,
    pub(super) record: Option<Arc<GroupRecord>>,
    pub(super) tally: GroupTally,
    pub(super) backlog: Backlog,
    /// The backlog may be smaller: it was not looked where the group begins.
    pub(super) at_most: bool,
}

impl Reader {
    /// Where it begins on lanes it has no cursor on.
    pub(super) fn start(&self) -> Start {
        self.record.as_ref().map_or(Start::All, |record| record.start)
    }
}

impl Counted {
    fn new(queue: Arc<Queue>, records: Vec<Arc<GroupRecord>>, mut tally: QueueTally) -> Self {
        let groups = std::mem::take(&mut tally.groups);
        let reader = |counted: GroupTally, record| Reader {
            group: counted.group.clone(),
            record,
            backlog: Backlog::whole(&tally, &counted),
            tally: counted,
            at_most: false,
        };
        let mut readers: Vec<Reader> = groups.into_iter().map(|counted| reader(counted, None)).collect();
        for record in records {
            match readers.binary_search_by(|reader| reader.group.cmp(&record.group)) {
                Ok(at) => readers[at].record = Some(record),
                Err(at) => readers.insert(at, reader(GroupTally::empty(record.group.clone()), Some(record))),
            }
        }
        Self { queue, tally, readers }
    }

    pub(super) fn reader(&self, group: &str) -> Option<&Reader> {
        self.readers.iter().find(|reader| *reader.group == *group)
    }

    /// The group the queue is judged by; `None` = anonymous consumers, who have not been there yet.
    pub(super) fn reference(&self) -> Option<&Reader> {
        let groups = self.readers.iter().map(|r| (&*r.group, r.tally.cursors, r.backlog.messages));
        backlog::reference(groups).map(|at| &self.readers[at])
    }

    /// What the group has before it that the queue is judged by.
    pub(super) fn backlog(&self) -> Backlog {
        let nobody = || Backlog { messages: self.tally.kept, lanes: self.tally.filled };
        self.reference().map_or_else(nobody, |reader| reader.backlog)
    }

    /// That group, to be looked for lane by lane.
    pub(super) fn judge(&self) -> Wanted {
        match self.reference() {
            Some(reader) => self.wanted(reader),
            None => Wanted {
                queue: self.queue.clone(),
                group: QUEUE_MODE.into(),
                start: Start::All,
                lanes: self.tally.lanes,
                backlog: self.backlog(),
            },
        }
    }

    /// A group, to be looked for lane by lane.
    pub(super) fn wanted(&self, reader: &Reader) -> Wanted {
        Wanted {
            queue: self.queue.clone(),
            group: reader.group.clone(),
            start: reader.start(),
            lanes: self.tally.lanes,
            backlog: reader.backlog,
        }
    }

    pub(super) fn stats(&self) -> QueueStats {
        let leased = self.reference().map_or(0, |reader| reader.tally.leased);
        let sum = |of: fn(&GroupTally) -> u64| {
            self.readers.iter().fold(0u64, |sum, reader| sum.saturating_add(of(&reader.tally)))
        };
        QueueStats {
            queue: self.queue.clone(),
            partitions: self.tally.lanes,
            messages: backlog::counts(self.tally.kept, self.backlog().messages, leased, self.tally.dead),
            consumed: sum(|tally| tally.consumed),
            leases: sum(|tally| tally.leases),
            leased: sum(|tally| tally.leased),
        }
    }
}

impl Inner {
    /// Queues as they are now, the system's own left out.
    pub(super) async fn count(self: &Arc<Self>, filter: &QueueFilter) -> Result<Vec<Counted>, Refused> {
        self.latest_catalog().await?;
        let queues = self.catalog.queues_and_groups(|queue| !is_system(&queue.name) && filter.fits(queue));
        let ids: Vec<QueueId> = queues.iter().map(|(queue, _)| queue.id).collect();
        let ids = (ids.len() <= ONE_BY_ONE).then_some(ids);
        // A lease that may be over is not: it is taken over only when it certainly is.
        let tallies = self.watch(self.engine.tallies(ids, self.engine.now().earliest).await)?;
        let places: HashMap<QueueId, usize> = tallies.iter().enumerate().map(|(n, t)| (t.queue, n)).collect();
        let mut tallies: Vec<Option<QueueTally>> = tallies.into_iter().map(Some).collect();
        // A queue without a tally was deleted meanwhile.
        let counted = queues.into_iter().filter_map(|(queue, records)| {
            let tally = tallies[*places.get(&queue.id)?].take()?;
            Some(Counted::new(queue, records, tally))
        });
        let mut counted: Vec<Counted> = counted.collect();
        self.leave_out_skipped(&mut counted).await?;
        Ok(counted)
    }

    /// One queue as it is now.
    pub(super) async fn count_one(self: &Arc<Self>, queue: &str) -> Result<Counted, Refused> {
        let filter = QueueFilter { queue: Some(queue.into()), ..QueueFilter::default() };
        let found = self.count(&filter).await?.pop();
        found.ok_or_else(|| Refused::NotFound("Queue not found".into()))
    }
}
