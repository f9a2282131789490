//! Who runs next: everything follows from one number, so that the number is all one needs to see an execution again.
//!
//! Half of the numbers choose anew at every step. The other half give everybody a rank, let the highest run for as long as he
//! can, and send him to the end now and then: few changes at odd moments find what many changes never do.

use std::cell::Cell;
use std::collections::HashMap;

use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};

/// One in so many steps may go to the clock though others could run.
const HASTE: u32 = 256;

thread_local! {
    static CLOCK: Cell<Option<TaskId>> = const { Cell::new(None) };
    static LAST: Cell<Option<TaskId>> = const { Cell::new(None) };
    static TRACE: Cell<u64> = const { Cell::new(0) };
}

/// The calling task moves the clock.
pub(crate) fn i_am_the_clock() {
    CLOCK.set(Some(shuttle::current::me()));
}

/// Go on when nobody else can.
pub(crate) fn after_all_others() {
    LAST.set(Some(shuttle::current::me()));
    shuttle::thread::sleep(std::time::Duration::ZERO);
    LAST.set(None);
}

/// A print of everything that was chosen since the last execution began.
pub(crate) fn trace() -> u64 {
    TRACE.get()
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Dice {
    seed: u64,
    used: bool,
    random: fastrand::Rng,
    /// Ranks, where there are any, and how many steps a change is due in, on average.
    ranks: Option<HashMap<TaskId, u64>>,
    every: u32,
}

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let ranked = random.bool();
        let every = 1 << random.u32(4..10);
        Self { seed, used: false, random, ranks: ranked.then(HashMap::new), every }
    }

    fn choose(&mut self, able: &[TaskId], current: Option<TaskId>, yields: bool) -> TaskId {
        let Some(ranks) = &mut self.ranks else { return able[self.random.usize(..able.len())] };
        for task in able {
            ranks.entry(*task).or_insert_with(|| self.random.u64(1 << 32..));
        }
        if let Some(current) = current
            && (yields || self.random.u32(..self.every) == 0)
        {
            ranks.insert(current, self.random.u64(..1 << 32));
        }
        *able.iter().max_by_key(|task| ranks[task]).expect("somebody is able")
    }
}

impl Scheduler for Dice {
    fn new_execution(&mut self) -> Option<Schedule> {
        CLOCK.set(None);
        LAST.set(None);
        TRACE.set(0);
        (!std::mem::replace(&mut self.used, true)).then(|| Schedule::new(self.seed))
    }

    fn next_task(&mut self, able: &[&Task], current: Option<TaskId>, yields: bool) -> Option<TaskId> {
        let mut able: Vec<TaskId> = able.iter().map(|task| task.id()).collect();
        if let Some(clock) = CLOCK.get()
            && able.len() > 1
            && self.random.u32(..HASTE) > 0
        {
            able.retain(|task| *task != clock);
        }
        if let Some(last) = LAST.get()
            && able.len() > 1
        {
            able.retain(|task| *task != last);
        }
        let chosen = self.choose(&able, current, yields);
        let step = (usize::from(chosen) as u64) << 32 | able.len() as u64;
        TRACE.set((TRACE.get() ^ step).wrapping_mul(0x0100_0000_01b3).rotate_left(17));
        Some(chosen)
    }

    fn next_u64(&mut self) -> u64 {
        self.random.u64(..)
    }
}
