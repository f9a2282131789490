//! Which queue a filter pop looks at first.
//!
//! Seven turns in eight go strictly by priority, then by the oldest waiting message. Every eighth turn one of the lower
//! priorities present goes first, each in its turn. So with `n` priorities present, each lower one is first at least
//! once in any `8 * (n - 1)` turns in a row: none starves. Inside one priority the oldest message goes first, and that
//! starves nobody, because a queue that is passed over only gets older.

use std::cmp::Reverse;

use bugle_store::Timestamp;

/// One turn in this many belongs to the lower priorities.
const SHARE: u64 = 8;

/// A queue with messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// Its priority where the queue enforces it, else 0.
    pub(crate) priority: i64,
    /// Stamp of its oldest pending message.
    pub(crate) oldest: Timestamp,
}

/// Indices of all `candidates` in the order to try them. `turn` counts the pops of one filter: counted over several
/// filters together, one of them could miss every eighth turn.
pub(crate) fn order(candidates: &[Candidate], turn: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    order.sort_by_key(|&i| (Reverse(candidates[i].priority), candidates[i].oldest));
    if turn % SHARE == SHARE - 1 {
        promote(&mut order, candidates, turn / SHARE);
    }
    order
}

/// Put one of the lower priorities before all others.
fn promote(order: &mut [usize], candidates: &[Candidate], round: u64) {
    let classes: Vec<usize> = order
        .chunk_by(|&a, &b| candidates[a].priority == candidates[b].priority)
        .map(<[usize]>::len)
        .collect();
    let lower = classes.len().saturating_sub(1) as u64;
    if lower == 0 {
        return;
    }
    let chosen = 1 + (round % lower) as usize;
    let before: usize = classes[..chosen].iter().sum();
    order[..before + classes[chosen]].rotate_right(classes[chosen]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn candidates(list: &[(i64, i64)]) -> Vec<Candidate> {
        list.iter().map(|&(priority, oldest)| Candidate { priority, oldest: Timestamp(oldest) }).collect()
    }

    #[test]
    fn higher_priority_goes_first_then_the_oldest_message() {
        let list = candidates(&[(0, 5), (9, 7), (0, 1), (9, 6), (-3, 0)]);
        for turn in 0..SHARE - 1 {
            assert_eq!(order(&list, turn), [3, 1, 2, 0, 4]);
        }
    }

    #[test]
    fn every_eighth_turn_a_lower_priority_goes_first_each_in_its_turn() {
        let list = candidates(&[(0, 5), (9, 7), (0, 1), (9, 6), (-3, 0)]);
        assert_eq!(order(&list, 7), [2, 0, 3, 1, 4]);
        assert_eq!(order(&list, 15), [4, 3, 1, 2, 0]);
        assert_eq!(order(&list, 23), [2, 0, 3, 1, 4]);
    }

    #[test]
    fn equal_priorities_always_go_by_age() {
        let list = candidates(&[(0, 5), (0, 1), (0, 3)]);
        for turn in 0..64 {
            assert_eq!(order(&list, turn), [1, 2, 0]);
        }
        assert!(order(&[], 7).is_empty());
    }

    #[test]
    fn busy_queues_share_as_promised() {
        let mut list = candidates(&[(10, 0), (10, 1), (5, 2), (0, 3), (0, 4)]);
        let mut served = [0u32; 5];
        for turn in 0..1600 {
            let first = order(&list, turn)[0];
            served[first] += 1;
            list[first].oldest = Timestamp(10 + turn as i64);
        }
        assert_eq!(served, [700, 700, 100, 50, 50]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn every_queue_is_listed_once_and_every_priority_has_its_share(
            list in proptest::collection::vec((-3i64..3, 0i64..50), 0..12), start in 0u64..1_000_000,
        ) {
            let list = candidates(&list);
            let mut sorted = order(&list, start);
            sorted.sort_unstable();
            prop_assert_eq!(sorted, (0..list.len()).collect::<Vec<_>>());
            let classes: std::collections::BTreeSet<i64> = list.iter().map(|c| c.priority).collect();
            let span = SHARE * (classes.len() as u64).max(2) - SHARE;
            let first: std::collections::BTreeSet<i64> = (start..start + span)
                .filter_map(|turn| order(&list, turn).first().map(|&i| list[i].priority))
                .collect();
            prop_assert_eq!(first, classes);
        }
    }
}
