//! When to ping and what the answers prove.

use std::time::Duration;

use tokio::time::Instant;

/// Pings kept to be matched with late answers.
const OPEN: usize = 8;

/// The pings of one carrier or peer.
#[derive(Debug)]
pub(crate) struct Pulse {
    every: Duration,
    retry: Duration,
    timeout: Duration,
    /// When the next ping is due.
    next: Instant,
    /// When an extra one is due; no answer to an earlier ping makes it needless.
    extra: Option<Instant>,
    /// Unanswered since.
    waiting: Option<Instant>,
    /// Sent and not answered: number and time.
    open: Vec<(u64, Instant)>,
    /// `None` until the first answer or the first time-out.
    healthy: Option<bool>,
    round_trip: Option<Duration>,
}

impl Pulse {
    pub(crate) fn new(every: Duration, retry: Duration, timeout: Duration, now: Instant) -> Self {
        Self {
            every,
            retry,
            timeout,
            next: now,
            extra: None,
            waiting: None,
            open: Vec::new(),
            healthy: None,
            round_trip: None,
        }
    }

    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.next <= now || self.extra.is_some_and(|at| at <= now)
    }

    /// Whether the next regular ping is close enough to be sent now with something else.
    pub(crate) fn is_due_soon(&self, now: Instant) -> bool {
        self.waiting.is_none() && self.next <= now + self.every.mul_f64(0.6)
    }

    /// One more ping at `now`, whatever is answered until then.
    pub(crate) fn hurry(&mut self, now: Instant) {
        self.extra = Some(self.extra.map_or(now, |at| at.min(now)));
    }

    /// A ping was sent.
    pub(crate) fn sent(&mut self, nonce: u64, now: Instant) {
        if self.open.len() == OPEN {
            self.open.remove(0);
        }
        self.open.push((nonce, now));
        self.waiting.get_or_insert(now);
        self.extra = self.extra.filter(|at| *at > now);
        self.next = now + self.retry;
    }

    /// An answer came. `None`: to nothing that was asked. Otherwise whether health came back with it, or came first.
    pub(crate) fn answered(&mut self, nonce: u64, now: Instant) -> Option<Proof> {
        let at = self.open.iter().position(|(n, _)| *n == nonce)?;
        let (_, sent) = self.open.remove(at);
        self.round_trip = Some(now.saturating_duration_since(sent));
        Some(self.proven(now))
    }

    /// Something that only comes when all is well came.
    pub(crate) fn proven(&mut self, now: Instant) -> Proof {
        self.waiting = None;
        // A little apart, so that many servers do not ping in step.
        self.next = now + self.every.mul_f64(0.9 + 0.1 * fastrand::f64());
        match self.healthy.replace(true) {
            Some(true) => Proof::Still,
            Some(false) => Proof::Again,
            None => Proof::First,
        }
    }

    /// Nothing can be heard now. Whether that is news.
    pub(crate) fn lost(&mut self, now: Instant) -> bool {
        self.waiting = Some(now);
        self.open.clear();
        self.next = now + self.retry;
        self.healthy.replace(false) != Some(false)
    }

    /// A new connection: what was before proves nothing, good or bad.
    pub(crate) fn restart(&mut self, now: Instant) {
        self.open.clear();
        (self.next, self.waiting, self.healthy) = (now, None, None);
    }

    /// Let time pass. Whether health was lost just now.
    pub(crate) fn tick(&mut self, now: Instant) -> bool {
        let over = self.waiting.is_some_and(|since| now >= since + self.timeout);
        over && self.healthy.replace(false) != Some(false)
    }

    pub(crate) fn next_due(&self) -> Instant {
        let next = self.extra.map_or(self.next, |at| at.min(self.next));
        match self.waiting {
            Some(since) if self.healthy != Some(false) => next.min(since + self.timeout),
            _ => next,
        }
    }

    pub(crate) fn healthy(&self) -> bool {
        self.healthy == Some(true)
    }

    /// Proven to be unwell, which is more than not proven yet.
    pub(crate) fn failed(&self) -> bool {
        self.healthy == Some(false)
    }

    pub(crate) fn round_trip(&self) -> Option<Duration> {
        self.round_trip
    }
}

/// What an answer proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// Healthy, as before.
    Still,
    /// Healthy again.
    Again,
    /// Healthy, for the first time.
    First,
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn pulse(now: Instant) -> Pulse {
        Pulse::new(30 * S, S, 2 * S, now)
    }

    #[test]
    fn one_lost_ping_is_repeated_and_costs_nothing() {
        let now = Instant::now();
        let mut pulse = pulse(now);
        assert!(pulse.is_due(now));
        pulse.sent(1, now);
        assert_eq!(pulse.answered(1, now + S / 10), Some(Proof::First));
        assert_eq!(pulse.round_trip(), Some(S / 10));
        let next = pulse.next_due();
        assert!(next > now + 27 * S && next <= now + 31 * S);
        pulse.sent(2, next);
        assert!(!pulse.tick(next + S));
        assert!(pulse.is_due(next + S));
        pulse.sent(3, next + S);
        assert_eq!(pulse.answered(3, next + S), Some(Proof::Still));
    }

    #[test]
    fn silence_costs_health_once_and_an_answer_gives_it_back() {
        let now = Instant::now();
        let mut pulse = pulse(now);
        pulse.sent(1, now);
        pulse.sent(2, now + S);
        assert_eq!(pulse.next_due(), now + 2 * S);
        assert!(pulse.tick(now + 2 * S));
        assert!(!pulse.tick(now + 3 * S), "told once");
        assert!(pulse.failed() && !pulse.healthy());
        assert_eq!(pulse.answered(99, now + 4 * S), None, "not asked");
        assert_eq!(pulse.answered(1, now + 4 * S), Some(Proof::Again), "late, but an answer");
    }

    #[test]
    fn an_extra_ping_is_sent_though_an_earlier_one_is_answered() {
        let now = Instant::now();
        let mut pulse = pulse(now);
        pulse.sent(1, now);
        pulse.hurry(now);
        pulse.answered(1, now);
        assert!(pulse.is_due(now));
        pulse.sent(2, now);
        assert!(!pulse.is_due(now));
    }

    #[test]
    fn a_ping_due_soon_may_ride_along() {
        let now = Instant::now();
        let mut pulse = pulse(now);
        pulse.proven(now);
        // The next one is due 27 to 30 s later, and 18 s before that is soon.
        assert!(!pulse.is_due_soon(now + 8 * S));
        assert!(pulse.is_due_soon(now + 13 * S));
    }
}
