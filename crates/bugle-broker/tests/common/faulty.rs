//! An engine that misbehaves on request: calls that fail before or after they happened, that stop at a gate, or that fail
//! at random. Everything else goes to the engine inside.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::collections::HashMap;
use std::sync::Arc;

use bugle_store::*;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

/// What happens to a call.
#[derive(Clone)]
pub enum Fault {
    /// It fails and nothing was done.
    Before,
    /// It is done, and the answer is lost.
    After,
    /// It waits at the gate before it is done.
    HoldBefore(Arc<Gate>),
    /// It waits at the gate, then fails, and nothing was done.
    HoldAndFail(Arc<Gate>),
    /// It is done, and the answer waits at the gate.
    HoldAfter(Arc<Gate>),
    /// It waits at the gate, then panics, and nothing was done.
    Panic(Arc<Gate>),
}

/// Finds a fault in what is to be appended.
type Judge = Box<dyn Fn(&[Append]) -> Option<Fault> + Send>;

/// Stops a call until it is opened.
pub struct Gate {
    reached: Semaphore,
    open: Semaphore,
}

impl Gate {
    pub fn new() -> Arc<Self> {
        Arc::new(Self { reached: Semaphore::new(0), open: Semaphore::new(0) })
    }

    /// Wait until a call stands here.
    pub async fn reached(&self) {
        self.reached.acquire().await.unwrap().forget();
    }

    /// Let one call go on.
    pub fn open(&self) {
        self.open.add_permits(1);
    }

    async fn hold(&self) {
        self.reached.add_permits(1);
        self.open.acquire().await.unwrap().forget();
    }
}

/// See the module.
pub struct Faulty {
    inner: Arc<dyn Engine>,
    /// The next calls of a verb: one fault each.
    planned: Mutex<HashMap<&'static str, Vec<Fault>>>,
    /// Every call of these verbs fails.
    broken: Mutex<Vec<&'static str>>,
    /// Calls per verb.
    calls: Mutex<HashMap<&'static str, usize>>,
    /// Random faults: generator, and one call in so many.
    random: Mutex<Option<(fastrand::Rng, u32)>>,
    /// Appends whose content is at fault.
    judge: Mutex<Option<Judge>>,
}

const AT_RANDOM: [&str; 8] = ["append", "swap", "commit", "read", "find", "probe", "load", "ensure_lanes"];

impl Faulty {
    pub fn new(inner: Arc<dyn Engine>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            planned: Mutex::default(),
            broken: Mutex::default(),
            calls: Mutex::default(),
            random: Mutex::default(),
            judge: Mutex::default(),
        })
    }

    /// The next call of `verb` that has no fault yet gets this one.
    pub fn next(&self, verb: &'static str, fault: Fault) {
        self.planned.lock().entry(verb).or_default().push(fault);
    }

    /// Hold the next call of `verb` after it was done.
    pub fn hold_after(&self, verb: &'static str) -> Arc<Gate> {
        let gate = Gate::new();
        self.next(verb, Fault::HoldAfter(gate.clone()));
        gate
    }

    /// Hold the next call of `verb` before it is done.
    pub fn hold_before(&self, verb: &'static str) -> Arc<Gate> {
        let gate = Gate::new();
        self.next(verb, Fault::HoldBefore(gate.clone()));
        gate
    }

    pub fn break_down(&self, verbs: &[&'static str]) {
        *self.broken.lock() = verbs.to_vec();
    }

    /// From now on appends in which `judge` finds a fault have it.
    pub fn judge_appends(&self, judge: impl Fn(&[Append]) -> Option<Fault> + Send + 'static) {
        *self.judge.lock() = Some(Box::new(judge));
    }

    pub fn calls(&self, verb: &'static str) -> usize {
        self.calls.lock().get(verb).copied().unwrap_or(0)
    }

    /// From now on one call in `one_in` fails, half of them after they were done, and others are slow. 0 ends it.
    pub fn at_random(&self, seed: u64, one_in: u32) {
        *self.random.lock() = (one_in > 0).then(|| (fastrand::Rng::with_seed(seed), one_in));
    }

    fn fault(&self, verb: &'static str) -> Option<Fault> {
        *self.calls.lock().entry(verb).or_default() += 1;
        if self.broken.lock().contains(&verb) {
            return Some(Fault::Before);
        }
        if let Some(planned) = self.planned.lock().get_mut(verb).filter(|p| !p.is_empty()) {
            return Some(planned.remove(0));
        }
        let mut random = self.random.lock();
        let (rng, one_in) = random.as_mut().filter(|_| AT_RANDOM.contains(&verb))?;
        let (hit, before) = (rng.u32(..*one_in) == 0, rng.bool());
        hit.then_some(if before { Fault::Before } else { Fault::After })
    }

    async fn hesitate(&self) {
        let pause =
            self.random.lock().as_mut().and_then(|(rng, _)| (rng.u8(..3) == 0).then(|| rng.u64(..3000)));
        if let Some(pause) = pause {
            tokio::time::sleep(std::time::Duration::from_micros(pause)).await;
        }
    }

    async fn through<T>(
        &self,
        verb: &'static str,
        call: impl Future<Output = Result<T, Unavailable>>,
    ) -> Result<T, Unavailable> {
        let lost = || Unavailable::new(format!("{verb} was made to fail"));
        match self.fault(verb) {
            None => {
                // Answers overtake each other, as those of a real store do.
                self.hesitate().await;
                let answer = call.await;
                self.hesitate().await;
                answer
            }
            Some(Fault::Before) => Err(lost()),
            Some(Fault::After) => {
                call.await?;
                Err(lost())
            }
            Some(Fault::HoldBefore(gate)) => {
                gate.hold().await;
                call.await
            }
            Some(Fault::HoldAndFail(gate)) => {
                gate.hold().await;
                Err(lost())
            }
            Some(Fault::HoldAfter(gate)) => {
                let answer = call.await;
                gate.hold().await;
                answer
            }
            Some(Fault::Panic(gate)) => {
                gate.hold().await;
                panic!("{verb} was made to panic")
            }
        }
    }
}

macro_rules! through {
    ($($name:ident($($arg:ident: $type:ty),*) -> $answer:ty;)*) => {$(
        fn $name(&self, $($arg: $type),*) -> Answer<'_, $answer> {
            Box::pin(async move { self.through(stringify!($name), async { self.inner.$name($($arg),*).await }).await })
        }
    )*};
}

impl Store for Faulty {
    fn now(&self) -> Now {
        self.inner.now()
    }

    fn exclusive(&self) -> bool {
        self.inner.exclusive()
    }

    fn timeline(&self) -> u64 {
        self.inner.timeline()
    }

    fn append(&self, batch: Vec<Append>) -> Answer<'_, Vec<Result<Appended, AppendError>>> {
        if let Some(fault) = self.judge.lock().as_ref().and_then(|judge| judge(&batch)) {
            self.planned.lock().entry("append").or_default().insert(0, fault);
        }
        Box::pin(async move { self.through("append", async { self.inner.append(batch).await }).await })
    }

    engine_calls!(swap, changes, questions => through);
}

impl Catalog for Faulty {
    engine_calls!(catalog_changes, catalog_questions => through);
}

impl Engine for Faulty {
    fn close(&self) -> Answer<'_, ()> {
        self.inner.close()
    }
}
