//! Which messages of a lane time allows to be delivered: delay, window and expiry.
//!
//! Stamps never decrease along a lane, so every rule cuts it at one place: expiry takes a prefix, a delay hides a
//! suffix, and a window opens or closes the lane as a whole. What is hidden now has a time at which it shows, so a
//! waiting consumer can sleep until exactly then.

use std::time::Duration;

use bugle_store::{Enforced, Lane, Offset, QueueOptions, Timestamp};

/// Pending messages that open a window before it is over: a busy lane must not starve its consumers.
const WINDOW_FULL: u64 = 100;

/// A segment as these rules see it: base, number of messages, stamp.
type Pending = (Offset, u32, Timestamp);

/// What can be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Visible {
    /// Deliver up to here (exclusive).
    Until(Offset),
    /// Nothing before this time.
    NotBefore(Timestamp),
    /// The lane has nothing more.
    Nothing,
}

/// Does this queue hide messages by time, so that segments must be looked at before a claim?
pub(crate) fn hides(options: &QueueOptions) -> bool {
    options.delayed_processing > 0 || options.window_buffer > 0 || ttl(options).is_some()
}

/// What of `from..lane.head` can be delivered at `now`. `pending` are the segments from `from` on, in order, possibly
/// only the first of them; what lies behind them is not judged unless the lane's newest stamp settles it. Expiry is
/// not looked at: pass what [`expired_until`] answered as `from`.
pub(crate) fn visible(
    options: &QueueOptions,
    lane: &Lane,
    from: Offset,
    pending: &[Pending],
    now: Timestamp,
) -> Visible {
    let from = from.max(lane.tail);
    if from >= lane.head {
        return Visible::Nothing;
    }
    let first = pending.partition_point(|&p| end(p) <= from);
    let pending = &pending[first..];
    let opens = window_opens(options, lane, from, pending);
    match delayed(options, lane, pending, now) {
        Visible::NotBefore(ripe) => Visible::NotBefore(ripe.max(opens)),
        _ if opens > now => Visible::NotBefore(opens),
        ripe => ripe,
    }
}

/// When the window lets the lane be delivered: once it was quiet for the window, or its oldest message has waited for
/// two windows, or enough messages have gathered.
fn window_opens(options: &QueueOptions, lane: &Lane, from: Offset, pending: &[Pending]) -> Timestamp {
    if options.window_buffer == 0 || lane.head - from >= WINDOW_FULL {
        return Timestamp::ZERO;
    }
    let window = Duration::from_secs(options.window_buffer);
    // What was read may be newer than what is known of the lane: another server wrote to it.
    let newest = pending.last().map_or(lane.written_at, |(_, _, newest)| lane.written_at.max(*newest));
    let quiet = newest.plus(window);
    pending.first().map_or(quiet, |(_, _, oldest)| quiet.min(oldest.plus(window.saturating_mul(2))))
}

/// The prefix whose messages are old enough.
fn delayed(options: &QueueOptions, lane: &Lane, pending: &[Pending], now: Timestamp) -> Visible {
    let delay = Duration::from_secs(options.delayed_processing);
    if options.delayed_processing == 0 || lane.written_at.plus(delay) <= now {
        return Visible::Until(lane.head);
    }
    let ripe = pending.partition_point(|(_, _, created_at)| created_at.plus(delay) <= now);
    match (ripe.checked_sub(1), pending.get(ripe)) {
        (Some(last), _) => Visible::Until(end(pending[last]).min(lane.head)),
        (None, Some((_, _, created_at))) => Visible::NotBefore(created_at.plus(delay)),
        // Nothing known of the segments: the newest stamp is late, but never too early.
        (None, None) => Visible::NotBefore(lane.written_at.plus(delay)),
    }
}

/// First offset at or behind `from` that is not expired, as far as `pending` shows; `from` itself where no `ttl` is
/// enforced.
pub(crate) fn expired_until(
    options: &QueueOptions,
    from: Offset,
    pending: &[Pending],
    now: Timestamp,
) -> Offset {
    let Some(ttl) = ttl(options) else { return from };
    let expired = pending.partition_point(|(_, _, created_at)| created_at.plus(ttl) <= now);
    expired.checked_sub(1).map_or(from, |last| end(pending[last]).max(from))
}

fn ttl(options: &QueueOptions) -> Option<Duration> {
    (options.ttl > 0 && options.enforces(Enforced::Ttl)).then(|| Duration::from_secs(options.ttl))
}

fn end((base, count, _): Pending) -> Offset {
    base.saturating_add(u64::from(count))
}

#[cfg(test)]
mod tests {
    use bugle_store::{LaneId, QueueId};
    use proptest::prelude::*;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp(seconds * 1_000_000)
    }

    fn segments(stamps: &[(u32, i64)]) -> Vec<Pending> {
        let mut base = 10;
        stamps
            .iter()
            .map(|&(count, seconds)| {
                base += u64::from(count);
                (base - u64::from(count), count, at(seconds))
            })
            .collect()
    }

    fn lane(pending: &[Pending]) -> Lane {
        let queue = QueueId::random();
        Lane {
            id: LaneId::derive(queue, "a"),
            queue,
            name: "a".into(),
            head: pending.last().map_or(10, |&p| end(p)),
            tail: 5,
            created_at: at(0),
            written_at: pending.last().map_or(at(0), |p| p.2),
            greatest: None,
        }
    }

    fn look(options: &QueueOptions, stamps: &[(u32, i64)], now: i64) -> Visible {
        let pending = segments(stamps);
        visible(options, &lane(&pending), 10, &pending, at(now))
    }

    fn delay(delayed_processing: u64) -> QueueOptions {
        QueueOptions { delayed_processing, ..QueueOptions::default() }
    }

    fn window(window_buffer: u64) -> QueueOptions {
        QueueOptions { window_buffer, ..QueueOptions::default() }
    }

    fn expiring(ttl: u64) -> QueueOptions {
        QueueOptions { ttl, enforce: vec![Enforced::Ttl], ..QueueOptions::default() }
    }

    #[test]
    fn only_queues_with_a_time_rule_need_a_look() {
        assert!(!hides(&QueueOptions::default()), "a ttl that is only stored hides nothing");
        assert!(hides(&delay(1)) && hides(&window(1)) && hides(&expiring(1)));
        assert!(!hides(&expiring(0)));
    }

    #[test]
    fn without_a_rule_everything_is_visible_at_once() {
        assert_eq!(look(&QueueOptions::default(), &[(3, 100)], 100), Visible::Until(13));
        assert_eq!(look(&QueueOptions::default(), &[], 100), Visible::Nothing);
    }

    #[test]
    fn a_delay_hides_the_younger_part() {
        let stamps = [(2, 100), (3, 105), (1, 109)];
        assert_eq!(look(&delay(5), &stamps, 104), Visible::NotBefore(at(105)));
        assert_eq!(look(&delay(5), &stamps, 105), Visible::Until(12));
        assert_eq!(look(&delay(5), &stamps, 113), Visible::Until(15));
        assert_eq!(look(&delay(5), &stamps, 114), Visible::Until(16));
    }

    #[test]
    fn what_lies_behind_the_known_segments_is_not_delivered_early() {
        let pending = segments(&[(2, 100), (3, 105), (1, 109)]);
        let lane = lane(&pending);
        assert_eq!(visible(&delay(5), &lane, 10, &pending[..1], at(110)), Visible::Until(12));
        assert_eq!(visible(&delay(5), &lane, 10, &pending[..1], at(114)), Visible::Until(16));
        assert_eq!(visible(&delay(5), &lane, 10, &[], at(110)), Visible::NotBefore(at(114)));
    }

    #[test]
    fn nothing_beyond_the_head_the_caller_knows_is_delivered() {
        let pending = segments(&[(2, 100), (3, 101)]);
        let lane = Lane { head: 14, written_at: at(109), ..lane(&pending) };
        assert_eq!(visible(&delay(5), &lane, 10, &pending, at(110)), Visible::Until(14));
    }

    #[test]
    fn a_start_inside_a_segment_sees_only_what_follows() {
        let pending = segments(&[(2, 100), (3, 105)]);
        let lane = lane(&pending);
        assert_eq!(visible(&delay(5), &lane, 12, &pending, at(106)), Visible::NotBefore(at(110)));
        assert_eq!(visible(&delay(5), &lane, 11, &pending, at(106)), Visible::Until(12));
        assert_eq!(visible(&delay(5), &lane, 15, &pending, at(106)), Visible::Nothing);
    }

    #[test]
    fn a_window_opens_when_the_lane_was_quiet() {
        let stamps = [(1, 100), (1, 104)];
        assert_eq!(look(&window(5), &stamps, 108), Visible::NotBefore(at(109)));
        assert_eq!(look(&window(5), &stamps, 109), Visible::Until(12));
    }

    #[test]
    fn a_window_is_not_quiet_because_the_news_have_not_come_yet() {
        let pending = segments(&[(1, 100), (1, 104)]);
        let old = lane(&pending[..1]);
        assert_eq!(visible(&window(5), &old, 10, &pending, at(106)), Visible::NotBefore(at(109)));
        assert_eq!(visible(&window(5), &old, 10, &pending[..1], at(106)), Visible::Until(11));
    }

    #[test]
    fn a_busy_lane_delivers_after_two_windows() {
        let stamps = [(1, 100), (1, 104), (1, 108)];
        assert_eq!(look(&window(5), &stamps, 109), Visible::NotBefore(at(110)));
        assert_eq!(look(&window(5), &stamps, 110), Visible::Until(13));
    }

    #[test]
    fn a_full_window_opens_at_once() {
        assert_eq!(look(&window(5), &[(99, 100)], 100), Visible::NotBefore(at(105)));
        assert_eq!(look(&window(5), &[(99, 100), (1, 100)], 100), Visible::Until(110));
    }

    #[test]
    fn removed_messages_do_not_fill_a_window() {
        let pending = [(200, 1, at(100))];
        let lane = Lane { tail: 200, ..lane(&pending) };
        assert_eq!(visible(&window(5), &lane, 10, &pending, at(100)), Visible::NotBefore(at(105)));
    }

    #[test]
    fn delay_and_window_must_both_allow_it() {
        let both = QueueOptions { window_buffer: 5, ..delay(20) };
        let stamps = [(1, 100), (1, 104)];
        assert_eq!(look(&both, &stamps, 109), Visible::NotBefore(at(120)));
        assert_eq!(look(&both, &stamps, 120), Visible::Until(11));
        let both = QueueOptions { window_buffer: 20, ..delay(5) };
        assert_eq!(look(&both, &stamps, 106), Visible::NotBefore(at(124)));
        assert_eq!(look(&both, &stamps, 124), Visible::Until(12));
    }

    #[test]
    fn expired_messages_are_a_prefix() {
        let pending = segments(&[(2, 100), (3, 105), (1, 109)]);
        let until = |from, now| expired_until(&expiring(10), from, &pending, at(now));
        assert_eq!([until(10, 109), until(10, 110), until(10, 115), until(10, 200)], [10, 12, 15, 16]);
        assert_eq!(until(13, 110), 13, "never goes back");
        assert_eq!(expired_until(&expiring(0), 10, &pending, at(200)), 10);
        assert_eq!(expired_until(&QueueOptions::default(), 10, &pending, at(999_999)), 10);
        assert_eq!(expired_until(&expiring(10), 10, &[], at(200)), 10);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// The promise behind exact timers: at the time it names, unless something is pushed, there is something.
        #[test]
        fn what_is_hidden_shows_at_the_time_told(
            delay in 0u64..30, window in 0u64..30,
            gaps in proptest::collection::vec((1u32..60, 0i64..20), 1..6), wait in 0i64..40,
        ) {
            let mut stamp = 1000;
            let stamps: Vec<(u32, i64)> =
                gaps.into_iter().map(|(count, gap)| { stamp += gap; (count, stamp) }).collect();
            let options = QueueOptions { window_buffer: window, ..self::delay(delay) };
            if let Visible::NotBefore(when) = look(&options, &stamps, stamp + wait) {
                prop_assert!(when > at(stamp + wait));
                let pending = segments(&stamps);
                let then = visible(&options, &lane(&pending), 10, &pending, when);
                prop_assert!(matches!(then, Visible::Until(offset) if offset > 10), "{:?}", then);
                let before = visible(&options, &lane(&pending), 10, &pending, Timestamp(when.0 - 1));
                prop_assert_eq!(before, Visible::NotBefore(when));
            }
        }
    }
}
