//! A bounded intake that turns single items into batches.
//!
//! State machine: *idle* (no worker) → an offer starts a worker → the worker lets everybody run first who is ready to, takes everything
//! that is queued then (urgent items first), calls the handler, and so on, until nothing waits and it ends.
//! [`Limit`] says how many workers may run at once. There is no task while nothing happens.
//!
//! A call that takes long is no longer counted among those in flight: what comes behind it does not wait for it. Somebody looks for
//! such calls (*watched*) as long as something waits, and a timer for each call, of which there are thousands, is not needed.
//!
//! Letting others run first is what makes batches: a new task goes before all requests that have arrived and were not yet read, so
//! without it a busy server would send the first of them alone. An idle one has nobody to wait for.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::limit::Limit;

/// A call that takes longer may wait for something that others need not wait for, such as a lock.
const LONG: Duration = Duration::from_millis(3);

type Handler<T> = Box<dyn Fn(Vec<T>) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// See the module.
pub(crate) struct Intake<T> {
    state: Mutex<State<T>>,
    limit: Limit,
    max_queued: usize,
    handler: Handler<T>,
    idle: Notify,
}

struct State<T> {
    urgent: VecDeque<T>,
    normal: VecDeque<T>,
    workers: usize,
    /// Calls in flight, by number: since when.
    calls: Vec<(u64, Instant)>,
    next_call: u64,
    /// Somebody looks after what waits.
    watched: bool,
}

impl<T: Send + 'static> Intake<T> {
    /// An intake whose batches go to `handler`.
    pub(crate) fn new<F, Fut>(limit: Limit, max_queued: usize, handler: F) -> Arc<Self>
    where
        F: Fn(Vec<T>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        Arc::new(Self {
            state: Mutex::new(State::default()),
            limit,
            max_queued,
            handler: Box::new(move |batch| Box::pin(handler(batch))),
            idle: Notify::new(),
        })
    }

    /// Hand in one item; gives it back when too many wait.
    pub(crate) fn offer(self: &Arc<Self>, item: T) -> Result<(), T> {
        let mut state = self.state.lock();
        if state.normal.len() >= self.max_queued {
            return Err(item);
        }
        state.normal.push_back(item);
        self.start_worker(state);
        Ok(())
    }

    /// Hand in items that go before all others. Not bounded here: they were counted when they first came in.
    pub(crate) fn offer_urgent(self: &Arc<Self>, items: impl IntoIterator<Item = T>) {
        let mut state = self.state.lock();
        state.urgent.extend(items);
        self.start_worker(state);
    }

    /// Hand in items that were counted when they first came in, behind those that wait.
    pub(crate) fn offer_again(self: &Arc<Self>, items: impl IntoIterator<Item = T>) {
        let mut state = self.state.lock();
        state.normal.extend(items);
        self.start_worker(state);
    }

    /// Items that wait.
    pub(crate) fn queued(&self) -> usize {
        self.state.lock().queued()
    }

    /// Wait until nothing waits and nothing runs.
    pub(crate) async fn settled(&self) {
        loop {
            let idle = self.idle.notified();
            if self.state.lock().workers == 0 {
                return;
            }
            idle.await;
        }
    }

    fn start_worker(self: &Arc<Self>, mut state: parking_lot::MutexGuard<'_, State<T>>) {
        let queued = state.queued();
        if queued == 0 {
            return;
        }
        let intake = self.clone();
        if state.workers < self.limit.allowed(queued, 0)
            || state.workers < self.limit.allowed(queued, state.slow())
        {
            state.workers += 1;
            drop(state);
            tokio::spawn(async move { intake.work().await });
        } else if !state.watched {
            state.watched = true;
            drop(state);
            tokio::spawn(async move { intake.watch().await });
        }
    }

    /// Look after what waits, until nothing does.
    async fn watch(self: &Arc<Self>) {
        loop {
            sleep(LONG).await;
            let mut state = self.state.lock();
            if state.queued() == 0 {
                state.watched = false;
                return;
            }
            self.start_worker(state);
        }
    }

    async fn work(&self) {
        let mut running = Running { intake: self, counted: true, call: None };
        loop {
            tokio::task::yield_now().await;
            let Some(batch) = self.next(&mut running) else { return };
            (self.handler)(batch).await;
        }
    }

    /// What to handle next; none counts the worker out.
    fn next(&self, running: &mut Running<'_, T>) -> Option<Vec<T>> {
        let mut state = self.state.lock();
        running.end_call(&mut state);
        let batch = state.take(self.limit.batch);
        if batch.is_empty() {
            // Counted out under the same lock that saw nothing waiting, or an offer in between would wait for whoever looks after it.
            running.count_out(&mut state);
            return None;
        }
        running.call = Some(state.begin_call());
        Some(batch)
    }
}

impl<T> Default for State<T> {
    fn default() -> Self {
        let (urgent, normal) = (VecDeque::new(), VecDeque::new());
        Self { urgent, normal, workers: 0, calls: Vec::new(), next_call: 0, watched: false }
    }
}

impl<T> State<T> {
    fn queued(&self) -> usize {
        self.urgent.len() + self.normal.len()
    }

    /// Calls that take long.
    fn slow(&self) -> usize {
        self.calls.iter().filter(|(_, since)| since.elapsed() >= LONG).count()
    }

    fn begin_call(&mut self) -> u64 {
        self.next_call += 1;
        self.calls.push((self.next_call, Instant::now()));
        self.next_call
    }

    fn take(&mut self, most: usize) -> Vec<T> {
        let urgent = self.urgent.len().min(most);
        let mut batch: Vec<T> = self.urgent.drain(..urgent).collect();
        let normal = self.normal.len().min(most - urgent);
        batch.extend(self.normal.drain(..normal));
        batch
    }
}

/// Counts a worker out exactly once, also when its handler panics.
struct Running<'a, T> {
    intake: &'a Intake<T>,
    counted: bool,
    call: Option<u64>,
}

impl<T> Running<'_, T> {
    fn end_call(&mut self, state: &mut State<T>) {
        if let Some(call) = self.call.take() {
            state.calls.retain(|(other, _)| *other != call);
        }
    }

    fn count_out(&mut self, state: &mut State<T>) {
        self.end_call(state);
        self.counted = false;
        state.workers -= 1;
        if state.workers == 0 {
            self.intake.idle.notify_waiters();
        }
    }
}

impl<T> Drop for Running<'_, T> {
    fn drop(&mut self) {
        if self.counted {
            let intake = self.intake;
            self.count_out(&mut intake.state.lock());
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::{mpsc, oneshot};

    use super::*;

    const LIMIT: Limit = Limit { min: 1, max: 1, backlog: usize::MAX, batch: 100 };

    #[tokio::test]
    async fn what_waits_while_a_call_runs_goes_out_together_urgent_first() {
        let (seen, mut batches) = mpsc::unbounded_channel();
        let (open, gate) = oneshot::channel::<()>();
        let gate = Arc::new(Mutex::new(Some(gate)));
        let intake = Intake::new(LIMIT, 10, move |batch: Vec<u32>| {
            let (seen, gate) = (seen.clone(), gate.lock().take());
            async move {
                seen.send(batch).unwrap();
                if let Some(gate) = gate {
                    gate.await.unwrap();
                }
            }
        });
        intake.offer(1).unwrap();
        assert_eq!(batches.recv().await.unwrap(), [1]);
        intake.offer(2).unwrap();
        intake.offer(3).unwrap();
        intake.offer_urgent([9]);
        assert_eq!(intake.queued(), 3);
        open.send(()).unwrap();
        assert_eq!(batches.recv().await.unwrap(), [9, 2, 3]);
        intake.settled().await;
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_behind_a_call_that_takes_long_does_not_wait_for_it() {
        let (seen, mut batches) = mpsc::unbounded_channel();
        let limit = Limit { max: 2, ..LIMIT };
        let intake = Intake::new(limit, 10, move |batch: Vec<u32>| {
            seen.send(batch.clone()).unwrap();
            async move {
                if !batch.contains(&7) {
                    std::future::pending::<()>().await;
                }
            }
        });
        intake.offer(1).unwrap();
        assert_eq!(batches.recv().await.unwrap(), [1]);
        let began = Instant::now();
        intake.offer(7).unwrap();
        intake.offer(7).unwrap();
        assert_eq!(batches.recv().await.unwrap(), [7, 7]);
        assert_eq!(began.elapsed(), LONG, "not before the first has taken long");
        intake.offer(2).unwrap();
        assert_eq!(batches.recv().await.unwrap(), [2], "at once: the first takes long already");
        intake.offer(3).unwrap();
        sleep(LONG * 5).await;
        assert_eq!(intake.queued(), 1, "never more than the limit");
    }

    #[tokio::test]
    async fn a_full_intake_gives_the_item_back() {
        let intake = Intake::new(LIMIT, 2, |_: Vec<u32>| std::future::pending());
        intake.offer(1).unwrap();
        while intake.queued() > 0 {
            tokio::task::yield_now().await;
        }
        intake.offer(2).unwrap();
        intake.offer(3).unwrap();
        assert_eq!(intake.offer(4), Err(4));
    }
}
