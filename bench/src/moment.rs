//! Moments by the wall clock, as servers write them: what is due at a time they name is compared with this machine's clock.

use std::time::{SystemTime, UNIX_EPOCH};

/// Microseconds since 1970 of this machine's clock.
pub(crate) fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_micros()).unwrap_or(i64::MAX)
}

/// Microseconds since 1970 of `2026-01-31T12:34:56.789Z`, with any number of decimals; none for anything else.
pub(crate) fn parse(text: &str) -> Option<i64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let [year, month, day] = numbers(date, '-')?;
    let (time, decimals) = time.split_once('.').unwrap_or((time, ""));
    let [hour, minute, second] = numbers(time, ':')?;
    if !(1..=12).contains(&month) {
        return None;
    }
    let mut micros = 0;
    for place in 0..6 {
        let digit = decimals.as_bytes().get(place).map_or(Some(0), |b| char::from(*b).to_digit(10))?;
        micros = micros * 10 + i64::from(digit);
    }
    let seconds = ((days(year, month, day) * 24 + hour) * 60 + minute) * 60 + second;
    Some(seconds * 1_000_000 + micros)
}

fn numbers(text: &str, separator: char) -> Option<[i64; 3]> {
    let mut parts = text.split(separator).map(|part| part.parse::<i64>().ok());
    let three = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(three)
}

/// Days from 1970-01-01 to a date of the Gregorian calendar; years begin in March, so that leap days come last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_servers_are_read_to_the_microsecond() {
        assert_eq!(parse("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(parse("2000-02-29T23:59:59.5Z"), Some(951_868_799_500_000));
        assert_eq!(parse("2026-11-16T05:19:33.669980Z"), Some(1_794_806_373_669_980));
        assert_eq!(parse("2026-11-16T05:19:35.690Z"), Some(1_794_806_375_690_000));
    }

    #[test]
    fn anything_else_is_refused() {
        for text in
            ["", "2026-11-16", "2026-11-16T05:19:33+01:00", "2026-13-01T00:00:00Z", "2026-1-1T0:0:0.xZ"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn the_clock_is_in_this_century() {
        assert!(
            now() > parse("2020-01-01T00:00:00Z").unwrap() && now() < parse("2100-01-01T00:00:00Z").unwrap()
        );
    }
}
