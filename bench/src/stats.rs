//! Counters of a run. Each connection keeps its own and they are added up at the end.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};

use crate::client::Failure;

/// Longer times count as this many microseconds; the range is fixed because a resizing histogram clamps silently.
const LONGEST: u64 = 3_600_000_000;

/// Times of one kind of request, in microseconds.
#[derive(Debug, Clone)]
pub(crate) struct Latency(Histogram<u32>);

impl Latency {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(Histogram::new_with_bounds(1, LONGEST, 3)?))
    }

    pub(crate) fn record(&mut self, time: Duration) {
        self.0.saturating_record(u64::try_from(time.as_micros()).unwrap_or(u64::MAX).max(1));
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    pub(crate) fn add(&mut self, other: &Self) -> Result<()> {
        Ok(self.0.add(&other.0)?)
    }

    /// A percentile in milliseconds.
    pub(crate) fn quantile_ms(&self, quantile: f64) -> f64 {
        round(self.0.value_at_quantile(quantile) as f64 / 1e3)
    }

    pub(crate) fn json(&self) -> Value {
        let at = |quantile: f64| self.quantile_ms(quantile);
        json!({
            "p50": at(0.50), "p90": at(0.90), "p99": at(0.99), "p99.9": at(0.999),
            "max": round(self.0.max() as f64 / 1e3),
        })
    }
}

/// What went wrong, by kind.
#[derive(Debug, Default, Clone)]
pub(crate) struct Errors(BTreeMap<String, u64>);

impl Errors {
    pub(crate) fn failure(&mut self, failure: Failure) {
        self.count(failure.kind(), 1);
    }

    pub(crate) fn status(&mut self, status: u16) {
        self.count(&format!("http_{status}"), 1);
    }

    pub(crate) fn count(&mut self, kind: &str, times: u64) {
        if times > 0 {
            *self.0.entry(kind.to_owned()).or_default() += times;
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (kind, times) in &other.0 {
            self.count(kind, *times);
        }
    }

    pub(crate) fn json(&self) -> Value {
        Value::Object(self.0.iter().map(|(kind, times)| (kind.clone(), json!(times))).collect::<Map<_, _>>())
    }
}

/// Waits longer after each failure in a row, so that a broken server is not also flooded.
#[derive(Debug, Default)]
pub(crate) struct Backoff(u32);

impl Backoff {
    pub(crate) async fn wait(&mut self, first: Duration, longest: Duration) {
        let pause = first.saturating_mul(1 << self.0.min(16)).min(longest);
        self.0 += 1;
        tokio::time::sleep(pause).await;
    }

    pub(crate) fn reset(&mut self) {
        self.0 = 0;
    }
}

/// Three decimals: more is noise and makes lines hard to compare.
pub(crate) fn round(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

/// `count` per second of `time`.
pub(crate) fn rate(count: u64, time: Duration) -> f64 {
    let seconds = time.as_secs_f64();
    if seconds > 0.0 { (count as f64 / seconds * 10.0).round() / 10.0 } else { 0.0 }
}

/// The middle one, or the mean of the two in the middle.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        count if count % 2 == 1 => sorted[half],
        _ => f64::midpoint(sorted[half - 1], sorted[half]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_all_connections_together_are_reported_in_milliseconds() {
        let (mut all, mut other) = (Latency::new().unwrap(), Latency::new().unwrap());
        for _ in 0..99 {
            all.record(Duration::from_millis(2));
        }
        other.record(Duration::from_secs(5));
        all.add(&other).unwrap();
        let json = all.json();
        assert_eq!(all.count(), 100);
        assert!((json["p50"].as_f64().unwrap() - 2.0).abs() < 0.01, "{json}");
        assert!(json["p99.9"].as_f64().unwrap() > 4990.0, "{json}");
    }

    #[test]
    fn the_median_is_the_middle_or_the_mean_of_the_two_there() {
        assert_eq!((median(&[]), median(&[3.0]), median(&[4.0, 1.0])), (0.0, 3.0, 2.5));
    }
}
