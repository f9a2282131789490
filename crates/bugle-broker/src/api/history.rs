//! What happened when: numbers of traffic by time, server and queue.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use bugle_store::Timestamp;

/// Numbers that are kept and added up. They are stored as a list without the zeros at its end: new ones go last.
macro_rules! numbers {
    ($(#[$meta:meta])* $name:ident {
        most { $($(#[$most_doc:meta])* $most:ident,)* }
        sum { $($(#[$sum_doc:meta])* $sum:ident,)* }
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $($(#[$most_doc])* pub $most: u64,)*
            $($(#[$sum_doc])* pub $sum: u64,)*
        }

        impl $name {
            /// Add what happened as well.
            pub fn add(&mut self, other: &Self) {
                $(self.$most = self.$most.max(other.$most);)*
                $(self.$sum = self.$sum.saturating_add(other.$sum);)*
            }

            /// What was counted after `earlier`.
            pub(crate) fn since(&self, earlier: &Self) -> Self {
                Self {
                    $($most: self.$most,)*
                    $($sum: self.$sum.saturating_sub(earlier.$sum),)*
                }
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let all = [$(self.$most,)* $(self.$sum,)*];
                let kept = all.iter().rposition(|number| *number > 0).map_or(0, |last| last + 1);
                all[..kept].serialize(serializer)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let mut all = Vec::<u64>::deserialize(deserializer)?.into_iter();
                Ok(Self {
                    $($most: all.next().unwrap_or(0),)*
                    $($sum: all.next().unwrap_or(0),)*
                })
            }
        }
    };
}

numbers! {
    /// What happened in a queue.
    QueueCounts {
        most {
            /// Longest time from push to delivery, in microseconds.
            lag_max_us,
            /// Pops parked, when it was looked at.
            parked,
        }
        sum {
            /// Requests that pushed, one per partition they pushed to.
            push_requests,
            /// Messages stored, by pushes and transactions.
            pushed,
            /// Messages delivered.
            popped,
            /// Of those: acknowledged by their delivery.
            auto_acked,
            /// Pops that got nothing.
            pop_empty,
            /// Requests that acknowledged, one per partition and group.
            ack_requests,
            /// Messages acknowledged, by acknowledgements and transactions.
            acked,
            /// Acknowledgements that were refused.
            ack_failed,
            /// Messages that became dead letters.
            dead,
            /// Transactions that pushed or acknowledged here.
            transactions,
            /// Partitions made.
            lanes_created,
            /// Deliveries whose lag was measured: one per partition of a pop, by its oldest message.
            lag_count,
            /// Their lags together, in microseconds.
            lag_us,
            /// Messages removed at their age.
            retained,
            /// Messages removed because every group had read them.
            completed,
            /// Messages evicted unread.
            evicted,
            /// Times that messages were removed.
            removals,
            /// Idle partitions that were collected.
            lanes_deleted,
        }
    }
}

numbers! {
    /// What happened on a server.
    ServerCounts {
        most {}
        sum {
            /// Push requests.
            push_requests,
            /// Messages pushed by them.
            push_messages,
            /// Push requests that were refused.
            push_refused,
            /// Pop requests.
            pop_requests,
            /// Messages delivered.
            pop_messages,
            /// Pop requests that were refused.
            pop_refused,
            /// Pop requests that got nothing.
            pop_empty,
            /// Requests that acknowledged.
            ack_requests,
            /// Messages acknowledged by them.
            ack_messages,
            /// Acknowledgements that were refused, one by one.
            ack_failed,
            /// Requests that acknowledged and were refused as a whole.
            ack_refused,
            /// Transactions.
            transactions,
            /// Operations in them that happened.
            transaction_messages,
            /// Transactions that were refused.
            transactions_refused,
            /// Messages that became dead letters.
            dead_lettered,
            /// Dead letters that went back to a queue.
            redriven,
            /// Calls to the store.
            store_calls,
            /// Of those: without an answer.
            store_errors,
            /// Processor time of the process outside of the kernel, in microseconds.
            user_us,
            /// Processor time of the process in the kernel, in microseconds.
            system_us,
        }
    }
}

/// Values that go up and down, looked at when a record is made; and the same over several looks.
macro_rules! gauges {
    ($($(#[$doc:meta])* $gauge:ident,)*) => {
        /// Values of a server at one moment.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct Gauges { $($(#[$doc])* pub $gauge: u64,)* }

        /// Values of a server over several looks.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct GaugeLooks { $($(#[$doc])* pub $gauge: Looks,)* }

        impl GaugeLooks {
            /// One more look; whether it is the latest.
            pub(crate) fn look(&mut self, now: &Gauges, latest: bool) {
                $(self.$gauge.look(now.$gauge, latest);)*
            }
        }
    };
}

gauges! {
    /// How late a timer was that was due: what the work of other tasks costs, in microseconds.
    delay_us,
    /// Pops parked.
    parked,
    /// Items that wait for a store call.
    queued,
    /// Connections to the database that work.
    pool_in_use,
    /// Connections to the database without work.
    pool_idle,
    /// Most connections to the database.
    pool_max,
    /// Waiting keys that the floor looks at less often.
    backed_off,
    /// Memory of the process.
    resident_bytes,
    /// Address space of the process.
    virtual_bytes,
}

/// A value, looked at several times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Looks {
    /// Looks.
    pub looks: u64,
    /// Their sum.
    pub sum: u64,
    /// The smallest.
    pub min: u64,
    /// The largest.
    pub max: u64,
    /// The latest.
    pub last: u64,
}

impl Looks {
    /// One more look; whether it is the latest.
    pub(crate) fn look(&mut self, now: u64, latest: bool) {
        self.min = if self.looks == 0 { now } else { self.min.min(now) };
        self.max = self.max.max(now);
        self.sum = self.sum.saturating_add(now);
        self.last = if latest { now } else { self.last };
        self.looks += 1;
    }

    /// The mean; 0 without a look.
    pub fn mean(&self) -> f64 {
        if self.looks == 0 { 0.0 } else { self.sum as f64 / self.looks as f64 }
    }
}

/// What this process uses of its machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vitals {
    /// Processor time outside of the kernel.
    pub user: Duration,
    /// Processor time in the kernel.
    pub system: Duration,
    /// Memory.
    pub resident_bytes: u64,
    /// Address space.
    pub virtual_bytes: u64,
}

/// Which part of the history.
#[derive(Clone, Debug, Default)]
pub struct HistoryQuery {
    /// From here; by default `span` before the end.
    pub from: Option<Timestamp>,
    /// To here; by default now.
    pub to: Option<Timestamp>,
    /// How far back it goes if it is not said.
    pub span: Duration,
    /// Length of a bucket; by default it follows from the time between `from` and `to`.
    pub bucket: Option<Duration>,
    /// Only this queue.
    pub queue: Option<Arc<str>>,
    /// Only queues of this namespace.
    pub namespace: Option<Arc<str>>,
    /// Only queues of this task.
    pub task: Option<Arc<str>>,
    /// Only servers on this host.
    pub host: Option<String>,
    /// Only the server of this name.
    pub server: Option<String>,
    /// Tell of each queue; otherwise only of all together.
    pub by_queue: bool,
}

/// A part of the history, in buckets that begin at whole multiples of their length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Its beginning.
    pub from: Timestamp,
    /// Its end.
    pub to: Timestamp,
    /// Length of a bucket.
    pub bucket: Duration,
    /// Servers, by host and name.
    pub servers: Vec<ServerHistory>,
    /// Queues by bucket, server and name, if they were asked for.
    pub queues: Vec<QueuePoint>,
    /// Too much to read: the oldest was left out.
    pub truncated: bool,
}

/// What one server told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerHistory {
    /// Its host.
    pub host: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// End of its last record.
    pub last_seen: Timestamp,
    /// Its buckets with something in them, oldest first.
    pub points: Vec<ServerPoint>,
}

/// One bucket of one server, or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerPoint {
    /// When the bucket begins.
    pub at: Timestamp,
    /// Records in it.
    pub records: u64,
    /// End of the latest of them.
    pub latest: Timestamp,
    /// Time that they tell of.
    pub covered: Duration,
    /// What happened on the server.
    pub counts: ServerCounts,
    /// What happened in all queues that were asked for.
    pub traffic: QueueCounts,
    /// Values that go up and down.
    pub gauges: GaugeLooks,
    /// Processor time outside of the kernel, in microseconds per second.
    pub user: Looks,
    /// Processor time in the kernel, in microseconds per second.
    pub system: Looks,
}

/// One queue on one server in one bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuePoint {
    /// When the bucket begins.
    pub at: Timestamp,
    /// Index into [`History::servers`].
    pub server: usize,
    /// The queue; `other` for those that are not told of one by one.
    pub queue: Arc<str>,
    /// What happened.
    pub counts: QueueCounts,
}

impl History {
    /// Seconds of a bucket that lie between `from` and `to`; at least one.
    pub fn seconds(&self, at: Timestamp) -> f64 {
        let end = at.plus(self.bucket).min(self.to);
        end.since(at.max(self.from)).as_secs_f64().max(1.0)
    }

    /// All servers together, one bucket after the other, oldest first.
    pub fn points(&self) -> Vec<(Timestamp, Vec<&ServerPoint>)> {
        let mut all: Vec<&ServerPoint> = self.servers.iter().flat_map(|server| &server.points).collect();
        all.sort_by_key(|point| point.at);
        let same = |a: &&ServerPoint, b: &&ServerPoint| a.at == b.at;
        all.chunk_by(same).map(|points| (points[0].at, points.to_vec())).collect()
    }

    /// Queues on all servers together, oldest first, then by name. What is parked on several servers adds up.
    pub fn by_queue(&self) -> Vec<(Timestamp, Arc<str>, QueueCounts)> {
        let mut all: Vec<&QueuePoint> = self.queues.iter().collect();
        all.sort_by(|a, b| (a.at, &a.queue).cmp(&(b.at, &b.queue)));
        let mut out: Vec<(Timestamp, Arc<str>, QueueCounts)> = Vec::new();
        for point in all {
            match out.last_mut() {
                Some((at, queue, counts)) if *at == point.at && *queue == point.queue => {
                    let parked = counts.parked + point.counts.parked;
                    counts.add(&point.counts);
                    counts.parked = parked;
                }
                _ => out.push((point.at, point.queue.clone(), point.counts)),
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_stored_without_the_zeros_at_the_end_and_come_back() {
        let counts = QueueCounts { lag_max_us: 7, popped: 3, ..QueueCounts::default() };
        let text = serde_json::to_string(&counts).unwrap();
        assert_eq!(text, "[7,0,0,0,3]");
        assert_eq!(serde_json::from_str::<QueueCounts>(&text).unwrap(), counts);
        assert_eq!(serde_json::to_string(&ServerCounts::default()).unwrap(), "[]");
        // What a later version counts as well is passed over.
        let longer: Vec<u64> = (0..100).collect();
        let read: QueueCounts = serde_json::from_value(serde_json::json!(longer)).unwrap();
        assert_eq!((read.lag_max_us, read.removals), (0, 18));
    }

    #[test]
    fn sums_add_up_and_maxima_stay() {
        let mut counts = QueueCounts { lag_max_us: 5, pushed: 1, ..QueueCounts::default() };
        counts.add(&QueueCounts { lag_max_us: 3, pushed: 4, ..QueueCounts::default() });
        assert_eq!((counts.lag_max_us, counts.pushed), (5, 5));
        let since = counts.since(&QueueCounts { lag_max_us: 9, pushed: 2, ..QueueCounts::default() });
        assert_eq!((since.lag_max_us, since.pushed), (5, 3));
    }

    #[test]
    fn looks_remember_the_ends_the_mean_and_the_last() {
        let mut looks = Looks::default();
        assert_eq!(looks.mean(), 0.0);
        [(4, true), (9, true), (2, false)].into_iter().for_each(|(value, latest)| looks.look(value, latest));
        assert_eq!(looks, Looks { looks: 3, sum: 15, min: 2, max: 9, last: 9 });
        assert_eq!(looks.mean(), 5.0);
    }

    #[test]
    fn parked_pops_add_up_over_servers_and_not_over_time() {
        let counts = QueueCounts { parked: 2, popped: 1, ..QueueCounts::default() };
        let point = |at, server| QueuePoint { at: Timestamp(at), server, queue: "q".into(), counts };
        let history = History { queues: vec![point(60, 0), point(0, 0), point(0, 1)], ..History::default() };
        let seen: Vec<_> =
            history.by_queue().into_iter().map(|(at, _, c)| (at.0, c.parked, c.popped)).collect();
        assert_eq!(seen, [(0, 4, 2), (60, 2, 1)]);
    }

    #[test]
    fn a_bucket_that_is_not_over_lasts_as_long_as_it_did() {
        let second = 1_000_000;
        let history = History {
            from: Timestamp(30 * second),
            to: Timestamp(130 * second),
            bucket: Duration::from_secs(60),
            ..History::default()
        };
        let seconds = [0, 60, 120].map(|at| history.seconds(Timestamp(at * second)));
        assert_eq!(seconds, [30.0, 60.0, 10.0]);
    }
}
