//! Which messages are old enough to go.
//!
//! A store removes only the front of a lane and tells, for one moment in time, where the messages before it end. So
//! every rule is a moment and a way to choose the new tail from that answer.

use std::time::Duration;

use bugle_store::{AgedLane, Offset, QueueOptions, Timestamp};

/// Which of the old messages go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// All of them, read or not.
    Any,
    /// Those that every group with a cursor has read; none where no group reads.
    Consumed,
    /// All of them, provided that somebody has not read one: what all have read is left to the other rules.
    Unread,
}

/// The rules that hold for a queue at `now`, each with the moment before which messages are old. `completed_default`
/// is the server's age for consumed messages, for queues that name none; zero keeps them.
pub(crate) fn rules(
    options: &QueueOptions,
    completed_default: Duration,
    now: Timestamp,
) -> Vec<(Rule, Timestamp)> {
    let enabled = |seconds: u64| Duration::from_secs(if options.retention_enabled { seconds } else { 0 });
    let completed = match enabled(options.completed_retention_seconds) {
        Duration::ZERO => completed_default,
        own => own,
    };
    [(Rule::Any, enabled(options.retention_seconds)), (Rule::Consumed, completed)]
        .into_iter()
        .filter(|(_, age)| !age.is_zero())
        .map(|(rule, age)| (rule, now.minus(age)))
        .collect()
}

/// The moment before which messages that nobody fetched are evicted (`maxWaitTimeSeconds`), by [`Rule::Unread`].
pub(crate) fn eviction(options: &QueueOptions, now: Timestamp) -> Option<Timestamp> {
    (options.max_wait_time_seconds > 0).then(|| now.minus(Duration::from_secs(options.max_wait_time_seconds)))
}

/// The new tail of a lane; the old one if nothing goes.
pub(crate) fn target(rule: Rule, lane: &AgedLane) -> Offset {
    let tail = lane.lane.tail;
    let to = match (rule, lane.slowest) {
        (Rule::Any, _) => lane.cut,
        (Rule::Consumed, Some(slowest)) => lane.cut.min(slowest),
        (Rule::Consumed, None) => tail,
        (Rule::Unread, Some(slowest)) if slowest >= lane.cut => tail,
        (Rule::Unread, _) => lane.cut,
    };
    to.max(tail)
}

#[cfg(test)]
mod tests {
    use bugle_store::{Lane, LaneId, QueueId};

    use super::*;

    const NOW: Timestamp = Timestamp(1_000_000_000);
    const WEEK: Duration = Duration::from_secs(7 * 86_400);

    fn aged(cut: Offset, slowest: Option<Offset>) -> AgedLane {
        let queue = QueueId::random();
        let lane = Lane {
            id: LaneId::derive(queue, "a"),
            queue,
            name: "a".into(),
            head: 50,
            tail: 10,
            created_at: Timestamp::ZERO,
            written_at: Timestamp::ZERO,
            greatest: None,
        };
        AgedLane { lane, cut, slowest }
    }

    fn seconds_ago(seconds: u64) -> Timestamp {
        NOW.minus(Duration::from_secs(seconds))
    }

    #[test]
    fn by_default_only_consumed_messages_go_after_the_servers_age() {
        let options = QueueOptions::default();
        assert_eq!(rules(&options, WEEK, NOW), [(Rule::Consumed, NOW.minus(WEEK))]);
        assert!(rules(&options, Duration::ZERO, NOW).is_empty());
    }

    #[test]
    fn a_queue_names_its_own_ages() {
        let options = QueueOptions {
            retention_enabled: true,
            retention_seconds: 100,
            completed_retention_seconds: 20,
            ..QueueOptions::default()
        };
        let expected = [(Rule::Any, seconds_ago(100)), (Rule::Consumed, seconds_ago(20))];
        assert_eq!(rules(&options, WEEK, NOW), expected);
        let off = QueueOptions { retention_enabled: false, ..options };
        assert_eq!(rules(&off, WEEK, NOW), [(Rule::Consumed, NOW.minus(WEEK))]);
    }

    #[test]
    fn eviction_needs_no_switch() {
        let options = QueueOptions { max_wait_time_seconds: 30, ..QueueOptions::default() };
        assert_eq!(eviction(&options, NOW), Some(seconds_ago(30)));
        assert_eq!(eviction(&QueueOptions::default(), NOW), None);
    }

    #[test]
    fn age_alone_removes_read_or_not() {
        assert_eq!(target(Rule::Any, &aged(30, Some(12))), 30);
        assert_eq!(target(Rule::Any, &aged(30, None)), 30);
    }

    #[test]
    fn consumed_means_read_by_the_slowest_group_and_by_at_least_one() {
        assert_eq!(target(Rule::Consumed, &aged(30, Some(12))), 12);
        assert_eq!(target(Rule::Consumed, &aged(30, Some(40))), 30);
        assert_eq!(target(Rule::Consumed, &aged(30, None)), 10);
        assert_eq!(
            target(Rule::Consumed, &aged(30, Some(3))),
            10,
            "a cursor behind the tail moves nothing back"
        );
    }

    #[test]
    fn hazard_p_eviction_leaves_what_everybody_has_read_to_retention() {
        assert_eq!(target(Rule::Unread, &aged(30, Some(29))), 30);
        assert_eq!(target(Rule::Unread, &aged(30, None)), 30);
        assert_eq!(target(Rule::Unread, &aged(30, Some(30))), 10);
    }
}
