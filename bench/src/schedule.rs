//! When each message of an open-loop run is due and where it goes. The schedule never waits for the server: a push that
//! leaves late still counts from the moment it was due, otherwise a stall would hide the messages it held up.

use std::time::{Duration, Instant};

use tokio::sync::mpsc;

/// The plan of a run: everything follows from the number of a message.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Schedule {
    pub(crate) rate: f64,
    pub(crate) queues: u64,
    pub(crate) lanes: u32,
    /// Messages due before the measured window.
    pub(crate) warmup: u64,
    /// All messages, warm-up included.
    pub(crate) total: u64,
}

impl Schedule {
    pub(crate) fn new(rate: f64, warmup_seconds: f64, seconds: f64, queues: u64, lanes: u32) -> Self {
        let warmup = (rate * warmup_seconds).ceil() as u64;
        Self { rate, queues, lanes, warmup, total: warmup + (rate * seconds).ceil() as u64 }
    }

    /// Nanoseconds after the start of the run at which a message is due.
    pub(crate) fn due(&self, number: u64) -> u64 {
        (number as f64 / self.rate * 1e9) as u64
    }

    pub(crate) fn queue(&self, number: u64) -> u64 {
        number % self.queues
    }

    /// The lane of a message: each queue goes through its lanes in turn.
    pub(crate) fn lane(&self, number: u64) -> u32 {
        (number / self.queues % u64::from(self.lanes)) as u32
    }
}

/// Sends the number of each message when it is due, from a thread of its own: the runtime's timer ticks in whole
/// milliseconds, which would be most of what is measured.
#[expect(clippy::disallowed_methods, reason = "a thread of its own, and exact to tens of microseconds")]
pub(crate) fn pace(schedule: Schedule, epoch: Instant) -> std::io::Result<mpsc::Receiver<u64>> {
    let (due, numbers) = mpsc::channel(1024);
    std::thread::Builder::new().name("pacer".to_owned()).spawn(move || {
        for number in 0..schedule.total {
            let at = epoch + Duration::from_nanos(schedule.due(number));
            std::thread::sleep(at.saturating_duration_since(Instant::now()));
            if due.blocking_send(number).is_err() {
                return;
            }
        }
    })?;
    Ok(numbers)
}

/// Things to be done one after the other at equal distances, beside a load. One that takes long holds up those behind it, which then
/// count from when they were due. Those that are not late count from when they begin: what a timer is late is not what is measured.
pub(crate) struct Beat {
    every: Duration,
    due: Instant,
    late: bool,
}

impl Beat {
    pub(crate) fn new(every: Duration) -> Self {
        Self { every, due: Instant::now(), late: false }
    }

    /// How long to wait for the next one.
    pub(crate) fn wait(&mut self) -> Duration {
        self.due += self.every;
        let left = self.due.saturating_duration_since(Instant::now());
        self.late = left.is_zero();
        left
    }

    /// From when the one that begins now counts.
    pub(crate) fn start(&self) -> Instant {
        if self.late { self.due } else { Instant::now() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_held_up_counts_from_when_it_was_due() {
        let mut beat = Beat::new(Duration::from_secs(60));
        let begun = Instant::now();
        assert!(beat.wait() > Duration::from_secs(59));
        assert!(beat.start() >= begun, "not late");
        beat.due = begun.checked_sub(Duration::from_secs(120)).unwrap();
        assert_eq!(beat.wait(), Duration::ZERO);
        assert_eq!(beat.start(), begun.checked_sub(Duration::from_secs(60)).unwrap());
    }

    #[test]
    fn messages_are_due_evenly_and_go_to_every_lane_of_every_queue() {
        let schedule = Schedule::new(200.0, 0.5, 2.0, 3, 2);
        assert_eq!((schedule.warmup, schedule.total), (100, 500));
        assert_eq!((schedule.due(0), schedule.due(1), schedule.due(200)), (0, 5_000_000, 1_000_000_000));
        let places: Vec<_> = (0..7).map(|n| (schedule.queue(n), schedule.lane(n))).collect();
        assert_eq!(places, [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1), (0, 0)]);
    }

    #[test]
    fn a_fraction_of_a_message_is_still_sent() {
        assert_eq!(Schedule::new(0.5, 0.0, 1.0, 1, 1).total, 1);
    }

    #[tokio::test]
    async fn no_message_is_sent_before_it_is_due_and_none_is_left_out() {
        let (schedule, epoch) = (Schedule::new(1000.0, 0.0, 0.02, 1, 1), Instant::now());
        let mut numbers = pace(schedule, epoch).unwrap();
        for expected in 0..20 {
            assert_eq!(numbers.recv().await, Some(expected));
            assert!(epoch.elapsed().as_nanos() as u64 >= schedule.due(expected));
        }
        assert_eq!(numbers.recv().await, None);
    }
}
