//! `minPopWaitTime`: whether a waiting pop takes what is there, or lets more come first.

use std::time::Duration;

/// What is known when a waiting pop finds messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// Messages that are there.
    pub(crate) available: u64,
    /// Messages asked for.
    pub(crate) batch: u64,
    /// How long ago it found the first of them.
    pub(crate) waited: Duration,
    /// What is left of its own wait.
    pub(crate) left: Duration,
}

/// How much longer to let messages come; `None` = take them now. Only a batch that is not full is held, never longer than the
/// caller waits.
pub(crate) fn hold(min_pop_wait_time: u64, found: Found) -> Option<Duration> {
    let wants_more = found.batch > 1 && found.available > 0 && found.available < found.batch;
    let rest = Duration::from_millis(min_pop_wait_time).saturating_sub(found.waited).min(found.left);
    (wants_more && !rest.is_zero()).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    const SOME: Found =
        Found { available: 3, batch: 10, waited: Duration::ZERO, left: Duration::from_millis(1000) };

    #[test]
    fn a_batch_that_is_not_full_is_held_for_the_rest_of_the_time() {
        assert_eq!(hold(250, SOME), Some(ms(250)));
        assert_eq!(hold(250, Found { waited: ms(100), ..SOME }), Some(ms(150)));
        assert_eq!(hold(250, Found { waited: ms(250), ..SOME }), None);
        assert_eq!(hold(250, Found { waited: ms(900), ..SOME }), None);
    }

    #[test]
    fn a_full_batch_a_single_message_and_nothing_are_never_held() {
        assert_eq!(hold(250, Found { available: 10, ..SOME }), None);
        assert_eq!(hold(250, Found { available: 11, ..SOME }), None);
        assert_eq!(hold(250, Found { available: 0, ..SOME }), None);
        assert_eq!(hold(250, Found { available: 1, batch: 1, ..SOME }), None);
        assert_eq!(hold(0, SOME), None);
    }

    #[test]
    fn nobody_is_held_longer_than_he_waits() {
        assert_eq!(hold(60_000, SOME), Some(ms(1000)));
        assert_eq!(hold(60_000, Found { left: Duration::ZERO, ..SOME }), None);
    }
}
