//! Small numbers instead of names: queues, lanes, groups and messages are looked up once.

use std::collections::HashMap;

/// A queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct QueueNo(u32);
/// One partition of one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct LaneNo(u32);
/// A consumer group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct GroupNo(u32);
/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct MessageNo(pub(super) u32);

/// See the module.
#[derive(Default)]
pub(super) struct Names {
    queues: Table,
    groups: Table,
    messages: Table,
    lanes: HashMap<(QueueNo, u32), LaneNo>,
    partitions: Table,
    lane_names: Vec<String>,
}

#[derive(Default)]
struct Table {
    numbers: HashMap<String, u32>,
    names: Vec<String>,
}

impl Table {
    fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.names.len() as u32;
        self.numbers.insert(name.to_owned(), number);
        self.names.push(name.to_owned());
        number
    }
}

impl Names {
    pub(super) fn queue(&mut self, name: &str) -> QueueNo {
        QueueNo(self.queues.number(name))
    }

    pub(super) fn group(&mut self, name: &str) -> GroupNo {
        GroupNo(self.groups.number(name))
    }

    pub(super) fn message(&mut self, id: &str) -> MessageNo {
        MessageNo(self.messages.number(id))
    }

    pub(super) fn lane(&mut self, queue: &str, partition: &str) -> LaneNo {
        let key = (self.queue(queue), self.partitions.number(partition));
        let next = LaneNo(self.lane_names.len() as u32);
        let lane = *self.lanes.entry(key).or_insert(next);
        if lane == next {
            self.lane_names.push(format!("{queue}/{partition}"));
        }
        lane
    }

    pub(super) fn group_name(&self, group: GroupNo) -> &str {
        &self.groups.names[group.0 as usize]
    }

    pub(super) fn message_name(&self, message: MessageNo) -> &str {
        &self.messages.names[message.0 as usize]
    }

    pub(super) fn lane_name(&self, lane: LaneNo) -> &str {
        &self.lane_names[lane.0 as usize]
    }
}
