//! What was pushed, and where it turned out to be: every message has one place, every place one message.

use std::collections::HashMap;

use crate::record::{Delivered, History, Op, Outcome, Pushed};
use crate::report::{Report, Rule};

use super::names::{LaneNo, MessageNo, Names, QueueNo};

/// What is known of all messages.
#[derive(Default)]
pub(super) struct Stored {
    /// By number; `None` = delivered but never pushed.
    messages: Vec<Option<Message>>,
}

/// What is known of one message.
pub(super) struct Message {
    pub(super) queue: QueueNo,
    pub(super) lane: LaneNo,
    /// Its push was acknowledged.
    pub(super) done: bool,
    /// By a transaction.
    pub(super) transacted: bool,
    /// It was refused, every time it was tried.
    refused: bool,
    /// Where it was delivered from.
    pub(super) offset: Option<u64>,
}

impl Stored {
    pub(super) fn find(history: &History, names: &mut Names, report: &mut Report) -> Self {
        let mut stored = Self::default();
        for record in &history.records {
            match &record.op {
                Op::Push { messages, outcome } => stored.push(messages, *outcome, false, names),
                Op::Transact { messages, outcome, .. } => stored.push(messages, *outcome, true, names),
                _ => (),
            }
        }
        let mut places: HashMap<(LaneNo, u64), MessageNo> = HashMap::new();
        for record in &history.records {
            if let Op::Pop { queue, outcome: Outcome::Done((_, delivered)), .. } = &record.op {
                for message in delivered {
                    stored.delivery(queue, message, &mut places, names, report);
                }
            }
        }
        stored
    }

    fn push(&mut self, messages: &[Pushed], outcome: Outcome<()>, transacted: bool, names: &mut Names) {
        for pushed in messages {
            let id = names.message(&pushed.id);
            let (queue, lane) = (names.queue(&pushed.queue), names.lane(&pushed.queue, &pushed.partition));
            let message = self.slot(id).get_or_insert(Message {
                queue,
                lane,
                done: false,
                transacted,
                refused: true,
                offset: None,
            });
            message.done |= outcome == Outcome::Done(());
            message.refused &= outcome == Outcome::Not;
        }
    }

    fn slot(&mut self, id: MessageNo) -> &mut Option<Message> {
        let at = id.0 as usize;
        if self.messages.len() <= at {
            self.messages.resize_with(at + 1, || None);
        }
        &mut self.messages[at]
    }

    fn delivery(
        &mut self,
        queue: &str,
        delivered: &Delivered,
        places: &mut HashMap<(LaneNo, u64), MessageNo>,
        names: &mut Names,
        report: &mut Report,
    ) {
        let Delivered { partition, offset, id: name, payload } = delivered;
        let (id, lane) = (names.message(name), names.lane(queue, partition));
        let place = || format!("{queue}/{partition} at {offset}");
        let Some(message) = self.slot(id) else {
            return report.add(Rule::Phantom, || format!("{name} was never pushed, but is in {}", place()));
        };
        if message.lane != lane || payload != name {
            report.add(Rule::Phantom, || format!("{name} is in {} with payload {payload}", place()));
        }
        if message.refused {
            let rule = if message.transacted { Rule::Transaction } else { Rule::Phantom };
            report.add(rule, || format!("{name} was refused, but is in {}", place()));
        }
        let known = *message.offset.get_or_insert(*offset);
        if known != *offset {
            report.add(Rule::StoredTwice, || format!("{name} is in {}, and at {known}", place()));
        }
        let other = *places.entry((lane, *offset)).or_insert(id);
        if other != id {
            let other = names.message_name(other);
            report.add(Rule::Order, || format!("{} is {other}, and then it is {name}", place()));
        }
    }

    /// A message that was pushed.
    pub(super) fn get(&self, id: MessageNo) -> Option<&Message> {
        self.messages.get(id.0 as usize)?.as_ref()
    }

    /// All that were pushed.
    pub(super) fn messages(&self) -> impl Iterator<Item = (MessageNo, &Message)> {
        let numbered = self.messages.iter().zip(0..);
        numbered.filter_map(|(message, number)| Some((MessageNo(number), message.as_ref()?)))
    }
}
