//! Power cuts and kills at every operation of the disk: what was answered is there, in order; what was done with is not, unless
//! that was never answered; and nothing else ever appears. `BUGLE_SEED` repeats one run;
//! `cargo xtask powercuts --minutes N` makes new ones (`BUGLE_POWERCUT_MINUTES`).
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::sync::Arc;

use bugle_disk::SimDisk;
use bugle_spool::{FileSpool, OpenError};
use bugle_store::Spool;
use fastrand::Rng;

use support::{drain, number, open, record};

/// What must be true of the spool.
#[derive(Default)]
struct Model {
    /// The next number to put.
    next: u64,
    /// Everything below was put and answered, or given up without an answer.
    answered: Vec<u64>,
    /// Put without an answer, in the last life: may be there.
    doubtful: Vec<u64>,
    /// Everything below was done with, answered.
    done: u64,
    /// Everything below may be done with.
    maybe_done: u64,
}

impl Model {
    /// Put and take out until power is lost.
    async fn live(&mut self, spool: &FileSpool, rng: &mut Rng) {
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
    fn found(&mut self, found: &[u64]) {
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

/// Open after a cut; power may be lost again meanwhile.
fn reopen(disk: &mut SimDisk, rng: &mut Rng) -> Arc<FileSpool> {
    loop {
        if rng.bool() {
            disk.cut_after(rng.u64(1..12));
        }
        match open(disk) {
            Ok(spool) if disk.keep_on() => return spool,
            Ok(spool) => drop(spool),
            Err(OpenError::Io(_, error)) if error.to_string().ends_with("power cut") => {}
            Err(error) => panic!("refused after a power cut: {error}; {:?}", disk.files()),
        }
        *disk = disk.after_cut(rng);
    }
}

/// Everything in a spool, without taking it out.
async fn look(spool: &FileSpool) -> Vec<u64> {
    spool.front(usize::MAX).await.unwrap().records.iter().map(number).collect()
}

async fn one_seed(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let (mut disk, mut model) = (SimDisk::default(), Model::default());
    for _ in 0..rng.usize(2..6) {
        let spool = reopen(&mut disk, &mut rng);
        model.found(&look(&spool).await);
        disk.cut_after(rng.u64(1..80));
        model.live(&spool, &mut rng).await;
        disk.cut_now();
        drop(spool);
        disk = if rng.u8(..3) == 0 { disk.after_kill() } else { disk.after_cut(&mut rng) };
    }
    disk = disk.after_cut(&mut rng);
    let spool = open(&disk).unwrap();
    model.found(&look(&spool).await);
    assert_eq!(drain(&spool).await, model.answered);
    assert_eq!(spool.state().records, 0);
}

#[test]
fn nothing_answered_is_lost_and_nothing_done_with_comes_back() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let tries = bugle_disk::run_seeds(0..1000, |seed| runtime.block_on(one_seed(seed)));
    println!("{tries} seeds");
}
