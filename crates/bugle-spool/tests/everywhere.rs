//! Power cuts and failures at every operation of the disk, not by chance, while records are put and taken out again.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::collections::HashSet;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bugle_disk::{Fault, Keep, Operation, SimDisk};
use bugle_spool::{FileSpool, OpenError};
use bugle_store::Spool;
use fastrand::Rng;
use support::model::Model;
use support::{drain, look, number, open, record};

/// Rounds of the workload: about a dozen files, most of them drained again.
const ROUNDS: u64 = 60;
const OUTCOMES: [Keep; 6] = [Keep::Nothing, Keep::Everything, Keep::Data, Keep::Names, Keep::Any, Keep::Any];

/// Waits for an answer and calls `at` before each operation of the disk until it is there.
fn stepping<T>(disk: &SimDisk, answer: impl Future<Output = T>, mut at: impl FnMut(&Operation)) -> T {
    let mut answer = pin!(answer);
    loop {
        let asked = disk.asked();
        if let Poll::Ready(answer) = answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return answer;
        }
        match asked {
            Some(operation) => {
                at(&operation);
                disk.grant();
            }
            None => std::thread::yield_now(),
        }
    }
}

/// While it lives, operations wait. A test that fails must not leave the spool waiting.
struct Running<'a>(&'a SimDisk);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.step(false);
    }
}

/// Run the workload and look at every operation: its number, itself, and what must be true there.
fn tour(
    runtime: &tokio::runtime::Runtime,
    disk: &SimDisk,
    mut at: impl FnMut(usize, &Operation, &Model),
) -> usize {
    let (mut model, mut operations) = (Model::default(), 0);
    let spool = open(disk).unwrap();
    disk.step(true);
    let _running = Running(disk);
    let _context = runtime.enter();
    for round in 0..ROUNDS {
        let put = round % 3 < 2;
        let batch = if put {
            model.doubtful = (0..round % 4 + 1).map(|n| model.next + n).collect();
            model.next += model.doubtful.len() as u64;
            None
        } else {
            let batch =
                stepping(disk, spool.front(150), |_| unreachable!("reading changes nothing")).unwrap();
            model.maybe_done = batch.records.last().map_or(model.done, |last| number(last) + 1);
            Some(batch)
        };
        let stop = |operation: &Operation| {
            operations += 1;
            at(operations, operation, &model);
        };
        match batch {
            None => {
                let records = model.doubtful.iter().map(|n| record(*n)).collect();
                stepping(disk, spool.put(records), stop).unwrap();
                let answered = std::mem::take(&mut model.doubtful);
                model.answered.extend(answered);
            }
            Some(batch) => {
                stepping(disk, spool.done(batch), stop).unwrap();
                model.done = model.maybe_done;
            }
        }
    }
    operations
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

/// Cuts while opening after a cut, at each operation of that.
fn second_cuts(runtime: &tokio::runtime::Handle, image: &SimDisk, model: &Model, rng: &mut Rng) -> usize {
    for operation in 1.. {
        let disk = image.copy();
        disk.cut_after(operation);
        match open(&disk) {
            Ok(_) if disk.keep_on() => return 3 * (operation as usize - 1),
            Ok(_) => (),
            Err(OpenError::Io(_, e)) if e.to_string().contains("power cut") => (),
            Err(e) => panic!("operation {operation} of opening: refused: {e}"),
        }
        for keep in [Keep::Nothing, Keep::Everything, Keep::Any] {
            let second = disk.image(keep, rng);
            let spool = open(&second).unwrap();
            model.clone().found(&runtime.block_on(look(&spool)));
        }
    }
    unreachable!("there are not so many operations")
}

#[test]
fn a_cut_at_every_operation_and_a_second_one_while_opening() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let disk = SimDisk::default();
    let (mut images, mut cuts, mut seconds) = (HashSet::new(), 0, 0);
    let mut kinds = HashSet::new();
    let operations = tour(&runtime, &disk, |number, operation, model| {
        kinds.insert(std::mem::discriminant(operation));
        for (outcome, keep) in OUTCOMES.into_iter().enumerate() {
            for during in [false, true] {
                let mut rng = Rng::with_seed((number * 100 + outcome * 2 + usize::from(during)) as u64);
                let image =
                    if during { disk.image_during(keep, &mut rng) } else { disk.image(keep, &mut rng) };
                cuts += 1;
                if images.insert((image.digest(), model.answered.len(), model.done)) {
                    let when = format!("operation {number} ({operation:?}), {keep:?} kept, during: {during}");
                    seconds += second_cuts(runtime.handle(), &image, model, &mut Rng::with_seed(cuts));
                    runtime.block_on(go_on(&image, model.clone(), &when));
                }
            }
        }
    });
    println!("{operations} operations, {cuts} cuts, {} other images, {seconds} second cuts", images.len());
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
