//! Bounds of the database's clock, learned from its answers.
//!
//! An answer that carries the database's time tells two things: when it was received, the database's clock had
//! already reached that time; when the question was sent, it had not passed it yet. Between answers the bounds move with
//! this process's monotonic clock, which ignores every change of the host's wall clock, and widen by the rate at
//! which two quartz clocks may drift apart.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

/// Two hosts' clocks drift apart by at most this many microseconds per second.
const DRIFT_PPM: i64 = 200;

/// What is known of the database's present, in microseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Not after the true time.
    pub earliest: i64,
    /// Not before the true time.
    pub latest: i64,
}

/// Keeps the best bounds known.
#[derive(Debug)]
pub struct Clock {
    origin: Instant,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Offset of the database's clock to ours: lower bound, and when it was learned.
    low: Option<(i64, i64)>,
    /// The same, upper bound.
    high: Option<(i64, i64)>,
    /// Last `latest` handed out: never goes back.
    latest: i64,
    /// Last `earliest` handed out.
    earliest: i64,
    /// When the last answer was used.
    learned: Option<i64>,
}

impl Default for Clock {
    fn default() -> Self {
        Self { origin: Instant::now(), state: Mutex::default() }
    }
}

impl Clock {
    /// A clock that knows nothing yet: it answers the host's time until the first answer.
    pub fn new() -> Self {
        Self::default()
    }

    fn micros(&self, at: Instant) -> i64 {
        at.saturating_duration_since(self.origin).as_micros() as i64
    }

    /// Use an answer of another server, whose clock is another one: forget what was known.
    pub(crate) fn restart(&self, sent: Instant, database: i64, received: Instant) {
        *self.state.lock() = State::default();
        self.learn(sent, database, received);
    }

    /// Use an answer: the question was sent at `sent`, answered with `database` microseconds, received at `received`.
    pub fn learn(&self, sent: Instant, database: i64, received: Instant) {
        let (sent, received) = (self.micros(sent), self.micros(received));
        let mut state = self.state.lock();
        let (low, high) = (database - received, database - sent);
        let aged_low = state.low.map(|(offset, at)| offset - drift(received - at));
        let aged_high = state.high.map(|(offset, at)| offset + drift(received - at));
        // Bounds that contradict each other mean that the database's clock was set, or another host answers now.
        let jumped = aged_low.is_some_and(|l| l > high) || aged_high.is_some_and(|h| h < low);
        if jumped {
            let by_ms = state.low.map_or(0, |(offset, _)| (low - offset) / 1000);
            tracing::warn!(by_ms, "the database's clock was set, or another database answers");
            (state.latest, state.earliest) = (0, 0);
        }
        if jumped || aged_low.is_none_or(|l| low > l) {
            state.low = Some((low, received));
        }
        if jumped || aged_high.is_none_or(|h| high < h) {
            state.high = Some((high, received));
        }
        state.learned = Some(received);
    }

    /// The present. Never goes back, unless the database's own clock was seen to be set back.
    pub fn now(&self) -> Bounds {
        self.at(Instant::now())
    }

    fn at(&self, now: Instant) -> Bounds {
        let now = self.micros(now);
        let mut state = self.state.lock();
        let (Some((low, low_at)), Some((high, high_at))) = (state.low, state.high) else {
            let host = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_micros() as i64);
            return Bounds { earliest: host, latest: host };
        };
        state.earliest = state.earliest.max(low + now - drift(now - low_at));
        state.latest = state.latest.max(high + now + drift(now - high_at));
        Bounds { earliest: state.earliest, latest: state.latest }
    }

    /// Time since the last answer that was used; `None` before the first.
    pub fn age(&self) -> Option<Duration> {
        let learned = self.state.lock().learned?;
        let age = self.micros(Instant::now()).saturating_sub(learned);
        Some(Duration::from_micros(u64::try_from(age).unwrap_or(0)))
    }
}

/// How far two clocks may have come apart in `elapsed` microseconds; at least one, for the rounding.
fn drift(elapsed: i64) -> i64 {
    elapsed.max(0) * DRIFT_PPM / 1_000_000 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000;

    fn after(clock: &Clock, millis: u64) -> Instant {
        clock.origin + Duration::from_millis(millis)
    }

    #[test]
    fn bounds_enclose_the_time_and_narrow_with_faster_answers() {
        let clock = Clock::new();
        clock.learn(after(&clock, 0), 100 * S, after(&clock, 100));
        let wide = clock.at(after(&clock, 100));
        assert!(wide.earliest <= 100 * S && wide.latest >= 100 * S);
        assert!(wide.latest - wide.earliest >= 100_000);
        clock.learn(after(&clock, 200), 100 * S + 150_000, after(&clock, 202));
        let narrow = clock.at(after(&clock, 202));
        assert!(narrow.earliest >= 100 * S + 149_000);
        assert!(narrow.latest >= 100 * S + 150_000);
    }

    #[test]
    fn bounds_widen_with_age() {
        let clock = Clock::new();
        clock.learn(after(&clock, 0), 100 * S, after(&clock, 1));
        let bounds = clock.at(after(&clock, 100_001));
        assert!(bounds.earliest <= 200 * S - 19_000, "{bounds:?}");
        assert!(bounds.latest >= 200 * S + 19_000, "{bounds:?}");
    }

    #[test]
    fn never_goes_back_while_the_database_does_not() {
        let clock = Clock::new();
        clock.learn(after(&clock, 0), 100 * S, after(&clock, 500));
        let first = clock.at(after(&clock, 500));
        clock.learn(after(&clock, 500), 100 * S + 300_000, after(&clock, 501));
        let second = clock.at(after(&clock, 501));
        assert!(second.latest >= first.latest && second.earliest >= first.earliest);
    }

    #[test]
    fn another_servers_clock_is_not_mixed_with_the_last_ones() {
        let clock = Clock::new();
        clock.learn(after(&clock, 0), 100 * S, after(&clock, 1));
        clock.at(after(&clock, 1));
        // A tenth of a second behind, told so slowly that it contradicts nothing that was known.
        clock.restart(after(&clock, 1), 100 * S + 100_000, after(&clock, 401));
        let bounds = clock.at(after(&clock, 401));
        let truth = 100 * S + 301_000;
        assert!(bounds.earliest <= truth && truth <= bounds.latest, "{bounds:?}");
    }

    #[test]
    fn follows_the_database_when_its_clock_is_set_back() {
        let clock = Clock::new();
        clock.learn(after(&clock, 0), 100 * S, after(&clock, 1));
        clock.at(after(&clock, 1));
        clock.learn(after(&clock, 10), 40 * S, after(&clock, 11));
        let bounds = clock.at(after(&clock, 11));
        assert!(bounds.latest < 41 * S, "{bounds:?}");
    }
}
