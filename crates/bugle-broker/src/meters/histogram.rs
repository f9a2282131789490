//! Durations counted in fixed buckets: cheap to record from anywhere, and what Prometheus wants to see.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds in microseconds; everything above the last goes into one more bucket.
const BOUNDS_US: [u64; 15] = [
    100, 250, 500, 1_000, 2_000, 3_000, 5_000, 10_000, 15_000, 25_000, 50_000, 100_000, 250_000, 1_000_000,
    5_000_000,
];

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    counts: [AtomicU64; BOUNDS_US.len() + 1],
    sum_us: AtomicU64,
}

/// A histogram at one moment.
#[derive(Clone, Debug, Default)]
pub struct HistogramReading {
    /// Upper bounds in seconds and the number of durations at or below each (cumulative).
    pub buckets: Vec<(f64, u64)>,
    /// All durations.
    pub count: u64,
    /// Their sum in seconds.
    pub sum: f64,
}

impl Histogram {
    pub(crate) fn record(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_US.partition_point(|bound| *bound < us);
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> HistogramReading {
        let mut count = 0;
        let mut buckets = Vec::with_capacity(BOUNDS_US.len());
        for (i, bound) in BOUNDS_US.iter().enumerate() {
            count += self.counts[i].load(Ordering::Relaxed);
            buckets.push((*bound as f64 / 1e6, count));
        }
        count += self.counts[BOUNDS_US.len()].load(Ordering::Relaxed);
        HistogramReading { buckets, count, sum: self.sum_us.load(Ordering::Relaxed) as f64 / 1e6 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_fall_into_the_bucket_that_ends_at_or_above_them() {
        let histogram = Histogram::default();
        for us in [100, 101, 2_000, 9_000_000] {
            histogram.record(Duration::from_micros(us));
        }
        let reading = histogram.read();
        assert_eq!(reading.count, 4);
        assert_eq!(reading.buckets[0], (0.0001, 1));
        assert_eq!(reading.buckets[1], (0.00025, 2));
        assert_eq!(reading.buckets[4], (0.002, 3));
        assert_eq!(reading.buckets.last().unwrap().1, 3);
        assert!((reading.sum - 9.002_201).abs() < 1e-9);
    }
}
