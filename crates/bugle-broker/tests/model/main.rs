//! The broker against a model of the protocol: random operations, every answer compared, on every engine.
//!
//! A case is made from one number, its seed. A case that fails is made smaller and told with its seed; to play it again:
//! `BUGLE_MODEL_SEED=<seed> cargo nextest run -p bugle-broker --test model <engine>`. Usually the seeds are the same in
//! every run; `cargo xtask fuzz --minutes 30` plays new ones for so long.
#![allow(clippy::unwrap_used)]

mod naive;
mod op;
mod play;
mod rig;

use std::cell::Cell;
use std::time::{Duration, Instant};

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use tokio::runtime::{Builder, Runtime};

use play::Play;
use rig::{On, Rig};

/// Operations in one case.
const STEPS: usize = 40;
/// Cases played on one rig before it is made anew.
const CASES_PER_RIG: u64 = 100;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} must be a number")))
}

/// Play `cases` cases, or as the environment says: one by its seed, or new ones for some minutes.
fn fuzz(on: On, cases: u64) {
    if let Some(seed) = number("BUGLE_MODEL_SEED") {
        return Bench::new(on).case(seed);
    }
    let Some(minutes) = number("BUGLE_MODEL_MINUTES") else {
        return (0..cases.div_ceil(CASES_PER_RIG)).for_each(|rig| {
            let bench = Bench::new(on);
            (rig * CASES_PER_RIG..cases.min((rig + 1) * CASES_PER_RIG)).for_each(|seed| bench.case(seed));
        });
    };
    let end = Instant::now() + Duration::from_secs(minutes * 60);
    let first = fastrand::u64(..) >> 1;
    let mut seed = first;
    while Instant::now() < end {
        let bench = Bench::new(on);
        for _ in 0..CASES_PER_RIG {
            bench.case(seed);
            seed += 1;
        }
    }
    eprintln!("{on:?}: {} cases from seed {first} on", seed - first);
}

/// A rig and the runtime it lives on.
struct Bench {
    on: On,
    runtime: Runtime,
    rig: Option<Rig>,
    /// Plays so far, for names.
    plays: Cell<u64>,
}

/// Ids of queues are chosen by chance, and with them the order of lanes: a smaller case gets so many tries to fail.
const TRIES: u32 = 5;

impl Bench {
    fn new(on: On) -> Self {
        let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let rig = Some(runtime.block_on(Rig::open(on)));
        Self { on, runtime, rig, plays: Cell::new(0) }
    }

    fn rig(&self) -> &Rig {
        self.rig.as_ref().unwrap()
    }

    /// Make a case from its seed and play it; if it fails, look for the smallest part of it that fails too.
    fn case(&self, seed: u64) {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let config =
            Config { cases: 1, failure_persistence: None, max_shrink_iters: 4000, ..Config::default() };
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        let mut runner = TestRunner::new_with_rng(config, rng);
        let failed = Cell::new(false);
        let outcome = runner.run(&op::steps(STEPS), |steps| {
            for _ in 0..if failed.get() { TRIES } else { 1 } {
                self.play(seed, &steps).map_err(|wrong| {
                    failed.set(true);
                    TestCaseError::fail(wrong)
                })?;
            }
            Ok(())
        });
        if let Err(TestError::Fail(why, steps)) = outcome {
            let steps: Vec<String> = steps.iter().map(|step| format!("  {step:?}")).collect();
            panic!("on {:?}, BUGLE_MODEL_SEED={seed}: {why}\nsmallest case:\n{}", self.on, steps.join("\n"));
        } else if let Err(error) = outcome {
            panic!("on {:?}, BUGLE_MODEL_SEED={seed}: {error}", self.on);
        }
    }
}

impl Bench {
    fn play(&self, seed: u64, steps: &[op::Step]) -> Result<(), String> {
        self.plays.set(self.plays.get() + 1);
        let prefix = format!("c{}", self.plays.get());
        // What the broker leaves to chance is the same in every try.
        fastrand::seed(seed);
        self.runtime.block_on(async {
            let mut play = Play::new(self.rig(), prefix, seed % 2 == 1).await;
            Box::pin(play.run(steps)).await
        })
    }
}

impl Drop for Bench {
    /// The task that keeps the clock ends with the rig; the runtime would wait for it.
    fn drop(&mut self) {
        let _inside = self.runtime.enter();
        self.rig = None;
    }
}

#[test]
fn memory() {
    fuzz(On::Memory, 2000);
}

#[test]
fn shared_memory() {
    fuzz(On::SharedMemory, 1500);
}

#[test]
fn embedded() {
    fuzz(On::Embedded, 400);
}

#[test]
fn postgres() {
    fuzz(On::Postgres, 200);
}
