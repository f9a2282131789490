//! Moments as people write them: a time, how long ago, `now` or `beginning`.

use std::str::FromStr;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;

use crate::settings::Span;

/// A moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment(pub(crate) SystemTime);

impl Moment {
    /// As the server reads it.
    pub(crate) fn spelled(self) -> String {
        Timestamp::try_from(self.0).unwrap_or(Timestamp::MAX).to_string()
    }
}

impl FromStr for Moment {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let now = SystemTime::now();
        if text == "now" {
            return Ok(Self(now));
        }
        if text == "beginning" {
            return Ok(Self(SystemTime::UNIX_EPOCH));
        }
        if let Ok(time) = text.parse::<Timestamp>() {
            return Ok(Self(time.into()));
        }
        match text.parse() {
            Ok(Span(ago)) if ago > Duration::ZERO => {
                Ok(Self(now.checked_sub(ago).unwrap_or(SystemTime::UNIX_EPOCH)))
            }
            _ => Err(format!(
                "{text:?} is no moment: write 2026-01-31T12:00:00Z, 10m for ten minutes ago, now or beginning"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_in_all_forms() {
        let moment = |text: &str| text.parse::<Moment>();
        assert_eq!(moment("1970-01-01T00:00:01Z").unwrap().spelled(), "1970-01-01T00:00:01Z");
        assert_eq!(moment("beginning").unwrap().0, SystemTime::UNIX_EPOCH);
        let ago = moment("1h").unwrap().0.elapsed().unwrap();
        assert!((3599..3700).contains(&ago.as_secs()), "{ago:?}");
        assert!(moment("yesterday").is_err() && moment("").is_err());
    }
}
