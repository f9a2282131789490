//! What one consumer group has received, compared with what was pushed: every message once, in lane order, undamaged.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::content::Identity;

/// Verdicts of one group or, added up, of a run.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Messages received for the first time, in order and undamaged.
    pub(crate) verified: u64,
    /// Messages never received although later ones of their lane were, or although the queue was drained.
    pub(crate) missing: u64,
    /// Messages received again although their ack had been confirmed.
    pub(crate) duplicates: u64,
    /// Messages received after a later one of their lane.
    pub(crate) reordered: u64,
    /// Messages whose content, id or lane is not what was pushed.
    pub(crate) corrupt: u64,
    /// Messages received again after an ack without a clear answer, as at-least-once delivery allows.
    pub(crate) redelivered: u64,
}

impl Verdict {
    pub(crate) fn ok(&self) -> bool {
        self.missing == 0 && self.duplicates == 0 && self.reordered == 0 && self.corrupt == 0
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.verified += other.verified;
        self.missing += other.missing;
        self.duplicates += other.duplicates;
        self.reordered += other.reordered;
        self.corrupt += other.corrupt;
        self.redelivered += other.redelivered;
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "verified": self.verified, "missing": self.missing, "duplicates": self.duplicates,
            "reordered": self.reordered, "corrupt": self.corrupt, "redelivered": self.redelivered,
        })
    }
}

/// Which answer a message came in: answers are numbered as they arrive, `sent_after` is the number of the last answer
/// that had arrived when its request was sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer {
    pub(crate) number: u64,
    pub(crate) sent_after: u64,
}

#[derive(Debug, Clone, Default)]
struct Lane {
    /// One above the greatest number received.
    next: u64,
    total: u64,
    /// Numbers from here on may come again: their ack had no clear answer.
    may_repeat_from: Option<u64>,
}

/// The books of one consumer group.
#[derive(Debug)]
pub(crate) struct Ledger {
    lanes: Vec<Lane>,
    /// Jumped-over messages, with the answer that jumped over them.
    gaps: HashMap<(u32, u64), u64>,
    /// With auto-ack the next pop of a lane may be answered before the one before it has arrived here.
    overlapping: bool,
    answers: u64,
    received: u64,
    total: u64,
    verdict: Verdict,
}

impl Ledger {
    /// Books for `messages` dealt out evenly over `lanes`.
    pub(crate) fn new(lanes: u32, messages: u64, overlapping: bool) -> Self {
        let lanes =
            (0..lanes).map(|l| Lane { total: share(l, lanes, messages), ..Lane::default() }).collect();
        Self {
            lanes,
            gaps: HashMap::new(),
            overlapping,
            answers: 0,
            received: 0,
            total: messages,
            verdict: Verdict::default(),
        }
    }

    /// Number of the last answer that has arrived.
    pub(crate) fn answers(&self) -> u64 {
        self.answers
    }

    /// Registers an answer to a request that was sent when `sent_after` answers had arrived.
    pub(crate) fn answer(&mut self, sent_after: u64) -> Answer {
        self.answers += 1;
        Answer { number: self.answers, sent_after }
    }

    /// Whether everything that was pushed has been received.
    pub(crate) fn complete(&self) -> bool {
        self.received == self.total
    }

    /// Whether the end of a lane has been received.
    pub(crate) fn lane_complete(&self, lane: u32) -> bool {
        self.lanes.get(lane as usize).is_none_or(|l| l.next >= l.total && l.may_repeat_from.is_none())
    }

    /// Books one message; `genuine` is whether its id and lane name fit its content.
    pub(crate) fn receive(&mut self, identity: Identity, genuine: bool, answer: Answer) {
        let Identity { lane: index, number, intact } = identity;
        let Some(lane) = self.lanes.get_mut(index as usize).filter(|l| number < l.total) else {
            self.verdict.corrupt += 1;
            return;
        };
        let mut in_order = true;
        if number >= lane.next {
            self.gaps.extend((lane.next..number).map(|jumped| ((index, jumped), answer.number)));
            lane.next = number + 1;
        } else if let Some(jumped_by) = self.gaps.remove(&(index, number)) {
            let crossed = self.overlapping && jumped_by != answer.number && jumped_by > answer.sent_after;
            in_order = crossed;
        } else {
            let allowed = lane.may_repeat_from.is_some_and(|from| number >= from);
            *(if allowed { &mut self.verdict.redelivered } else { &mut self.verdict.duplicates }) += 1;
            return;
        }
        self.received += 1;
        match (intact && genuine, in_order) {
            (false, _) => self.verdict.corrupt += 1,
            (true, false) => self.verdict.reordered += 1,
            (true, true) => self.verdict.verified += 1,
        }
    }

    /// Books something that cannot be told to be any message.
    pub(crate) fn unreadable(&mut self) {
        self.verdict.corrupt += 1;
    }

    /// Notes that the ack of a lane's messages from `number` on had no clear answer.
    pub(crate) fn ack_unclear(&mut self, lane: u32, number: u64) {
        if let Some(lane) = self.lanes.get_mut(lane as usize) {
            lane.may_repeat_from = Some(lane.may_repeat_from.map_or(number, |from| from.min(number)));
        }
    }

    /// Notes that everything received of a lane so far is now committed.
    pub(crate) fn ack_confirmed(&mut self, lane: u32) {
        if let Some(lane) = self.lanes.get_mut(lane as usize) {
            lane.may_repeat_from = None;
        }
    }

    /// Closes the books. What the server has yet to deliver is missing only if it claims to have nothing left.
    pub(crate) fn close(&self, drained: bool) -> Verdict {
        let mut verdict = self.verdict;
        verdict.missing = self.gaps.len() as u64;
        if drained {
            verdict.missing += self.lanes.iter().map(|l| l.total - l.next).sum::<u64>();
        }
        verdict
    }
}

/// How many of `messages` a lane gets when they are dealt out evenly.
pub(crate) fn share(lane: u32, lanes: u32, messages: u64) -> u64 {
    messages / u64::from(lanes) + u64::from(u64::from(lane) < messages % u64::from(lanes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds answers, each a list of (lane, number), to a ledger of 2 lanes with 3 messages each.
    fn books(overlapping: bool, answers: &[(u64, &[(u32, u64)])]) -> Ledger {
        let mut ledger = Ledger::new(2, 6, overlapping);
        for (sent_after, messages) in answers {
            let answer = ledger.answer(*sent_after);
            for (lane, number) in *messages {
                ledger.receive(Identity { lane: *lane, number: *number, intact: true }, true, answer);
            }
        }
        ledger
    }

    #[test]
    fn everything_once_and_in_order_is_verified() {
        let ledger = books(false, &[(0, &[(0, 0), (0, 1), (1, 0)]), (1, &[(0, 2), (1, 1), (1, 2)])]);
        assert!(ledger.complete());
        assert_eq!(ledger.close(true), Verdict { verified: 6, ..Verdict::default() });
    }

    #[test]
    fn a_message_jumped_over_is_missing_even_before_the_end() {
        let ledger = books(false, &[(0, &[(0, 0), (0, 2)])]);
        assert_eq!(ledger.close(false), Verdict { verified: 2, missing: 1, ..Verdict::default() });
        assert_eq!(ledger.close(true).missing, 4, "a drained queue owes the rest as well");
    }

    #[test]
    fn a_late_message_is_reordered_and_a_second_copy_is_a_duplicate() {
        let ledger = books(false, &[(0, &[(0, 1), (0, 0), (0, 0), (0, 2)])]);
        let expected = Verdict { verified: 2, reordered: 1, duplicates: 1, ..Verdict::default() };
        assert_eq!(ledger.close(false), expected);
    }

    #[test]
    fn overlapping_auto_ack_answers_may_cross_but_one_answer_and_later_requests_may_not() {
        let crossed = books(true, &[(0, &[(0, 1)]), (0, &[(0, 0)])]);
        assert_eq!(crossed.close(false).reordered, 0);
        let one_answer = books(true, &[(0, &[(0, 1), (0, 0)])]);
        assert_eq!(one_answer.close(false).reordered, 1);
        let sent_later = books(true, &[(0, &[(0, 1)]), (1, &[(0, 0)])]);
        assert_eq!(sent_later.close(false).reordered, 1);
        let leased = books(false, &[(0, &[(0, 1)]), (0, &[(0, 0)])]);
        assert_eq!(leased.close(false).reordered, 1);
    }

    #[test]
    fn a_repeat_is_allowed_only_between_an_unclear_and_a_confirmed_ack() {
        let mut ledger = books(false, &[(0, &[(0, 0), (0, 1)])]);
        let again = |ledger: &mut Ledger, number| {
            let answer = ledger.answer(ledger.answers());
            ledger.receive(Identity { lane: 0, number, intact: true }, true, answer);
        };
        ledger.ack_unclear(0, 1);
        again(&mut ledger, 1);
        again(&mut ledger, 0);
        ledger.ack_confirmed(0);
        again(&mut ledger, 1);
        let expected = Verdict { verified: 2, redelivered: 1, duplicates: 2, ..Verdict::default() };
        assert_eq!(ledger.close(false), expected);
    }

    #[test]
    fn damaged_foreign_and_impossible_messages_are_corrupt() {
        let mut ledger = Ledger::new(2, 6, false);
        let answer = ledger.answer(0);
        ledger.receive(Identity { lane: 0, number: 0, intact: false }, true, answer);
        ledger.receive(Identity { lane: 0, number: 1, intact: true }, false, answer);
        ledger.receive(Identity { lane: 9, number: 0, intact: true }, true, answer);
        ledger.receive(Identity { lane: 1, number: 3, intact: true }, true, answer);
        ledger.unreadable();
        assert_eq!(ledger.close(false), Verdict { corrupt: 5, ..Verdict::default() });
    }

    #[test]
    fn shares_add_up() {
        assert_eq!((0..7).map(|l| share(l, 7, 100)).sum::<u64>(), 100);
    }
}
