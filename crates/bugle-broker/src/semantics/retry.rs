//! How long a failed message rests before it is delivered again (queues that enforce `retryDelay`).
//!
//! The wait belongs to the lane's cursor, not to the message, so that a lane keeps its order while it rests.

use std::time::Duration;

/// Longest rest, however often a message failed.
const LONGEST: Duration = Duration::from_secs(3600);

/// The rest after the `attempts`-th failure: `base_ms`, doubled with every further failure, at most an hour.
pub(crate) fn backoff(base_ms: u64, attempts: u32) -> Duration {
    let Some(doublings) = attempts.checked_sub(1) else { return Duration::ZERO };
    let factor = 1u64.checked_shl(doublings).unwrap_or(u64::MAX);
    Duration::from_millis(base_ms.saturating_mul(factor)).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_with_every_failure() {
        let rests: Vec<u128> = (0..5).map(|n| backoff(250, n).as_millis()).collect();
        assert_eq!(rests, [0, 250, 500, 1000, 2000]);
    }

    #[test]
    fn is_capped_at_an_hour_without_overflow() {
        assert_eq!(backoff(1000, 13), LONGEST);
        assert_eq!(backoff(1000, u32::MAX), LONGEST);
        assert_eq!(backoff(u64::MAX, 1), LONGEST);
        assert_eq!(backoff(u64::MAX, 64), LONGEST);
    }

    #[test]
    fn a_base_of_zero_never_waits() {
        assert_eq!(backoff(0, 40), Duration::ZERO);
    }
}
