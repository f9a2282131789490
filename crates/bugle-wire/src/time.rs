//! Times as the contract spells them: UTC, `YYYY-MM-DDTHH:MM:SS` and a fraction. Written by hand because a pop
//! answer carries one per message.

use serde::{Serialize, Serializer};

/// A time in microseconds since the Unix epoch that is told to the millisecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Millis(pub i64);

impl Serialize for Millis {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        shortened(self.0, 23, serializer)
    }
}

/// A time in microseconds since the Unix epoch that is told to the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seconds(pub i64);

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        shortened(self.0, 19, serializer)
    }
}

/// A time of which only the first characters are told.
fn shortened<S: Serializer>(micros: i64, length: usize, serializer: S) -> Result<S::Ok, S::Error> {
    let mut text = spelled(micros);
    text[length] = b'Z';
    serializer.serialize_str(std::str::from_utf8(&text[..=length]).unwrap_or_default())
}

/// Append `micros` since the Unix epoch as `YYYY-MM-DDTHH:MM:SS.uuuuuuZ`. Years are kept inside 0..=9999.
pub fn write_micros(out: &mut Vec<u8>, micros: i64) {
    out.extend_from_slice(&spelled(micros));
}

fn spelled(micros: i64) -> [u8; 27] {
    const FIRST: i64 = -62_167_219_200_000_000;
    const LAST: i64 = 253_402_300_799_999_999;
    let micros = micros.clamp(FIRST, LAST);
    let (day, in_day) = (micros.div_euclid(86_400_000_000), micros.rem_euclid(86_400_000_000));
    let (year, month, date) = civil(day);
    let (second, fraction) = (in_day / 1_000_000, in_day % 1_000_000);
    let mut text = *b"0000-00-00T00:00:00.000000Z";
    put(&mut text[0..4], year);
    put(&mut text[5..7], month);
    put(&mut text[8..10], date);
    put(&mut text[11..13], second / 3600);
    put(&mut text[14..16], second / 60 % 60);
    put(&mut text[17..19], second % 60);
    put(&mut text[20..26], fraction);
    text
}

/// Year, month and day of a day number since 1970-01-01 (Howard Hinnant's algorithm: years begin in March, so that
/// the leap day is the last of its year).
fn civil(day: i64) -> (i64, i64, i64) {
    let shifted = day + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let date = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, date)
}

fn put(digits: &mut [u8], mut number: i64) {
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(micros: i64) -> String {
        let mut out = Vec::new();
        write_micros(&mut out, micros);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn agrees_with_a_calendar_library_over_four_centuries() {
        // A step of 12 days, 21 hours and a bit meets every month, leap years and century years.
        let mut micros = -9_000_000_000_000_000i64;
        while micros < 9_000_000_000_000_000 {
            let expected = jiff::Timestamp::from_microsecond(micros).unwrap();
            assert_eq!(shown(micros), format!("{}Z", expected.strftime("%Y-%m-%dT%H:%M:%S.%6f")));
            micros += 1_112_345_678_901;
        }
    }

    #[test]
    fn edges() {
        assert_eq!(shown(0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(shown(-1), "1969-12-31T23:59:59.999999Z");
        assert_eq!(shown(951_782_400_000_000), "2000-02-29T00:00:00.000000Z");
        assert_eq!(shown(i64::MAX), "9999-12-31T23:59:59.999999Z");
        assert_eq!(shown(i64::MIN), "0000-01-01T00:00:00.000000Z");
        assert_eq!(serde_json::to_string(&Millis(1_999_999)).unwrap(), r#""1970-01-01T00:00:01.999Z""#);
        assert_eq!(serde_json::to_string(&Seconds(1_999_999)).unwrap(), r#""1970-01-01T00:00:01Z""#);
    }
}
