//! How the id of a lease is made. It says where the cursors are that the lease holds, so that a store finds them without an index
//! over leases: such an index would have to be changed with every claim and every acknowledgement, for the sake of renewals, which
//! are rare.
//!
//! A UUID of version 8, of which these are the bits that mean something:
//!
//! ```text
//! 48  when it was made, in milliseconds by the store's clock
//!  1  (after the version) 1 = several lanes
//! 32  (after 11 random bits and the variant) the first bits of the lane's id; random if there are several
//! ```
//!
//! The other 41 (73) bits are random. An id of another shape, made by an older server or by somebody else, says nothing.

use std::time::Duration;

use uuid::Uuid;

use crate::name::{LaneId, LeaseId};
use crate::time::Timestamp;

/// Bits of the millisecond, and where they end.
const TIME_SHIFT: u32 = 80;
const SEVERAL: u128 = 1 << 75;
/// First bits of a lane's id: how many, where they are here, and where they are there.
const LANE_BITS: u32 = 32;
const LANE_SHIFT: u32 = 30;
const LANE_HOME: u32 = 128 - LANE_BITS;
const LANE_MASK: u128 = (1 << LANE_BITS) - 1;

/// Clocks of servers that follow the store's differ by less.
const CLOCK_SLACK: Duration = Duration::from_secs(60);

/// Where the cursors of a lease are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// On a lane whose id is in this range, ends included: next to always there is one such lane.
    Between(LaneId, LaneId),
    /// Among those that were changed since.
    ChangedSince(Timestamp),
    /// It does not say.
    Anywhere,
}

/// The id of a new lease on this lane, or on several.
pub fn lease_id(now: Timestamp, only: Option<LaneId>) -> LeaseId {
    let random = Uuid::new_v4().as_u128();
    let millis = (now.millis().max(0) as u128) << TIME_SHIFT;
    let rest = random & ((1 << TIME_SHIFT) - 1) & !SEVERAL;
    let rest = match only {
        Some(lane) => rest & !(LANE_MASK << LANE_SHIFT) | (lane.0.as_u128() >> LANE_HOME) << LANE_SHIFT,
        None => rest | SEVERAL,
    };
    uuid::Builder::from_custom_bytes((millis | rest).to_be_bytes()).into_uuid()
}

/// What the id of a lease says of its cursors.
pub fn whereabouts(lease: LeaseId) -> Whereabouts {
    if lease.get_version_num() != 8 {
        return Whereabouts::Anywhere;
    }
    let bits = lease.as_u128();
    if bits & SEVERAL != 0 {
        let millis = i64::try_from(bits >> TIME_SHIFT).unwrap_or(0);
        return Whereabouts::ChangedSince(Timestamp(millis.saturating_mul(1000)).minus(CLOCK_SLACK));
    }
    let first = ((bits >> LANE_SHIFT) & LANE_MASK) << LANE_HOME;
    let last = first | ((1 << LANE_HOME) - 1);
    Whereabouts::Between(LaneId(Uuid::from_u128(first)), LaneId(Uuid::from_u128(last)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::QueueId;

    const NOW: Timestamp = Timestamp(1_700_000_000_123_456);

    #[test]
    fn the_id_of_a_lease_on_one_lane_leads_to_it() {
        let queue = QueueId::random();
        for n in 0..1000 {
            let lane = LaneId::derive(queue, &n.to_string());
            let Whereabouts::Between(first, last) = whereabouts(lease_id(NOW, Some(lane))) else {
                panic!("a lease on one lane")
            };
            assert!(first <= lane && lane <= last, "{first} {lane} {last}");
            let other = LaneId::derive(queue, &format!("other {n}"));
            assert!(other < first || last < other, "{other} is far from {lane}");
        }
    }

    #[test]
    fn the_id_of_a_lease_on_several_lanes_tells_when_it_was_made() {
        for _ in 0..1000 {
            let since = Timestamp(NOW.0 / 1000 * 1000).minus(CLOCK_SLACK);
            assert_eq!(whereabouts(lease_id(NOW, None)), Whereabouts::ChangedSince(since));
        }
    }

    #[test]
    fn ids_are_all_different_and_those_of_others_say_nothing() {
        let lane = LaneId::derive(QueueId::random(), "p");
        let ids: std::collections::HashSet<LeaseId> =
            (0..1000).map(|n| lease_id(NOW, (n % 2 == 0).then_some(lane))).collect();
        assert_eq!(ids.len(), 1000);
        for id in [Uuid::now_v7(), Uuid::new_v4(), Uuid::nil(), Uuid::max()] {
            assert_eq!(whereabouts(id), Whereabouts::Anywhere, "{id}");
        }
        assert_ne!(whereabouts(lease_id(Timestamp(-5), Some(lane))), Whereabouts::Anywhere);
    }
}
