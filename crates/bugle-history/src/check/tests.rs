use crate::record::{Acked, Delivered, History, Op, Outcome, Pushed, Record, Said, Status};
use crate::report::Rule;
use crate::{Terms, check};
use std::time::Duration;
use uuid::Uuid;

use Outcome::{Done, Not, Unknown};

const SECOND: u64 = 1_000_000;
const TAKEN: Acked = Acked { success: true, noop: false, dlq: false };
const REFUSED: Acked = Acked { success: false, noop: false, dlq: false };

/// A history written by hand: one request after the other, a millisecond apart, unless said otherwise.
#[derive(Default)]
pub(super) struct Log {
    records: Vec<Record>,
    moment: u64,
    at: u64,
}

impl Log {
    pub(super) fn add(&mut self, op: Op) -> &mut Self {
        let (began, began_at) = (self.moment, self.at);
        self.moment += 2;
        self.at += 1000;
        let record = Record { began, ended: began + 1, began_at, ended_at: self.at, op };
        self.records.push(record);
        self
    }

    /// The last two requests overlapped: the last began before the one before it ended.
    pub(super) fn overlapping(&mut self) -> &mut Self {
        let [.., before, last] = &mut self.records[..] else { panic!("two requests are needed") };
        std::mem::swap(&mut before.ended, &mut last.began);
        (last.began_at, before.ended_at) = (before.began_at, last.ended_at);
        self
    }

    fn wait(&mut self, time: u64) -> &mut Self {
        self.at += time;
        self
    }

    pub(super) fn push(&mut self, ids: &[&str], outcome: Outcome<()>) -> &mut Self {
        let messages = ids.iter().map(|id| message("q", id)).collect();
        self.add(Op::Push { messages, outcome })
    }

    pub(super) fn pop(&mut self, group: &str, lease: u128, from: u64, ids: &[&str]) -> &mut Self {
        let outcome = Done((Some(Uuid::from_u128(lease)), given(from, ids)));
        let (queue, group) = ("q".to_owned(), group.to_owned());
        self.add(Op::Pop { queue, group, lease_for: Some(SECOND), batch: 10, partitions: 1, outcome })
    }

    pub(super) fn quick(&mut self, outcome: Outcome<(Option<Uuid>, Vec<Delivered>)>) -> &mut Self {
        self.quick_of(10, 1, outcome)
    }

    pub(super) fn quick_of(
        &mut self,
        batch: u32,
        partitions: u32,
        outcome: Outcome<(Option<Uuid>, Vec<Delivered>)>,
    ) -> &mut Self {
        let (queue, group) = ("q".to_owned(), "quick".to_owned());
        self.add(Op::Pop { queue, group, lease_for: None, batch, partitions, outcome })
    }

    fn outputs(&mut self, ids: &[&str]) -> &mut Self {
        let outcome = Done((Some(Uuid::from_u128(99)), given(0, ids)));
        let (queue, group) = ("out".to_owned(), "g".to_owned());
        self.add(Op::Pop { queue, group, lease_for: Some(SECOND), batch: 10, partitions: 1, outcome })
    }

    fn ack(&mut self, lease: u128, said: Said, outcome: Outcome<Vec<Acked>>) -> &mut Self {
        let lease = Uuid::from_u128(lease);
        self.add(Op::Ack { group: "g".into(), lease, said: vec![said], outcome })
    }

    fn done(&mut self, lease: u128, offset: u64) -> &mut Self {
        self.ack(lease, said(offset, Status::Completed), Done(vec![TAKEN]))
    }

    fn transact(&mut self, lease: u128, offset: u64, ids: &[&str], outcome: Outcome<()>) -> &mut Self {
        let messages = ids.iter().map(|id| message("out", id)).collect();
        let (group, lease) = ("g".to_owned(), Uuid::from_u128(lease));
        self.add(Op::Transact {
            group,
            lease,
            said: vec![said(offset, Status::Completed)],
            messages,
            outcome,
        })
    }

    fn drained(&mut self) -> &mut Self {
        for queue in ["q", "out"] {
            self.add(Op::Drained { queue: queue.into(), group: "g".into() });
        }
        self
    }

    /// The rules that are named.
    pub(super) fn broken(&self) -> Vec<Rule> {
        self.broken_on(&Terms::default())
    }

    fn broken_on(&self, terms: &Terms) -> Vec<Rule> {
        // Clients hand in their records in any order.
        let records = self.records.iter().rev().cloned().collect();
        check(&History { records }, terms).counts.into_keys().collect()
    }
}

pub(super) fn log() -> Log {
    Log::default()
}

pub(super) fn message(queue: &str, id: &str) -> Pushed {
    Pushed { queue: queue.into(), partition: "p".into(), id: id.into() }
}

pub(super) fn given(from: u64, ids: &[&str]) -> Vec<Delivered> {
    let one = |(offset, id): (u64, &&str)| Delivered {
        partition: "p".into(),
        offset,
        id: (*id).into(),
        payload: (*id).into(),
    };
    (from..).zip(ids).map(one).collect()
}

fn said(offset: u64, status: Status) -> Said {
    Said { queue: "q".into(), partition: "p".into(), offset, status, last: true }
}

#[test]
fn a_good_run_breaks_nothing() {
    let mut log = log();
    log.push(&["a", "b"], Done(())).push(&["c"], Done(())).pop("g", 1, 0, &["a", "b"]).done(1, 1);
    log.pop("g", 2, 2, &["c"]).transact(2, 2, &["x"], Done(())).outputs(&["x"]).drained();
    assert_eq!(log.broken(), []);
    let report = check(&History { records: log.records }, &Terms::default());
    assert_eq!((report.operations, report.pushed, report.delivered, report.unknown), (7, 4, 4, 0));
    assert!(report.is_clean());
}

#[test]
fn an_acknowledged_push_that_never_comes_is_lost() {
    let mut log = log();
    log.push(&["a", "b"], Done(())).pop("g", 1, 0, &["a"]).done(1, 0);
    assert_eq!(log.broken(), [], "not before everything was taken out");
    assert_eq!(log.drained().broken(), [Rule::Lost]);
}

#[test]
fn a_push_that_was_refused_or_is_unknown_may_be_missing() {
    let mut log = log();
    log.push(&["a"], Not).push(&["b"], Unknown).drained();
    assert_eq!(log.broken(), []);
    let mut repeated = self::log();
    repeated.push(&["b"], Unknown).push(&["b"], Done(())).drained();
    assert_eq!(repeated.broken(), [Rule::Lost]);
}

#[test]
fn every_group_is_given_everything() {
    let mut log = log();
    log.push(&["a"], Done(())).pop("g", 1, 0, &["a"]).done(1, 0).drained();
    assert_eq!(log.broken(), []);
    log.add(Op::Drained { queue: "q".into(), group: "h".into() });
    assert_eq!(log.broken(), [Rule::Skipped], "it is there, but not for everybody");
}

#[test]
fn what_commits_by_delivery_may_be_missed_with_a_lost_answer_only() {
    let drained = || Op::Drained { queue: "q".into(), group: "quick".into() };
    let mut log = log();
    log.push(&["a", "b"], Done(())).quick(Done((None, given(0, &["a"]))));
    log.add(drained());
    assert_eq!(log.broken(), [Rule::Lost]);
    let mut missed = self::log();
    missed.push(&["a", "b"], Done(())).quick(Unknown).quick(Done((None, given(1, &["b"])))).add(drained());
    assert_eq!(missed.broken(), []);
    let mut at_once = self::log();
    at_once
        .push(&["a", "b"], Done(()))
        .quick(Done((None, given(1, &["b"]))))
        .quick(Done((None, given(0, &["a"]))));
    assert_eq!(at_once.broken(), [Rule::Skipped, Rule::AfterAck]);
    assert_eq!(at_once.overlapping().broken(), [], "the answers may have overtaken each other");
    let mut skipped = self::log();
    skipped.push(&["a", "b"], Done(())).quick(Done((None, given(1, &["b"]))));
    assert_eq!(skipped.broken(), [Rule::Skipped]);
    let mut twice = self::log();
    twice.push(&["a"], Done(())).quick(Done((None, given(0, &["a"])))).quick(Done((None, given(0, &["a"]))));
    assert_eq!(twice.broken(), [Rule::AfterAck]);
}

#[test]
fn what_was_not_pushed_or_was_refused_must_not_appear() {
    assert_eq!(log().pop("g", 1, 0, &["a"]).broken(), [Rule::Phantom]);
    assert_eq!(log().push(&["a"], Not).pop("g", 1, 0, &["a"]).broken(), [Rule::Phantom]);
    assert_eq!(log().push(&["a"], Unknown).pop("g", 1, 0, &["a"]).broken(), []);
    let mut changed = log();
    let wrong = Delivered { payload: "b".into(), ..given(0, &["a"]).remove(0) };
    changed.push(&["a"], Done(())).quick(Done((None, vec![wrong])));
    assert_eq!(changed.broken(), [Rule::Phantom]);
}

#[test]
fn a_message_is_in_one_place() {
    let mut log = log();
    log.push(&["a"], Unknown).push(&["a"], Done(())).pop("g", 1, 0, &["a", "a"]);
    assert_eq!(log.broken(), [Rule::StoredTwice]);
}

#[test]
fn pushes_keep_their_order() {
    let mut log = log();
    log.push(&["a"], Done(())).push(&["b"], Done(())).pop("g", 1, 0, &["b", "a"]);
    assert_eq!(log.broken(), [Rule::Order]);
    let mut at_once = self::log();
    at_once.push(&["a"], Done(())).push(&["b"], Done(())).overlapping().pop("g", 1, 0, &["b", "a"]);
    assert_eq!(at_once.broken(), [], "either may have been first");
    let mut one = self::log();
    one.push(&["a", "b"], Done(())).pop("g", 1, 0, &["b", "a"]);
    assert_eq!(one.broken(), [Rule::Order], "of one request");
    let mut repeated = self::log();
    repeated.push(&["a"], Unknown).push(&["b"], Done(())).push(&["a"], Done(())).pop("g", 1, 0, &["a", "b"]);
    assert_eq!(repeated.broken(), [], "the first try was stored");
}

#[test]
fn a_delivery_is_in_order_and_places_do_not_change() {
    let mut log = log();
    let mut back = given(0, &["a", "b"]);
    back.reverse();
    log.push(&["a", "b"], Done(())).quick(Done((None, back)));
    assert!(log.broken().contains(&Rule::Order));
    let mut other = self::log();
    other.push(&["a"], Done(())).push(&["b"], Done(())).overlapping();
    other.pop("g", 1, 0, &["a"]).pop("h", 2, 0, &["b"]);
    assert_eq!(other.broken(), [Rule::Order]);
}

#[test]
fn a_group_is_led_past_nothing() {
    let mut log = log();
    log.push(&["a", "b"], Done(())).pop("g", 1, 1, &["b"]);
    assert_eq!(log.broken(), [Rule::Skipped]);
    let mut nacked = self::log();
    nacked.push(&["a", "b"], Done(())).pop("g", 1, 0, &["a", "b"]);
    nacked.ack(1, said(0, Status::Failed), Done(vec![TAKEN])).pop("g", 2, 1, &["b"]);
    assert_eq!(nacked.broken(), [Rule::Skipped], "it failed and should have come again");
}

#[test]
fn what_was_given_up_or_may_be_done_is_passed() {
    let dead = Acked { dlq: true, ..TAKEN };
    for (status, outcome) in [
        (Status::Failed, Done(vec![dead])),
        (Status::Dlq, Done(vec![dead])),
        (Status::Completed, Unknown),
        (Status::Failed, Unknown),
    ] {
        let mut log = log();
        log.push(&["a", "b"], Done(())).pop("g", 1, 0, &["a"]).ack(1, said(0, status), outcome.clone());
        assert_eq!(log.pop("g", 2, 1, &["b"]).broken(), [], "{status:?} {outcome:?}");
    }
    for outcome in [Not, Done(vec![Acked { success: false, ..TAKEN }])] {
        let mut log = log();
        log.push(&["a", "b"], Done(())).pop("g", 1, 0, &["a"]);
        log.ack(1, said(0, Status::Completed), outcome).wait(2 * SECOND);
        assert_eq!(log.pop("g", 2, 1, &["b"]).broken(), [Rule::Skipped]);
    }
}

#[test]
fn what_is_done_stays_done() {
    let mut log = log();
    log.push(&["a", "b"], Done(())).pop("g", 1, 0, &["a", "b"]).done(1, 1).wait(5 * SECOND);
    assert_eq!(log.pop("g", 2, 1, &["b"]).broken(), [Rule::AfterAck]);
}

#[test]
fn what_is_not_certainly_done_may_come_again() {
    let noop = Acked { noop: true, ..TAKEN };
    for outcome in [Unknown, Not, Done(vec![noop]), Done(vec![Acked { success: false, ..TAKEN }])] {
        let mut log = log();
        log.push(&["a"], Done(())).pop("g", 1, 0, &["a"]).ack(1, said(0, Status::Completed), outcome);
        assert_eq!(log.wait(2 * SECOND).pop("g", 2, 0, &["a"]).broken(), []);
    }
    let mut overtaken = log();
    overtaken.push(&["a"], Done(())).pop("g", 1, 0, &["a"]).wait(2 * SECOND);
    overtaken.done(1, 0).pop("g", 2, 0, &["a"]).overlapping();
    assert_eq!(overtaken.broken(), [], "the pop may have been first");
}

#[test]
fn one_lease_at_a_time() {
    let mut log = log();
    log.push(&["a"], Done(())).pop("g", 1, 0, &["a"]).wait(SECOND / 2);
    assert_eq!(log.pop("g", 2, 0, &["a"]).broken(), [Rule::TwoLeases]);
    assert_eq!(log.broken_on(&Terms { lease_slack: None }), [], "where clocks jump");
    let slack = Some(Duration::from_millis(700));
    assert_eq!(log.broken_on(&Terms { lease_slack: slack }), []);
}

#[test]
fn a_lease_ends_by_time_by_failure_and_by_its_last_message() {
    let start = || {
        let mut log = log();
        log.push(&["a", "b"], Done(())).pop("g", 1, 0, &["a", "b"]);
        log
    };
    assert_eq!(start().wait(SECOND).pop("g", 2, 0, &["a", "b"]).broken(), []);
    assert_eq!(start().pop("h", 2, 0, &["a", "b"]).broken(), [], "another group");
    for status in [Status::Failed, Status::Retry] {
        let mut log = start();
        log.ack(1, said(0, status), Done(vec![TAKEN]));
        assert_eq!(log.pop("g", 2, 0, &["a", "b"]).broken(), [], "{status:?}");
    }
    assert_eq!(start().ack(1, said(0, Status::Retry), Unknown).pop("g", 2, 0, &["a"]).broken(), []);
    let partial = Said { last: false, ..said(0, Status::Completed) };
    assert_eq!(start().ack(1, partial, Done(vec![TAKEN])).pop("g", 2, 1, &["b"]).broken(), [Rule::TwoLeases]);
}

#[test]
fn nothing_is_taken_under_a_lease_that_another_has_replaced() {
    let jumps = Terms { lease_slack: None };
    let start = || {
        let mut log = log();
        log.push(&["a"], Done(())).pop("g", 1, 0, &["a"]).pop("g", 2, 0, &["a"]);
        log
    };
    assert_eq!(start().done(1, 0).broken_on(&jumps), [Rule::StaleAck]);
    assert_eq!(start().done(2, 0).broken_on(&jumps), []);
    assert_eq!(start().transact(1, 0, &["x"], Done(())).broken_on(&jumps), [Rule::StaleAck]);
    for harmless in [Done(vec![REFUSED]), Done(vec![Acked { noop: true, ..TAKEN }]), Not, Unknown] {
        assert_eq!(start().ack(1, said(0, Status::Completed), harmless).broken_on(&jumps), []);
    }
    let mut overlapping = log();
    // Nobody knows which of the two was granted first.
    overlapping.push(&["a"], Done(())).pop("g", 1, 0, &["a"]).pop("g", 2, 0, &["a"]).overlapping();
    assert_eq!(overlapping.done(1, 0).broken_on(&jumps), []);
    let mut at_once = log();
    // The ack may have been there before the other lease.
    at_once.push(&["a"], Done(())).pop("g", 1, 0, &["a"]).pop("g", 2, 0, &["a"]).done(1, 0).overlapping();
    assert_eq!(at_once.broken_on(&jumps), []);
}

#[test]
fn what_another_lease_settled_before_a_doubtful_transaction_need_not_come_again() {
    let mut log = log();
    log.push(&["a"], Done(())).pop("g", 1, 0, &["a"]).wait(2 * SECOND);
    log.pop("g", 2, 0, &["a"]).done(2, 0).transact(1, 0, &["x"], Unknown).drained();
    assert_eq!(log.broken(), []);
    // The lease before that of the transaction has settled nothing of it.
    let mut half = Log::default();
    half.push(&["a"], Done(())).pop("g", 1, 0, &["a"]).wait(2 * SECOND);
    half.pop("g", 2, 0, &["a"]).transact(2, 0, &["x"], Unknown).drained();
    assert_eq!(half.broken(), [Rule::Transaction]);
}

#[test]
fn a_renewed_lease_lasts_longer() {
    let renew = |outcome| Op::Renew { lease: Uuid::from_u128(1), length: 5 * SECOND, outcome };
    for (outcome, rules) in [(Done(()), vec![Rule::TwoLeases]), (Unknown, vec![]), (Not, vec![])] {
        let mut log = log();
        log.push(&["a"], Done(())).pop("g", 1, 0, &["a"]).add(renew(outcome)).wait(2 * SECOND);
        assert_eq!(log.pop("g", 2, 0, &["a"]).broken(), rules, "{outcome:?}");
    }
}

#[test]
fn a_transaction_that_was_answered_happened_wholly() {
    let start = || {
        let mut log = log();
        log.push(&["a"], Done(())).pop("g", 1, 0, &["a"]).transact(1, 0, &["x", "y"], Done(()));
        log
    };
    assert_eq!(start().outputs(&["x", "y"]).drained().broken(), []);
    assert_eq!(start().outputs(&["x"]).drained().broken(), [Rule::Transaction]);
    assert_eq!(start().drained().broken(), [Rule::Transaction]);
    let mut again = start();
    again.outputs(&["x", "y"]).wait(2 * SECOND).pop("g", 2, 0, &["a"]).done(2, 0).drained();
    assert_eq!(again.broken(), [Rule::Transaction], "its ack did not hold");
}

#[test]
fn a_transaction_that_was_refused_did_not_happen() {
    let start = || {
        let mut log = log();
        log.push(&["a"], Done(())).pop("g", 1, 0, &["a"]).transact(1, 0, &["x"], Not).wait(2 * SECOND);
        log
    };
    assert_eq!(start().pop("g", 2, 0, &["a"]).done(2, 0).drained().broken(), []);
    assert_eq!(start().outputs(&["x"]).broken(), [Rule::Transaction]);
}

#[test]
fn a_transaction_without_an_outcome_happened_wholly_or_not() {
    let start = || {
        let mut log = log();
        log.push(&["a"], Done(())).pop("g", 1, 0, &["a"]).transact(1, 0, &["x", "y"], Unknown);
        log.wait(2 * SECOND);
        log
    };
    assert_eq!(start().outputs(&["x", "y"]).drained().broken(), [], "it happened");
    assert_eq!(start().pop("g", 2, 0, &["a"]).done(2, 0).drained().broken(), [], "it did not");
    assert_eq!(start().outputs(&["x"]).drained().broken(), [Rule::Transaction], "half of its messages");
    assert_eq!(start().drained().broken(), [Rule::Transaction], "its acks, and no messages");
    let mut both = start();
    both.outputs(&["x", "y"]).pop("g", 2, 0, &["a"]).drained();
    assert_eq!(both.broken(), [Rule::Transaction], "its messages, and no acks");
}

#[test]
fn what_another_request_settled_need_not_come_again() {
    let mut log = log();
    log.push(&["a"], Done(())).pop("g", 1, 0, &["a"]).transact(1, 0, &["x"], Unknown).done(1, 0).drained();
    assert_eq!(log.broken(), []);
}
