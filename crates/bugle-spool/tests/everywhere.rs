//! Power cuts and failures at every operation of the disk, not by chance, while records are put and taken out again.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::collections::HashSet;

use bugle_disk::{Cuts, Fault, Keep, SimDisk, cuts_while_opening};
use bugle_spool::FileSpool;
use bugle_store::Spool;
use fastrand::Rng;
use support::model::Model;
use support::{drain, look, number, open, record};

/// Rounds of the workload: about a dozen files, most of them drained again.
const ROUNDS: u64 = 60;

/// Run the workload and look at every operation: what a cut there could leave, what must be true of it, and when it was.
fn tour(spool: &FileSpool, cuts: &mut Cuts<'_>, mut judge: impl FnMut(&SimDisk, &Model, &str)) {
    let mut model = Model::default();
    for round in 0..ROUNDS {
        if round % 3 < 2 {
            model.doubtful = (0..round % 4 + 1).map(|n| model.next + n).collect();
            model.next += model.doubtful.len() as u64;
            let records = model.doubtful.iter().map(|n| record(*n)).collect();
            let truth = (model.answered.len(), model.done);
            cuts.during(truth, spool.put(records), |image, when| judge(image, &model, when)).unwrap();
            let answered = std::mem::take(&mut model.doubtful);
            model.answered.extend(answered);
        } else {
            let nothing = |_: &SimDisk, _: &str| unreachable!("reading changes nothing");
            let batch = cuts.during((), spool.front(150), nothing).unwrap();
            model.maybe_done = batch.records.last().map_or(model.done, |last| number(last) + 1);
            let truth = (model.answered.len(), model.done);
            cuts.during(truth, spool.done(batch), |image, when| judge(image, &model, when)).unwrap();
            model.done = model.maybe_done;
        }
    }
}

/// Open what a cut left, and use it.
async fn go_on(image: &SimDisk, mut model: Model, when: &str) {
    let spool = open(image).unwrap_or_else(|e| panic!("{when}: refused: {e}"));
    println!("{when}");
    model.found(&look(&spool).await);
    spool.put(vec![record(model.next)]).await.unwrap();
    model.answered.push(model.next);
    drop(spool);
    let again = open(image).unwrap();
    assert_eq!(drain(&again).await, model.answered, "{when}");
}

#[test]
fn a_cut_at_every_operation_and_a_second_one_while_opening() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let _context = runtime.enter();
    let (disk, mut seconds) = (SimDisk::default(), 0);
    let spool = open(&disk).unwrap();
    let mut cuts = Cuts::begin(&disk, (0, 1));
    let mut rng = Rng::with_seed(1);
    tour(&spool, &mut cuts, |image, model, when| {
        seconds += 3 * cuts_while_opening(image, when, &mut rng, open, |second, _, _| {
            let spool = open(second).unwrap();
            model.clone().found(&runtime.block_on(look(&spool)));
        });
        runtime.block_on(go_on(image, model.clone(), when));
    });
    let kinds: HashSet<_> = cuts.operations().iter().map(std::mem::discriminant).collect();
    let (operations, (all, images)) = (cuts.operations().len(), cuts.counts());
    println!("{operations} operations, {all} cuts, {images} other images, {seconds} second cuts");
    assert!(
        operations > 100 && kinds.len() == 5,
        "all but renames: {operations} operations of {} kinds",
        kinds.len()
    );
}

/// Run the workload on a disk that fails once. Answers whether it did, and whether the spool stopped.
async fn until_it_fails(disk: &SimDisk, spool: &FileSpool, model: &mut Model) -> bool {
    for round in 0..ROUNDS {
        if round % 3 < 2 {
            let numbers: Vec<u64> = (0..round % 4 + 1).map(|n| model.next + n).collect();
            model.next += numbers.len() as u64;
            match spool.put(numbers.iter().map(|n| record(*n)).collect()).await {
                Ok(()) => model.answered.extend(numbers),
                Err(_) => {
                    model.doubtful.extend(numbers);
                    return disk.heal();
                }
            }
        } else {
            let batch = spool.front(150).await.unwrap();
            let Some(last) = batch.records.last().map(number) else { continue };
            model.maybe_done = last + 1;
            if spool.done(batch).await.is_err() {
                return disk.heal();
            }
            model.done = model.maybe_done;
        }
    }
    disk.heal()
}

/// A failed sync, of a group, a header, the position or the directory, ends it; what was answered is there after a restart, and
/// after a restart and a cut. Other failures do not end it.
#[tokio::test]
async fn a_failure_at_every_operation() {
    for (fault, ends) in [
        (Fault::Sync, true),
        (Fault::SyncDir, true),
        (Fault::Write, false),
        (Fault::Create, false),
        (Fault::Full, false),
    ] {
        for occasion in 0.. {
            let (disk, mut model) = (SimDisk::default(), Model::default());
            let spool = open(&disk).unwrap();
            // The directory is opened by the first put, and opened again if that fails.
            spool.put(vec![record(0)]).await.unwrap();
            (model.next, model.answered) = (1, vec![0]);
            disk.fail(fault, occasion, 1, occasion);
            if !until_it_fails(&disk, &spool, &mut model).await {
                println!("{fault:?}: {occasion} occasions");
                assert!(occasion > 5, "{fault:?}: {occasion}");
                break;
            }
            let when = format!("{fault:?} at its occasion {occasion}");
            let refused = spool.put(vec![record(model.next)]).await.is_err();
            assert_eq!(refused, ends, "{when}");
            if ends {
                assert!(spool.front(1000).await.is_err() && spool.state().failed.is_some(), "{when}");
            } else {
                model.answered.push(model.next);
            }
            model.next += 1;
            drop(spool);
            let mut rng = Rng::with_seed(occasion);
            go_on(&disk.after_cut(&mut rng), model.clone(), &when).await;
            let restarted = disk.after_kill();
            let again = open(&restarted).unwrap_or_else(|e| panic!("{when}: {e}"));
            model.found(&look(&again).await);
            again.put(vec![record(model.next)]).await.unwrap();
            model.answered.push(model.next);
            model.next += 1;
            drop(again);
            for keep in [Keep::Nothing, Keep::Any] {
                go_on(&restarted.image(keep, &mut rng), model.clone(), &format!("{when}, then a cut")).await;
            }
        }
    }
}
