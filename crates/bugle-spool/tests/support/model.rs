//! What must be in a spool after a crash.

use bugle_spool::FileSpool;
use bugle_store::Spool;
use fastrand::Rng;

use super::{number, record};

/// What must be true of the spool.
#[derive(Clone, Default)]
pub(crate) struct Model {
    /// The next number to put.
    pub(crate) next: u64,
    /// Everything below was put and answered, or given up without an answer.
    pub(crate) answered: Vec<u64>,
    /// Put without an answer, in the last life: may be there.
    pub(crate) doubtful: Vec<u64>,
    /// Everything below was done with, answered.
    pub(crate) done: u64,
    /// Everything below may be done with.
    pub(crate) maybe_done: u64,
}

impl Model {
    /// Put and take out until power is lost.
    pub(crate) async fn live(&mut self, spool: &FileSpool, rng: &mut Rng) {
        loop {
            if rng.u8(..3) > 0 {
                let numbers: Vec<u64> = (0..rng.u64(1..4)).map(|n| self.next + n).collect();
                self.next += numbers.len() as u64;
                match spool.put(numbers.iter().map(|n| record(*n)).collect()).await {
                    Ok(()) => self.answered.extend(numbers),
                    Err(_) => return self.doubtful.extend(numbers),
                }
            } else {
                let Ok(batch) = spool.front(rng.usize(1..200)).await else { return };
                let Some(last) = batch.records.last().map(number) else { continue };
                self.maybe_done = last + 1;
                if spool.done(batch).await.is_err() {
                    return;
                }
                self.done = last + 1;
            }
        }
    }

    /// What a new life found must fit. The model then believes it.
    pub(crate) fn found(&mut self, found: &[u64]) {
        assert!(found.windows(2).all(|two| two[0] < two[1]), "out of order: {found:?}");
        let first = found.first().copied().unwrap_or(u64::MAX);
        assert!(first >= self.done, "{first} was done with");
        for number in self.answered.iter().filter(|n| **n >= self.maybe_done) {
            assert!(found.contains(number), "{number} was answered; found {found:?}");
        }
        // Done with all or nothing of the batch that was in flight.
        let kept: Vec<u64> =
            self.answered.iter().copied().filter(|n| (self.done..self.maybe_done).contains(n)).collect();
        let there = kept.iter().filter(|n| found.contains(n)).count();
        assert!(there == 0 || there == kept.len(), "part of a batch: {found:?} of {kept:?}");
        for number in found {
            assert!(self.answered.contains(number) || self.doubtful.contains(number), "{number} appeared");
        }
        self.answered = found.to_vec();
        self.doubtful.clear();
        self.done = found.first().copied().unwrap_or(self.next).max(self.done);
        self.maybe_done = self.done;
    }
}
