//! Which numbered packets were seen before: a sliding window of 64 per sender.

use std::collections::HashMap;

/// Senders remembered.
const SENDERS: usize = 1024;

/// The 64 latest numbers of one sender.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Window {
    highest: u64,
    /// Bit n: `highest - n` was seen.
    seen: u64,
}

/// What a window thinks of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// Not seen before.
    New,
    /// Seen before.
    Before,
    /// So far back that nobody knows.
    TooOld,
}

impl Window {
    pub(crate) fn see(&mut self, number: u64) -> Seen {
        if number > self.highest {
            let by = number - self.highest;
            self.seen = if by < 64 { self.seen << by } else { 0 } | 1;
            self.highest = number;
            return Seen::New;
        }
        let back = self.highest - number;
        if back >= 64 {
            return Seen::TooOld;
        }
        let bit = 1 << back;
        if self.seen & bit != 0 {
            return Seen::Before;
        }
        self.seen |= bit;
        Seen::New
    }
}

/// Windows of the latest senders.
#[derive(Debug, Default)]
pub(crate) struct Windows {
    senders: HashMap<u64, (Window, u64), foldhash::fast::RandomState>,
    clock: u64,
}

impl Windows {
    pub(crate) fn see(&mut self, sender: u64, number: u64) -> Seen {
        self.clock += 1;
        if self.senders.len() >= SENDERS && !self.senders.contains_key(&sender) {
            let oldest = self.senders.iter().min_by_key(|(_, (_, used))| *used).map(|(s, _)| *s);
            oldest.map(|s| self.senders.remove(&s));
        }
        let entry = self.senders.entry(sender).or_default();
        entry.1 = self.clock;
        entry.0.see(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_new_once_in_any_order() {
        let mut window = Window::default();
        let answers: Vec<Seen> = [5, 3, 5, 3, 70, 6, 7, 7, 200, 136, 137].map(|n| window.see(n)).to_vec();
        use Seen::{Before, New, TooOld};
        assert_eq!(answers, [New, New, Before, Before, New, TooOld, New, Before, New, TooOld, New]);
    }

    #[test]
    fn senders_are_bounded_and_the_busy_stay() {
        let mut windows = Windows::default();
        for n in 1..=3_000 {
            windows.see(1, n);
            windows.see(n + 10, 1);
        }
        assert_eq!(windows.senders.len(), SENDERS);
        assert_eq!(windows.see(1, 3_000), Seen::Before);
    }
}
