//! Taking, giving back and extending a lane: what each does to the cursor.
//!
//! A lease is part of the cursor row, so that there can only be one per (lane, group), and every change of it is one
//! compare-and-set: of two who take a lane at the same time, one loses.

use std::time::Duration;

use bugle_store::{Cursor, Lease, LeaseId, Now, Offset, Timestamp};

/// How long after its end a lease is taken over: clocks agree only so well.
const GRACE: Duration = Duration::from_millis(2);

/// Longest extension, so that no caller can hold a lane for good.
const LONGEST_SECONDS: u64 = 7 * 86_400;

/// A cursor to store, and the messages that are handed out if that succeeds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Claim {
    /// The cursor.
    pub(crate) next: Cursor,
    /// First message.
    pub(crate) from: Offset,
    /// End (exclusive).
    pub(crate) to: Offset,
}

/// Is the lane free for a claim now? `Err(when)` = not before that time.
pub(crate) fn free_at(cursor: &Cursor, now: Now) -> Result<(), Timestamp> {
    let ended = cursor.lease.map_or(Timestamp::ZERO, |l| l.until.plus(GRACE));
    let free = ended.max(cursor.not_before);
    if free <= now.earliest { Ok(()) } else { Err(free) }
}

/// Hand out `from..to` under a lease. The caller has asked [`free_at`]. What an expired lease delivered in vain stays
/// counted in `deliveries`, but is not charged to the retry budget: the consumer said nothing about the messages.
pub(crate) fn claim(
    cursor: &Cursor,
    from: Offset,
    to: Offset,
    lease: LeaseId,
    until: Timestamp,
    now: Now,
) -> Claim {
    let mut claim = take(cursor, from, to, now);
    claim.next.lease = Some(Lease { id: lease, until, end: claim.to });
    claim.next.deliveries = claim.next.deliveries.saturating_add(1);
    claim
}

/// Hand out `from..to` and count it as consumed at once: at most once, no lease.
pub(crate) fn deliver_and_commit(cursor: &Cursor, from: Offset, to: Offset, now: Now) -> Claim {
    let mut claim = take(cursor, from, to, now);
    claim.next.committed = claim.to;
    claim.next.consumed = claim.next.consumed.saturating_add(claim.to - claim.from);
    (claim.next.attempts, claim.next.deliveries) = (0, 0);
    claim
}

/// How often what lies at `from` was handed to the group, when it is handed out now.
pub(crate) fn attempt(cursor: &Cursor, from: Offset) -> u32 {
    if from > cursor.committed { 1 } else { cursor.deliveries.saturating_add(1) }
}

/// The epoch that follows. A first row counts from the present, in microseconds: where a group was deleted and reads
/// again, no server that remembers the old row can take the new one for it. No row changes a million times a second.
pub(crate) fn next_epoch(cursor: &Cursor, now: Now) -> u64 {
    match cursor.epoch {
        0 => u64::try_from(now.latest.0).unwrap_or(0).max(1),
        epoch => epoch + 1,
    }
}

/// The cursor at `from`, free. What was passed over on the way there (trimmed, expired) takes its counters with it.
fn take(cursor: &Cursor, from: Offset, to: Offset, now: Now) -> Claim {
    let from = from.max(cursor.committed);
    let mut next = cursor.clone();
    next.epoch = next_epoch(cursor, now);
    if from > cursor.committed {
        (next.attempts, next.deliveries) = (0, 0);
    }
    next.committed = from;
    next.lease = None;
    next.not_before = Timestamp::ZERO;
    next.served_at = now.latest;
    Claim { next, from, to: to.max(from) }
}

/// Undo a claim whose messages reached nobody: it does not count as a delivery. `None` if the lease is no longer held.
pub(crate) fn give_back(cursor: &Cursor, lease: LeaseId) -> Option<Cursor> {
    held(cursor, lease)?;
    let deliveries = cursor.deliveries.saturating_sub(1);
    Some(Cursor { epoch: cursor.epoch + 1, lease: None, deliveries, ..cursor.clone() })
}

/// Let a lease cover only what was sent, up to `end`. If that is nothing, the lane is given back: a lease on nothing
/// could only end by expiry. `None` if the lease is no longer held or covers no more than that anyway.
pub(crate) fn shrink(cursor: &Cursor, lease: LeaseId, end: Offset) -> Option<Cursor> {
    let held = held(cursor, lease)?;
    if end >= held.end {
        return None;
    }
    if end <= cursor.committed {
        return give_back(cursor, lease);
    }
    Some(Cursor { epoch: cursor.epoch + 1, lease: Some(Lease { end, ..held }), ..cursor.clone() })
}

/// Extend a lease to at least `seconds` from now; never shortens one, never revives one. `None` if it ended or is not
/// the one that holds the lane.
pub(crate) fn renew(cursor: &Cursor, lease: LeaseId, seconds: u64, now: Now) -> Option<Cursor> {
    // As in settling, the doubt about the time is the holder's benefit: a takeover changes the epoch.
    let held = held(cursor, lease).filter(|l| now.earliest < l.until)?;
    let until = now.latest.plus(Duration::from_secs(seconds.min(LONGEST_SECONDS))).max(held.until);
    Some(Cursor { epoch: cursor.epoch + 1, lease: Some(Lease { until, ..held }), ..cursor.clone() })
}

fn held(cursor: &Cursor, lease: LeaseId) -> Option<Lease> {
    cursor.lease.filter(|l| l.id == lease)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINE: LeaseId = LeaseId::from_u128(1);
    const OTHER: LeaseId = LeaseId::from_u128(2);
    const NOW: Now = Now { earliest: Timestamp(1_000_000), latest: Timestamp(1_005_000) };

    fn cursor() -> Cursor {
        Cursor { epoch: 4, attempts: 2, deliveries: 2, consumed: 10, ..Cursor::fresh(10) }
    }

    fn leased(until: i64) -> Cursor {
        Cursor { lease: Some(Lease { id: MINE, until: Timestamp(until), end: 20 }), ..cursor() }
    }

    #[test]
    fn a_lane_nobody_holds_is_free() {
        assert_eq!(free_at(&cursor(), NOW), Ok(()));
    }

    #[test]
    fn a_lease_is_taken_over_a_little_after_its_end_and_never_before() {
        for (until, free) in [
            (2_000_000, Err(Timestamp(2_002_000))),
            (1_000_000, Err(Timestamp(1_002_000))),
            (998_001, Err(Timestamp(1_000_001))),
            (998_000, Ok(())),
        ] {
            assert_eq!(free_at(&leased(until), NOW), free, "lease until {until}");
        }
    }

    #[test]
    fn a_resting_lane_is_free_when_its_rest_is_over_by_the_earliest_reading() {
        let resting = |until| Cursor { not_before: Timestamp(until), ..cursor() };
        assert_eq!(free_at(&resting(1_000_000), NOW), Ok(()));
        assert_eq!(free_at(&resting(1_000_001), NOW), Err(Timestamp(1_000_001)));
        let both = Cursor { not_before: Timestamp(3_000_000), ..leased(2_000_000) };
        assert_eq!(free_at(&both, NOW), Err(Timestamp(3_000_000)));
    }

    #[test]
    fn a_claim_takes_the_range_and_counts_a_delivery() {
        let until = Timestamp(9_000_000);
        let claim = claim(&cursor(), 10, 15, MINE, until, NOW);
        let lease = Some(Lease { id: MINE, until, end: 15 });
        let next = Cursor { epoch: 5, lease, deliveries: 3, served_at: NOW.latest, ..cursor() };
        assert_eq!(claim, Claim { next, from: 10, to: 15 });
    }

    #[test]
    fn a_row_that_was_deleted_and_made_again_never_has_an_epoch_of_the_old_one() {
        let first = claim(&Cursor::fresh(0), 0, 5, MINE, Timestamp(9_000_000), NOW).next;
        assert_eq!(first.epoch, NOW.latest.0 as u64);
        let later = Now { earliest: Timestamp(1_010_000), latest: Timestamp(1_015_000) };
        let old = give_back(&first, MINE).unwrap();
        let again = claim(&Cursor::fresh(0), 0, 5, OTHER, Timestamp(9_000_000), later).next;
        assert!(again.epoch > old.epoch);
    }

    #[test]
    fn hazard_d_an_expired_lease_stays_counted_as_a_delivery_but_not_as_a_failure() {
        let claim = claim(&leased(500_000), 10, 15, OTHER, Timestamp(9_000_000), NOW);
        assert_eq!((claim.next.deliveries, claim.next.attempts), (3, 2));
        assert_eq!(claim.next.lease.map(|l| l.id), Some(OTHER));
    }

    #[test]
    fn a_claim_beyond_removed_messages_starts_counting_anew() {
        let claim = claim(&cursor(), 12, 15, MINE, Timestamp(9_000_000), NOW);
        assert_eq!((claim.next.committed, claim.next.deliveries, claim.next.attempts), (12, 1, 0));
        assert_eq!(claim.next.consumed, 10, "what nobody got was not consumed");
    }

    #[test]
    fn a_claim_never_goes_back_behind_what_is_committed() {
        let claim = claim(&cursor(), 3, 15, MINE, Timestamp(9_000_000), NOW);
        assert_eq!((claim.from, claim.next.committed, claim.next.deliveries), (10, 10, 3));
    }

    #[test]
    fn auto_ack_commits_at_delivery_and_holds_nothing() {
        let claim = deliver_and_commit(&leased(500_000), 12, 15, NOW);
        let served_at = NOW.latest;
        let next = Cursor { epoch: 5, consumed: 13, served_at, ..Cursor::fresh(15) };
        assert_eq!(claim, Claim { next, from: 12, to: 15 });
    }

    #[test]
    fn an_attempt_is_counted_however_it_is_delivered() {
        assert_eq!((attempt(&cursor(), 10), attempt(&cursor(), 3), attempt(&cursor(), 12)), (3, 3, 1));
        assert_eq!(attempt(&Cursor::fresh(0), 0), 1);
        let claim = claim(&cursor(), 10, 15, MINE, Timestamp(9_000_000), NOW);
        assert_eq!(claim.next.deliveries, attempt(&cursor(), 10));
    }

    #[test]
    fn giving_back_undoes_the_count_and_frees_the_lane() {
        let claimed = claim(&cursor(), 10, 15, MINE, Timestamp(9_000_000), NOW).next;
        let back = give_back(&claimed, MINE).unwrap();
        assert_eq!(back, Cursor { epoch: 6, served_at: NOW.latest, ..cursor() });
        assert_eq!(give_back(&back, MINE), None);
        assert_eq!(give_back(&claimed, OTHER), None);
    }

    #[test]
    fn shrinking_leaves_the_rest_of_the_range_for_the_next_claim() {
        let cursor = leased(9_000_000);
        let shrunk = shrink(&cursor, MINE, 12).unwrap();
        assert_eq!(shrunk.lease, cursor.lease.map(|l| Lease { end: 12, ..l }));
        assert_eq!((shrunk.epoch, shrunk.committed, shrunk.deliveries), (5, 10, 2));
        assert_eq!(shrink(&cursor, MINE, 20), None);
        assert_eq!(shrink(&cursor, OTHER, 12), None);
    }

    #[test]
    fn shrinking_to_nothing_gives_the_lane_back() {
        assert_eq!(shrink(&leased(9_000_000), MINE, 10), give_back(&leased(9_000_000), MINE));
    }

    #[test]
    fn renewing_extends_and_never_shortens() {
        let renewed = |until, seconds| {
            renew(&leased(until), MINE, seconds, NOW).map(|c| (c.epoch, c.lease.unwrap().until))
        };
        assert_eq!(renewed(2_000_000, 60), Some((5, Timestamp(61_005_000))));
        assert_eq!(renewed(99_000_000, 60), Some((5, Timestamp(99_000_000))));
        assert_eq!(renewed(2_000_000, 0), Some((5, Timestamp(2_000_000))));
        let longest = NOW.latest.plus(Duration::from_secs(LONGEST_SECONDS));
        assert_eq!(renewed(2_000_000, u64::MAX), Some((5, longest)));
    }

    #[test]
    fn the_holder_has_the_benefit_of_doubt_about_the_time() {
        assert!(renew(&leased(NOW.earliest.0 + 1), MINE, 60, NOW).is_some());
    }

    #[test]
    fn renewing_never_revives_and_never_takes_over() {
        assert_eq!(renew(&leased(NOW.earliest.0), MINE, 60, NOW), None);
        assert_eq!(renew(&leased(2_000_000), OTHER, 60, NOW), None);
        assert_eq!(renew(&cursor(), MINE, 60, NOW), None);
    }
}
