//! Queues and groups as the broker knows them, and how they come to be.
//!
//! Reads are from memory. On a store that others write to as well, changes are told by hints and found by the floor; a
//! request that finds the last look older than the floor's interval asks in the background, so that the cost follows
//! traffic and is nothing while nothing happens.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};

use bugle_store::{
    Engine, Group, GroupRecord, PutQueue, Queue, QueueId, QueueOptions, Snapshot, Switches, Timestamp,
    Unavailable,
};

/// See the module.
pub(crate) struct Catalog {
    engine: Arc<dyn Engine>,
    tables: RwLock<Tables>,
    refreshed: Mutex<Instant>,
}

/// What a refresh has brought.
#[derive(Default)]
pub(crate) struct Changes {
    pub(crate) gone: Vec<QueueId>,
    /// New, or with other options.
    pub(crate) changed: Vec<Arc<Queue>>,
    /// Groups whose record is gone or another one.
    pub(crate) groups: Vec<(QueueId, Group)>,
}

#[derive(Default)]
struct Tables {
    version: u64,
    switches: Switches,
    learned_switches: Option<Instant>,
    by_name: HashMap<Arc<str>, Arc<Queue>>,
    by_id: foldhash::HashMap<QueueId, Arc<Queue>>,
    groups: foldhash::HashMap<QueueId, HashMap<Group, Arc<GroupRecord>>>,
    /// What this server stored or was answered since the last snapshot, and when: a snapshot taken before does not know
    /// of it.
    learned_queues: HashMap<QueueId, Instant>,
    learned_groups: HashMap<(QueueId, Group), Instant>,
}

impl Catalog {
    /// Read the whole catalog once.
    pub(crate) async fn open(engine: Arc<dyn Engine>) -> Result<Self, Unavailable> {
        let catalog = Self { engine, tables: RwLock::default(), refreshed: Mutex::new(Instant::now()) };
        catalog.refresh().await?;
        Ok(catalog)
    }

    /// Ask the store for changes.
    pub(crate) async fn refresh(&self) -> Result<Changes, Unavailable> {
        let timeline = self.engine.timeline();
        let known = self.tables.read().version;
        let begun = Instant::now();
        *self.refreshed.lock() = begun;
        let Some(snapshot) = self.engine.snapshot((known > 0).then_some(known)).await? else {
            return Ok(Changes::default());
        };
        self.install(snapshot, begun, timeline)
    }

    fn install(&self, snapshot: Snapshot, begun: Instant, timeline: u64) -> Result<Changes, Unavailable> {
        let (version, switches) = (snapshot.version, snapshot.switches);
        let mut fresh = Tables { version, switches, ..Tables::default() };
        for queue in snapshot.queues {
            fresh.add(Arc::new(queue));
        }
        for group in snapshot.groups {
            fresh.groups.entry(group.queue).or_default().insert(group.group.clone(), Arc::new(group));
        }
        let mut tables = self.tables.write();
        if self.engine.timeline() != timeline {
            return Err(Unavailable::new("the catalog was read on a timeline that was left"));
        }
        if fresh.version < tables.version {
            return Ok(Changes::default());
        }
        fresh.keep_learned(&tables, begun);
        let gone = tables.by_id.keys().filter(|id| !fresh.by_id.contains_key(id)).copied().collect();
        let known = |queue: &Queue| tables.by_id.get(&queue.id).is_some_and(|q| q.version == queue.version);
        let changed = fresh.by_id.values().filter(|queue| !known(queue)).cloned().collect();
        let groups = fresh.other_groups(&tables);
        *tables = fresh;
        Ok(Changes { gone, changed, groups })
    }

    /// What was read may never have happened: the next snapshot replaces it, whatever its version.
    pub(crate) fn distrust(&self) {
        let mut tables = self.tables.write();
        (tables.version, tables.learned_switches) = (0, None);
        tables.learned_queues.clear();
        tables.learned_groups.clear();
    }

    /// Version of the catalog as last read.
    pub(crate) fn version(&self) -> u64 {
        self.tables.read().version
    }

    /// The store said what the version is, without being asked for it.
    pub(crate) fn looked(&self) {
        *self.refreshed.lock() = Instant::now();
    }

    /// How long ago a shared store was asked for changes, if that is longer than `after`; says so to one caller at a time.
    pub(crate) fn wants_refresh(&self, after: Duration) -> Option<Duration> {
        if self.engine.exclusive() {
            return None;
        }
        let mut refreshed = self.refreshed.lock();
        let age = refreshed.elapsed();
        if age <= after {
            return None;
        }
        *refreshed = Instant::now();
        Some(age)
    }

    /// What operators have switched, as last read.
    pub(crate) fn switches(&self) -> Switches {
        self.tables.read().switches
    }

    /// Remember switches as the store answered them.
    pub(crate) fn learn_switches(&self, switches: Switches) {
        let mut tables = self.tables.write();
        (tables.switches, tables.learned_switches) = (switches, Some(Instant::now()));
    }

    /// A queue by name.
    pub(crate) fn queue(&self, name: &str) -> Option<Arc<Queue>> {
        self.tables.read().by_name.get(name).cloned()
    }

    /// A queue by id.
    pub(crate) fn queue_by_id(&self, id: QueueId) -> Option<Arc<Queue>> {
        self.tables.read().by_id.get(&id).cloned()
    }

    /// All queues that `matches`.
    pub(crate) fn queues_where(&self, matches: impl Fn(&Queue) -> bool) -> Vec<Arc<Queue>> {
        self.tables.read().by_id.values().filter(|q| matches(q)).cloned().collect()
    }

    /// All queues that `matches`, each with all its groups.
    pub(crate) fn queues_and_groups(
        &self,
        matches: impl Fn(&Queue) -> bool,
    ) -> Vec<(Arc<Queue>, Vec<Arc<GroupRecord>>)> {
        let tables = self.tables.read();
        let groups = |id| tables.groups.get(id).map(|g| g.values().cloned().collect()).unwrap_or_default();
        let queues = tables.by_id.values().filter(|queue| matches(queue));
        queues.map(|queue| (queue.clone(), groups(&queue.id))).collect()
    }

    /// All groups of a queue.
    pub(crate) fn groups(&self, queue: QueueId) -> Vec<Arc<GroupRecord>> {
        self.tables.read().groups.get(&queue).map(|g| g.values().cloned().collect()).unwrap_or_default()
    }

    /// A group of a queue.
    pub(crate) fn group(&self, queue: QueueId, group: &str) -> Option<Arc<GroupRecord>> {
        self.tables.read().groups.get(&queue)?.get(group).cloned()
    }

    /// The queue, created with the options of a first push if it does not exist.
    pub(crate) async fn ensure_queue(&self, name: &Arc<str>) -> Result<Arc<Queue>, Unavailable> {
        if let Some(queue) = self.queue(name) {
            return Ok(queue);
        }
        let (namespace, task) = split_name(name);
        let queue = Queue {
            id: QueueId::random(),
            name: name.clone(),
            namespace: namespace.into(),
            task: task.into(),
            created_at: self.engine.now().latest,
            version: 1,
            options: QueueOptions::implicit(),
        };
        Ok(match self.engine.put_queue(queue).await? {
            PutQueue::Stored(queue) | PutQueue::Exists(Some(queue)) => self.learn(queue),
            PutQueue::Exists(None) => return Err(Unavailable::new("queue vanished while it was created")),
        })
    }

    /// The group's record on this queue, created at first contact.
    pub(crate) async fn ensure_group(
        &self,
        record: GroupRecord,
    ) -> Result<Option<Arc<GroupRecord>>, Unavailable> {
        if let Some(known) = self.group(record.queue, &record.group) {
            return Ok(Some(known));
        }
        let Some(stored) = self.engine.put_group(record).await? else { return Ok(None) };
        Ok(Some(self.learn_group(stored)))
    }

    /// Remember a group's record as the store has it, unless a later one is known; answers the later one.
    pub(crate) fn learn_group(&self, record: GroupRecord) -> Arc<GroupRecord> {
        let mut tables = self.tables.write();
        tables.learned_groups.insert((record.queue, record.group.clone()), Instant::now());
        tables.put_group(Arc::new(record))
    }

    /// Forget a group's record, which was deleted.
    pub(crate) fn forget_group(&self, queue: QueueId, group: &Group) {
        let mut tables = self.tables.write();
        tables.learned_groups.insert((queue, group.clone()), Instant::now());
        if let Some(groups) = tables.groups.get_mut(&queue) {
            groups.remove(group);
        }
    }

    /// The queues that a group has met, by name.
    pub(crate) fn queues_of(&self, group: &str) -> Vec<Arc<Queue>> {
        let tables = self.tables.read();
        let met = |queue: &&Arc<Queue>| tables.groups.get(&queue.id).is_some_and(|g| g.contains_key(group));
        let mut queues: Vec<Arc<Queue>> = tables.by_id.values().filter(met).cloned().collect();
        queues.sort_by(|a, b| a.name.cmp(&b.name));
        queues
    }

    /// Remember a queue as the store answered it.
    pub(crate) fn learn(&self, queue: Queue) -> Arc<Queue> {
        let queue = Arc::new(queue);
        let mut tables = self.tables.write();
        tables.learned_queues.insert(queue.id, Instant::now());
        tables.add(queue.clone());
        queue
    }

    /// Forget a queue that was deleted.
    pub(crate) fn forget(&self, id: QueueId) {
        let mut tables = self.tables.write();
        if let Some(queue) = tables.by_id.remove(&id)
            && tables.by_name.get(&queue.name).is_some_and(|q| q.id == id)
        {
            tables.by_name.remove(&queue.name);
        }
        tables.groups.remove(&id);
        tables.learned_queues.remove(&id);
        tables.learned_groups.retain(|(queue, _), _| *queue != id);
    }
}

impl Tables {
    /// Take over from `old` what was learned after the snapshot was asked for.
    fn keep_learned(&mut self, old: &Self, begun: Instant) {
        if old.learned_switches.is_some_and(|at| at >= begun) {
            (self.switches, self.learned_switches) = (old.switches, old.learned_switches);
        }
        for (id, at) in old.learned_queues.iter().filter(|(_, at)| **at >= begun) {
            let Some(queue) = old.by_id.get(id) else { continue };
            if self.by_id.get(id).is_none_or(|q| q.version < queue.version) {
                self.add(queue.clone());
            }
            self.learned_queues.insert(*id, *at);
        }
        for (key, at) in old.learned_groups.iter().filter(|(_, at)| **at >= begun) {
            match old.groups.get(&key.0).and_then(|groups| groups.get(&key.1)) {
                Some(record) => drop(self.put_group(record.clone())),
                None => drop(self.groups.get_mut(&key.0).and_then(|groups| groups.remove(&key.1))),
            }
            self.learned_groups.insert(key.clone(), *at);
        }
    }

    /// Groups of `old` that are gone or have another record here, in queues that are still there.
    fn other_groups(&self, old: &Self) -> Vec<(QueueId, Group)> {
        let here = old.groups.iter().filter(|(queue, _)| self.by_id.contains_key(queue));
        let all = here.flat_map(|(queue, groups)| groups.iter().map(|(name, record)| (*queue, name, record)));
        let same = |queue: &QueueId, name: &Group, record: &GroupRecord| {
            self.groups.get(queue).and_then(|groups| groups.get(name)).is_some_and(|now| **now == *record)
        };
        let other = all.filter(|(queue, name, record)| !same(queue, name, record));
        other.map(|(queue, name, _)| (queue, name.clone())).collect()
    }

    /// Of two records of a group the later one stays.
    fn put_group(&mut self, record: Arc<GroupRecord>) -> Arc<GroupRecord> {
        let groups = self.groups.entry(record.queue).or_default();
        let stays = groups.entry(record.group.clone()).or_insert_with(|| record.clone());
        if stays.created_at < record.created_at {
            *stays = record;
        }
        stays.clone()
    }

    fn add(&mut self, queue: Arc<Queue>) {
        self.by_name.insert(queue.name.clone(), queue.clone());
        self.by_id.insert(queue.id, queue);
    }
}

/// Namespace and task of a queue created by a push: the first and second dot-separated part of its name.
fn split_name(name: &str) -> (&str, &str) {
    let mut parts = name.split('.');
    (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
}

/// A group's record for its first contact.
pub(crate) fn first_contact(
    queue: QueueId,
    group: &Group,
    start: bugle_store::Start,
    conflation: bool,
    now: Timestamp,
) -> GroupRecord {
    GroupRecord { queue, group: group.clone(), start, conflation, created_at: now }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_split_into_namespace_and_task() {
        assert_eq!(split_name("orders"), ("orders", ""));
        assert_eq!(split_name("orders.email"), ("orders", "email"));
        assert_eq!(split_name("a.b.c"), ("a", "b"));
        assert_eq!(split_name(""), ("", ""));
    }
}
