//! The rules of acknowledging, one by one; the hazards are those that the protocol warns of.

use bugle_store::{Lease, LeaseId};

use super::*;
use AckStatus::{Completed, Dlq, Failed, Retry};

const NOW: Now = Now { earliest: Timestamp(1_000_000_000), latest: Timestamp(1_000_005_000) };
const HOLDER: LeaseId = LeaseId::from_u128(7);
const HEAD: Offset = 100;

fn leased(committed: Offset, end: Offset) -> Cursor {
    let until = Timestamp(NOW.earliest.0 + 60_000_000);
    Cursor {
        epoch: 5,
        deliveries: 1,
        lease: Some(Lease { id: HOLDER, until, end }),
        ..Cursor::fresh(committed)
    }
}

fn limit(retry_limit: u64) -> QueueOptions {
    QueueOptions { retry_limit, ..QueueOptions::default() }
}

fn ack(offset: Offset, status: AckStatus) -> AckIn<'static> {
    AckIn { offset: Some(offset), status, error: None }
}

fn run(cursor: &Cursor, acks: &[(Offset, AckStatus)], options: &QueueOptions) -> Settled {
    let acks: Vec<AckIn<'_>> = acks.iter().map(|&(offset, status)| ack(offset, status)).collect();
    settle(cursor, Some(LeaseToken::Id(HOLDER)), &acks, HEAD, options, NOW)
}

fn offsets(settled: &Settled) -> Vec<Offset> {
    settled.dead.iter().map(|d| d.offset).collect()
}

fn next(settled: &Settled) -> &Cursor {
    settled.next.as_ref().expect("the cursor changes")
}

#[test]
fn completing_the_whole_batch_releases_the_lane_and_resets_the_counters() {
    let cursor = Cursor {
        attempts: 2,
        deliveries: 3,
        not_before: Timestamp(9),
        consumed: 4,
        served_at: Timestamp(8),
        ..leased(10, 13)
    };
    let settled = run(&cursor, &[(10, Completed), (11, Completed), (12, Completed)], &limit(3));
    assert_eq!(settled.verdicts, vec![Verdict::Done; 3]);
    assert!(settled.released);
    let expected = Cursor { epoch: 6, consumed: 7, served_at: Timestamp(8), ..Cursor::fresh(13) };
    assert_eq!(settled.next, Some(expected));
}

#[test]
fn completing_only_the_last_of_a_batch_completes_it_all() {
    let settled = run(&leased(10, 20), &[(19, Completed)], &limit(3));
    assert_eq!(next(&settled).committed, 20);
    assert_eq!(next(&settled).consumed, 10);
    assert!(settled.released);
}

#[test]
fn completing_a_part_keeps_the_lease_and_remembers_that_the_rest_was_delivered() {
    let settled = run(&leased(10, 20), &[(12, Completed)], &limit(3));
    assert_eq!(next(&settled).committed, 13);
    assert_eq!(next(&settled).lease, leased(10, 20).lease);
    assert_eq!(next(&settled).deliveries, 1);
    assert!(!settled.released);
}

#[test]
fn hazard_b_a_completed_message_never_carries_the_cursor_past_a_failed_one() {
    for acks in [[(10, Failed), (11, Completed)], [(11, Completed), (10, Failed)]] {
        let settled = run(&leased(10, 12), &acks, &limit(3));
        assert_eq!((next(&settled).committed, next(&settled).attempts), (10, 1));
        assert!(settled.released && settled.dead.is_empty());
        let completed = acks.iter().position(|a| a.1 == Completed).unwrap();
        assert_eq!(settled.verdicts[completed], Verdict::Noop);
        assert_eq!(settled.verdicts[1 - completed], Verdict::Done);
    }
}

#[test]
fn hazard_b_what_was_completed_before_the_failed_one_stays_completed() {
    let acks = [(10, Completed), (11, Completed), (12, Failed), (13, Completed)];
    let settled = run(&Cursor { attempts: 2, ..leased(10, 14) }, &acks, &limit(3));
    assert_eq!(next(&settled).committed, 12);
    assert_eq!(next(&settled).attempts, 1, "a fresh budget for what lies at the new position");
    assert_eq!(next(&settled).deliveries, 1, "it was delivered once already");
    assert_eq!(settled.verdicts, [Verdict::Done, Verdict::Done, Verdict::Done, Verdict::Noop]);
    assert!(settled.released);
}

#[test]
fn hazard_c_an_all_failed_batch_with_one_retry_left_charges_once_and_loses_nothing() {
    let acks = [(10, Failed), (11, Failed), (12, Failed)];
    let first = run(&leased(10, 13), &acks, &limit(1));
    assert_eq!((next(&first).committed, next(&first).attempts), (10, 1));
    assert!(first.dead.is_empty() && first.released);

    let again = Cursor { attempts: 1, ..leased(10, 13) };
    let second = run(&again, &acks, &limit(1));
    assert_eq!(offsets(&second), [10, 11, 12]);
    assert_eq!(second.verdicts, vec![Verdict::DeadLettered; 3]);
    assert_eq!((next(&second).committed, next(&second).attempts), (13, 0));
}

#[test]
fn hazard_d_the_charge_does_not_stick_after_dead_lettering() {
    let settled = run(&Cursor { attempts: 3, ..leased(10, 20) }, &[(10, Failed)], &limit(3));
    assert_eq!(offsets(&settled), [10]);
    assert_eq!((next(&settled).committed, next(&settled).attempts), (11, 0));
}

#[test]
fn a_failure_gives_the_lane_back_also_when_the_message_does_not_come_again() {
    for options in
        [limit(0), QueueOptions { dead_letter_queue: false, dlq_after_max_retries: false, ..limit(0) }]
    {
        let settled = run(&leased(10, 20), &[(10, Completed), (11, Failed)], &options);
        assert_eq!((next(&settled).committed, next(&settled).lease), (12, None));
        assert!(settled.released);
        assert_eq!(next(&settled).deliveries, 1, "what follows was handed out with it");
    }
    let given_up = run(&leased(10, 20), &[(10, Dlq)], &limit(0));
    assert!(!given_up.released, "who gives a message up deliberately goes on with the rest");
}

#[test]
fn hazard_r_an_acknowledgement_never_moves_the_cursor_backwards() {
    let settled = run(&leased(10, 20), &[(3, Completed)], &limit(3));
    assert_eq!((settled.next, settled.verdicts), (None, vec![Verdict::Noop]));
    for status in [Failed, Retry, Dlq] {
        let settled = run(&leased(10, 20), &[(9, status)], &limit(3));
        assert_eq!(settled.next, None);
        assert!(settled.dead.is_empty());
        assert!(
            matches!(&settled.verdicts[..], [Verdict::Rejected(e)] if e.starts_with("already committed: ")),
            "{:?}",
            settled.verdicts
        );
    }
}

#[test]
fn a_retry_limit_of_three_returns_a_message_three_times_and_dead_letters_the_fourth_failure() {
    let mut cursor = leased(10, 11);
    for attempt in 1..=3 {
        let settled = run(&cursor, &[(10, Failed)], &limit(3));
        assert_eq!((next(&settled).attempts, settled.dead.len()), (attempt, 0));
        cursor = Cursor { lease: leased(10, 11).lease, ..next(&settled).clone() };
    }
    let settled = run(&cursor, &[(10, Failed)], &limit(3));
    assert_eq!(settled.dead, [Dead { offset: 10, error: "Retries exhausted".into(), attempts: 3 }]);
    assert_eq!(next(&settled).committed, 11);
}

#[test]
fn without_retries_every_failed_message_is_dead_lettered_also_behind_completed_ones() {
    let settled = run(&leased(10, 13), &[(10, Completed), (11, Failed), (12, Failed)], &limit(0));
    assert_eq!(offsets(&settled), [11, 12]);
    assert_eq!(next(&settled).committed, 13);
}

#[test]
fn at_the_limit_a_failure_behind_a_completed_message_has_its_own_budget() {
    let cursor = Cursor { attempts: 3, ..leased(10, 13) };
    let settled = run(&cursor, &[(10, Failed), (11, Completed), (12, Failed)], &limit(3));
    assert_eq!(offsets(&settled), [10]);
    assert_eq!((next(&settled).committed, next(&settled).attempts), (12, 1));
    assert_eq!(settled.verdicts, [Verdict::DeadLettered, Verdict::Done, Verdict::Done]);
}

#[test]
fn retry_gives_the_rest_back_without_a_charge() {
    let cursor = Cursor { attempts: 2, ..leased(10, 20) };
    let settled = run(&cursor, &[(10, Retry), (11, Failed), (12, Dlq)], &limit(3));
    assert_eq!(settled.next, Some(Cursor { epoch: 6, lease: None, ..cursor }));
    assert_eq!(settled.verdicts, [Verdict::Done, Verdict::Noop, Verdict::Noop]);
    assert!(settled.released && settled.dead.is_empty());
}

#[test]
fn a_retry_behind_completed_messages_starts_a_new_budget() {
    let settled = run(&Cursor { attempts: 2, ..leased(10, 20) }, &[(10, Completed), (11, Retry)], &limit(3));
    assert_eq!((next(&settled).committed, next(&settled).attempts), (11, 0));
    assert!(settled.released);
}

#[test]
fn dlq_gives_up_at_once_and_goes_on_behind_it() {
    let acks = [AckIn { error: Some("bad\0 input"), ..ack(10, Dlq) }, ack(11, Dlq), ack(12, Completed)];
    let settled = settle(&leased(10, 13), Some(LeaseToken::Id(HOLDER)), &acks, HEAD, &limit(3), NOW);
    assert_eq!(settled.dead[0], Dead { offset: 10, error: "bad input".into(), attempts: 0 });
    assert_eq!(settled.dead[1].error, "Dead-lettered by consumer");
    assert_eq!(settled.verdicts, [Verdict::DeadLettered, Verdict::DeadLettered, Verdict::Done]);
    assert!(settled.released);
}

#[test]
fn error_texts_are_cut_at_a_character_boundary() {
    let long = format!("x{}", "é".repeat(ERROR_MAX));
    let acks = [AckIn { error: Some(&long), ..ack(10, Dlq) }];
    let settled = settle(&leased(10, 13), None, &acks, HEAD, &limit(3), NOW);
    assert_eq!(settled.dead[0].error.len(), ERROR_MAX - 1);
    assert!(long.starts_with(&settled.dead[0].error));
    let acks = [AckIn { error: Some("\0"), ..ack(10, Dlq) }];
    let settled = settle(&leased(10, 13), None, &acks, HEAD, &limit(3), NOW);
    assert_eq!(settled.dead[0].error, "Dead-lettered by consumer");
}

#[test]
fn queues_that_keep_no_dead_letters_drop_what_is_given_up() {
    let options = QueueOptions { dead_letter_queue: false, dlq_after_max_retries: false, ..limit(0) };
    let settled = run(&leased(10, 12), &[(10, Failed), (11, Dlq)], &options);
    assert_eq!(settled.verdicts, vec![Verdict::Done; 2]);
    assert!(settled.dead.is_empty());
    assert_eq!(next(&settled).committed, 12);
}

#[test]
fn of_several_statements_about_one_message_the_strongest_counts() {
    let settled = run(&leased(10, 12), &[(10, Completed), (10, Retry), (10, Failed)], &limit(3));
    assert_eq!(settled.verdicts, [Verdict::Noop, Verdict::Done, Verdict::Done]);
    assert_eq!((next(&settled).committed, next(&settled).attempts), (10, 1));

    let settled = run(&leased(10, 12), &[(10, Failed), (10, Dlq), (10, Completed)], &limit(3));
    assert_eq!(settled.verdicts, vec![Verdict::DeadLettered; 3]);
    assert_eq!(offsets(&settled), [10]);

    let settled = run(&leased(10, 12), &[(10, Completed), (10, Retry)], &limit(3));
    assert_eq!(settled.verdicts, [Verdict::Noop, Verdict::Done]);
    assert_eq!(next(&settled).attempts, 0);
}

#[test]
fn a_lease_that_is_not_the_live_one_changes_nothing() {
    let live = leased(10, 12);
    let mut expired = leased(10, 12);
    expired.lease.as_mut().unwrap().until = NOW.earliest;
    let free = Cursor { lease: None, ..leased(10, 12) };
    let token = Some(LeaseToken::Id(HOLDER));
    let cases = [
        (&live, Some(LeaseToken::Id(LeaseId::from_u128(8)))),
        (&live, Some(LeaseToken::Garbage)),
        (&expired, token),
        (&free, token),
    ];
    for (cursor, lease) in cases {
        let settled = settle(cursor, lease, &[ack(10, Dlq), ack(3, Completed)], HEAD, &limit(3), NOW);
        let refused = Verdict::Rejected("invalid or expired lease".into());
        let garbage = lease == Some(LeaseToken::Garbage);
        let verdicts = vec![refused.clone(), if garbage { refused } else { Verdict::Noop }];
        assert_eq!(settled, Settled { next: None, verdicts, dead: Vec::new(), released: false, stale: true });
    }
}

#[test]
fn a_lease_settles_only_what_it_delivered() {
    let settled =
        settle(&leased(10, 12), Some(LeaseToken::Id(HOLDER)), &[ack(12, Completed)], HEAD, &limit(3), NOW);
    assert_eq!(settled.verdicts, [Verdict::Rejected("unresolvable: no such message".into())]);
    assert_eq!(settled.next, None);
}

#[test]
fn the_holder_has_the_benefit_of_doubt_about_the_time() {
    let mut cursor = leased(10, 12);
    cursor.lease.as_mut().unwrap().until = Timestamp(NOW.earliest.0 + 1);
    assert_eq!(run(&cursor, &[(11, Completed)], &limit(3)).verdicts, [Verdict::Done]);
}

#[test]
fn without_a_lease_named_acknowledgements_apply_whoever_holds_the_lane() {
    let free = Cursor { lease: None, ..leased(10, 12) };
    for (status, attempts) in [(Failed, 1), (Retry, 0)] {
        let settled = settle(&free, None, &[ack(10, status)], HEAD, &limit(3), NOW);
        assert_eq!((settled.verdicts, settled.released), (vec![Verdict::Done], true));
        assert_eq!(settled.next.map(|c| c.attempts), (attempts > 0).then_some(attempts));
    }
    let settled = settle(&leased(10, 12), None, &[ack(11, Completed)], HEAD, &limit(3), NOW);
    assert_eq!((next(&settled).committed, settled.released), (12, true));
    let fresh = settle(&Cursor::fresh(0), None, &[ack(4, Completed)], HEAD, &limit(3), NOW);
    assert_eq!((next(&fresh).epoch, next(&fresh).committed, next(&fresh).deliveries), (1, 5, 0));
}

#[test]
fn unknown_messages_are_unresolvable_and_do_not_disturb_the_others() {
    let acks =
        [AckIn { offset: None, status: Failed, error: None }, ack(HEAD, Completed), ack(10, Completed)];
    let settled = settle(&leased(10, 11), None, &acks, HEAD, &limit(3), NOW);
    let unknown = Verdict::Rejected("unresolvable: no such message".into());
    assert_eq!(settled.verdicts, [unknown.clone(), unknown, Verdict::Done]);
    assert_eq!(next(&settled).committed, 11);
}

#[test]
fn an_enforced_retry_delay_rests_the_lane_longer_with_every_failure() {
    let options = QueueOptions { enforce: vec![Enforced::RetryDelay], retry_delay: 1000, ..limit(5) };
    let rest = |attempts| {
        let settled = run(&Cursor { attempts, ..leased(10, 12) }, &[(10, Failed)], &options);
        next(&settled).not_before.0 - NOW.latest.0
    };
    assert_eq!([rest(0), rest(1), rest(2)], [1_000_000, 2_000_000, 4_000_000]);
    let stored_only = QueueOptions { enforce: Vec::new(), ..options };
    let settled = run(&leased(10, 12), &[(10, Failed)], &stored_only);
    assert_eq!(next(&settled).not_before, Timestamp::ZERO);
}

#[test]
fn nothing_at_all_is_no_change() {
    let settled = run(&leased(10, 12), &[], &limit(3));
    assert_eq!(
        settled,
        Settled { next: None, verdicts: vec![], dead: vec![], released: false, stale: false }
    );
}

#[test]
fn a_dead_letter_tells_the_failures_of_its_own_budget() {
    let cursor = Cursor { attempts: 2, ..leased(10, 13) };
    let settled = run(&cursor, &[(10, Dlq), (11, Completed), (12, Dlq)], &limit(3));
    assert_eq!(settled.dead.iter().map(|d| d.attempts).collect::<Vec<_>>(), [2, 0]);
}

#[test]
fn a_dead_letter_keeps_the_text_that_came_with_the_status_that_counts() {
    let with = |status, error| AckIn { error: Some(error), ..ack(10, status) };
    let acks = [with(Failed, "failed"), ack(10, Dlq), with(Dlq, "given up"), with(Dlq, "later")];
    let settled = settle(&leased(10, 12), None, &acks, HEAD, &limit(3), NOW);
    assert_eq!(settled.dead[0].error, "given up");
    let settled = settle(&leased(10, 12), None, &acks[..2], HEAD, &limit(3), NOW);
    assert_eq!(settled.dead[0].error, "Dead-lettered by consumer");
}

#[test]
fn a_lane_whose_lease_has_expired_counts_as_free() {
    let mut cursor = leased(10, 20);
    cursor.lease.as_mut().unwrap().until = NOW.earliest;
    assert!(settle(&cursor, None, &[ack(12, Completed)], HEAD, &limit(3), NOW).released);
    assert!(!settle(&leased(10, 20), None, &[ack(12, Completed)], HEAD, &limit(3), NOW).released);
}
