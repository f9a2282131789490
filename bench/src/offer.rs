//! An open loop: requests are due at fixed moments, and their time counts from there, sent or not. A closed loop asks a slow
//! server less often and so leaves out the very requests that would have waited; this one does not.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;

use crate::schedule::{Schedule, pace};
use crate::stats::{Errors, Latency};

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Done, with so many messages.
    Done(u64),
    /// The server said that it has too much to do.
    Refused,
    Failed(String),
}

/// One connection, which has one request under way at a time.
pub(crate) trait Sender {
    async fn send(&mut self) -> Fate;
}

/// What a window gave.
pub(crate) struct Offered {
    /// From the moment a request was due to its answer. A request that was not even sent by the end of the window counts
    /// with the time it had waited by then.
    pub(crate) latency: Latency,
    /// Messages answered inside the window, whenever they were due.
    pub(crate) messages: u64,
    pub(crate) refused: u64,
    /// Requests that were due and for which no connection was free until the end.
    pub(crate) unsent: u64,
    pub(crate) errors: Errors,
    pub(crate) seconds: f64,
}

struct Counts {
    latency: Latency,
    messages: u64,
    refused: u64,
    errors: Errors,
}

struct Run {
    schedule: Schedule,
    epoch: Instant,
    /// When the window opens and closes, in nanoseconds of the run.
    window: (u64, u64),
    taken: Cell<u64>,
    counts: RefCell<Counts>,
}

impl Run {
    fn now(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn note(&self, number: u64, fate: Fate) {
        let (at, counts) = (self.now(), &mut *self.counts.borrow_mut());
        let measured = number >= self.schedule.warmup;
        match fate {
            Fate::Done(messages) => {
                if (self.window.0..=self.window.1).contains(&at) {
                    counts.messages += messages;
                }
                if measured {
                    counts.latency.record(Duration::from_nanos(at.saturating_sub(self.schedule.due(number))));
                }
            }
            Fate::Refused => counts.refused += u64::from(measured),
            Fate::Failed(why) => counts.errors.count(&why, 1),
        }
    }
}

/// Sends `requests` per second through the given connections, for the warm-up and then for the window.
pub(crate) async fn offer<S: Sender + 'static>(
    senders: Vec<S>,
    requests: f64,
    warmup_seconds: f64,
    seconds: f64,
) -> Result<Offered> {
    let schedule = Schedule::new(requests, warmup_seconds, seconds, 1, 1);
    // A little later, when all connections stand ready.
    let epoch = Instant::now() + Duration::from_millis(20);
    let window = (schedule.due(schedule.warmup), schedule.due(schedule.total));
    let counts = Counts { latency: Latency::new()?, messages: 0, refused: 0, errors: Errors::default() };
    let run = Rc::new(Run { schedule, epoch, window, taken: Cell::new(0), counts: RefCell::new(counts) });
    let due = Rc::new(Mutex::new(pace(schedule, epoch)?));
    let mut tasks = JoinSet::new();
    for sender in senders {
        tasks.spawn_local(serve(Rc::clone(&run), sender, Rc::clone(&due)));
    }
    while let Some(ended) = tasks.join_next().await {
        ended?;
    }
    let unsent = run.taken.get().max(schedule.warmup)..schedule.total;
    let mut counts = run.counts.borrow_mut();
    for number in unsent.clone() {
        counts.latency.record(Duration::from_nanos(window.1.saturating_sub(schedule.due(number))));
    }
    Ok(Offered {
        latency: counts.latency.clone(),
        messages: counts.messages,
        refused: counts.refused,
        unsent: unsent.end.saturating_sub(unsent.start),
        errors: counts.errors.clone(),
        seconds: (window.1 - window.0) as f64 / 1e9,
    })
}

/// Takes what is due, until nothing more comes or the window is over.
async fn serve<S: Sender>(run: Rc<Run>, mut sender: S, due: Rc<Mutex<mpsc::Receiver<u64>>>) {
    loop {
        let next = {
            let mut due = due.lock().await;
            if run.now() > run.window.1 {
                // Whoever still paces must not wait for us.
                due.close();
                return;
            }
            due.recv().await
        };
        let Some(number) = next else { return };
        run.taken.set(number + 1);
        let fate = sender.send().await;
        run.note(number, fate);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::task::LocalSet;

    struct Slow(Duration);

    impl Sender for Slow {
        async fn send(&mut self) -> Fate {
            tokio::time::sleep(self.0).await;
            Fate::Done(1)
        }
    }

    struct Busy;

    impl Sender for Busy {
        async fn send(&mut self) -> Fate {
            Fate::Refused
        }
    }

    #[tokio::test]
    async fn a_server_that_is_too_slow_shows_in_the_latency_and_not_in_the_schedule() {
        // One connection with 20 ms per request can do 50 of the 500 per second: most are never sent, and the time they
        // waited counts all the same.
        let offered = LocalSet::new()
            .run_until(offer(vec![Slow(Duration::from_millis(20))], 500.0, 0.0, 0.4))
            .await
            .unwrap();
        assert!(offered.unsent > 100, "{} of 200 were not sent", offered.unsent);
        assert_eq!(offered.latency.count(), 200, "each request that was due has a time");
        let p50 = offered.latency.json()["p50"].as_f64().unwrap();
        assert!(p50 > 20.0, "waiting counts, so the median is far above the 20 ms of the server: {p50}");
    }

    #[tokio::test]
    async fn refusals_are_counted_apart_and_have_no_latency() {
        let offered = LocalSet::new().run_until(offer(vec![Busy, Busy], 200.0, 0.1, 0.1)).await.unwrap();
        // What a slow machine did not even send has waited; the rest was refused.
        assert_eq!(offered.refused + offered.unsent, 20);
        assert_eq!(offered.latency.count(), offered.unsent);
        assert_eq!(offered.messages, 0);
    }
}
