//! The queue semantics of the protocol, as simple as they can be written: vectors, no batching, no caching, nothing
//! shared with the broker but plain data.
//!
//! Every verb takes the request *and the answer that the broker gave*. It says what is wrong with the answer, or follows
//! it: where the protocol leaves a choice (which lanes a wildcard pop serves), whatever is allowed is taken over.

mod ack;
mod admin;
mod pop;
mod push;
mod transact;

use std::collections::BTreeMap;

use bugle_store::{LaneId, LeaseId, QueueOptions};
use uuid::Uuid;

/// What is wrong with an answer.
pub(crate) type Check = Result<(), String>;

/// Fail with a text unless something holds.
macro_rules! ensure {
    ($holds:expr, $($text:tt)+) => {
        if !$holds {
            return Err(format!($($text)+));
        }
    };
}
use ensure;

/// Everything there is. Times are microseconds.
#[derive(Default)]
pub(crate) struct Naive {
    pub(crate) now: i64,
    /// Several servers share the store: one may not know yet how much another has stored, so a pop may give less.
    several: bool,
    pub(crate) queues: BTreeMap<String, Queue>,
    /// Every lease there ever was.
    leases: Vec<LeaseId>,
}

pub(crate) struct Queue {
    pub(crate) namespace: String,
    pub(crate) task: String,
    pub(crate) options: QueueOptions,
    pub(crate) lanes: Vec<Lane>,
    groups: BTreeMap<String, Reading>,
    pub(crate) dead: Vec<Dead>,
}

pub(crate) struct Lane {
    pub(crate) name: String,
    /// Not known of a lane that nothing was stored in yet.
    pub(crate) id: Option<LaneId>,
    pub(crate) messages: Vec<Message>,
    created_at: i64,
    cursors: BTreeMap<String, Cursor>,
}

pub(crate) struct Message {
    pub(crate) id: Uuid,
    pub(crate) transaction_id: String,
    payload: Vec<u8>,
    created_at: i64,
}

/// How a group reads a queue.
#[derive(Clone, Copy)]
struct Reading {
    begin: Begin,
    /// Only the newest message of a lane counts.
    conflates: bool,
}

/// Where a group begins in a lane it has not met.
#[derive(Clone, Copy)]
enum Begin {
    AtTheOldest,
    After(i64),
}

#[derive(Clone, Default)]
struct Cursor {
    /// Messages before this one are done.
    next: usize,
    lease: Option<Held>,
    failures: u32,
    deliveries: u32,
    rests_until: i64,
}

#[derive(Clone)]
struct Held {
    id: LeaseId,
    until: i64,
    /// What was delivered ends here.
    end: usize,
}

/// A message given up.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Dead {
    pub(crate) partition: String,
    pub(crate) group: String,
    pub(crate) offset: u64,
    pub(crate) transaction_id: String,
    pub(crate) error: String,
    pub(crate) failures: u32,
}

impl Naive {
    pub(crate) fn new(several: bool) -> Self {
        Self { several, ..Self::default() }
    }

    /// The queue, made as a push or a pop makes it. Its name begins with its namespace and its task.
    fn queue(&mut self, name: &str) -> &mut Queue {
        self.queues.entry(name.to_owned()).or_insert_with(|| {
            let mut parts = name.split('.').map(str::to_owned);
            let (namespace, task) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            let options = QueueOptions { lease_time: 60, ..QueueOptions::default() };
            Queue::new(namespace, task, options)
        })
    }

    /// The lane, made as a push makes it.
    fn lane(&mut self, queue: &str, partition: &str) -> &mut Lane {
        let created_at = self.now;
        let lanes = &mut self.queue(queue).lanes;
        let at = lanes.iter().position(|lane| lane.name == partition).unwrap_or_else(|| {
            let (name, messages, cursors) = (partition.to_owned(), Vec::new(), BTreeMap::new());
            lanes.push(Lane { name, id: None, messages, created_at, cursors });
            lanes.len() - 1
        });
        &mut lanes[at]
    }

    /// Whether servers may disagree which message an id means: it is there twice, and one of them knows of one only.
    pub(crate) fn ambiguous(&self, lane: LaneId, id: &str) -> bool {
        let Some((queue, at)) = self.find_lane(lane).filter(|_| self.several) else { return false };
        let messages = &self.queues[&queue].lanes[at].messages;
        messages.iter().filter(|message| message.transaction_id == id).count() > 1
    }

    /// Which groups read which queues.
    pub(crate) fn readers(&self) -> Vec<(String, String)> {
        let queues = self.queues.iter();
        queues
            .flat_map(|(name, queue)| queue.groups.keys().map(|group| (name.clone(), group.clone())))
            .collect()
    }

    /// The queue that has this lane, and the lane's place in it.
    fn find_lane(&self, id: LaneId) -> Option<(String, usize)> {
        self.queues.iter().find_map(|(name, queue)| {
            Some((name.clone(), queue.lanes.iter().position(|lane| lane.id == Some(id))?))
        })
    }

    /// Times at which something changes by itself.
    pub(crate) fn turning_points(&self) -> Vec<i64> {
        let mut points = Vec::new();
        for queue in self.queues.values() {
            let delay = seconds(queue.options.delayed_processing);
            let window = seconds(queue.options.window_buffer);
            for lane in &queue.lanes {
                for cursor in lane.cursors.values() {
                    points.extend(cursor.lease.iter().map(|held| held.until));
                    points.push(cursor.rests_until);
                }
                let stamps = lane.messages.iter().map(|message| message.created_at);
                points.extend(stamps.flat_map(|at| [at + delay, at + window, at + 2 * window]));
            }
        }
        points
    }
}

impl Queue {
    fn new(namespace: String, task: String, options: QueueOptions) -> Self {
        Self { namespace, task, options, lanes: Vec::new(), groups: BTreeMap::new(), dead: Vec::new() }
    }

    /// Given-up messages are kept unless both switches are off.
    fn keeps_dead(&self) -> bool {
        self.options.dead_letter_queue || self.options.dlq_after_max_retries
    }
}

impl Lane {
    /// The first message behind a time.
    fn after(&self, time: i64) -> usize {
        self.messages.iter().take_while(|message| message.created_at <= time).count()
    }

    /// Where a group is, or would begin.
    fn cursor(&self, group: &str, reading: Reading) -> Cursor {
        self.cursors.get(group).cloned().unwrap_or_else(|| Cursor {
            next: match reading.begin {
                // A lane that is younger than the subscription is read whole.
                Begin::After(time) if self.created_at <= time => self.after(time),
                _ => 0,
            },
            ..Cursor::default()
        })
    }
}

fn seconds(count: u64) -> i64 {
    count as i64 * 1_000_000
}
