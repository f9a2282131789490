//! Times that may be negative: a message may be delivered before its push is answered, and that must stay visible.

use serde_json::{Value, json};

use crate::stats::round;

/// A set of times in nanoseconds, kept whole: runs are short and exact percentiles are cheap.
#[derive(Debug, Default, Clone)]
pub(crate) struct Samples(Vec<i64>);

impl Samples {
    /// Adds `end - start`.
    pub(crate) fn span(&mut self, start: u64, end: u64) {
        self.0.push(end as i64 - start as i64);
    }

    /// Adds a time given in microseconds.
    pub(crate) fn micros(&mut self, micros: i64) {
        self.0.push(micros.saturating_mul(1000));
    }

    pub(crate) fn len(&self) -> u64 {
        self.0.len() as u64
    }

    /// How many are below zero.
    pub(crate) fn negative(&self) -> u64 {
        self.0.iter().filter(|t| **t < 0).count() as u64
    }

    /// The percentiles in milliseconds; null when there is nothing.
    pub(crate) fn json(&self) -> Value {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let Some(max) = sorted.last() else { return Value::Null };
        let ms = |nanos: i64| round(nanos as f64 / 1e6);
        let at = |quantile: f64| ms(sorted[nearest_rank(quantile, sorted.len())]);
        json!({"p50": at(0.50), "p90": at(0.90), "p99": at(0.99), "p99.9": at(0.999), "max": ms(*max)})
    }
}

/// Index of the smallest sample that at least `quantile` of all do not exceed.
fn nearest_rank(quantile: f64, count: usize) -> usize {
    ((quantile * count as f64).ceil() as usize).clamp(1, count) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_exact_and_keep_their_sign() {
        let mut samples = Samples::default();
        for ms in 1..=100u64 {
            samples.span(3_000_000, ms * 1_000_000);
        }
        let expected = json!({"p50": 47.0, "p90": 87.0, "p99": 96.0, "p99.9": 97.0, "max": 97.0});
        assert_eq!(samples.json(), expected);
        assert_eq!((samples.negative(), samples.len()), (2, 100));
    }

    #[test]
    fn no_samples_are_null_and_one_is_every_percentile() {
        let mut samples = Samples::default();
        assert_eq!(samples.json(), Value::Null);
        samples.micros(-1000);
        assert_eq!(samples.json()["p50"], -1.0);
        assert_eq!(samples.json()["max"], -1.0);
    }

    #[test]
    fn ranks_stay_inside_the_samples() {
        assert_eq!(nearest_rank(0.5, 1), 0);
        assert_eq!(nearest_rank(0.999, 1000), 998);
        assert_eq!(nearest_rank(1.0, 10), 9);
        assert_eq!(nearest_rank(0.0, 10), 0);
    }
}
