//! What holds for every cursor and every set of acknowledgements.

use std::collections::BTreeMap;

use bugle_store::{Lease, LeaseId};
use proptest::prelude::*;

use super::*;

const HEAD: Offset = 24;
const HOLDER: LeaseId = LeaseId::from_u128(7);
const NOW: Now = Now { earliest: Timestamp(1_000_000), latest: Timestamp(1_002_000) };

fn cursor() -> impl Strategy<Value = Cursor> {
    let lease = proptest::option::of((0..=HEAD, 999_990i64..1_000_010));
    (0u64..1000, 0..=HEAD, lease, 0u32..5, 0u32..5).prop_map(
        |(epoch, committed, lease, attempts, deliveries)| {
            let lease = lease.map(|(end, until)| Lease {
                id: HOLDER,
                until: Timestamp(until),
                end: end.max(committed),
            });
            Cursor { epoch, lease, attempts, deliveries, ..Cursor::fresh(committed) }
        },
    )
}

fn status() -> impl Strategy<Value = AckStatus> {
    prop_oneof![
        3 => Just(AckStatus::Completed),
        2 => Just(AckStatus::Failed),
        1 => Just(AckStatus::Retry),
        1 => Just(AckStatus::Dlq),
    ]
}

fn acks() -> impl Strategy<Value = Vec<AckIn<'static>>> {
    let ack = (proptest::option::weighted(0.95, 0..HEAD + 3), status()).prop_map(|(offset, status)| AckIn {
        offset,
        status,
        error: None,
    });
    proptest::collection::vec(ack, 0..12)
}

fn token() -> impl Strategy<Value = Option<LeaseToken>> {
    prop_oneof![
        3 => Just(None),
        3 => Just(Some(LeaseToken::Id(HOLDER))),
        1 => Just(Some(LeaseToken::Garbage)),
    ]
}

fn options() -> impl Strategy<Value = QueueOptions> {
    (0u64..5, any::<bool>(), any::<bool>()).prop_map(|(retry_limit, keep, enforce)| QueueOptions {
        retry_limit,
        dead_letter_queue: keep,
        dlq_after_max_retries: false,
        enforce: if enforce { vec![Enforced::RetryDelay] } else { Vec::new() },
        ..QueueOptions::default()
    })
}

/// The rules once more, as slowly and as literally as possible: (new position, offset that stopped it, given up).
fn by_the_book(
    cursor: &Cursor,
    acks: &[AckIn<'_>],
    retry_limit: u64,
) -> (Offset, Option<Offset>, Vec<Offset>) {
    let mut counts: BTreeMap<Offset, AckStatus> = BTreeMap::new();
    for ack in acks {
        if let Some(offset) = ack.offset.filter(|o| (cursor.committed..HEAD).contains(o)) {
            let entry = counts.entry(offset).or_insert(ack.status);
            if rank(ack.status) > rank(*entry) {
                *entry = ack.status;
            }
        }
    }
    let has_budget = |offset: Offset| {
        let completed_below = counts.iter().any(|(o, s)| *o < offset && *s == AckStatus::Completed);
        retry_limit > 0 && (u64::from(cursor.attempts) < retry_limit || completed_below)
    };
    let stop = counts
        .iter()
        .filter(|(o, s)| **s == AckStatus::Retry || (**s == AckStatus::Failed && has_budget(**o)))
        .map(|(o, _)| *o)
        .min();
    let settled: Vec<(Offset, AckStatus)> =
        counts.into_iter().filter(|(o, _)| stop.is_none_or(|stop| *o < stop)).collect();
    let committed = settled.iter().map(|(o, _)| o + 1).max().unwrap_or(cursor.committed);
    let given_up = settled.iter().filter(|(_, s)| *s != AckStatus::Completed).map(|(o, _)| *o).collect();
    (committed, stop, given_up)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_the_rules_taken_literally(
        cursor in cursor(), acks in acks(), options in options(),
    ) {
        let settled = settle(&cursor, None, &acks, HEAD, &options, NOW);
        let (committed, stop, given_up) = by_the_book(&cursor, &acks, options.retry_limit);
        let next = settled.next.as_ref().unwrap_or(&cursor);
        prop_assert_eq!(next.committed, committed);
        let dead: Vec<Offset> = settled.dead.iter().map(|d| d.offset).collect();
        prop_assert_eq!(dead, if options.keeps_dead_letters() { given_up } else { Vec::new() });
        if stop.is_some() {
            prop_assert!(next.lease.is_none() && settled.released);
        }
    }

    #[test]
    fn the_cursor_only_moves_forward_inside_the_lane_and_one_epoch_at_a_time(
        cursor in cursor(), token in token(), acks in acks(), options in options(),
    ) {
        let settled = settle(&cursor, token, &acks, HEAD, &options, NOW);
        prop_assert_eq!(settled.verdicts.len(), acks.len());
        if let Some(next) = &settled.next {
            prop_assert_eq!(next.epoch, cursor.epoch + 1);
            prop_assert!(next.committed >= cursor.committed && next.committed <= HEAD);
            prop_assert_eq!(next.consumed - cursor.consumed, next.committed - cursor.committed);
            prop_assert!(next.attempts <= cursor.attempts + 1, "one charge per call");
            prop_assert!(next.lease.is_none() || next.lease == cursor.lease);
            let same = Cursor { epoch: cursor.epoch, ..next.clone() };
            prop_assert_ne!(same, cursor, "no exchange without a change");
        } else {
            prop_assert!(settled.dead.is_empty());
        }
    }

    #[test]
    fn nothing_that_failed_is_lost(
        cursor in cursor(), token in token(), acks in acks(), options in options(),
    ) {
        let settled = settle(&cursor, token, &acks, HEAD, &options, NOW);
        let committed = settled.next.as_ref().map_or(cursor.committed, |c| c.committed);
        for (ack, verdict) in acks.iter().zip(&settled.verdicts) {
            if matches!(verdict, Verdict::Rejected(_)) || ack.status == AckStatus::Completed {
                continue;
            }
            let offset = ack.offset.expect("what was not rejected has an offset");
            let kept = settled.dead.iter().any(|d| d.offset == offset);
            prop_assert_eq!(kept, *verdict == Verdict::DeadLettered);
            prop_assert!(offset >= committed || kept || !options.keeps_dead_letters());
            prop_assert!(!kept || offset < committed, "not given up and delivered again");
            let budget = options.retry_limit > u64::from(cursor.attempts);
            let outranked = acks.iter().any(|a| a.offset == ack.offset && a.status == AckStatus::Dlq);
            if ack.status == AckStatus::Failed && budget && !outranked {
                prop_assert!(committed <= offset, "a failed message with budget left comes again");
            }
        }
    }

    #[test]
    fn the_order_of_the_acknowledgements_does_not_matter(
        cursor in cursor(), acks in acks(), options in options(),
    ) {
        let turned: Vec<AckIn<'_>> = acks.iter().rev().cloned().collect();
        let one = settle(&cursor, None, &acks, HEAD, &options, NOW);
        let mut other = settle(&cursor, None, &turned, HEAD, &options, NOW);
        other.verdicts.reverse();
        prop_assert_eq!(one, other);
    }

    #[test]
    fn repeating_a_call_that_only_completes_changes_nothing_more(
        cursor in cursor(), last in 0..HEAD, options in options(),
    ) {
        let acks = [AckIn { offset: Some(last), status: AckStatus::Completed, error: None }];
        let once = settle(&cursor, None, &acks, HEAD, &options, NOW);
        let then = once.next.clone().unwrap_or(cursor);
        let twice = settle(&then, None, &acks, HEAD, &options, NOW);
        prop_assert_eq!(twice.next, None);
        prop_assert_eq!(twice.verdicts, vec![Verdict::Noop]);
        prop_assert_eq!(twice.released, once.released);
    }
}
