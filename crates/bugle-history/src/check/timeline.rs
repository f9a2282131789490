//! Walks through all beginnings and ends in their order.

use std::collections::{HashMap, HashSet};

use uuid::Uuid;

use crate::record::{Acked, Delivered, History, Op, Outcome, Pushed, Record, Said, Status};
use crate::report::{Report, Rule};

use super::Terms;
use super::missing::Missing;
use super::names::{GroupNo, LaneNo, MessageNo, Names, QueueNo};
use super::reader::{Live, Reader};
use super::stored::{Message, Stored};

/// An offset of a lane, as a group sees it.
type Spot = (LaneNo, GroupNo, u64);

/// See the module.
pub(super) struct Timeline<'a> {
    terms: &'a Terms,
    stored: &'a Stored,
    readers: HashMap<(LaneNo, GroupNo), Reader>,
    /// Who holds a lease, for renewals.
    holders: HashMap<Uuid, Vec<(LaneNo, GroupNo)>>,
    /// When a lease was asked for, and since when a client has had it.
    granted: HashMap<Uuid, (u64, u64)>,
    given: HashSet<(MessageNo, GroupNo)>,
    /// Moments of the last deliveries of a place to a group, by lease.
    last_given: HashMap<Spot, Vec<(Option<Uuid>, u64)>>,
    missing: Missing,
    /// End of what is stored for certain, by lane.
    ends: HashMap<LaneNo, u64>,
    begun: HashSet<MessageNo>,
    /// Transactions without an outcome, by the messages they push.
    doubtful: HashMap<MessageNo, usize>,
    /// Those of them that happened.
    happened: HashSet<usize>,
}

impl<'a> Timeline<'a> {
    pub(super) fn new(terms: &'a Terms, stored: &'a Stored) -> Self {
        Self {
            terms,
            stored,
            readers: HashMap::new(),
            holders: HashMap::new(),
            granted: HashMap::new(),
            given: HashSet::new(),
            last_given: HashMap::new(),
            missing: Missing::default(),
            ends: HashMap::new(),
            begun: HashSet::new(),
            doubtful: HashMap::new(),
            happened: HashSet::new(),
        }
    }

    pub(super) fn run(&mut self, history: &History, names: &mut Names, report: &mut Report) {
        for (index, ends) in moments(history) {
            let record = &history.records[index];
            if ends {
                self.end(record, history, names, report);
            } else {
                self.begin(index, record, names, report);
            }
        }
    }

    fn begin(&mut self, index: usize, record: &Record, names: &mut Names, report: &mut Report) {
        match &record.op {
            Op::Push { messages, .. } => self.pushing(messages, names, report),
            Op::Pop { queue, group, lease_for: None, batch, partitions, outcome } => {
                let group = names.group(group);
                match outcome {
                    Outcome::Unknown => {
                        self.missing.unanswered(names.queue(queue), group, *batch, *partitions);
                    }
                    Outcome::Done((_, messages)) => {
                        for of_lane in by_lane(messages) {
                            let (lane, range) = (names.lane(queue, &of_lane[0].partition), range(of_lane));
                            self.reader(lane, group).expect(record.began, range.start, range.end);
                        }
                    }
                    Outcome::Not => (),
                }
            }
            Op::Ack { group, lease, said, outcome } => {
                let group = names.group(group);
                for (i, said) in said.iter().enumerate() {
                    let acked = match outcome {
                        Outcome::Done(acked) => acked.get(i).copied(),
                        Outcome::Not => continue,
                        Outcome::Unknown => None,
                    };
                    self.acking(group, *lease, said, acked, names);
                }
            }
            Op::Transact { group, lease, said, messages, outcome } => {
                self.pushing(messages, names, report);
                let group = names.group(group);
                for said in said.iter().filter(|_| *outcome != Outcome::Not) {
                    self.acking(group, *lease, said, None, names);
                }
                if *outcome == Outcome::Unknown {
                    self.doubtful.extend(messages.iter().map(|m| (names.message(&m.id), index)));
                }
            }
            _ => (),
        }
    }

    fn end(&mut self, record: &Record, history: &History, names: &mut Names, report: &mut Report) {
        match &record.op {
            Op::Push { messages, outcome: Outcome::Done(()) } => self.pushed(messages, names),
            Op::Pop { queue, group, lease_for, outcome: Outcome::Done((lease, messages)), .. } => {
                let group = names.group(group);
                for of_lane in by_lane(messages) {
                    let lane = names.lane(queue, &of_lane[0].partition);
                    let pop = Given { record, queue: names.queue(queue), lane, group };
                    self.delivered(&pop, of_lane, lease.zip(*lease_for), names, report);
                }
                self.resolve(record.ended, messages, history, names);
            }
            Op::Ack { group, lease, said, outcome: Outcome::Done(acked) } => {
                let group = names.group(group);
                for (said, _) in said.iter().zip(acked).filter(|(said, acked)| commits(said, acked)) {
                    let lane = names.lane(&said.queue, &said.partition);
                    self.check_holder(record, *lease, lane, group, names, report);
                    self.reader(lane, group).confirm(record.ended, said.offset + 1, false);
                }
            }
            Op::Renew { lease, length, outcome: Outcome::Done(()) } => {
                let until = self.lease_end(record.began_at, *length);
                for holder in self.holders.get(lease).into_iter().flatten() {
                    let live = self.readers.get_mut(holder).and_then(|reader| reader.live.as_mut());
                    if let Some(live) = live.filter(|live| live.lease == *lease) {
                        live.until = live.until.max(until);
                    }
                }
            }
            Op::Transact { group, lease, said, messages, outcome: Outcome::Done(()) } => {
                self.pushed(messages, names);
                let group = names.group(group);
                for said in said {
                    let lane = names.lane(&said.queue, &said.partition);
                    self.check_holder(record, *lease, lane, group, names, report);
                }
                self.confirm_all(record.ended, group, said, names);
            }
            _ => (),
        }
    }

    /// Messages are sent: they come behind everything that had been acknowledged by now, and in the order of the request.
    fn pushing(&mut self, messages: &[Pushed], names: &mut Names, report: &mut Report) {
        let mut last: HashMap<LaneNo, u64> = HashMap::new();
        for pushed in messages {
            let id = names.message(&pushed.id);
            let Some((lane, offset)) = self.stored.get(id).and_then(|m| Some((m.lane, m.offset?))) else {
                continue;
            };
            let first = self.begun.insert(id);
            let end = self.ends.get(&lane).copied().unwrap_or(0);
            if first && offset < end {
                let place = names.lane_name(lane);
                report.add(Rule::Order, || {
                    format!("{} is at {offset} in {place}, which was stored up to {end} before", pushed.id)
                });
            }
            if last.insert(lane, offset).is_some_and(|before| before >= offset) && first {
                let place = names.lane_name(lane);
                report.add(Rule::Order, || {
                    format!("{} is at {offset} in {place}, before what its request named first", pushed.id)
                });
            }
        }
    }

    fn pushed(&mut self, messages: &[Pushed], names: &mut Names) {
        for pushed in messages {
            let message = self.stored.get(names.message(&pushed.id));
            if let Some((lane, offset)) = message.and_then(|m| Some((m.lane, m.offset?))) {
                let end = self.ends.entry(lane).or_default();
                *end = (*end).max(offset + 1);
            }
        }
    }

    /// Something is said of a message; without an answer (`None`) anything may come of it.
    fn acking(&mut self, group: GroupNo, lease: Uuid, said: &Said, acked: Option<Acked>, names: &mut Names) {
        let lane = names.lane(&said.queue, &said.partition);
        let reader = self.reader(lane, group);
        let taken = acked.is_none_or(|acked| acked.success);
        let commits = match acked {
            Some(acked) => commits(said, &acked),
            None => said.status != Status::Retry,
        };
        if commits {
            reader.allow(said.offset + 1);
        }
        let releases = taken && (said.last || said.status != Status::Completed);
        if let Some(live) = reader.live.as_mut().filter(|live| releases && live.lease == lease) {
            live.released = true;
        }
    }

    fn delivered(
        &mut self,
        pop: &Given<'_>,
        messages: &[Delivered],
        leased: Option<(Uuid, u64)>,
        names: &mut Names,
        report: &mut Report,
    ) {
        let first = messages[0].offset;
        let place = format!("{} for {}", names.lane_name(pop.lane), names.group_name(pop.group));
        for (message, expected) in messages.iter().zip(first..) {
            if message.offset != expected {
                report.add(Rule::Order, || {
                    format!("{place}: {} is at {}, {expected} comes next", message.id, message.offset)
                });
            }
            let id = names.message(&message.id);
            self.given.insert((id, pop.group));
            let by = leased.map(|(lease, _)| lease);
            let given = self.last_given.entry((pop.lane, pop.group, message.offset)).or_default();
            given.retain(|(other, _)| *other != by);
            given.push((by, pop.record.ended));
        }
        self.check_start(pop, first, &place, report);
        let until = leased.map(|(_, length)| self.lease_end(pop.record.began_at, length));
        let reader = self.reader(pop.lane, pop.group);
        match leased.zip(until) {
            Some(((lease, _), until)) => {
                let (asked, received) = (pop.record.began, pop.record.ended);
                reader.live = Some(Live { lease, asked, received, until, released: false });
                self.holders.entry(lease).or_default().push((pop.lane, pop.group));
                self.granted.insert(lease, (asked, received));
            }
            None => {
                let end = range(messages).end;
                reader.arrived(pop.record.began);
                reader.allow(end);
                reader.confirm(pop.record.ended, end, false);
            }
        }
    }

    /// Where a delivery may start, and whether there may be one at all.
    fn check_start(&mut self, pop: &Given<'_>, first: u64, place: &str, report: &mut Report) {
        let Given { record, queue, lane, group } = *pop;
        let reader = self.readers.entry((lane, group)).or_default();
        if let Some(certain) = reader.certain(record.began).filter(|certain| first < certain.position) {
            let rule = if certain.transacted { Rule::Transaction } else { Rule::AfterAck };
            let position = certain.position;
            report.add(rule, || format!("{place}: {first} is delivered, all below {position} is done"));
        }
        let past = reader.led_past(record.began, first);
        if let Some(next) = past.first().map(|range| range.start)
            && !self.missing.pass(queue, lane, group, past)
        {
            report.add(Rule::Skipped, || format!("{place}: {first} is delivered, {next} comes next"));
        }
        let held = reader.live.as_ref().filter(|live| {
            let before = live.received < record.began && !live.released;
            before && record.ended_at < live.until
        });
        if let Some(live) = held {
            let left = live.until - record.ended_at;
            report
                .add(Rule::TwoLeases, || format!("{place}: delivered {left} us before another's lease ends"));
        }
    }

    /// Whether something may be done under a lease. It may not if a client had been given another for the same lane before
    /// this was sent, and had asked for it after the first was received: then the first was over in any case.
    fn check_holder(
        &mut self,
        record: &Record,
        lease: Uuid,
        lane: LaneNo,
        group: GroupNo,
        names: &Names,
        report: &mut Report,
    ) {
        let received = self.granted.get(&lease).map(|(_, received)| *received);
        let live = self.readers.get(&(lane, group)).and_then(|reader| reader.live.as_ref());
        let replaced = live.filter(|live| live.lease != lease && live.received < record.began);
        if replaced.zip(received).is_some_and(|(live, received)| received < live.asked) {
            report.add(Rule::StaleAck, || {
                let (lane, group) = (names.lane_name(lane), names.group_name(group));
                format!("{lane} for {group}: taken under lease {lease}, which another had replaced")
            });
        }
    }

    /// A message of a transaction whose outcome was not known shows that it happened.
    fn resolve(&mut self, at: u64, messages: &[Delivered], history: &History, names: &mut Names) {
        for message in messages {
            let Some(index) = self.doubtful.get(&names.message(&message.id)).copied() else { continue };
            if let Op::Transact { group, said, .. } = &history.records[index].op
                && self.happened.insert(index)
            {
                self.confirm_all(at, names.group(group), said, names);
            }
        }
    }

    fn confirm_all(&mut self, at: u64, group: GroupNo, said: &[Said], names: &mut Names) {
        for said in said {
            let lane = names.lane(&said.queue, &said.partition);
            self.reader(lane, group).confirm(at, said.offset + 1, true);
        }
    }

    fn reader(&mut self, lane: LaneNo, group: GroupNo) -> &mut Reader {
        self.readers.entry((lane, group)).or_default()
    }

    /// A lease of this length, asked for at this time, does not end before.
    fn lease_end(&self, from: u64, length: u64) -> u64 {
        let slack = self.terms.lease_slack.map(|slack| slack.as_micros() as u64);
        slack.map_or(0, |slack| (from + length).saturating_sub(slack))
    }

    /// Whether a group was ever given a message.
    pub(super) fn was_given(&self, message: MessageNo, group: GroupNo) -> bool {
        self.given.contains(&(message, group))
    }

    /// Whether a group that was never given a message may have been given it in an answer that was lost, and committed it by
    /// that. Each answer explains no more than it can have held.
    pub(super) fn may_have_missed(&mut self, message: &Message, group: GroupNo) -> bool {
        let end = self.readers.get(&(message.lane, group)).map_or(0, Reader::possibly);
        self.missing.may_hold(message, group, end)
    }

    /// Whether a group was given what is at a place after a moment, or under another lease than this one that may have
    /// come after it: then that one may have settled it.
    pub(super) fn was_given_again(&self, place: Spot, lease: Uuid, after: u64) -> bool {
        let asked = self.granted.get(&lease).map_or(0, |(asked, _)| *asked);
        let given = self.last_given.get(&place).into_iter().flatten();
        given.into_iter().any(|(by, at)| *at > after || (*by != Some(lease) && *at > asked))
    }
}

/// Messages of one lane in the answer to a pop.
struct Given<'r> {
    record: &'r Record,
    queue: QueueNo,
    lane: LaneNo,
    group: GroupNo,
}

/// The messages of an answer, lane by lane.
fn by_lane(messages: &[Delivered]) -> impl Iterator<Item = &[Delivered]> {
    messages.chunk_by(|a, b| a.partition == b.partition)
}

/// Where they are.
fn range(of_lane: &[Delivered]) -> std::ops::Range<u64> {
    of_lane[0].offset..of_lane[0].offset + of_lane.len() as u64
}

/// Whether an answered acknowledgement commits its message and all before it.
fn commits(said: &Said, acked: &Acked) -> bool {
    let given_up = said.status == Status::Dlq || acked.dlq;
    acked.success && !acked.noop && (said.status == Status::Completed || given_up)
}

/// All beginnings (`false`) and ends (`true`) in their order. They are numbered by one counter, so no sorting is needed.
fn moments(history: &History) -> impl Iterator<Item = (usize, bool)> + use<> {
    let last = history.records.iter().map(|record| record.ended.max(record.began)).max().unwrap_or(0);
    let mut moments = vec![None; last as usize + 1];
    for (index, record) in history.records.iter().enumerate() {
        moments[record.began as usize] = Some((index, false));
        moments[record.ended as usize] = Some((index, true));
    }
    moments.into_iter().flatten()
}
