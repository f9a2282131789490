//! What a lost answer explains to a group that commits by delivery, and what it does not.

use super::tests::{Log, given, log, message};
use crate::record::{Delivered, Op, Outcome, Pushed};
use crate::report::Rule;

use Outcome::{Done, Unknown};

const QUICK: &str = "quick";

impl Log {
    /// Everything was taken out for the group.
    fn drained_quick(&mut self) -> &mut Self {
        self.add(Op::Drained { queue: "q".into(), group: QUICK.into() })
    }

    /// Pushed to two partitions, one after the other.
    fn push_to_both(&mut self, ids: &[&str], others: &[&str]) -> &mut Self {
        let other = |id: &&str| Pushed { partition: "other".into(), ..message("q", id) };
        let messages = ids.iter().map(|id| message("q", id)).chain(others.iter().map(other)).collect();
        self.add(Op::Push { messages, outcome: Done(()) })
    }
}

fn given_of_other(from: u64, ids: &[&str]) -> Vec<Delivered> {
    let other = |delivered| Delivered { partition: "other".into(), ..delivered };
    given(from, ids).into_iter().map(other).collect()
}

#[test]
fn a_lost_answer_explains_no_more_messages_than_were_asked_for() {
    for (batch, rules) in [(2, vec![]), (1, vec![Rule::Skipped])] {
        let mut log = log();
        log.push(&["a", "b", "c"], Done(()))
            .quick_of(batch, 5, Unknown)
            .quick(Done((None, given(2, &["c"]))));
        assert_eq!(log.broken(), rules, "{batch} asked for");
    }
}

#[test]
fn what_it_explains_it_explains_once() {
    let mut log = log();
    log.push(&["a", "b", "c", "d"], Done(())).quick_of(1, 1, Unknown);
    log.quick(Done((None, given(1, &["b"])))).quick(Done((None, given(3, &["d"]))));
    assert_eq!(log.broken(), [Rule::Skipped]);
    let mut two = self::log();
    two.push(&["a", "b", "c", "d"], Done(())).quick_of(1, 1, Unknown).quick_of(1, 1, Unknown);
    two.quick(Done((None, given(1, &["b"])))).quick(Done((None, given(3, &["d"]))));
    assert_eq!(two.broken(), []);
}

#[test]
fn it_explains_no_more_lanes_than_were_asked_for() {
    for (partitions, rules) in [(2, vec![]), (1, vec![Rule::Skipped])] {
        let mut log = log();
        log.push_to_both(&["a", "b"], &["x", "y"]).quick_of(10, partitions, Unknown);
        log.quick(Done((None, given(1, &["b"])))).quick(Done((None, given_of_other(1, &["y"]))));
        assert_eq!(log.broken(), rules, "{partitions} partitions asked for");
    }
}

#[test]
fn it_explains_nothing_of_before_and_nothing_of_others() {
    let mut before = log();
    before.push(&["a", "b"], Done(())).quick(Done((None, given(1, &["b"])))).quick(Unknown);
    assert_eq!(before.broken(), [Rule::Skipped]);
    let mut other = log();
    other.push(&["a", "b"], Done(())).quick(Unknown).pop("g", 1, 1, &["b"]);
    assert_eq!(other.broken(), [Rule::Skipped], "another group");
}

#[test]
fn what_is_missing_at_the_end_has_to_fit_too() {
    for (batch, rules) in [(2, vec![]), (1, vec![Rule::Skipped])] {
        let mut log = log();
        log.push(&["a", "b", "c"], Done(())).pop("g", 1, 0, &["a", "b", "c"]);
        log.quick(Done((None, given(0, &["a"])))).quick_of(batch, 1, Unknown).drained_quick();
        assert_eq!(log.broken(), rules, "{batch} asked for");
    }
    let mut nowhere = log();
    nowhere.push(&["a", "b"], Done(())).quick_of(1, 1, Unknown).drained_quick();
    assert_eq!(nowhere.broken(), [Rule::Lost], "one of the two");
}

#[test]
fn a_loss_elsewhere_is_found_after_a_lost_answer() {
    let mut log = log();
    log.push_to_both(&["a", "b", "c"], &["x", "y", "z"]).quick_of(2, 1, Unknown);
    log.quick(Done((None, given(2, &["c"])))).quick(Done((None, given_of_other(0, &["x"]))));
    assert_eq!(log.broken(), [], "two of the first partition were in it");
    log.quick(Done((None, given_of_other(2, &["z"]))));
    assert_eq!(log.broken(), [Rule::Skipped], "and so it cannot have held this one");
}

#[test]
fn deliveries_on_their_way_are_not_missing() {
    let mut log = log();
    log.push(&["a", "b", "c"], Done(())).quick_of(1, 1, Unknown);
    log.quick(Done((None, given(2, &["c"])))).quick(Done((None, given(1, &["b"])))).overlapping();
    assert_eq!(log.broken(), [], "only the first was in the lost answer");
}

#[test]
fn a_message_that_nobody_was_given_may_be_one_that_was_passed_but_not_two() {
    for (ids, rules) in [(vec!["a", "b"], vec![]), (vec!["a", "lost", "b"], vec![Rule::Lost])] {
        let mut log = log();
        log.push(&ids, Done(()))
            .quick_of(1, 1, Unknown)
            .quick(Done((None, given(1, &["b"]))))
            .drained_quick();
        assert_eq!(log.broken(), rules, "{ids:?}");
    }
}
