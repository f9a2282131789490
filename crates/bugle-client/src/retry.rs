//! How often and how long apart something is tried again: a pure function of what happened so far.

use std::time::Duration;

/// Longest pause that a server can ask for. One that asks for more is asked again after this.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(60);

/// How an operation that failed in passing is tried again: the same request, with the same ids.
///
/// Pauses double from `first` up to `longest`; half of each is random, so that clients that failed together do not come
/// back together. A server that says when to come back (`Retry-After`) is believed up to a minute.
#[derive(Clone, Copy, Debug)]
pub struct RetryPolicy {
    attempts: u32,
    first: Duration,
    longest: Duration,
}

impl Default for RetryPolicy {
    /// Ten attempts in about fifteen seconds.
    fn default() -> Self {
        Self { attempts: 10, first: Duration::from_millis(50), longest: Duration::from_secs(5) }
    }
}

impl RetryPolicy {
    /// So many attempts in all, at least one; the first pause, and the longest.
    pub fn new(attempts: u32, first: Duration, longest: Duration) -> Self {
        Self { attempts: attempts.max(1), first, longest: longest.max(first) }
    }

    /// One attempt.
    pub fn never() -> Self {
        Self::new(1, Duration::ZERO, Duration::ZERO)
    }

    pub(crate) fn attempts(&self) -> u32 {
        self.attempts
    }

    /// The pause after so many failures in a row. `random` is in 0..1.
    pub(crate) fn pause(&self, failures: u32, asked: Option<Duration>, random: f64) -> Duration {
        let doubled = 2u32.saturating_pow(failures.saturating_sub(1).min(20));
        let own = self.first.saturating_mul(doubled).min(self.longest);
        let own = own.mul_f64(0.5 + random / 2.0);
        match asked {
            // Not before the time asked for, and not all at that time either.
            Some(asked) => asked.min(LONGEST_RETRY_AFTER) + own.min(Duration::from_secs(1)),
            None => own,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn pauses_double_to_a_bound_and_half_of_them_is_chance() {
        let policy = RetryPolicy::new(5, 100 * MS, 1000 * MS);
        let pauses: Vec<_> = (1..7).map(|n| policy.pause(n, None, 1.0)).collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1000, 1000].map(|n| n * MS));
        assert_eq!(policy.pause(2, None, 0.0), 100 * MS);
        assert_eq!(policy.pause(u32::MAX, None, 1.0), 1000 * MS);
    }

    #[test]
    fn a_server_is_believed_within_reason() {
        let policy = RetryPolicy::new(5, 100 * MS, 1000 * MS);
        assert_eq!(policy.pause(1, Some(3000 * MS), 0.0), 3050 * MS);
        assert!(policy.pause(9, Some(Duration::from_secs(86_400)), 1.0) <= Duration::from_secs(61));
    }

    #[test]
    fn there_is_always_one_attempt() {
        assert_eq!(RetryPolicy::new(0, MS, MS).attempts(), 1);
        assert_eq!(RetryPolicy::never().pause(1, None, 1.0), Duration::ZERO);
    }
}
