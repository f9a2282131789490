//! All channels, by queue and by number, and the pops that wait for queues by namespace or task.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use bugle_store::{Group, GroupRecord, LaneId, Queue, QueueId};

use bugle_wake::Bell;

use crate::news::News;
use crate::pop::PopJob;

use super::channel::Channel;

/// Timers are per lane of a channel.
pub(crate) type TimerKey = (u64, LaneId);

/// See the module.
pub(crate) struct Channels {
    bell: Bell<News>,
    by_queue: RwLock<HashMap<QueueId, HashMap<Group, Arc<Channel>>>>,
    by_no: RwLock<HashMap<u64, Arc<Channel>>>,
    next: AtomicU64,
    filtering: Mutex<BTreeMap<u64, PopJob>>,
}

impl Channels {
    pub(crate) fn new(bell: Bell<News>) -> Self {
        Self {
            bell,
            by_queue: RwLock::default(),
            by_no: RwLock::default(),
            next: AtomicU64::new(0),
            filtering: Mutex::default(),
        }
    }

    /// The channel of a group, made at first contact.
    pub(crate) fn get_or_make(&self, record: &Arc<GroupRecord>) -> Arc<Channel> {
        if let Some(channel) = self.get(record.queue, &record.group) {
            return channel;
        }
        let mut by_queue = self.by_queue.write();
        let groups = by_queue.entry(record.queue).or_default();
        let channel = groups.entry(record.group.clone()).or_insert_with(|| {
            let no = self.next.fetch_add(1, Ordering::Relaxed);
            let channel = Channel::new(no, record.clone(), self.bell.clone());
            self.by_no.write().insert(no, channel.clone());
            channel
        });
        channel.clone()
    }

    /// A group's channel.
    pub(crate) fn get(&self, queue: QueueId, group: &str) -> Option<Arc<Channel>> {
        self.by_queue.read().get(&queue)?.get(group).cloned()
    }

    /// All channels of a queue.
    pub(crate) fn of_queue(&self, queue: QueueId) -> Vec<Arc<Channel>> {
        self.by_queue.read().get(&queue).map(|groups| groups.values().cloned().collect()).unwrap_or_default()
    }

    /// A channel by number.
    pub(crate) fn by_no(&self, no: u64) -> Option<Arc<Channel>> {
        self.by_no.read().get(&no).cloned()
    }

    /// Forget a queue. Answers the pops that waited there.
    pub(crate) fn forget_queue(&self, queue: QueueId) -> Vec<PopJob> {
        let gone = self.by_queue.write().remove(&queue).unwrap_or_default();
        gone.into_values().flat_map(|channel| self.close(&channel)).collect()
    }

    /// Forget what is known of a group on a queue. Answers the pops that waited there.
    pub(crate) fn forget_group(&self, queue: QueueId, group: &str) -> Vec<PopJob> {
        let gone = self.by_queue.write().get_mut(&queue).and_then(|groups| groups.remove(group));
        gone.map(|channel| self.close(&channel)).unwrap_or_default()
    }

    fn close(&self, channel: &Channel) -> Vec<PopJob> {
        self.by_no.write().remove(&channel.no);
        let mut state = channel.state.lock();
        state.closed = true;
        state.unpark_all()
    }

    /// Park a pop that waits by namespace or task. Gives it back if its time is over.
    pub(crate) fn park_filter(&self, job: PopJob) -> Result<(), PopJob> {
        let mut filtering = self.filtering.lock();
        if !job.may_wait() {
            return Err(job);
        }
        filtering.insert(job.seq, job);
        Ok(())
    }

    /// Take a parked filter pop out.
    pub(crate) fn unpark_filter(&self, seq: u64) -> Option<PopJob> {
        self.filtering.lock().remove(&seq)
    }

    /// The oldest filter pop that wants messages of this queue for this group.
    pub(crate) fn wake_filter(&self, queue: &Queue, group: &str) -> Option<PopJob> {
        let mut filtering = self.filtering.lock();
        let seq = filtering
            .iter()
            .find(|(_, job)| *job.request.group == *group && job.wants(queue))
            .map(|(s, _)| *s)?;
        filtering.remove(&seq)
    }

    /// Filter pops that want messages of this queue and whose group has not met it yet.
    pub(crate) fn wake_filters_new_to(&self, queue: &Queue, known: impl Fn(&str) -> bool) -> Vec<PopJob> {
        let mut filtering = self.filtering.lock();
        if filtering.is_empty() {
            return Vec::new();
        }
        let new = |job: &PopJob| job.wants(queue) && !known(&job.request.group);
        let seqs: Vec<u64> = filtering.iter().filter(|(_, job)| new(job)).map(|(seq, _)| *seq).collect();
        seqs.into_iter().filter_map(|seq| filtering.remove(&seq)).collect()
    }

    /// All channels.
    pub(crate) fn all(&self) -> Vec<Arc<Channel>> {
        self.by_no.read().values().cloned().collect()
    }

    /// How many channels there are.
    pub(crate) fn count(&self) -> usize {
        self.by_no.read().len()
    }

    /// Channels somebody waits at.
    pub(crate) fn wanted(&self) -> Vec<Arc<Channel>> {
        self.by_no.read().values().filter(|channel| channel.is_wanted()).cloned().collect()
    }

    /// Keys with somebody parked: (queue, partition or any, group), and filters with their group.
    pub(crate) fn keys(&self) -> usize {
        let channels: usize = self.wanted().iter().map(|channel| channel.state.lock().keys()).sum();
        let filtering = self.filtering.lock();
        let filters: HashSet<_> =
            filtering.values().map(|job| (&job.request.target, &job.request.group)).collect();
        channels + filters.len()
    }

    /// Pops parked by namespace or task.
    pub(crate) fn parked_filters(&self) -> usize {
        self.filtering.lock().len()
    }

    /// Show everybody who waits by namespace or task.
    pub(crate) fn each_filtering(&self, show: impl FnMut(&PopJob)) {
        self.filtering.lock().values().for_each(show);
    }

    /// Take every parked pop out.
    pub(crate) fn unpark_all(&self) -> Vec<PopJob> {
        let mut jobs: Vec<PopJob> = std::mem::take(&mut *self.filtering.lock()).into_values().collect();
        for channel in self.all() {
            jobs.extend(channel.state.lock().unpark_all());
        }
        jobs
    }
}
