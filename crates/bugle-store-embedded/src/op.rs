//! Changes of state as records and checkpoints carry them: absolute values, so that replaying one that a checkpoint
//! already contains changes nothing in the end.
//!
//! Lanes are named by a `uid` given at creation and never used again. A lane that is collected and created anew has
//! the same lane id but another uid, so what old files still hold of the first can never be taken for the second.

use std::sync::Arc;

use bugle_store::{Cursor, Group, GroupRecord, LaneId, Offset, Queue, QueueId, Switches, Timestamp};
use bytes::BufMut;
use uuid::Uuid;

use crate::codec::{Fields, Malformed, put_cursor, put_text, put_time, put_uuid};

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// A lane was created.
    Lane { uid: u64, id: LaneId, queue: QueueId, name: Arc<str>, created_at: Timestamp },
    /// What a lane has become (checkpoints only; in the log, segments say it).
    LaneState { uid: u64, head: Offset, written_at: Timestamp, oldest_at: Timestamp, greatest: Option<Uuid> },
    /// A lane was collected.
    DropLane { uid: u64 },
    /// A cursor was exchanged.
    Cursor { uid: u64, group: Group, cursor: Cursor },
    /// The tail moved.
    Trim { uid: u64, tail: Offset },
    /// A queue was created or updated.
    Queue(Queue),
    /// A queue was deleted with everything in it.
    DropQueue(QueueId),
    /// A group was stored or replaced.
    Group(GroupRecord),
    /// A group's cursors (and its record, if so) were forgotten.
    DropGroup { queue: QueueId, group: Group, record: bool },
    /// A dead letter was stored under this row number; its copy is in a frame.
    Dead(u64, DeadIndex),
    /// A dead letter was deleted.
    DropDead(u64),
    /// A trace was stored under this row number; its data is in a frame.
    Trace(u64, TraceIndex),
    /// A trace was deleted.
    DropTrace(u64),
    /// Counters (checkpoints only).
    Counters { next_uid: u64, next_row: u64, version: u64, stamp: Timestamp },
    /// Switches were put; all of them as they are now.
    Switches(Switches),
}

/// What is kept in memory of a dead letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeadIndex {
    pub(crate) id: Uuid,
    pub(crate) queue: QueueId,
    pub(crate) lane: LaneId,
    pub(crate) group: Group,
    pub(crate) transaction_id: Arc<str>,
    pub(crate) failed_at: Timestamp,
}

/// What is kept in memory of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TraceIndex {
    pub(crate) queue: QueueId,
    pub(crate) lane: LaneId,
    pub(crate) transaction_id: Arc<str>,
    pub(crate) names: Vec<Arc<str>>,
    pub(crate) created_at: Timestamp,
}

impl Op {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Op::Lane { uid, id, queue, name, created_at } => {
                out.put_u8(1);
                out.put_u64_le(*uid);
                put_uuid(out, id.0);
                put_uuid(out, queue.0);
                put_text(out, name);
                put_time(out, *created_at);
            }
            Op::LaneState { uid, head, written_at, oldest_at, greatest } => {
                out.put_u8(2);
                out.put_u64_le(*uid);
                out.put_u64_le(*head);
                put_time(out, *written_at);
                put_time(out, *oldest_at);
                put_uuid(out, greatest.unwrap_or(Uuid::nil()));
            }
            Op::DropLane { uid } => put_tagged(out, 3, *uid),
            Op::Cursor { uid, group, cursor } => {
                put_tagged(out, 4, *uid);
                put_text(out, group);
                put_cursor(out, cursor);
            }
            Op::Trim { uid, tail } => {
                put_tagged(out, 5, *uid);
                out.put_u64_le(*tail);
            }
            Op::DropDead(row) => put_tagged(out, 11, *row),
            Op::DropTrace(row) => put_tagged(out, 13, *row),
            Op::Counters { next_uid, next_row, version, stamp } => {
                put_tagged(out, 14, *next_uid);
                out.put_u64_le(*next_row);
                out.put_u64_le(*version);
                put_time(out, *stamp);
            }
            other => other.encode_catalog(out),
        }
    }

    fn encode_catalog(&self, out: &mut Vec<u8>) {
        match self {
            Op::Queue(queue) => {
                out.put_u8(6);
                put_json(out, queue);
            }
            Op::DropQueue(id) => {
                out.put_u8(7);
                put_uuid(out, id.0);
            }
            Op::Group(group) => {
                out.put_u8(8);
                put_json(out, group);
            }
            Op::DropGroup { queue, group, record } => {
                out.put_u8(9);
                put_uuid(out, queue.0);
                put_text(out, group);
                out.put_u8(u8::from(*record));
            }
            Op::Switches(switches) => {
                out.put_u8(15);
                out.put_u8(u8::from(switches.push_maintenance) | u8::from(switches.pop_maintenance) << 1);
            }
            Op::Dead(row, dead) => {
                put_tagged(out, 10, *row);
                put_uuid(out, dead.id);
                put_uuid(out, dead.queue.0);
                put_uuid(out, dead.lane.0);
                put_text(out, &dead.group);
                put_text(out, &dead.transaction_id);
                put_time(out, dead.failed_at);
            }
            Op::Trace(row, trace) => {
                put_tagged(out, 12, *row);
                put_uuid(out, trace.queue.0);
                put_uuid(out, trace.lane.0);
                put_text(out, &trace.transaction_id);
                put_time(out, trace.created_at);
                out.put_u32_le(trace.names.len() as u32);
                trace.names.iter().for_each(|name| put_text(out, name));
            }
            _ => {}
        }
    }

    pub(crate) fn decode(from: &mut Fields<'_>) -> Result<Self, Malformed> {
        Ok(match from.u8()? {
            1 => Op::Lane {
                uid: from.u64()?,
                id: LaneId(from.uuid()?),
                queue: QueueId(from.uuid()?),
                name: from.shared()?,
                created_at: from.time()?,
            },
            2 => Op::LaneState {
                uid: from.u64()?,
                head: from.u64()?,
                written_at: from.time()?,
                oldest_at: from.time()?,
                greatest: Some(from.uuid()?).filter(|id| !id.is_nil()),
            },
            3 => Op::DropLane { uid: from.u64()? },
            4 => Op::Cursor { uid: from.u64()?, group: from.shared()?, cursor: from.cursor()? },
            5 => Op::Trim { uid: from.u64()?, tail: from.u64()? },
            6 => Op::Queue(json(from)?),
            7 => Op::DropQueue(QueueId(from.uuid()?)),
            8 => Op::Group(json(from)?),
            9 => {
                Op::DropGroup { queue: QueueId(from.uuid()?), group: from.shared()?, record: from.u8()? != 0 }
            }
            10 => Op::Dead(from.u64()?, decode_dead(from)?),
            11 => Op::DropDead(from.u64()?),
            12 => Op::Trace(from.u64()?, decode_trace(from)?),
            13 => Op::DropTrace(from.u64()?),
            14 => Op::Counters {
                next_uid: from.u64()?,
                next_row: from.u64()?,
                version: from.u64()?,
                stamp: from.time()?,
            },
            15 => {
                let bits = from.u8()?;
                Op::Switches(Switches { push_maintenance: bits & 1 != 0, pop_maintenance: bits & 2 != 0 })
            }
            _ => return Err(Malformed),
        })
    }
}

fn decode_dead(from: &mut Fields<'_>) -> Result<DeadIndex, Malformed> {
    Ok(DeadIndex {
        id: from.uuid()?,
        queue: QueueId(from.uuid()?),
        lane: LaneId(from.uuid()?),
        group: from.shared()?,
        transaction_id: from.shared()?,
        failed_at: from.time()?,
    })
}

fn decode_trace(from: &mut Fields<'_>) -> Result<TraceIndex, Malformed> {
    Ok(TraceIndex {
        queue: QueueId(from.uuid()?),
        lane: LaneId(from.uuid()?),
        transaction_id: from.shared()?,
        created_at: from.time()?,
        names: (0..from.u32()?).map(|_| from.shared()).collect::<Result<_, _>>()?,
    })
}

fn put_tagged(out: &mut Vec<u8>, tag: u8, value: u64) {
    out.put_u8(tag);
    out.put_u64_le(value);
}

fn put_json<T: serde::Serialize>(out: &mut Vec<u8>, value: &T) {
    put_text(out, &serde_json::to_string(value).expect("plain structs of text and numbers always serialize"));
}

fn json<T: serde::de::DeserializeOwned>(from: &mut Fields<'_>) -> Result<T, Malformed> {
    serde_json::from_str(from.text()?).map_err(|_| Malformed)
}
