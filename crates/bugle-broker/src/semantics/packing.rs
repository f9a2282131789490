//! Whether the body of a segment is compressed.
//!
//! Compression costs processor time on every push and is worth it only where it saves room. What does not pay is found by trying, and tried
//! ever more rarely; a queue whose messages change is noticed all the same.

/// Shorter bodies are never tried: the header and a page half empty eat what they could save.
pub(crate) const MIN_BYTES: usize = 1 << 10;
/// A result must save one part of so many.
const LEAST_SAVED: usize = 8;
/// Segments passed by after the first try that did not pay; each further one doubles them.
const FIRST_PAUSE: u32 = 4;
/// Most segments passed by between two tries.
const LONGEST_PAUSE: u32 = 1024;

/// Whether a body of this length may be tried at all. Ciphertext looks like chance and does not compress.
pub(crate) fn may_pay(plain: usize, encrypted: bool) -> bool {
    plain >= MIN_BYTES && !encrypted
}

/// Whether a result is worth its decompression.
pub(crate) fn pays(plain: usize, packed: usize) -> bool {
    packed <= plain - plain / LEAST_SAVED
}

/// What a queue's tries have taught.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Experience {
    /// The pause after the last try; 0 = it paid.
    pause: u32,
    /// Segments still to be passed by.
    left: u32,
}

impl Experience {
    /// Whether the next segment is tried; one that is not counts as passed by.
    pub(crate) fn tries(&mut self) -> bool {
        let tries = self.left == 0;
        self.left = self.left.saturating_sub(1);
        tries
    }

    /// A try has paid or not.
    pub(crate) fn learn(&mut self, paid: bool) {
        self.pause = if paid { 0 } else { (self.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE) };
        self.left = self.pause;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_encrypted_bodies_are_not_tried() {
        assert!(!may_pay(0, false) && !may_pay(MIN_BYTES - 1, false));
        assert!(may_pay(MIN_BYTES, false) && may_pay(8 << 20, false));
        assert!(!may_pay(MIN_BYTES, true));
    }

    #[test]
    fn an_eighth_must_be_saved() {
        assert!(pays(8000, 7000) && pays(8000, 1));
        assert!(!pays(8000, 7001) && !pays(8000, 8000) && !pays(8000, 9000));
        assert!(!pays(0, 1), "nothing cannot be saved from");
    }

    /// Segments passed by until the next try.
    fn passed(experience: &mut Experience) -> u32 {
        (0..).find(|_| experience.tries()).unwrap()
    }

    #[test]
    fn what_does_not_pay_is_tried_ever_more_rarely_but_never_given_up() {
        let mut experience = Experience::default();
        let mut pauses = Vec::new();
        for _ in 0..12 {
            pauses.push(passed(&mut experience));
            experience.learn(false);
        }
        assert_eq!(pauses, [0, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1024, 1024]);
    }

    #[test]
    fn what_pays_is_tried_each_time_and_the_past_is_forgotten() {
        let mut experience = Experience::default();
        for _ in 0..3 {
            assert!(experience.tries());
            experience.learn(true);
        }
        for _ in 0..5 {
            experience.learn(false);
        }
        assert_eq!(passed(&mut experience), 64);
        experience.learn(true);
        assert_eq!(experience, Experience::default());
        experience.learn(false);
        assert_eq!(passed(&mut experience), FIRST_PAUSE);
    }
}
