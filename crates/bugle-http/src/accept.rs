//! Which spelling of the metrics a client wants, by its Accept header.
//!
//! JSON is what is answered to those who do not care, because existing clients send no Accept header or one that lists
//! JSON and text alike; text goes to those who like it better.

use http::HeaderMap;
use http::header::ACCEPT;

/// A spelling of the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spelling {
    Json,
    /// Prometheus text 0.0.4.
    Text,
    OpenMetrics,
}

/// What is offered: spelling, type, subtype, version. In order of preference where the client has none.
const OFFERS: [(Spelling, &str, &str, &str); 3] = [
    (Spelling::Json, "application", "json", ""),
    (Spelling::OpenMetrics, "application", "openmetrics-text", "1.0.0"),
    (Spelling::Text, "text", "plain", "0.0.4"),
];

/// The spelling liked best; JSON if none is acceptable, since an answer helps more than a 406.
pub(crate) fn preferred(headers: &HeaderMap) -> Spelling {
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let ranges: Vec<Range<'_>> = values.flat_map(|value| split(value, ',')).filter_map(Range::read).collect();
    let mut best = (Spelling::Json, 0);
    for (spelling, kind, subtype, version) in OFFERS {
        // The most specific range decides (RFC 9110, 12.5.1), not the most generous one.
        let fits =
            ranges.iter().filter_map(|range| Some((range.fit(kind, subtype, version)?, range.quality)));
        if let Some((_, quality)) = fits.max()
            && quality > best.1
        {
            best = (spelling, quality);
        }
    }
    best.0
}

/// One element of an Accept header.
struct Range<'a> {
    kind: &'a str,
    subtype: &'a str,
    version: Option<&'a str>,
    /// In thousandths.
    quality: u16,
}

impl<'a> Range<'a> {
    /// `None` for what cannot be read: it is left out, as if it had not been sent.
    fn read(text: &'a str) -> Option<Self> {
        let mut parts = split(text, ';').map(str::trim);
        let (kind, subtype) = parts.next()?.split_once('/')?;
        let mut range = Self { kind: kind.trim(), subtype: subtype.trim(), version: None, quality: 1000 };
        for part in parts {
            let Some((name, value)) = part.split_once('=') else { continue };
            let (name, value) = (name.trim(), value.trim().trim_matches('"'));
            if name.eq_ignore_ascii_case("q") {
                range.quality = quality(value)?;
            } else if name.eq_ignore_ascii_case("version") {
                range.version = Some(value);
            }
        }
        Some(range)
    }

    /// How closely this describes a media type; `None` = not at all.
    fn fit(&self, kind: &str, subtype: &str, version: &str) -> Option<u8> {
        if (self.kind, self.subtype) == ("*", "*") {
            return Some(0);
        }
        if !self.kind.eq_ignore_ascii_case(kind) {
            return None;
        }
        if self.subtype == "*" {
            return Some(1);
        }
        if !self.subtype.eq_ignore_ascii_case(subtype) {
            return None;
        }
        match self.version {
            None => Some(2),
            Some(wanted) => (wanted == version).then_some(3),
        }
    }
}

/// `0`, `0.25`, `1.000`: at most three digits behind the point, at most 1. In thousandths.
fn quality(text: &str) -> Option<u16> {
    let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
    if !matches!(whole, "0" | "1") || rest.len() > 3 || !rest.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let thousandths: u16 = format!("{whole}{rest:0<3}").parse().ok()?;
    (thousandths <= 1000).then_some(thousandths)
}

/// Split at `separator`, but not inside quotes.
fn split(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    let mut escaped = false;
    text.split(move |c| {
        let inside = quoted;
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ => {}
        }
        c == separator && !inside
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lines: &[&str]) -> Spelling {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(ACCEPT, line.parse().unwrap());
        }
        preferred(&headers)
    }

    #[test]
    fn those_who_do_not_care_get_json() {
        for accept in [
            "*/*",
            "",
            "application/json",
            "application/json, text/plain, */*",
            "text/plain, application/json",
            "application/*",
            "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
            "image/png",
            "application/x-unheard-of",
            "nonsense",
        ] {
            assert_eq!(of(&[accept]), Spelling::Json, "{accept}");
        }
        assert_eq!(of(&[]), Spelling::Json);
    }

    #[test]
    fn text_goes_to_those_who_like_it_better() {
        for accept in [
            "text/plain",
            "TEXT/Plain",
            "text/*",
            "text/plain;version=0.0.4",
            "text/plain; version=\"0.0.4\" ; charset=utf-8",
            "text/plain, */*;q=0.1",
            "application/json;q=0.5, text/plain;q=0.501",
            "application/openmetrics-text;q=0.2,text/plain;q=0.3",
        ] {
            assert_eq!(of(&[accept]), Spelling::Text, "{accept}");
        }
        assert_eq!(of(&["application/json;q=0.3", "text/plain;q=0.4"]), Spelling::Text, "two header lines");
    }

    #[test]
    fn scrapers_get_what_they_ask_for_first() {
        let scraper = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
            application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;q=0.4,\
            text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        assert_eq!(of(&[scraper]), Spelling::OpenMetrics);
        let older = "text/plain;version=1.0.0;q=0.9,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!(of(&[older]), Spelling::Text);
        let newer = "application/openmetrics-text;version=9.0.0,text/plain;q=0.5,*/*;q=0.1";
        assert_eq!(of(&[newer]), Spelling::Text, "a version that is not spoken is not offered");
    }

    #[test]
    fn the_most_specific_range_decides() {
        assert_eq!(of(&["application/json;q=0, */*"]), Spelling::OpenMetrics);
        assert_eq!(of(&["text/*;q=1, text/plain;q=0.1, application/json;q=0.5"]), Spelling::Json);
        assert_eq!(
            of(&["*/*;q=1, application/json;q=0.5, application/openmetrics-text;q=0.2"]),
            Spelling::Text
        );
    }

    #[test]
    fn what_cannot_be_read_is_left_out() {
        for bad in ["2", "-1", "1.001", "0.1234", "x", "", ".5", "0.x"] {
            assert_eq!(of(&[&format!("text/plain;q={bad}")]), Spelling::Json, "q={bad}");
        }
        assert_eq!(of(&[r#"a/b;x="1,text/plain;\",q=1", application/json;q=0.1"#]), Spelling::Json, "quoted");
        assert_eq!(of(&[r#"a/b;x="\"", text/plain"#]), Spelling::Text, "the quotes ended");
    }
}
