//! Rules of sending dead letters back: under which id, in which order, and when an id must be looked for beyond the
//! dedupe window.
//!
//! A letter becomes a message whose transaction id names the letter. So a letter that is sent back twice, because a call
//! died between storing the message and deleting the letter or because two servers redrive at the same time, is stored
//! once.

use std::collections::HashMap;
use std::time::Duration;

use uuid::Uuid;

use bugle_store::{DeadLetter, LaneId, Timestamp};

/// How far clocks of servers may lie apart where their stamps are compared.
pub(crate) const SLACK: Duration = Duration::from_secs(60);

/// The transaction id of the message that a letter becomes.
pub(crate) fn transaction_id(letter: Uuid) -> String {
    format!("dlq:{letter}")
}

/// Whether the dedupe window may have forgotten an earlier try. No try can be older than the failure itself.
pub(crate) fn outlives_window(failed_at: Timestamp, window: Duration, now: Timestamp) -> bool {
    failed_at.plus(window) <= now.plus(SLACK)
}

/// Put the letters of each lane into the order their messages had, in the places that the lane's letters have now.
pub(crate) fn restore_order(letters: &mut [DeadLetter]) {
    let mut places: HashMap<LaneId, Vec<usize>> = HashMap::new();
    for (place, letter) in letters.iter().enumerate() {
        places.entry(letter.lane).or_default().push(place);
    }
    for places in places.into_values().filter(|places| places.len() > 1) {
        let mut sorted: Vec<DeadLetter> = places.iter().map(|place| letters[*place].clone()).collect();
        sorted.sort_by_key(|letter| letter.offset);
        for (place, letter) in places.into_iter().zip(sorted) {
            letters[place] = letter;
        }
    }
}

#[cfg(test)]
mod tests {
    use bugle_store::QueueId;

    use super::*;

    fn letter(lane: u128, offset: u64) -> DeadLetter {
        DeadLetter {
            id: Uuid::now_v7(),
            queue: QueueId(Uuid::nil()),
            lane: LaneId(Uuid::from_u128(lane)),
            partition: "p".into(),
            group: "g".into(),
            offset,
            message: bytes::Bytes::new(),
            transaction_id: String::new(),
            error: String::new(),
            attempts: 0,
            created_at: Timestamp::ZERO,
            failed_at: Timestamp::ZERO,
        }
    }

    #[test]
    fn lanes_keep_their_places_and_get_their_order_back() {
        let mut letters = [(1, 9), (2, 4), (1, 3), (3, 1), (2, 2), (1, 5)].map(|(l, o)| letter(l, o));
        restore_order(&mut letters);
        let seen = letters.map(|l| (l.lane.0.as_u128(), l.offset));
        assert_eq!(seen, [(1, 3), (2, 2), (1, 5), (3, 1), (2, 4), (1, 9)]);
    }

    #[test]
    fn a_window_reaches_back_to_a_failure_or_not() {
        let now = Timestamp(10_000_000_000);
        let (hour, ago) = (Duration::from_secs(3600), |s| now.minus(Duration::from_secs(s)));
        assert!(!outlives_window(ago(10), hour, now));
        assert!(!outlives_window(ago(3500), hour, now));
        assert!(outlives_window(ago(3590), hour, now), "too close to be sure of");
        assert!(outlives_window(ago(3601), hour, now));
        assert!(outlives_window(ago(0), Duration::ZERO, now), "no window at all");
    }
}
