//! What models are written with: executions of a body, each with another number; faults on purpose; and what is found.

use std::cell::Cell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use shuttle::{Config, FailurePersistence, MaxSteps, Runner};

use crate::dice::{self, Dice};
use crate::time;

/// Plays one execution instead of all: the number that a failure was told with.
const SEED: &str = "BUGLE_MODEL_SEED";
/// Plays new executions for so long.
const SECONDS: &str = "BUGLE_MODEL_SECONDS";
/// Most steps of one execution: whoever takes more runs in a circle.
const STEPS: usize = 200_000;

thread_local! {
    static PLANTED: Cell<Option<&'static str>> = const { Cell::new(None) };
    static BROKEN: Cell<Option<&'static str>> = const { Cell::new(None) };
    static TOLD: Cell<bool> = const { Cell::new(false) };
}

/// A moment at which anybody else may run.
pub fn others_first() {
    // While an execution is taken down there is nobody else.
    if shuttle::current::try_get_current_task().is_some() && !std::thread::panicking() {
        shuttle::thread::sleep(Duration::ZERO);
    }
}

/// Whether this fault is to happen. Asked by the product's sources in a model's build, and there alone.
pub fn is_planted(fault: &str) -> bool {
    PLANTED.get() == Some(fault)
}

/// Something happened that must not. The execution goes on: whoever is told may sit deep inside of what is tried.
pub fn broken(promise: &'static str) {
    BROKEN.set(BROKEN.get().or(Some(promise)));
}

/// Something to read when an execution is seen again.
pub fn note(what: impl FnOnce() -> String) {
    if TOLD.get() {
        let (task, passed) = (usize::from(shuttle::current::me()), time::passed());
        eprintln!("{passed:>10.3?} task {task:>3}: {}", what());
    }
}

/// An execution that went wrong.
#[derive(Debug)]
pub struct Failure {
    /// Its number.
    pub seed: u64,
    /// What was wrong.
    pub what: String,
}

/// A model: a body that must come to its end whatever the order of steps.
#[derive(Clone)]
pub struct Model {
    name: &'static str,
    executions: u64,
    horizon: Duration,
    body: Arc<dyn Fn() + Send + Sync>,
}

impl std::fmt::Debug for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Model").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Model {
    /// A model of so many executions, in which no more than `horizon` passes.
    pub fn new<F, Fut>(name: &'static str, executions: u64, horizon: Duration, body: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()>,
    {
        Self { name, executions, horizon, body: Arc::new(move || shuttle::future::block_on(body())) }
    }

    /// Play it; panics with the number of the first execution that goes wrong.
    pub fn holds(&self) {
        let seconds: Option<u64> = std::env::var(SECONDS).ok().and_then(|text| text.parse().ok());
        let found = match (std::env::var(SEED).ok().map(|text| text.parse()), seconds) {
            (Some(Ok(seed)), _) => {
                TOLD.set(true);
                self.play(seed).err()
            }
            (Some(Err(_)), _) => panic!("{SEED} is no number"),
            (None, Some(seconds)) => self.search_for(Duration::from_secs(seconds)),
            (None, None) => (0..self.executions).find_map(|seed| self.play(seed).err()),
        };
        if let Some(Failure { seed, what }) = found {
            panic!("model {}: {what}\nsee it again with {SEED}={seed}", self.name);
        }
    }

    /// Play it with a fault on purpose, which must be found; the number of the execution that found it does so again.
    pub fn finds(&self, fault: &'static str) {
        PLANTED.set(Some(fault));
        let found = (0..self.executions).find_map(|seed| self.play(seed).err());
        let again = found.as_ref().map(|failure| self.play(failure.seed));
        PLANTED.set(None);
        let found = found.unwrap_or_else(|| panic!("model {} does not find {fault}", self.name));
        eprintln!("model {} finds {fault} in execution {}: {}", self.name, found.seed, found.what);
        assert!(matches!(again, Some(Err(_))), "execution {} went well the second time", found.seed);
        self.play(found.seed)
            .unwrap_or_else(|failure| panic!("it fails without {fault} too: {}", failure.what));
    }

    /// Every number stands for one order of steps.
    pub fn is_repeatable(&self, executions: u64) {
        for seed in 0..executions {
            let traces = [(); 2].map(|()| {
                self.play(seed).unwrap_or_else(|failure| panic!("execution {seed}: {}", failure.what));
                dice::trace()
            });
            assert_eq!(traces[0], traces[1], "execution {seed} took another course the second time");
        }
    }

    fn search_for(&self, time: Duration) -> Option<Failure> {
        let (begun, first) = (Instant::now(), fastrand::u64(..1 << 48));
        let mut seed = first;
        while begun.elapsed() < time {
            if let Err(failure) = self.play(seed) {
                return Some(failure);
            }
            seed += 1;
        }
        eprintln!("model {}: {} executions from {first} went well", self.name, seed - first);
        None
    }

    /// One execution.
    fn play(&self, seed: u64) -> Result<(), Failure> {
        let mut config = Config::new();
        config.stack_size = 1 << 20;
        config.failure_persistence = FailurePersistence::None;
        config.max_steps = MaxSteps::FailAfter(STEPS);
        config.silence_warnings = true;
        config.ungraceful_shutdown_config.immediately_return_on_panic = true;
        let (body, horizon) = (Arc::clone(&self.body), self.horizon);
        BROKEN.set(None);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            Runner::new(Dice::new(seed), config).run(move || {
                fastrand::seed(seed);
                time::begin();
                drop(shuttle::future::spawn(async move {
                    dice::i_am_the_clock();
                    loop {
                        time::step(horizon).await;
                        shuttle::future::yield_now().await;
                    }
                }));
                body();
                // What is still under way is done with before everything is taken down: a step cannot be taken down.
                time::stop();
                dice::after_all_others();
            });
        }));
        match BROKEN.take() {
            Some(promise) => Err(Failure { seed, what: promise.to_owned() }),
            None => outcome.map_err(|panic| Failure { seed, what: message(&*panic) }),
        }
    }
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".to_owned())
}
