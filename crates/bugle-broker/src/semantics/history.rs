//! The history's records and how they are put together.
//!
//! Each server tells now and then what it counted since it last did, as one record. A record counts for the bucket in
//! which it begins; a server makes them so short, and at such times, that this is exact to the minute.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use bugle_store::Timestamp;

use crate::api::{Gauges, History, QueueCounts, QueuePoint, ServerCounts, ServerHistory, ServerPoint};

const MINUTE: Duration = Duration::from_secs(60);
/// Most buckets of an answer.
const MAX_BUCKETS: u128 = 1500;
/// Most (bucket, server, queue) that are told of one by one.
const MAX_QUEUE_POINTS: usize = 20_000;
/// The name of all queues that are not told of one by one.
pub(crate) const OTHER: &str = "other";

/// What one server counted between two moments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) id: Uuid,
    pub(crate) host: Arc<str>,
    pub(crate) server: Arc<str>,
    pub(crate) start: Timestamp,
    pub(crate) end: Timestamp,
    pub(crate) counts: ServerCounts,
    pub(crate) gauges: Gauges,
    /// The busiest queues by name.
    #[serde(default)]
    pub(crate) queues: Vec<(Arc<str>, QueueCounts)>,
    /// All other queues together.
    #[serde(default)]
    pub(crate) rest: QueueCounts,
}

/// Whether anything happened that is worth a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Movement {
    /// Nothing.
    None,
    /// Consumers asked and got nothing, as they do all day: no hurry.
    Quiet,
    /// Something.
    Loud,
}

impl Record {
    pub(crate) fn movement(&self) -> Movement {
        // A server calls its store and uses its processor while nothing happens, too.
        let heard = ServerCounts { store_calls: 0, user_us: 0, system_us: 0, ..self.counts };
        let queues = || self.queues.iter().map(|(_, counts)| counts).chain([&self.rest]);
        let loud = ServerCounts { pop_requests: 0, pop_empty: 0, ..heard };
        let moved = |counts: &QueueCounts| QueueCounts { parked: 0, lag_max_us: 0, pop_empty: 0, ..*counts };
        if loud != ServerCounts::default() || queues().any(|counts| moved(counts) != QueueCounts::default()) {
            Movement::Loud
        } else if heard != ServerCounts::default() || queues().any(|counts| counts.pop_empty > 0) {
            Movement::Quiet
        } else {
            Movement::None
        }
    }
}

/// The `most` busiest queues, the busiest first, and the others together.
pub(crate) fn busiest(
    mut queues: Vec<(Arc<str>, QueueCounts)>,
    most: usize,
) -> (Vec<(Arc<str>, QueueCounts)>, QueueCounts) {
    queues.sort_by_cached_key(|(name, counts)| (Reverse(busy(counts)), name.clone()));
    let mut rest = QueueCounts::default();
    for (_, counts) in queues.drain(most.min(queues.len())..) {
        let parked = rest.parked + counts.parked;
        rest.add(&counts);
        rest.parked = parked;
    }
    (queues, rest)
}

fn busy(counts: &QueueCounts) -> u64 {
    counts.pushed + counts.popped + counts.acked + counts.pop_empty + counts.parked
}

/// The time asked for and the length of its buckets. Complaints name the field.
pub(crate) fn range(
    from: Option<Timestamp>,
    to: Option<Timestamp>,
    span: Duration,
    bucket: Option<Duration>,
    now: Timestamp,
) -> Result<(Timestamp, Timestamp, Duration), String> {
    let to = to.unwrap_or(now);
    let from = from.unwrap_or_else(|| to.minus(span).max(Timestamp::ZERO));
    if from >= to {
        return Err("from must be before to".into());
    }
    let length = to.since(from);
    let chosen = bucket.unwrap_or_else(|| width(length));
    if length.as_nanos().div_ceil(chosen.as_nanos().max(1)) > MAX_BUCKETS {
        let most = MAX_BUCKETS as u64 * chosen.as_secs() / 3600;
        let minutes = chosen.as_secs() / 60;
        return Err(format!(
            "from and to may be at most {most} hours apart with buckets of {minutes} minutes"
        ));
    }
    Ok((from, to, chosen))
}

/// The length of buckets that suits a length of time.
fn width(length: Duration) -> Duration {
    let minutes = match length.as_millis().div_ceil(60_000) {
        0..=60 => 1,
        61..=360 => 5,
        361..=1440 => 15,
        1441..=10_080 => 60,
        _ => 360,
    };
    MINUTE * minutes
}

/// The beginning of the bucket that a moment lies in.
pub(crate) fn bucket_of(at: Timestamp, length: Duration) -> Timestamp {
    let length = i64::try_from(length.as_micros()).unwrap_or(i64::MAX).max(1);
    Timestamp(at.0.div_euclid(length).saturating_mul(length))
}

/// What one server told: the end of its last record, and its buckets.
type Told = (Timestamp, BTreeMap<Timestamp, ServerPoint>);

/// Records on their way to a [`History`].
pub(crate) struct Chart {
    from: Timestamp,
    to: Timestamp,
    /// What happens now counts as well, whatever the clocks of others say.
    open: bool,
    bucket: Duration,
    by_queue: bool,
    most: usize,
    servers: BTreeMap<(Arc<str>, Arc<str>), Told>,
    queues: HashMap<(Timestamp, usize, Arc<str>), QueueCounts>,
    /// Servers in the order they were met.
    met: HashMap<(Arc<str>, Arc<str>), usize>,
    names: HashSet<Arc<str>>,
}

impl Chart {
    pub(crate) fn new(range: (Timestamp, Timestamp, Duration), open: bool, by_queue: bool) -> Self {
        let (from, to, bucket) = range;
        Self {
            from,
            to,
            open,
            bucket,
            by_queue,
            most: MAX_QUEUE_POINTS,
            servers: BTreeMap::new(),
            queues: HashMap::new(),
            met: HashMap::new(),
            names: HashSet::from([OTHER.into()]),
        }
    }

    /// Put in one more record, in any order. Of its queues only those count that `wanted`
    /// names; without it all do.
    pub(crate) fn put(&mut self, record: &Record, wanted: Option<&dyn Fn(&str) -> bool>) {
        let inside = record.start >= bucket_of(self.from, MINUTE) && (self.open || record.start < self.to);
        if !inside {
            return;
        }
        let at = bucket_of(record.start, self.bucket);
        let key = (record.host.clone(), record.server.clone());
        let next = self.met.len();
        let server = *self.met.entry(key.clone()).or_insert(next);
        let (seen, points) = self.servers.entry(key).or_default();
        *seen = (*seen).max(record.end);
        let point = points.entry(at).or_insert_with(|| ServerPoint { at, ..ServerPoint::default() });
        point.records += 1;
        point.covered += record.end.since(record.start);
        point.counts.add(&record.counts);
        let latest = record.end >= point.latest;
        point.gauges.look(&record.gauges, latest);
        let lasted = record.end.since(record.start).as_micros().max(1);
        let per_second = |us: u64| u64::try_from(u128::from(us) * 1_000_000 / lasted).unwrap_or(u64::MAX);
        point.user.look(per_second(record.counts.user_us), latest);
        point.system.look(per_second(record.counts.system_us), latest);
        point.latest = point.latest.max(record.end);
        let mut parked = 0;
        for (name, counts) in record.queues.iter().filter(|(name, _)| wanted.is_none_or(|w| w(name))) {
            point.traffic.add(counts);
            parked += counts.parked;
            if self.by_queue {
                put_queue(&mut self.queues, &mut self.names, self.most, (at, server, name), counts);
            }
        }
        if wanted.is_none() && record.rest != QueueCounts::default() {
            point.traffic.add(&record.rest);
            parked += record.rest.parked;
            if self.by_queue {
                let other: Arc<str> = OTHER.into();
                put_queue(&mut self.queues, &mut self.names, self.most, (at, server, &other), &record.rest);
            }
        }
        point.traffic.parked = point.traffic.parked.max(parked);
    }

    pub(crate) fn finish(self, truncated: bool) -> History {
        let places: HashMap<usize, usize> =
            self.servers.keys().enumerate().map(|(place, key)| (self.met[key], place)).collect();
        let servers = self.servers.into_iter().map(|((host, name), (last_seen, points))| ServerHistory {
            host,
            name,
            last_seen,
            points: points.into_values().collect(),
        });
        let mut queues: Vec<QueuePoint> = self
            .queues
            .into_iter()
            .map(|((at, server, queue), counts)| QueuePoint { at, server: places[&server], queue, counts })
            .collect();
        queues.sort_by(|a, b| (a.at, a.server, &a.queue).cmp(&(b.at, b.server, &b.queue)));
        let (from, to, bucket) = (self.from, self.to, self.bucket);
        History { from, to, bucket, servers: servers.collect(), queues, truncated }
    }
}

/// Add to a queue's point; where there are too many, to that of all others.
fn put_queue(
    queues: &mut HashMap<(Timestamp, usize, Arc<str>), QueueCounts>,
    names: &mut HashSet<Arc<str>>,
    most: usize,
    (at, server, name): (Timestamp, usize, &Arc<str>),
    counts: &QueueCounts,
) {
    let name = match names.get(name) {
        Some(known) => known.clone(),
        None => {
            names.insert(name.clone());
            name.clone()
        }
    };
    let mut key = (at, server, name);
    if queues.len() >= most && !queues.contains_key(&key) {
        key.2 = OTHER.into();
    }
    queues.entry(key).or_default().add(counts);
}

#[cfg(test)]
mod tests;
