//! Messages and traces as callers see them who look without consuming.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use bugle_store::{Group, LaneId, Message, Offset, Queue, Timestamp, Trace};

/// What has become of a message. Decided by the group of anonymous consumers where there is one, otherwise by all groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageStatus {
    /// Somebody has yet to get it.
    Pending,
    /// Somebody works on it.
    Processing,
    /// Everybody is done with it.
    Completed,
    /// Somebody gave up on it.
    DeadLetter,
}

impl MessageStatus {
    /// As it is spelled.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Processing => "processing",
            Self::Completed => "completed",
            Self::DeadLetter => "dead_letter",
        }
    }

    /// The one spelled so.
    pub fn by_name(name: &str) -> Option<Self> {
        let all = [Self::Pending, Self::Processing, Self::Completed, Self::DeadLetter];
        all.into_iter().find(|status| status.name() == name)
    }
}

/// How one group stands to a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupView {
    /// The group.
    pub name: Group,
    /// It is past the message.
    pub consumed: bool,
    /// It has given up on the message.
    pub dead: bool,
    /// When the lease ends under which it holds the message.
    pub lease_expires_at: Option<Timestamp>,
}

/// Who reads a queue, or some queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadMode {
    /// Anonymous consumers do.
    pub queue_mode: bool,
    /// So many named groups do.
    pub bus_groups: usize,
}

impl ReadMode {
    /// In one word.
    pub fn name(self) -> &'static str {
        match (self.queue_mode, self.bus_groups) {
            (false, 0) => "none",
            (true, 0) => "queue",
            (false, _) => "bus",
            (true, _) => "hybrid",
        }
    }
}

/// One message and how it stands.
#[derive(Clone, Debug)]
pub struct MessageView {
    /// Its queue.
    pub queue: Arc<Queue>,
    /// Partition name.
    pub partition: Arc<str>,
    /// Lane id = the protocol's `partitionId`.
    pub lane: LaneId,
    /// Position in the lane.
    pub offset: Offset,
    /// Positions of all that was committed with it, as one segment; only in a list.
    pub segment: Option<Range<Offset>>,
    /// When it was pushed.
    pub created_at: Timestamp,
    /// Decrypted.
    pub message: Message,
    /// It is stored encrypted.
    pub encrypted: bool,
    /// What has become of it.
    pub status: MessageStatus,
    /// What anonymous consumers have made of it, where there are any.
    pub queue_status: Option<MessageStatus>,
    /// Every group of its queue.
    pub groups: Vec<GroupView>,
    /// Why the last group gave up on it, and after how many failures; only where one message is asked for.
    pub failure: Option<(String, u32)>,
}

impl MessageView {
    /// Who reads its queue.
    pub fn mode(&self) -> ReadMode {
        let queue_mode = self.groups.iter().any(|group| &*group.name == bugle_store::QUEUE_MODE);
        ReadMode { queue_mode, bus_groups: self.groups.len() - usize::from(queue_mode) }
    }

    /// When the lease ends under which somebody works on it.
    pub fn lease_expires_at(&self) -> Option<Timestamp> {
        self.groups.iter().filter_map(|group| group.lease_expires_at).max()
    }
}

/// Which messages to list.
#[derive(Clone, Debug, Default)]
pub struct MessageQuery {
    /// Of this queue.
    pub queue: Option<Arc<str>>,
    /// Of partitions of this name.
    pub partition: Option<Arc<str>>,
    /// Of queues with this namespace.
    pub namespace: Option<Arc<str>>,
    /// Of queues with this task.
    pub task: Option<Arc<str>>,
    /// With this status.
    pub status: Option<MessageStatus>,
    /// Pushed at or after; an hour ago if absent.
    pub from: Option<Timestamp>,
    /// Pushed before.
    pub to: Option<Timestamp>,
    /// Messages to skip.
    pub offset: usize,
    /// Most messages to return.
    pub limit: usize,
}

/// A page of messages, newest first.
#[derive(Clone, Debug, Default)]
pub struct MessageList {
    /// The messages.
    pub messages: Vec<MessageView>,
    /// How many match in all, as far as was looked.
    pub total: u64,
    /// A bound on work ended the look: there may be more.
    pub truncated: bool,
    /// Who reads these queues.
    pub mode: ReadMode,
}

/// A trace to record.
#[derive(Clone, Debug)]
pub struct NewTrace {
    /// Lane of the message.
    pub lane: LaneId,
    /// Transaction id of the message.
    pub transaction_id: String,
    /// Kind of event.
    pub event_type: String,
    /// JSON.
    pub data: String,
    /// Who records it.
    pub group: Group,
    /// Names to find it by.
    pub names: Vec<String>,
}

/// A recorded trace and the message it belongs to.
#[derive(Clone, Debug)]
pub struct TraceView {
    /// As stored.
    pub trace: Trace,
    /// Name of the message's queue.
    pub queue: Arc<str>,
    /// Name of the message's partition, while it exists.
    pub partition: Option<Arc<str>>,
    /// Payload of the message, while it is kept.
    pub payload: Option<Bytes>,
}
