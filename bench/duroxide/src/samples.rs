//! Times in milliseconds, kept whole: runs are short and exact percentiles are cheap.

use std::time::Instant;

#[derive(Debug, Default, Clone)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    pub(crate) fn add(&mut self, ms: f64) {
        self.0.push(ms);
    }

    /// The smallest sample that at least this share of all does not exceed; none without samples.
    pub(crate) fn at(&self, quantile: f64) -> Option<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let rank = (quantile * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied()
    }

    pub(crate) fn max(&self) -> Option<f64> {
        self.at(1.0)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// Milliseconds from one moment to another, negative if the other came first.
pub(crate) fn ms_between(from: Instant, to: Instant) -> f64 {
    let ms = |time: std::time::Duration| time.as_secs_f64() * 1e3;
    to.checked_duration_since(from).map_or_else(|| -ms(from.duration_since(to)), ms)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn percentiles_are_exact() {
        let mut samples = Samples::default();
        assert_eq!((samples.at(0.5), samples.max()), (None, None));
        (1..=100).rev().for_each(|ms| samples.add(f64::from(ms)));
        assert_eq!((samples.at(0.5), samples.at(0.99), samples.max()), (Some(50.0), Some(99.0), Some(100.0)));
        assert_eq!(samples.at(0.0), Some(1.0));
    }

    #[test]
    fn times_keep_their_sign() {
        let now = Instant::now();
        let later = now + Duration::from_millis(5);
        assert_eq!((ms_between(now, later), ms_between(later, now)), (5.0, -5.0));
    }
}
