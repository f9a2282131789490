//! Times between the wire's text and the standard library's [`SystemTime`].

use std::time::SystemTime;

use jiff::Timestamp;
use serde::de::{Deserialize, Deserializer, Error};

/// As the server reads it.
pub(crate) fn spell(time: SystemTime) -> String {
    // Out of range is centuries away; the nearest time that can be spelled is what was meant.
    let nearest = if time < SystemTime::UNIX_EPOCH { Timestamp::MIN } else { Timestamp::MAX };
    Timestamp::try_from(time).unwrap_or(nearest).to_string()
}

/// The `Date` header of an answer.
pub(crate) fn http_date(text: &str) -> Option<SystemTime> {
    let zoned = jiff::fmt::rfc2822::DateTimeParser::new().parse_zoned(text).ok()?;
    Some(zoned.timestamp().into())
}

/// A field that must hold a time.
pub(crate) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SystemTime, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse::<Timestamp>().map(SystemTime::from).map_err(D::Error::custom)
}

/// A field that may hold a time.
pub(crate) fn read_optional<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SystemTime>, D::Error> {
    let Some(text) = Option::<String>::deserialize(deserializer)?.filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    text.parse::<Timestamp>().map(|time| Some(time.into())).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn both_spellings_of_one_moment_agree() {
        let moment = SystemTime::UNIX_EPOCH + Duration::from_secs(784_887_151);
        assert_eq!(spell(moment), "1994-11-15T08:12:31Z");
        assert_eq!(http_date("Tue, 15 Nov 1994 08:12:31 GMT"), Some(moment));
        assert_eq!(http_date("soon"), None);
        let mut json = serde_json::Deserializer::from_str(r#""1994-11-15T08:12:31.000Z""#);
        assert_eq!(read(&mut json).unwrap(), moment);
        for none in ["null", r#""""#] {
            let mut json = serde_json::Deserializer::from_str(none);
            assert_eq!(read_optional(&mut json).unwrap(), None);
        }
    }
}
