//! Answers that were lost to groups that commit by delivery: what was in them is gone, by the group's own wish.
//!
//! Nobody knows what that was, but how much it can have been: a request asks for at most so many messages of so many
//! partitions. So each request without an answer makes room for so much from the moment on at which it began, and everything
//! that such a group was led past takes room. Where there is none left, something was lost.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::names::{GroupNo, LaneNo, QueueNo};
use super::stored::Message;

/// See the module.
#[derive(Default)]
pub(super) struct Missing {
    room: HashMap<(QueueNo, GroupNo), Room>,
    /// What groups were led past, and there was room for.
    passed: HashMap<(LaneNo, GroupNo), Vec<Range<u64>>>,
    /// How many messages were found to be among those.
    held: HashMap<(LaneNo, GroupNo), u64>,
    /// Lanes whose end is missing, and there was room for one more.
    ends: HashSet<(LaneNo, GroupNo)>,
}

/// What lost answers may have held and nothing has been found to be missing for.
#[derive(Default)]
struct Room {
    messages: u64,
    /// Ranges of messages; those of one answer are of different lanes.
    ranges: u64,
}

impl Room {
    fn take(&mut self, messages: u64, ranges: u64) -> bool {
        let fits = messages <= self.messages && ranges <= self.ranges;
        if fits {
            self.messages -= messages;
            self.ranges -= ranges;
        }
        fits
    }
}

impl Missing {
    /// A request that asked for so much has begun, and no answer will come.
    pub(super) fn unanswered(&mut self, queue: QueueNo, group: GroupNo, batch: u32, partitions: u32) {
        let room = self.room.entry((queue, group)).or_default();
        room.messages += u64::from(batch);
        room.ranges += u64::from(partitions.min(batch));
    }

    /// A group was led past these ranges of a lane, between which it was given something. Whether they may all have been in
    /// answers that were lost.
    pub(super) fn pass(
        &mut self,
        queue: QueueNo,
        lane: LaneNo,
        group: GroupNo,
        past: Vec<Range<u64>>,
    ) -> bool {
        let messages = past.iter().map(|range| range.end - range.start).sum();
        let room = self.room.get_mut(&(queue, group));
        let fits = room.is_some_and(|room| room.take(messages, past.len() as u64));
        if fits {
            self.passed.entry((lane, group)).or_default().extend(past);
        }
        fits
    }

    /// A group was never given a message. Whether it may have been in an answer that was lost: among what the group was led past,
    /// or behind all that it was given (`end`). Where a message is that no other group was given either, nobody knows; those
    /// are asked for last, and may be at any place that is left.
    pub(super) fn may_hold(&mut self, message: &Message, group: GroupNo, end: u64) -> bool {
        let at = (message.lane, group);
        let passed = self.passed.get(&at).map_or(&[][..], Vec::as_slice);
        let places = passed.iter().map(|range| range.end - range.start).sum();
        let held = self.held.entry(at).or_default();
        let among = match message.offset {
            Some(offset) => passed.iter().any(|range| range.contains(&offset)),
            None => *held < places,
        };
        if among {
            *held += 1;
            return true;
        }
        if message.offset.is_some_and(|offset| offset < end) {
            return false;
        }
        let range = u64::from(!self.ends.contains(&at));
        let room = self.room.get_mut(&(message.queue, group));
        let fits = room.is_some_and(|room| room.take(1, range));
        if fits {
            self.ends.insert(at);
        }
        fits
    }
}
