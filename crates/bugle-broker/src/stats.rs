//! What queues hold and how far groups have come: lists, details, and everything at a glance.
//!
//! Everything starts from the store's tallies, which cost what changed and not what exists; a list of all queues makes no
//! call per queue. Two things tallies cannot tell are looked for lane by lane, within bounds: what a group that began
//! later never gets (`skipped`), and how old the oldest unread message is (`behind`).
//!
//! Bounds of one request: [`skipped::MAX_LANES`] lanes for the first, remembered while it holds; for the second the
//! [`behind::MAX_PAIRS`] groups with the largest backlog, on queues with [`behind::MAX_LANES`] lanes in all, and
//! [`behind::MAX_READS`] segments read, remembered too.

mod behind;
mod count;
mod detail;
mod groups;
mod rank;
mod rates;
mod skipped;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use bugle_store::{Group, Queue, QueueId, Timestamp};

use crate::Broker;
use crate::api::{
    Depth, Family, GroupStats, LaggingPartition, MessageCounts, Overview, QueueDetail, QueueFilter,
    QueueStats, RankedPartition, Refused, Totals,
};
use crate::inner::Inner;
use crate::semantics::backlog::spread;

use behind::Wanted;
use count::Counted;

/// Requests for numbers that are worked on at the same time; others wait, so that they leave the store to those who push and
/// pop.
const AT_A_TIME: usize = 4;
/// How long they wait.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// What is remembered between requests, and whose turn it is.
pub(crate) struct StatsMemory {
    turns: Semaphore,
    skipped: skipped::Remembered,
    stamps: behind::Stamps,
    rates: rates::Rates,
}

impl Default for StatsMemory {
    fn default() -> Self {
        Self {
            turns: Semaphore::new(AT_A_TIME),
            skipped: skipped::Remembered::default(),
            stamps: behind::Stamps::default(),
            rates: rates::Rates::default(),
        }
    }
}

/// Part of the partitions of a queue, by name.
#[derive(Clone, Debug)]
pub struct PartitionPage {
    /// Only those after this name.
    pub after: Option<Arc<str>>,
    /// Most of them.
    pub limit: usize,
}

impl Broker {
    /// Queues and what they hold, newest first.
    pub async fn queue_stats(&self, filter: &QueueFilter) -> Result<Vec<QueueStats>, Refused> {
        let _turn = self.0.turn().await?;
        let mut queues: Vec<QueueStats> = self.0.count(filter).await?.iter().map(Counted::stats).collect();
        queues.sort_by_cached_key(newest_first);
        Ok(queues)
    }

    /// One queue with its partitions.
    pub async fn queue_detail(&self, queue: &str, page: PartitionPage) -> Result<QueueDetail, Refused> {
        let _turn = self.0.turn().await?;
        self.0.queue_detail(queue, page).await
    }

    /// What a group has before it on a queue, or without one what the group has that the queue is judged by.
    pub async fn depth(
        &self,
        queue: &str,
        group: Option<&Group>,
        page: PartitionPage,
    ) -> Result<Depth, Refused> {
        let _turn = self.0.turn().await?;
        self.0.depth(queue, group, page).await
    }

    /// The partitions with most to be delivered, of one queue or of all.
    pub async fn ranked_partitions(
        &self,
        queue: Option<&Arc<str>>,
        limit: usize,
    ) -> Result<Vec<RankedPartition>, Refused> {
        let _turn = self.0.turn().await?;
        self.0.ranked_partitions(queue, limit).await
    }

    /// Namespaces that queues have, by name.
    pub async fn namespaces(&self) -> Result<Vec<Family>, Refused> {
        let _turn = self.0.turn().await?;
        Ok(families(&self.0.count(&QueueFilter::default()).await?, |queue| &queue.namespace))
    }

    /// Tasks that queues have, by name.
    pub async fn tasks(&self) -> Result<Vec<Family>, Refused> {
        let _turn = self.0.turn().await?;
        Ok(families(&self.0.count(&QueueFilter::default()).await?, |queue| &queue.task))
    }

    /// Sums over some queues. Costs what the tallies cost.
    pub async fn totals(&self, filter: &QueueFilter) -> Result<Totals, Refused> {
        let _turn = self.0.turn().await?;
        Ok(totals(&self.0.count(filter).await?))
    }

    /// Everything at a glance.
    pub async fn overview(&self) -> Result<Overview, Refused> {
        let _turn = self.0.turn().await?;
        self.0.overview().await
    }

    /// All groups on all queues, by group and queue.
    pub async fn group_stats(&self) -> Result<Vec<GroupStats>, Refused> {
        let _turn = self.0.turn().await?;
        self.0.group_stats().await
    }

    /// Partitions whose oldest message that a group is not done with is at least `seconds` old, the oldest first: of
    /// very many those with most such messages.
    pub async fn lagging(&self, seconds: u64, limit: usize) -> Result<Vec<LaggingPartition>, Refused> {
        let _turn = self.0.turn().await?;
        self.0.lagging(seconds, limit).await
    }
}

impl Inner {
    async fn overview(self: &Arc<Self>) -> Result<Overview, Refused> {
        let counted = self.count(&QueueFilter::default()).await?;
        let late: Vec<&Counted> = counted.iter().filter(|queue| queue.backlog().messages > 0).collect();
        let wanted = behind::most(late.iter().map(|queue| queue.judge()).collect());
        let lanes = self.behind(&wanted).await?;
        let now = self.engine.now().latest;
        let ages = self.oldest(&lanes).await?.into_iter().flatten().map(|at| now.since(at).as_secs());
        Ok(Overview {
            totals: totals(&counted),
            lag_seconds: spread(ages.collect()),
            lag_messages: spread(late.iter().map(|queue| queue.backlog().messages).collect()),
            throughput: self.stats.rates.read(
                tokio::time::Instant::now(),
                self.started,
                self.meters.ingested.get(),
                self.meters.processed.get(),
            ),
            at: now,
        })
    }

    /// Wait until few enough others ask for numbers.
    async fn turn(&self) -> Result<SemaphorePermit<'_>, Refused> {
        match timeout(LONGEST_WAIT, self.stats.turns.acquire()).await {
            Ok(Ok(turn)) => Ok(turn),
            _ => Err(self.busy("too many ask for numbers of queues and groups")),
        }
    }

    /// A queue is gone.
    pub(crate) fn forget_stats(&self, queue: QueueId) {
        self.stats.skipped.forget(queue);
    }
}

/// What is compared is taken out once: queues are all over the memory.
fn newest_first(stats: &QueueStats) -> (Reverse<Timestamp>, Arc<str>) {
    (Reverse(stats.queue.created_at), stats.queue.name.clone())
}

fn totals(counted: &[Counted]) -> Totals {
    let mut totals = Totals::default();
    for queue in counted.iter().map(Counted::stats) {
        totals.queues += 1;
        totals.partitions += queue.partitions;
        totals.consumed = totals.consumed.saturating_add(queue.consumed);
        totals.leases += queue.leases;
        totals.leased += queue.leased;
        add(&mut totals.messages, &queue.messages);
    }
    totals.namespaces = families(counted, |queue| &queue.namespace).len() as u64;
    totals.tasks = families(counted, |queue| &queue.task).len() as u64;
    totals
}

/// Queues by something they may share. A queue without it belongs to nobody.
fn families(counted: &[Counted], name: impl Fn(&Queue) -> &Arc<str>) -> Vec<Family> {
    let mut found: BTreeMap<&Arc<str>, Family> = BTreeMap::new();
    for counted in counted.iter().filter(|counted| !name(&counted.queue).is_empty()) {
        let name = name(&counted.queue);
        let family = found.entry(name).or_insert_with(|| Family {
            name: name.clone(),
            queues: 0,
            partitions: 0,
            messages: MessageCounts::default(),
        });
        let stats = counted.stats();
        family.queues += 1;
        family.partitions += stats.partitions;
        add(&mut family.messages, &stats.messages);
    }
    found.into_values().collect()
}

fn add(sum: &mut MessageCounts, more: &MessageCounts) {
    sum.total += more.total;
    sum.pending += more.pending;
    sum.processing += more.processing;
    sum.completed += more.completed;
    sum.dead_letter += more.dead_letter;
}
