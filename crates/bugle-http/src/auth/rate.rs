//! How many of something one may have in a second: a bucket that fills steadily and is emptied by use. Pure; the time is
//! passed in.
//!
//! A bucket is kept as one instant: when it will be full again. Taking moves that instant on; one that is too far ahead is
//! refused, and the distance is how long to wait. A bucket that nobody used for a while is like a new one, so it can be
//! forgotten.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

const SECOND: u64 = 1_000_000_000;

/// So many in a second, and so many at once after a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    per_second: u32,
    burst: u32,
}

impl Rate {
    /// `None` unless both are positive.
    pub fn new(per_second: u32, burst: u32) -> Option<Self> {
        (per_second > 0 && burst > 0).then_some(Self { per_second, burst })
    }

    /// Nanoseconds in which so many come.
    fn span(self, count: u64) -> u64 {
        let nanos = u128::from(count) * u128::from(SECOND) / u128::from(self.per_second);
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }
}

impl FromStr for Rate {
    type Err = String;

    /// `100`, or `100/500` with a burst; without one a second's worth may come at once.
    fn from_str(text: &str) -> Result<Self, String> {
        let (rate, burst) = text.split_once('/').unwrap_or((text, text));
        let parsed = rate.trim().parse().ok().zip(burst.trim().parse().ok());
        parsed.and_then(|(rate, burst)| Self::new(rate, burst)).ok_or_else(|| {
            format!("{text:?} is no rate: write 100, or 100/500 for 100 a second and 500 at once")
        })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s (burst {})", self.per_second, self.burst)
    }
}

/// A bucket. New ones are full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bucket {
    /// When it is full again, in nanoseconds of the caller's clock.
    full_at: u64,
}

impl Bucket {
    /// Take so many, or say how long to wait. More than the burst is let through a full bucket, and paid for afterwards:
    /// otherwise it could never come.
    pub(crate) fn take(&mut self, rate: Rate, count: u64, now: Duration) -> Result<(), Duration> {
        let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let full_at = self.full_at.max(now);
        let counted = count.min(u64::from(rate.burst));
        let wait = full_at
            .saturating_add(rate.span(counted))
            .saturating_sub(now.saturating_add(rate.span(rate.burst.into())));
        if wait > 0 {
            return Err(Duration::from_nanos(wait));
        }
        self.full_at = full_at.saturating_add(rate.span(count));
        Ok(())
    }

    /// Whether it is like a new one.
    pub(crate) fn is_full(self, now: Duration) -> bool {
        u128::from(self.full_at) <= now.as_nanos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn rate(text: &str) -> Rate {
        text.parse().unwrap()
    }

    #[test]
    fn a_burst_goes_through_and_then_the_rate_holds() {
        let (ten, mut bucket) = (rate("10/3"), Bucket::default());
        for _ in 0..3 {
            assert_eq!(bucket.take(ten, 1, 5 * MS), Ok(()));
        }
        assert_eq!(bucket.take(ten, 1, 5 * MS), Err(100 * MS));
        assert_eq!(bucket.take(ten, 1, 104 * MS), Err(MS));
        assert_eq!(bucket.take(ten, 1, 105 * MS), Ok(()));
        assert_eq!(bucket.take(ten, 2, 105 * MS), Err(200 * MS), "what was refused was not counted");
        assert!(!bucket.is_full(404 * MS) && bucket.is_full(405 * MS));
    }

    #[test]
    fn over_a_long_time_it_is_the_rate_whatever_the_steps() {
        let (rate, mut bucket, mut taken) = (rate("1000/50"), Bucket::default(), 0);
        for step in 0..100_000_u32 {
            let count = u64::from(step % 7);
            taken += if bucket.take(rate, count, step * MS / 10).is_ok() { count } else { 0 };
        }
        assert!((9_990..=10_050).contains(&taken), "{taken}");
    }

    #[test]
    fn more_than_the_burst_needs_a_full_bucket_and_is_paid_for() {
        let (ten, mut bucket) = (rate("10/5"), Bucket::default());
        assert_eq!(bucket.take(ten, 20, Duration::ZERO), Ok(()));
        assert_eq!(bucket.take(ten, 1, Duration::ZERO), Err(1600 * MS));
        assert_eq!(bucket.take(ten, 20, 1999 * MS), Err(MS));
        assert_eq!(bucket.take(ten, 20, 2000 * MS), Ok(()));
    }

    #[test]
    fn extremes_neither_overflow_nor_let_everything_through() {
        let slow = rate("1/4294967295");
        let mut bucket = Bucket::default();
        assert_eq!(bucket.take(slow, u64::MAX, Duration::MAX), Ok(()));
        let mut bucket = Bucket::default();
        assert_eq!(bucket.take(slow, u64::MAX, Duration::ZERO), Ok(()));
        assert!(bucket.take(slow, 1, Duration::from_secs(1)).is_err());
        assert_eq!(Bucket::default().take(slow, 0, Duration::ZERO), Ok(()));
    }

    #[test]
    fn rates_are_read_and_shown() {
        assert_eq!(rate("100"), Rate { per_second: 100, burst: 100 });
        assert_eq!(rate(" 100 / 500 ").to_string(), "100/s (burst 500)");
        for wrong in ["", "0", "10/0", "-1", "1.5", "10/", "10/20/30", "fast"] {
            assert!(wrong.parse::<Rate>().is_err(), "{wrong}");
        }
    }
}
