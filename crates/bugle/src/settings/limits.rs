//! What each caller may have of the server.

use std::collections::HashMap;

use anyhow::{Context, Result, bail, ensure};
use bugle_http::{CallerLimits, Limits, Rate};

use super::raw::Raw;

/// How the absence of a limit is written in the list.
const NONE: &str = "-";

/// Check what was said.
pub(super) fn check(raw: &Raw) -> Result<CallerLimits> {
    let everybody = Limits {
        requests: rate(raw.limit_requests.as_deref(), "limit-requests")?,
        messages: rate(raw.limit_messages.as_deref(), "limit-messages")?,
        in_flight: raw.limit_in_flight,
    };
    ensure!(everybody.in_flight != Some(0), "limit-in-flight must be at least 1");
    Ok(CallerLimits { everybody, named: named(raw.limit_callers.as_deref().unwrap_or_default())? })
}

fn rate(text: Option<&str>, name: &str) -> Result<Option<Rate>> {
    let text = text.filter(|text| !text.is_empty() && *text != NONE);
    text.map(|text| text.parse().map_err(|error| anyhow::anyhow!("{name}: {error}"))).transpose()
}

/// `name:requests:messages:in-flight`, separated by line ends or commas. Names may have colons.
fn named(text: &str) -> Result<HashMap<String, Limits>> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let entries = lines.flat_map(|line| line.split(',')).map(str::trim).filter(|entry| !entry.is_empty());
    let mut all = HashMap::new();
    for entry in entries {
        let mut parts = entry.rsplitn(4, ':').map(str::trim);
        let (Some(in_flight), Some(messages), Some(requests), Some(name)) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            bail!("limit-callers: {entry:?} is not name:requests:messages:in-flight");
        };
        let what = format!("limit-callers, {name:?}");
        let limits = Limits {
            requests: rate(Some(requests), &what)?,
            messages: rate(Some(messages), &what)?,
            in_flight: match in_flight {
                NONE | "" => None,
                number => Some(number.parse().with_context(|| format!("{what}: {number:?} is no number"))?),
            },
        };
        ensure!(limits.in_flight != Some(0), "{what}: no request at a time means never");
        ensure!(all.insert(name.to_owned(), limits).is_none(), "{what} stands there twice");
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_said_means_no_limits() {
        let limits = check(&Raw::default()).unwrap();
        assert_eq!(limits.everybody, Limits::default());
        assert!(limits.named.is_empty());
    }

    #[test]
    fn limits_are_read_for_everybody_and_by_name() {
        let raw = Raw {
            limit_requests: Some("100/200".into()),
            limit_in_flight: Some(50),
            limit_callers: Some(
                "# ours\nshop:10:1000/5000:-\nsystem:serviceaccount:a:b:-:-:7,vip:-:-:-\n".into(),
            ),
            ..Raw::default()
        };
        let limits = check(&raw).unwrap();
        assert_eq!(
            limits.everybody,
            Limits { requests: Rate::new(100, 200), messages: None, in_flight: Some(50) }
        );
        let shop = Limits { requests: Rate::new(10, 10), messages: Rate::new(1000, 5000), in_flight: None };
        assert_eq!(limits.named["shop"], shop);
        assert_eq!(limits.named["system:serviceaccount:a:b"].in_flight, Some(7));
        assert_eq!(limits.named["vip"], Limits::default());
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        for (raw, complaint) in [
            (
                Raw { limit_requests: Some("fast".into()), ..Raw::default() },
                "limit-requests: \"fast\" is no rate",
            ),
            (Raw { limit_messages: Some("0".into()), ..Raw::default() }, "limit-messages: \"0\" is no rate"),
            (Raw { limit_in_flight: Some(0), ..Raw::default() }, "limit-in-flight must be at least 1"),
            (
                Raw { limit_callers: Some("shop:1:2".into()), ..Raw::default() },
                "limit-callers: \"shop:1:2\" is not",
            ),
            (
                Raw { limit_callers: Some("a:1:2:x".into()), ..Raw::default() },
                "limit-callers, \"a\": \"x\" is no",
            ),
            (
                Raw { limit_callers: Some("a:1:2:3,a:1:2:3".into()), ..Raw::default() },
                "\"a\" stands there twice",
            ),
            (Raw { limit_callers: Some("a:1:2:0".into()), ..Raw::default() }, "means never"),
        ] {
            let error = format!("{:#}", check(&raw).unwrap_err());
            assert!(error.contains(complaint), "{error}");
        }
    }
}
