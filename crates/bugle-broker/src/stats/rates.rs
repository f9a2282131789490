//! Messages per second, from counters that are read only when somebody asks: no clock ticks for it.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::api::Throughput;

/// What "now" means, if somebody asked often enough.
const WINDOW: Duration = Duration::from_secs(60);
/// Readings closer to each other than this are one.
const STEP: Duration = Duration::from_secs(1);

/// Counters at one moment.
#[derive(Clone, Copy)]
struct Sample {
    at: Instant,
    ingested: u64,
    processed: u64,
}

/// Readings of the last window, the one before it, and nothing older: so at most a window's worth of steps.
#[derive(Default)]
pub(super) struct Rates(Mutex<VecDeque<Sample>>);

impl Rates {
    /// The rates now, by counters that were zero when the broker `started`.
    pub(super) fn read(&self, now: Instant, started: Instant, ingested: u64, processed: u64) -> Throughput {
        let mut samples = self.0.lock();
        if samples.is_empty() {
            samples.push_back(Sample { at: started, ingested: 0, processed: 0 });
        }
        while samples.get(1).is_some_and(|second| now.duration_since(second.at) >= WINDOW) {
            samples.pop_front();
        }
        if samples.back().is_some_and(|last| now.duration_since(last.at) >= STEP) {
            samples.push_back(Sample { at: now, ingested, processed });
        }
        let Some(first) = samples.front() else { return Throughput::default() };
        let seconds = now.duration_since(first.at).max(STEP).as_secs_f64();
        Throughput {
            ingested_per_second: ingested.saturating_sub(first.ingested) as f64 / seconds,
            processed_per_second: processed.saturating_sub(first.processed) as f64 / seconds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn rates_are_of_the_last_minute_for_who_asks_often() {
        let (rates, start) = (Rates::default(), Instant::now());
        let read = |seconds, ingested, processed| {
            let rate = rates.read(after(start, seconds), start, ingested, processed);
            (rate.ingested_per_second, rate.processed_per_second)
        };
        assert_eq!(read(10, 100, 50), (10.0, 5.0), "since the start");
        assert_eq!(read(20, 100, 50), (5.0, 2.5));
        assert_eq!(read(80, 700, 50), (10.0, 0.0), "what came before the last minute is over");
        assert_eq!(read(200, 700, 50), (0.0, 0.0));
        assert!(rates.0.lock().len() <= 3);
    }

    #[test]
    fn who_asks_at_once_gets_no_absurd_number() {
        let (rates, start) = (Rates::default(), Instant::now());
        assert_eq!(rates.read(start, start, 7, 0).ingested_per_second, 7.0);
        for _ in 0..10_000 {
            rates.read(after(start, 2), start, 8, 0);
        }
        assert_eq!(rates.0.lock().len(), 2, "many readings at one moment are one");
    }
}
