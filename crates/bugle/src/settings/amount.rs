//! Sizes, durations and ranges as people write them, in flags, environment and files alike.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// A number of bytes: `65536`, `512KiB`, `64MiB`, `1GiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) usize);

/// A length of time: `500ms`, `30s`, `5m`, `12h`, `7d`; a bare number is seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span(pub(crate) Duration);

/// A lower and an upper bound: `2,8`; one number is both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range(pub(crate) usize, pub(crate) usize);

const SIZES: [(&str, u64); 8] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("G", 1 << 30),
    ("M", 1 << 20),
    ("K", 1 << 10),
    ("B", 1),
    ("", 1),
];
const SPANS: [(&str, u64); 6] =
    [("d", 86_400_000), ("h", 3_600_000), ("ms", 1), ("m", 60_000), ("s", 1000), ("", 1000)];

/// `text` as a whole number with one of `units`, in the smallest unit.
fn parse(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let (_, factor) = units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit.trim()))?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

/// `amount` in the largest unit that divides it.
fn show(amount: u64, units: &[(&str, u64)]) -> String {
    let fitting = units.iter().filter(|(name, factor)| !name.is_empty() && amount.is_multiple_of(*factor));
    match fitting.max_by_key(|(_, factor)| *factor) {
        Some((name, factor)) if amount > 0 => format!("{}{name}", amount / factor),
        _ => amount.to_string(),
    }
}

impl FromStr for Size {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        parse(text, &SIZES)
            .and_then(|bytes| usize::try_from(bytes).ok())
            .map(Self)
            .ok_or_else(|| format!("{text:?} is no size: write 65536, 512KiB, 64MiB or 1GiB"))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&show(self.0 as u64, &SIZES[..3]))
    }
}

impl FromStr for Span {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        parse(text, &SPANS)
            .map(|ms| Self(Duration::from_millis(ms)))
            .ok_or_else(|| format!("{text:?} is no duration: write 500ms, 30s, 5m, 12h or 7d"))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&show(u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX), &SPANS))
    }
}

impl FromStr for Range {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (low, high) = text.split_once(',').unwrap_or((text, text));
        match (low.trim().parse(), high.trim().parse()) {
            (Ok(low), Ok(high)) if 0 < low && low <= high => Ok(Self(low, high)),
            _ => Err(format!(
                "{text:?} is no range: write two numbers like 2,8, the smaller one first, from 1"
            )),
        }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.0, self.1)
    }
}

/// Reads text, a number or a list of numbers, all by the text's rules.
struct Written<T>(std::marker::PhantomData<T>);

impl<'de, T: FromStr<Err = String>> Visitor<'de> for Written<T> {
    type Value = T;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text or a number")
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }
    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<T, A::Error> {
        let mut text = Vec::new();
        while let Some(number) = list.next_element::<u64>()? {
            text.push(number.to_string());
        }
        self.visit_str(&text.join(","))
    }
}

macro_rules! written {
    ($($t:ty),*) => {$(
        impl<'de> Deserialize<'de> for $t {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(Written(std::marker::PhantomData))
            }
        }
        impl Serialize for $t {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    )*};
}
written!(Size, Span, Range);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_and_show() {
        for (text, bytes, shown) in [
            ("65536", 65536, "64KiB"),
            ("64MiB", 64 << 20, "64MiB"),
            ("1g", 1 << 30, "1GiB"),
            ("1000", 1000, "1000"),
            ("0", 0, "0"),
        ] {
            assert_eq!(text.parse(), Ok(Size(bytes)));
            assert_eq!(Size(bytes).to_string(), shown);
        }
        assert!(
            "".parse::<Size>().is_err()
                && "1.5M".parse::<Size>().is_err()
                && "5 apples".parse::<Size>().is_err()
        );
    }

    #[test]
    fn spans_read_and_show() {
        for (text, ms, shown) in [
            ("500ms", 500, "500ms"),
            ("30", 30_000, "30s"),
            ("5m", 300_000, "5m"),
            ("7d", 604_800_000, "7d"),
            ("90s", 90_000, "90s"),
            ("0", 0, "0"),
        ] {
            let span = Span(Duration::from_millis(ms));
            assert_eq!(text.parse(), Ok(span));
            assert_eq!(span.to_string(), shown);
        }
        assert!("soon".parse::<Span>().is_err() && "-1s".parse::<Span>().is_err());
    }

    #[test]
    fn ranges_read_and_show() {
        assert_eq!("2,8".parse(), Ok(Range(2, 8)));
        assert_eq!("4".parse(), Ok(Range(4, 4)));
        assert_eq!(Range(2, 8).to_string(), "2,8");
        assert!(
            "8,2".parse::<Range>().is_err()
                && "0,1".parse::<Range>().is_err()
                && "".parse::<Range>().is_err()
        );
    }
}
