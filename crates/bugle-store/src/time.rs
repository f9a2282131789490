//! Time as the stores keep it: microseconds since the Unix epoch, UTC.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A point in time in microseconds since the Unix epoch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The epoch; used as "never" and "since ever".
    pub const ZERO: Self = Self(0);
    /// Later than anything.
    pub const MAX: Self = Self(i64::MAX);

    /// This time plus `d`, saturating.
    #[must_use]
    pub fn plus(self, d: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(d.as_micros()).unwrap_or(i64::MAX)))
    }

    /// This time minus `d`, saturating.
    #[must_use]
    pub fn minus(self, d: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(d.as_micros()).unwrap_or(i64::MAX)))
    }

    /// Time from `earlier` to this; zero when `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Milliseconds since the epoch.
    pub fn millis(self) -> i64 {
        self.0.div_euclid(1000)
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}us", self.0)
    }
}

/// What a store knows of the present.
///
/// A store whose clock lives elsewhere (PostgreSQL) can only bound it: `earliest` is certainly not after the true
/// time, `latest` certainly not before it. A lease is taken over only when it ended before `earliest`; a message is
/// stamped with `latest`, so that it is never older than a subscription that was confirmed before it was pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Not after the true time.
    pub earliest: Timestamp,
    /// Not before the true time.
    pub latest: Timestamp,
}

impl Now {
    /// A clock that is known exactly.
    pub fn exactly(at: Timestamp) -> Self {
        Self { earliest: at, latest: at }
    }
}
