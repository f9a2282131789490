//! Acknowledgements, and the renewal of leases.
//!
//! One request is taken apart into calls: what it says under one lease of one lane, for one group. A call is read as a
//! whole, message by message.

use bugle_broker::{AckItem, AckStatus, Acked, LeaseToken, Renewed};
use bugle_store::{LaneId, LeaseId};

use super::{Check, Cursor, Dead, Naive, ensure, seconds};

/// What an acknowledgement should be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) error: Option<&'static str>,
    pub(super) noop: bool,
    pub(super) dlq: bool,
    pub(super) released: bool,
}

impl Verdict {
    fn refused(error: &'static str) -> Self {
        Self { error: Some(error), noop: false, dlq: false, released: false }
    }

    fn taken() -> Self {
        Self { error: None, noop: false, dlq: false, released: false }
    }

    fn noop() -> Self {
        Self { noop: true, ..Self::taken() }
    }

    fn of(acked: &Acked) -> Self {
        let kinds = ["unresolvable", "already committed", "consumer not found", "invalid or expired lease"];
        let error = acked
            .error
            .as_deref()
            .map(|text| kinds.into_iter().find(|kind| text.starts_with(kind)).unwrap_or("an unknown error"));
        let error = error.or((!acked.success).then_some("refused without a reason"));
        Self { error, noop: acked.noop, dlq: acked.dlq, released: acked.lease_released }
    }
}

impl Naive {
    pub(crate) fn ack(&mut self, items: &[AckItem], answer: &[Acked]) -> Check {
        let told: Vec<Verdict> = answer.iter().map(Verdict::of).collect();
        let expected = self.settle_all(items);
        ensure!(told == expected, "answered {told:?}\nexpected {expected:?}");
        Ok(())
    }

    /// Settle the calls of one request.
    pub(super) fn settle_all(&mut self, items: &[AckItem]) -> Vec<Verdict> {
        let mut verdicts = vec![Verdict::refused("unresolvable"); items.len()];
        let mut done = vec![false; items.len()];
        for i in 0..items.len() {
            let same = |other: &AckItem| {
                (other.lane, &other.group, other.lease) == (items[i].lane, &items[i].group, items[i].lease)
            };
            let Some(lane) = items[i].lane.filter(|_| !done[i]) else { continue };
            let call: Vec<usize> = (i..items.len()).filter(|j| same(&items[*j])).collect();
            call.iter().for_each(|j| done[*j] = true);
            let acks: Vec<&AckItem> = call.iter().map(|j| &items[*j]).collect();
            for (j, verdict) in call.into_iter().zip(self.settle(lane, &acks)) {
                verdicts[j] = verdict;
            }
        }
        verdicts
    }

    /// Whether an acknowledgement names the lease that holds its lane, or none.
    pub(super) fn holds(&self, ack: &AckItem) -> bool {
        let Some(lease) = ack.lease else { return true };
        let Some((queue, at)) = ack.lane.and_then(|lane| self.find_lane(lane)) else { return true };
        let cursor = self.queues[&queue].lanes[at].cursors.get(&*ack.group);
        let held = cursor.and_then(|cursor| cursor.lease.as_ref());
        held.is_some_and(|held| lease == LeaseToken::Id(held.id) && self.now < held.until)
    }

    /// Settle one call.
    fn settle(&mut self, lane: LaneId, acks: &[&AckItem]) -> Vec<Verdict> {
        let all = |error| acks.iter().map(|_| Verdict::refused(error)).collect();
        let Some((queue, at)) = self.find_lane(lane) else { return all("unresolvable") };
        let now = self.now;
        let queue = self.queues.get_mut(&queue).expect("just found");
        let (limit, keeps) = (queue.options.retry_limit, queue.keeps_dead());
        let delays = queue.options.enforce.contains(&bugle_store::Enforced::RetryDelay);
        let delay = if delays { queue.options.retry_delay } else { 0 };
        let (group, lease) = (&*acks[0].group, acks[0].lease);
        let lane = &mut queue.lanes[at];
        let Some(cursor) = lane.cursors.get(group).cloned() else { return all("consumer not found") };
        let mut call = Call::new(acks, &cursor, lease, now, |id, from, to| {
            let found = (from..to.min(lane.messages.len())).rev();
            found.into_iter().find(|offset| lane.messages[*offset].transaction_id == id)
        });
        call.walk(limit, keeps);
        let next = call.cursor(&cursor, delay, now);
        let released = next.lease.as_ref().is_none_or(|held| held.until <= now);
        for verdict in call.verdicts.iter_mut().filter(|v| v.error.is_none()) {
            verdict.released = released && call.valid;
        }
        let (name, verdicts) = (lane.name.clone(), call.verdicts);
        for (offset, error, failures) in call.dead {
            queue.dead.push(Dead {
                partition: name.clone(),
                group: group.to_owned(),
                offset: offset as u64,
                transaction_id: lane.messages[offset].transaction_id.clone(),
                error,
                failures,
            });
        }
        lane.cursors.insert(group.to_owned(), next);
        verdicts
    }

    pub(crate) fn renew(&mut self, lease: LeaseId, length: u64, answer: &Renewed) -> Check {
        let now = self.now;
        let lanes = self.queues.values_mut().flat_map(|queue| &mut queue.lanes);
        let held: Vec<_> = lanes
            .flat_map(|lane| lane.cursors.values_mut())
            .filter_map(|cursor| cursor.lease.as_mut().filter(|held| held.id == lease))
            .collect();
        let found = !held.is_empty();
        let mut ends = Vec::new();
        for held in held.into_iter().filter(|held| now < held.until) {
            held.until = held.until.max(now + seconds(length));
            ends.push(held.until);
        }
        let error = match (found, ends.is_empty()) {
            (false, _) => Some("Lease not found"),
            (true, true) => Some("Lease already expired"),
            (true, false) => None,
        };
        let told = (answer.error, answer.renewed, answer.expires_at.map(|at| at.0));
        let expected = (error, ends.len(), ends.into_iter().min());
        ensure!(told == expected, "answered {told:?}, expected {expected:?}");
        Ok(())
    }
}

/// One call on its way through the messages of a lane.
struct Call<'a> {
    acks: &'a [&'a AckItem],
    /// The message that each is about, if it may be settled now.
    offsets: Vec<Option<usize>>,
    verdicts: Vec<Verdict>,
    /// The lease named is the one that holds the lane, or none was named.
    valid: bool,
    next: usize,
    failures: u32,
    /// The message that must be delivered again.
    stop: Option<AckStatus>,
    failed: bool,
    /// Offset, error, failures before.
    dead: Vec<(usize, String, u32)>,
}

impl<'a> Call<'a> {
    /// `find` answers the newest message with an id in a range.
    fn new(
        acks: &'a [&'a AckItem],
        cursor: &Cursor,
        lease: Option<LeaseToken>,
        now: i64,
        find: impl Fn(&str, usize, usize) -> Option<usize>,
    ) -> Self {
        let holds = |id| cursor.lease.as_ref().is_some_and(|held| held.id == id && now < held.until);
        let valid = match lease {
            None => true,
            Some(LeaseToken::Id(id)) => holds(id),
            Some(LeaseToken::Garbage) => false,
        };
        let delivered = cursor.lease.as_ref().map_or(0, |held| held.end);
        let (mut offsets, mut verdicts) = (Vec::new(), Vec::new());
        for ack in acks {
            // What the group was given last is meant first.
            let id = &*ack.transaction_id;
            let found = find(id, cursor.next, delivered).or_else(|| find(id, 0, usize::MAX));
            let done = found.is_some_and(|offset| offset < cursor.next);
            let repeated = done && ack.status == AckStatus::Completed;
            let undelivered = lease.is_some() && found.is_some_and(|offset| offset >= delivered);
            let verdict = match found {
                _ if !valid && repeated && lease != Some(LeaseToken::Garbage) => Verdict::noop(),
                _ if !valid => Verdict::refused("invalid or expired lease"),
                None => Verdict::refused("unresolvable"),
                _ if undelivered => Verdict::refused("unresolvable"),
                _ if repeated => Verdict::noop(),
                _ if done => Verdict::refused("already committed"),
                // Unless the call gets as far as this message.
                _ => Verdict::noop(),
            };
            offsets.push(found.filter(|_| valid && !done && !undelivered));
            verdicts.push(verdict);
        }
        let (next, failures) = (cursor.next, cursor.failures);
        Self { acks, offsets, verdicts, valid, next, failures, stop: None, failed: false, dead: Vec::new() }
    }

    /// Message by message, up to the first that must be delivered again.
    fn walk(&mut self, limit: u64, keeps: bool) {
        let end = self.offsets.iter().flatten().max().map_or(0, |last| last + 1);
        for offset in self.next..end {
            let about: Vec<usize> =
                (0..self.acks.len()).filter(|i| self.offsets[*i] == Some(offset)).collect();
            let says = |status| about.iter().find(|i| self.acks[**i].status == status).copied();
            let exhausted = u64::from(self.failures) >= limit;
            let gives_up = says(AckStatus::Dlq).is_some() || (says(AckStatus::Failed).is_some() && exhausted);
            self.failed |= says(AckStatus::Dlq).is_none() && says(AckStatus::Failed).is_some();
            if gives_up {
                let strongest =
                    if says(AckStatus::Dlq).is_some() { AckStatus::Dlq } else { AckStatus::Failed };
                self.give_up(offset, &about, strongest, keeps);
            } else if says(AckStatus::Failed).is_some() || says(AckStatus::Retry).is_some() {
                self.stop = says(AckStatus::Failed).map(|_| AckStatus::Failed).or(Some(AckStatus::Retry));
                for i in about {
                    let done = self.acks[i].status == AckStatus::Completed;
                    self.verdicts[i] = if done { Verdict::noop() } else { Verdict::taken() };
                }
                return;
            } else if !about.is_empty() {
                about.iter().for_each(|i| self.verdicts[*i] = Verdict::taken());
                // What comes behind a completed message has not failed before.
                (self.next, self.failures) = (offset + 1, 0);
            }
        }
    }

    fn give_up(&mut self, offset: usize, about: &[usize], status: AckStatus, keeps: bool) {
        about.iter().for_each(|i| self.verdicts[*i] = Verdict { dlq: keeps, ..Verdict::taken() });
        self.next = offset + 1;
        if keeps {
            let said = about.iter().map(|i| self.acks[*i]).filter(|ack| ack.status == status);
            let default =
                if status == AckStatus::Dlq { "Dead-lettered by consumer" } else { "Retries exhausted" };
            let error = said.flat_map(|ack| ack.error.clone()).next().unwrap_or_else(|| default.to_owned());
            self.dead.push((offset, error, self.failures));
        }
    }

    /// Where the group is after the call.
    fn cursor(&self, before: &Cursor, delay: u64, now: i64) -> Cursor {
        let mut after = before.clone();
        let delivered = before.lease.as_ref().map_or(0, |held| held.end);
        if self.next > before.next {
            let deliveries = u32::from(self.next < delivered);
            after = Cursor { next: self.next, deliveries, lease: after.lease, ..Cursor::default() };
        }
        if self.stop == Some(AckStatus::Failed) {
            after.failures += 1;
            let rest = delay.saturating_mul(1 << (after.failures - 1).min(30)).min(3_600_000);
            after.rests_until = if rest > 0 { now + rest as i64 * 1000 } else { 0 };
        }
        let moved = self.next > before.next;
        if self.stop.is_some() || self.failed || (moved && self.next >= delivered) {
            after.lease = None;
        }
        after
    }
}
