//! Power cuts at every operation of a workload, not by chance: the disk stops before each operation that changes it, and all
//! that a cut there could leave is handed to a judge. And the same for cuts while what a cut left is opened.

use std::collections::HashSet;
use std::fmt::Display;
use std::future::Future;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use fastrand::Rng;

use super::{Keep, Operation, SimDisk};

/// What a cut may keep, tried at every operation: before the operation begins, and in the middle of it.
const OUTCOMES: [Keep; 6] = [Keep::Nothing, Keep::Everything, Keep::Data, Keep::Names, Keep::Any, Keep::Any];

/// A workload under way. While it lives, operations of the disk wait to be looked at; a test that fails drops it, and so leaves
/// nobody waiting.
pub struct Cuts<'d> {
    disk: &'d SimDisk,
    share: (usize, usize),
    operations: Vec<Operation>,
    cuts: usize,
    images: HashSet<(u64, u64)>,
}

impl<'d> Cuts<'d> {
    /// Let operations wait from now on. Of `share.1` runs of the workload this is number `share.0`: each looks at its share of
    /// the operations.
    pub fn begin(disk: &'d SimDisk, share: (usize, usize)) -> Self {
        disk.step(true);
        Self { disk, share, operations: Vec::new(), cuts: 0, images: HashSet::new() }
    }

    /// Wait for an answer. Before each operation of the disk until it is there, `judge` is given all that a cut could leave, and
    /// words for when it was. The same image is judged once for each `truth`, which is whatever says what must be in it.
    pub fn during<T>(
        &mut self,
        truth: impl Hash,
        answer: impl Future<Output = T>,
        mut judge: impl FnMut(&SimDisk, &str),
    ) -> T {
        let truth = hash(truth);
        let mut answer = pin!(answer);
        loop {
            let asked = self.disk.asked();
            // An answer given before the operation was asked for is seen here.
            if let Poll::Ready(answer) = answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                return answer;
            }
            match asked {
                Some(operation) => {
                    self.stop(operation, truth, &mut judge);
                    self.disk.grant();
                }
                None => std::thread::yield_now(),
            }
        }
    }

    fn stop(&mut self, operation: Operation, truth: u64, judge: &mut impl FnMut(&SimDisk, &str)) {
        self.operations.push(operation.clone());
        let number = self.operations.len();
        if number % self.share.1 != self.share.0 {
            return;
        }
        for (outcome, keep) in OUTCOMES.into_iter().enumerate() {
            for during in [false, true] {
                let mut rng = Rng::with_seed((number * 100 + outcome * 2 + usize::from(during)) as u64);
                let image = match during {
                    true => self.disk.image_during(keep, &mut rng),
                    false => self.disk.image(keep, &mut rng),
                };
                self.cuts += 1;
                if self.images.insert((image.digest(), truth)) {
                    judge(
                        &image,
                        &format!("operation {number} ({operation:?}), {keep:?} kept, during: {during}"),
                    );
                }
            }
        }
    }

    /// All operations so far.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Cuts so far, and how many of them left something that no other had left.
    pub fn counts(&self) -> (usize, usize) {
        (self.cuts, self.images.len())
    }
}

impl Drop for Cuts<'_> {
    fn drop(&mut self) {
        self.disk.step(false);
    }
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Cuts while a disk is opened, at each operation of that; what they leave is given to `judge`. Answers how many operations
/// there were.
///
/// # Panics
/// If opening fails for another reason than the cut.
pub fn cuts_while_opening<S, E: Display>(
    image: &SimDisk,
    when: &str,
    rng: &mut Rng,
    open: impl Fn(&SimDisk) -> Result<S, E>,
    mut judge: impl FnMut(&SimDisk, &str, &mut Rng),
) -> usize {
    for operation in 1.. {
        let disk = image.copy();
        disk.cut_after(operation);
        match open(&disk) {
            Ok(_) if disk.keep_on() => return operation as usize - 1,
            Ok(_) => (),
            Err(e) if e.to_string().contains("power cut") => (),
            Err(e) => panic!("{when}, then operation {operation} of opening: refused: {e}"),
        }
        for keep in [Keep::Nothing, Keep::Everything, Keep::Any] {
            let second = disk.image(keep, rng);
            judge(&second, &format!("{when}, then operation {operation} of opening, {keep:?} kept"), rng);
        }
    }
    unreachable!("there are not so many operations")
}
