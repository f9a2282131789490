//! Power cuts and kills at every operation of the disk: what was answered is there, in order; what was done with is not, unless
//! that was never answered; and nothing else ever appears. `BUGLE_SEED` repeats one run;
//! `cargo xtask powercuts --minutes N` makes new ones (`BUGLE_POWERCUT_MINUTES`).
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::sync::Arc;

use bugle_disk::SimDisk;
use bugle_spool::{FileSpool, OpenError};
use bugle_store::Spool as _;
use fastrand::Rng;

use support::model::Model;
use support::{drain, look, open};

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
    let tries = bugle_disk::run_seeds(0..300, |seed| runtime.block_on(one_seed(seed)));
    println!("{tries} seeds");
}
