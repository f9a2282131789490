//! Query strings, read properly: names match whole, values are decoded, what nobody knows is ignored.

use std::borrow::Cow;
use std::num::IntErrorKind;

use bugle_broker::Refused;
use percent_encoding::percent_decode_str;

/// Most parameters. No route knows half as many.
const MOST: usize = 64;

/// Parameters in the order they were sent.
pub(crate) struct Query<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Query<'a> {
    /// Read the part behind the `?`. A name with two values is refused: whichever were taken, somebody meant the other.
    pub(crate) fn read(raw: Option<&'a str>) -> Result<Self, Refused> {
        let mut query = Self(Vec::new());
        for pair in raw.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (decode(name)?, decode(value)?);
            match query.said(&name) {
                None if query.0.len() == MOST => {
                    return Err(Refused::Invalid(format!("query string has more than {MOST} parameters")));
                }
                None => query.0.push((name, value)),
                Some(other) if other == value => {}
                Some(_) => return Err(Refused::Invalid(format!("{name} is given more than once"))),
            }
        }
        Ok(query)
    }

    /// The value of `name`; empty counts as absent.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.said(name).filter(|value| !value.is_empty())
    }

    /// The value of `name`, even if it is empty.
    fn said(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_ref())
    }

    /// True for `true` and `1`.
    pub(crate) fn flag(&self, name: &str) -> bool {
        matches!(self.text(name), Some("true" | "1"))
    }

    /// A whole number; one that is too large for the type is the largest. Empty counts as absent.
    pub(crate) fn number(&self, name: &str) -> Result<Option<i64>, Refused> {
        self.text(name).map(|text| whole(name, text)).transpose()
    }

    /// A whole number that may be absent but not empty: for those where the default would surprise.
    pub(crate) fn strict_number(&self, name: &str) -> Result<Option<i64>, Refused> {
        self.said(name).map(|text| whole(name, text)).transpose()
    }
}

fn whole(name: &str, text: &str) -> Result<i64, Refused> {
    match text.parse::<i64>() {
        Ok(number) => Ok(number),
        Err(e) if *e.kind() == IntErrorKind::PosOverflow => Ok(i64::MAX),
        Err(e) if *e.kind() == IntErrorKind::NegOverflow => Ok(i64::MIN),
        Err(_) => Err(Refused::Invalid(format!("{name} must be a whole number"))),
    }
}

fn decode(raw: &str) -> Result<Cow<'_, str>, Refused> {
    if !raw.bytes().any(|b| b == b'%' || b == b'+') {
        return Ok(Cow::Borrowed(raw));
    }
    let spaced = raw.replace('+', " ");
    match percent_decode_str(&spaced).decode_utf8() {
        Ok(text) => Ok(Cow::Owned(text.into_owned())),
        Err(_) => Err(Refused::Invalid("query string is not UTF-8".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_whole_and_values_are_decoded() {
        let query = Query::read(Some("xbatch=5&batch=7&consumerGroup=a%20b+c%2B&wait=1&empty=&batch=7&flag"))
            .unwrap();
        assert_eq!(query.number("batch").unwrap(), Some(7));
        assert_eq!(query.text("consumerGroup"), Some("a b c+"));
        assert!(query.flag("wait") && !query.flag("flag"));
        assert_eq!(query.text("empty"), None);
    }

    #[test]
    fn two_values_for_one_name_are_refused_by_name() {
        for raw in ["batch=1&x=2&batch=3", "batch=&batch=3", "b%61tch=1&batch"] {
            let error = Query::read(Some(raw)).err().unwrap().to_string();
            assert_eq!(error, "batch is given more than once");
        }
    }

    #[test]
    fn parameters_are_bounded() {
        let many = |n: usize| (0..n).map(|i| format!("p{i}=1")).collect::<Vec<_>>().join("&");
        assert!(Query::read(Some(&many(MOST))).is_ok());
        assert!(Query::read(Some(&many(MOST + 1))).is_err());
    }

    #[test]
    fn booleans_are_true_for_two_spellings_only() {
        let query = Query::read(Some("a=true&b=1&c=yes&d=TRUE&e=0&f=false")).unwrap();
        assert_eq!(
            ["a", "b", "c", "d", "e", "f", "g"].map(|n| query.flag(n)),
            [true, true, false, false, false, false, false]
        );
    }

    #[test]
    fn numbers_that_are_none_are_refused_by_name() {
        let query =
            Query::read(Some("a=x&b=1.5&c=99999999999999999999&d=-99999999999999999999&e=-3")).unwrap();
        assert_eq!(query.number("a").unwrap_err().to_string(), "a must be a whole number");
        assert!(query.number("b").is_err());
        assert_eq!(query.number("c").unwrap(), Some(i64::MAX));
        assert_eq!(query.number("d").unwrap(), Some(i64::MIN));
        assert_eq!(query.number("e").unwrap(), Some(-3));
    }

    #[test]
    fn an_empty_number_is_absent_or_refused() {
        let query = Query::read(Some("a=&b&c=1e3")).unwrap();
        assert_eq!(query.number("a").unwrap(), None);
        for name in ["a", "b", "c"] {
            let error = query.strict_number(name).unwrap_err().to_string();
            assert_eq!(error, format!("{name} must be a whole number"));
        }
        assert_eq!(query.strict_number("d").unwrap(), None);
    }

    #[test]
    fn values_that_are_not_utf8_are_refused() {
        assert!(Query::read(Some("a=%ff")).is_err());
    }
}
