//! Many waiters: how they are started, and the ones for whom nothing ever comes.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::client::Failure;
use crate::line::{Exchange, Line, Prepared, pop_path};
use crate::stats::{Backoff, Errors};

/// Waiters started between two looks at the clock.
const BUNCH: usize = 20;

/// What all waiters of one kind have seen together.
#[derive(Default)]
pub(crate) struct Tally {
    waiting: Cell<usize>,
    pub(crate) polls: Cell<u64>,
    /// Answers with messages where none was pushed.
    pub(crate) unexpected: Cell<u64>,
    pub(crate) errors: RefCell<Errors>,
}

impl Tally {
    /// Requests now under way.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.get()
    }

    /// One pop, counted while it is under way; its status, or none after an error that is already counted.
    pub(crate) async fn pop(&self, line: &mut Line, request: &Prepared, out: &mut Vec<u8>) -> Option<u16> {
        self.waiting.set(self.waiting.get() + 1);
        let outcome = line.get(request, out).await;
        self.waiting.set(self.waiting.get() - 1);
        self.polls.set(self.polls.get() + 1);
        match outcome {
            Ok(status @ (200 | 204)) => Some(status),
            Ok(status) => {
                self.errors.borrow_mut().status(status);
                None
            }
            Err(failure) => {
                self.failure(failure);
                None
            }
        }
    }

    pub(crate) fn failure(&self, failure: Failure) {
        self.errors.borrow_mut().failure(failure);
    }

    /// Returns when `count` requests are under way at once.
    pub(crate) async fn all_waiting(&self, count: usize, longest: Duration) -> Result<()> {
        let deadline = Instant::now() + longest;
        // A few are always between two polls.
        while self.waiting() + count / 100 < count {
            ensure!(
                Instant::now() < deadline,
                "only {} of {count} waiters could be started: {}",
                self.waiting(),
                self.errors.borrow().json()
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }
}

/// Spreads the starts of waiters over time, so that a server is not met by all of them at once.
pub(crate) struct Ramp {
    begin: Instant,
    per_second: f64,
    started: usize,
}

impl Ramp {
    pub(crate) fn new(per_second: f64) -> Self {
        Self { begin: Instant::now(), per_second, started: 0 }
    }

    pub(crate) async fn step(&mut self) {
        self.started += 1;
        if self.started.is_multiple_of(BUNCH) {
            let due = self.begin + Duration::from_secs_f64(self.started as f64 / self.per_second);
            tokio::time::sleep_until(due).await;
            // Also when late: the waiters started so far must get their turn.
            tokio::task::yield_now().await;
        }
    }
}

/// Waiters for whom nothing ever comes.
pub(crate) struct Parking {
    pub(crate) waiters: usize,
    /// Queue and group of each key.
    pub(crate) keys: Vec<(String, String)>,
    pub(crate) repoll_ms: u64,
    pub(crate) starts_per_second: f64,
}

impl Parking {
    /// Starts them. First polls end at different times, so that later ones are spread evenly over the interval.
    pub(crate) async fn start(
        &self,
        servers: &mut [Exchange],
        tally: &Rc<Tally>,
        tasks: &mut JoinSet<()>,
    ) -> Result<()> {
        let mut ramp = Ramp::new(self.starts_per_second);
        let path = |key: usize, timeout| pop_path(&self.keys[key].0, &self.keys[key].1, timeout, 1, true);
        let mut later: Vec<Vec<Prepared>> = Vec::with_capacity(servers.len());
        for server in servers.iter() {
            let all = (0..self.keys.len()).map(|key| server.get(&path(key, self.repoll_ms)));
            later.push(all.collect::<Result<_>>()?);
        }
        for index in 0..self.waiters {
            let (key, server) = assign(index, self.keys.len(), servers.len());
            let first = servers[server].get(&path(key, self.first_timeout(index)))?;
            let again = later[server][key].clone();
            let line = servers[server].line();
            tasks.spawn_local(stay(line, first, again, Rc::clone(tally)));
            ramp.step().await;
        }
        Ok(())
    }

    /// Such that the first polls end evenly spread over one interval, counted from the start of the first waiter.
    fn first_timeout(&self, index: usize) -> u64 {
        let end = self.repoll_ms as f64 * (index + 1) as f64 / self.waiters as f64;
        let started = index as f64 * 1e3 / self.starts_per_second;
        // A timeout of 0 would not wait at all.
        (end - started).max(1.0).round() as u64
    }
}

/// Key and server of a waiter: keys in turn, and the waiters of a key on different servers.
pub(crate) fn assign(index: usize, keys: usize, servers: usize) -> (usize, usize) {
    let (key, round) = (index % keys, index / keys);
    (key, (key + round) % servers)
}

async fn stay(mut line: Line, first: Prepared, again: Prepared, tally: Rc<Tally>) {
    let mut out = Vec::new();
    let mut backoff = Backoff::default();
    let mut status = tally.pop(&mut line, &first, &mut out).await;
    drop(first);
    loop {
        match status {
            Some(204) => backoff.reset(),
            Some(_) => tally.unexpected.set(tally.unexpected.get() + 1),
            None => backoff.wait(Duration::from_millis(50), Duration::from_secs(2)).await,
        }
        status = tally.pop(&mut line, &again, &mut out).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_waiters_and_those_of_one_key_are_on_different_servers() {
        let placed: Vec<_> = (0..6).map(|index| assign(index, 3, 2)).collect();
        assert_eq!(placed, [(0, 0), (1, 1), (2, 0), (0, 1), (1, 0), (2, 1)]);
    }

    #[test]
    fn first_polls_end_spread_over_the_whole_interval_however_long_starting_takes() {
        let ends = |starts_per_second: f64| -> Vec<u64> {
            let parking = Parking { waiters: 4, keys: Vec::new(), repoll_ms: 1000, starts_per_second };
            let start = |index| (index as f64 * 1e3 / starts_per_second) as u64;
            (0..4).map(|index| start(index) + parking.first_timeout(index)).collect()
        };
        assert_eq!(ends(1e9), [250, 500, 750, 1000]);
        assert_eq!(ends(10.0), [250, 500, 750, 1000]);
        assert_eq!(ends(1.0), [250, 1001, 2001, 3001], "slower than the interval, the starts are the spread");
    }
}
