//! How many pops wait, by the server's own count. A server that does not say is no error: it is not known.

use serde_json::{Value, json};

use crate::client::Target;

const GAUGE: &str = "bugle_waiters";

/// The server's count and where it stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Waiters {
    pub(crate) count: f64,
    source: &'static str,
}

impl Waiters {
    /// Count and source, or why there is none.
    pub(crate) fn json(known: Option<Self>) -> Value {
        match known {
            Some(Self { count, source }) => json!({"count": count, "source": source}),
            None => json!({"count": null, "source": "neither gauge bugle_waiters nor waiting in /health"}),
        }
    }
}

/// Asks the Prometheus page first and the health page if there is no such gauge.
pub(crate) async fn waiters(target: &Target) -> Option<Waiters> {
    if let Some(count) = page(target, "/metrics/prometheus").await.and_then(|page| parse(&page, GAUGE)) {
        return Some(Waiters { count, source: "/metrics/prometheus bugle_waiters" });
    }
    let health: Value = serde_json::from_str(&page(target, "/health").await?).ok()?;
    Some(Waiters { count: health["waiting"].as_f64()?, source: "/health waiting" })
}

/// A counter or gauge by its name; with labels, exactly those, without, summed over all of them.
pub(crate) async fn number(target: &Target, name: &str) -> Option<f64> {
    parse(&page(target, "/metrics/prometheus").await?, name)
}

async fn page(target: &Target, path: &str) -> Option<String> {
    let mut connection = target.connection();
    let response = connection.call(&target.get(path)).await.ok()?;
    if response.status != 200 { None } else { String::from_utf8(response.body.to_vec()).ok() }
}

fn parse(page: &str, name: &str) -> Option<f64> {
    page.lines().filter_map(|line| sample(line, name)).reduce(|sum, value| sum + value)
}

fn sample(line: &str, name: &str) -> Option<f64> {
    let rest = line.strip_prefix(name)?;
    let value = match rest.strip_prefix('{') {
        Some(labelled) => labelled.rsplit_once('}')?.1,
        None => rest.strip_prefix(' ')?,
    };
    value.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gauge_is_summed_over_its_labels_and_not_mixed_up_with_longer_names() {
        let page = "# HELP bugle_waiters x\n# TYPE bugle_waiters gauge\nbugle_waiters{a=\"1}\"} 3\n\
                    bugle_waiters{a=\"2\"} 4 1700000000\nbugle_waiters_total 9\n";
        assert_eq!(parse(page, GAUGE), Some(7.0));
        assert_eq!(parse("bugle_waiters 12\n", GAUGE), Some(12.0));
        assert_eq!(parse("other 1\n", GAUGE), None);
        assert_eq!(parse(page, "bugle_waiters{a=\"2\"}"), Some(4.0), "one of them by its labels");
    }
}
