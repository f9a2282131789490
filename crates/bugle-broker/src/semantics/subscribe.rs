//! Where a group starts to read, decided once at its first contact with a queue.

use bugle_store::{Lane, QUEUE_MODE, Start, Timestamp};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// Where `group` starts. `mode` and `from` are what the request says (`subscriptionMode`, `subscriptionFrom`; empty =
/// not given), `default_mode` is the server's. The group that anonymous consumers share reads everything, always.
pub(crate) fn start(
    group: &str,
    mode: Option<&str>,
    from: Option<&str>,
    default_mode: &str,
    now: Timestamp,
) -> Result<Start, String> {
    if group == QUEUE_MODE {
        return Ok(Start::All);
    }
    match given(from) {
        Some(from) if from.eq_ignore_ascii_case("now") => return Ok(Start::New(now)),
        Some(from) => {
            let wrong = || "subscriptionFrom must be \"now\" or an ISO 8601 timestamp".to_owned();
            return timestamp(from).map(Start::From).ok_or_else(wrong);
        }
        None => {}
    }
    let mode = given(mode).unwrap_or(default_mode);
    // Clients send many other words (`all`, `from_beginning`, `latest`…): all of them mean everything.
    let new = ["new", "new-only"].iter().any(|m| mode.eq_ignore_ascii_case(m));
    Ok(if new { Start::New(now) } else { Start::All })
}

fn given(text: Option<&str>) -> Option<&str> {
    text.map(str::trim).filter(|t| !t.is_empty())
}

/// Where a group that has no cursor on a lane begins there: behind all that was stamped up to the time answered, or, if
/// there is none, at the oldest kept message.
pub(crate) fn begins_after(start: Start, lane: &Lane) -> Option<Timestamp> {
    match start {
        Start::New(at) | Start::From(at) if lane.created_at <= at => Some(at),
        _ => None,
    }
}

/// ISO 8601, with an offset or else in UTC; a date alone is its first moment.
pub(crate) fn timestamp(text: &str) -> Option<Timestamp> {
    let moment = text.parse::<jiff::Timestamp>().or_else(|_| {
        let civil: DateTime = text.parse()?;
        Ok::<_, jiff::Error>(civil.to_zoned(TimeZone::UTC)?.timestamp())
    });
    moment.ok().map(|moment| Timestamp(moment.as_microsecond()).max(Timestamp::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_900_000_000_000_000);

    fn ask(mode: Option<&str>, from: Option<&str>) -> Result<Start, String> {
        start("g", mode, from, "", NOW)
    }

    #[test]
    fn anonymous_consumers_read_everything_whatever_they_ask() {
        assert_eq!(start(QUEUE_MODE, Some("new"), Some("garbage"), "new", NOW), Ok(Start::All));
    }

    #[test]
    fn hazard_j_new_only_means_new_and_every_other_word_means_all() {
        for mode in ["new", "new-only", "NEW", " new "] {
            assert_eq!(ask(Some(mode), None), Ok(Start::New(NOW)), "{mode}");
        }
        for mode in ["all", "from_beginning", "latest", "newest"] {
            assert_eq!(ask(Some(mode), None), Ok(Start::All), "{mode}");
        }
    }

    #[test]
    fn the_servers_default_counts_where_the_request_names_no_mode() {
        for mode in [None, Some("")] {
            assert_eq!(ask(mode, None), Ok(Start::All));
            assert_eq!(start("g", mode, Some(""), "new", NOW), Ok(Start::New(NOW)));
        }
        assert_eq!(start("g", Some("all"), None, "new", NOW), Ok(Start::All));
    }

    #[test]
    fn a_start_asked_for_counts_more_than_the_mode() {
        assert_eq!(ask(Some("all"), Some("now")), Ok(Start::New(NOW)));
        let moment = Ok(Start::From(Timestamp(1_700_000_000_000_000)));
        assert_eq!(ask(Some("new"), Some("2023-11-14T22:13:20Z")), moment);
    }

    #[test]
    fn timestamps_are_read_with_and_without_offset_and_as_dates() {
        for (text, micros) in [
            ("2023-11-14T22:13:20.000Z", 1_700_000_000_000_000),
            ("2023-11-14T22:13:20.000001Z", 1_700_000_000_000_001),
            ("2023-11-15T00:13:20+02:00", 1_700_000_000_000_000),
            ("2023-11-14T22:13:20", 1_700_000_000_000_000),
            ("2023-11-14 22:13:20", 1_700_000_000_000_000),
            ("2023-11-14", 1_699_920_000_000_000),
            ("1970-01-01T00:00:00.000Z", 0),
            ("1969-12-31T00:00:00Z", 0),
        ] {
            assert_eq!(ask(None, Some(text)), Ok(Start::From(Timestamp(micros))), "{text}");
        }
    }

    #[test]
    fn an_unreadable_start_is_an_error_that_names_the_parameter() {
        for text in ["yesterday", "2023-13-01", "1700000000", "2023-11-14T25:00:00Z"] {
            let error = ask(None, Some(text)).unwrap_err();
            assert!(error.starts_with("subscriptionFrom "), "{error}");
        }
    }
}
