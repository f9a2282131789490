//! The catalog's data: queues, groups, dead letters to list, traces.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::name::{Group, LaneId, QueueId};
use crate::options::QueueOptions;
use crate::time::Timestamp;

/// A queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// Random identity of this incarnation.
    pub id: QueueId,
    /// Unique name.
    pub name: Arc<str>,
    /// For filter pops.
    pub namespace: Arc<str>,
    /// For filter pops.
    pub task: Arc<str>,
    /// When it was created.
    pub created_at: Timestamp,
    /// Compare-and-set version, starts at 1.
    pub version: u64,
    /// All options.
    pub options: QueueOptions,
}

/// All queues and groups at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Grows with every change of a queue, a group or a switch.
    pub version: u64,
    /// What operators have switched.
    pub switches: Switches,
    /// All queues.
    pub queues: Vec<Queue>,
    /// All groups.
    pub groups: Vec<GroupRecord>,
}

/// What operators have switched for all servers of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// Pushes do not reach the store.
    pub push_maintenance: bool,
    /// Pops get nothing.
    pub pop_maintenance: bool,
}

/// A change of switches; `None` leaves one as it is, so that two operators do not undo each other's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PutSwitches {
    /// See [`Switches::push_maintenance`].
    pub push_maintenance: Option<bool>,
    /// See [`Switches::pop_maintenance`].
    pub pop_maintenance: Option<bool>,
}

impl PutSwitches {
    /// The switches after the change.
    #[must_use]
    pub fn apply(self, to: Switches) -> Switches {
        Switches {
            push_maintenance: self.push_maintenance.unwrap_or(to.push_maintenance),
            pop_maintenance: self.pop_maintenance.unwrap_or(to.pop_maintenance),
        }
    }
}

/// Result of [`crate::Catalog::put_queue`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PutQueue {
    /// Stored as given.
    Stored(Queue),
    /// Another one is there (for a creation: by this name; for an update: with another version or none at all).
    Exists(Option<Queue>),
}

/// A lane to create if it does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLane {
    /// Its queue.
    pub queue: QueueId,
    /// Partition name.
    pub name: Arc<str>,
    /// Creation time.
    pub now: Timestamp,
}

/// Why a lane cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaneError {
    /// The queue does not exist any more.
    #[error("no such queue")]
    NoQueue,
    /// Another name has the same lane id. Not expected to happen before the sun burns out.
    #[error("partition name collides with {0:?}")]
    Collision(Arc<str>),
}

/// A page of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Rows to skip.
    pub offset: usize,
    /// Most rows to return.
    pub limit: usize,
}

/// How a group reads a queue: fixed at first contact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupRecord {
    /// The queue.
    pub queue: QueueId,
    /// The group.
    pub group: Group,
    /// Where it starts in lanes it has no cursor on.
    pub start: Start,
    /// Last-value delivery.
    pub conflation: bool,
    /// First contact, or when an operator last changed where the group reads. Later than in any earlier record of it.
    pub created_at: Timestamp,
}

/// Where a group starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Start {
    /// At the oldest kept message.
    All,
    /// After this time, which was the moment of first contact.
    New(Timestamp),
    /// After this time, which the consumer asked for.
    From(Timestamp),
}

/// Which dead letters.
#[derive(Clone, Debug, Default)]
pub struct DeadLetterFilter {
    /// Only of this queue.
    pub queue: Option<QueueId>,
    /// Only of this lane.
    pub lane: Option<LaneId>,
    /// Only of this group.
    pub group: Option<Group>,
    /// Only with this transaction id.
    pub transaction_id: Option<String>,
    /// Only this one.
    pub id: Option<Uuid>,
    /// Only failed at or after.
    pub from: Option<Timestamp>,
    /// Only failed before.
    pub to: Option<Timestamp>,
    /// Only with this text in the error. The only filter for which an engine may read every letter that fits otherwise.
    pub error: Option<String>,
}

/// An event recorded for a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Its own id.
    pub id: Uuid,
    /// Queue of the message.
    pub queue: QueueId,
    /// Lane of the message.
    pub lane: LaneId,
    /// Transaction id of the message.
    pub transaction_id: String,
    /// Kind of event.
    pub event_type: String,
    /// JSON data.
    pub data: String,
    /// Group that recorded it.
    pub group: Group,
    /// Names it can be found by.
    pub names: Vec<String>,
    /// Who recorded it.
    pub worker: Option<String>,
    /// When.
    pub created_at: Timestamp,
}

/// Which traces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceFilter {
    /// Of one message, oldest first.
    Message(LaneId, String),
    /// By name, newest first.
    Name(String),
}

/// A trace name and how much it was used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceName {
    /// The name.
    pub name: String,
    /// Traces carrying it.
    pub traces: u64,
    /// Messages those belong to.
    pub messages: u64,
    /// Latest trace.
    pub last_seen: Timestamp,
}

/// What ages out of the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expire {
    /// Dead letters that failed before.
    DeadLetters(Timestamp),
    /// Traces recorded before.
    Traces(Timestamp),
    /// Lanes that are empty and were last written before, with their cursors.
    Lanes(Timestamp),
}
