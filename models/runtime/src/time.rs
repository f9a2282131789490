//! Time, which the model's clock moves: to the next instant that somebody sleeps until.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::ops::{Add, AddAssign, Sub};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

pub use std::time::Duration;

/// Where every execution begins: late enough to look back.
const START: Duration = Duration::from_secs(1_000_000);

thread_local! {
    // All tasks of an execution run on one thread.
    static CLOCK: RefCell<Clock> = RefCell::default();
}

#[derive(Default)]
struct Clock {
    now: Duration,
    sleepers: BTreeMap<(Duration, u64), Waker>,
    next: u64,
    /// Who moves it, while nobody sleeps.
    idle: Option<Waker>,
    stopped: bool,
}

/// A moment of the model's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(Duration);

impl Instant {
    /// The present.
    pub fn now() -> Self {
        Self(CLOCK.with_borrow(|clock| clock.now))
    }

    /// Time since then.
    pub fn elapsed(&self) -> Duration {
        Self::now().duration_since(*self)
    }

    /// Time since an earlier moment; nothing if it is later.
    pub fn duration_since(&self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// The same.
    pub fn saturating_duration_since(&self, earlier: Self) -> Duration {
        self.duration_since(earlier)
    }

    /// A moment before.
    pub fn checked_sub(&self, by: Duration) -> Option<Self> {
        self.0.checked_sub(by).map(Self)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, by: Duration) -> Self {
        Self(self.0 + by)
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, by: Duration) {
        self.0 += by;
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    fn sub(self, by: Duration) -> Self {
        Self(self.0 - by)
    }
}

/// Sleeps.
#[derive(Debug)]
pub struct Sleep {
    until: Duration,
    key: Option<u64>,
}

/// Sleep until then.
pub fn sleep_until(until: Instant) -> Sleep {
    Sleep { until: until.0, key: None }
}

/// Sleep so long.
pub fn sleep(time: Duration) -> Sleep {
    sleep_until(Instant::now() + time)
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        CLOCK.with_borrow_mut(|clock| {
            if clock.now >= self.until {
                return Poll::Ready(());
            }
            let key = *self.key.get_or_insert_with(|| {
                clock.next += 1;
                clock.next
            });
            clock.sleepers.insert((self.until, key), cx.waker().clone());
            if let Some(mover) = clock.idle.take() {
                mover.wake();
            }
            Poll::Pending
        })
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            // After the end of the thread there is nobody to wake.
            let _ = CLOCK.try_with(|clock| {
                if let Ok(mut clock) = clock.try_borrow_mut() {
                    clock.sleepers.remove(&(self.until, key));
                }
            });
        }
    }
}

/// It took too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed(());

/// Wait no longer than `time`.
pub async fn timeout<F: IntoFuture>(time: Duration, future: F) -> Result<F::Output, Elapsed> {
    let future = pin!(future.into_future());
    let sleep = sleep(time);
    crate::select! {
        output = future => Ok(output),
        () = sleep => Err(Elapsed(())),
    }
}

/// A new execution begins.
pub(crate) fn begin() {
    CLOCK.set(Clock { now: START, ..Clock::default() });
}

/// No more time passes.
pub(crate) fn stop() {
    CLOCK.with_borrow_mut(|clock| clock.stopped = true);
}

/// How much time has passed in this execution.
pub fn passed() -> Duration {
    CLOCK.with_borrow(|clock| clock.now.saturating_sub(START))
}

/// Go to the next instant that somebody sleeps until and wake those who do, when there is one before `end`.
pub(crate) async fn step(end: Duration) {
    std::future::poll_fn(|cx| {
        CLOCK.with_borrow_mut(|clock| match clock.sleepers.first_key_value() {
            Some((&(at, _), _)) if at <= START + end && !clock.stopped => {
                clock.now = clock.now.max(at);
                Poll::Ready(())
            }
            _ => {
                clock.idle = Some(cx.waker().clone());
                Poll::Pending
            }
        })
    })
    .await;
    let due: Vec<Waker> = CLOCK.with_borrow_mut(|clock| {
        let later = clock.sleepers.split_off(&(clock.now, u64::MAX));
        std::mem::replace(&mut clock.sleepers, later).into_values().collect()
    });
    due.into_iter().for_each(Waker::wake);
}
