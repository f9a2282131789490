//! How long the floor waits between two looks: a pure function of what the last ones found.

use std::time::Duration;

use crate::config::FloorConfig;

/// The floor's interval and what it depends on.
#[derive(Debug)]
pub(crate) struct Pace {
    config: FloorConfig,
    interval: Duration,
    empty: u32,
}

impl Pace {
    pub(crate) fn new(config: FloorConfig) -> Self {
        Self { interval: config.base, config, empty: 0 }
    }

    /// The interval now. While other servers are heard the floor is only for what nobody could tell.
    pub(crate) fn interval(&self, hearing: bool) -> Duration {
        if hearing { self.config.with_carrier } else { self.interval }
    }

    /// A look found work, or nothing.
    pub(crate) fn looked(&mut self, found: bool) {
        if found {
            self.empty = 0;
            self.interval = self.config.active.min(self.config.base);
            return;
        }
        self.empty = self.empty.saturating_add(1);
        if self.empty >= self.config.threshold {
            self.interval =
                self.interval.max(self.config.base).mul_f64(self.config.multiplier).min(self.config.max);
        } else {
            self.interval = self.config.base;
        }
    }

    /// Something happened here: start over.
    pub(crate) fn reset(&mut self) {
        self.empty = 0;
        self.interval = self.config.base;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn empty_looks_stretch_the_interval_after_the_threshold_up_to_the_maximum() {
        let mut pace = Pace::new(FloorConfig::default());
        let mut seen = vec![pace.interval(false)];
        for _ in 0..8 {
            pace.looked(false);
            seen.push(pace.interval(false));
        }
        assert_eq!(seen, [100, 100, 100, 200, 400, 800, 1000, 1000, 1000].map(ms));
    }

    #[test]
    fn work_found_shortens_it_and_a_ring_starts_over() {
        let mut pace = Pace::new(FloorConfig::default());
        for _ in 0..9 {
            pace.looked(false);
        }
        pace.looked(true);
        assert_eq!(pace.interval(false), ms(50));
        pace.looked(false);
        assert_eq!(pace.interval(false), ms(100));
        for _ in 0..9 {
            pace.looked(false);
        }
        pace.reset();
        assert_eq!(pace.interval(false), ms(100));
    }

    #[test]
    fn while_others_are_heard_it_is_long_whatever_was_found() {
        let mut pace = Pace::new(FloorConfig::default());
        pace.looked(true);
        assert_eq!(pace.interval(true), Duration::from_secs(15));
    }
}
