//! A bounded intake that turns single items into batches.
//!
//! State machine: *idle* (no worker) → an offer starts a worker → the worker lets everybody run first who is ready to, takes everything
//! that is queued then (urgent items first), calls the handler, and so on, until nothing waits and it ends.
//! [`Limit`] says how many workers may run at once. There is no task while nothing happens.
//!
//! Letting others run first is what makes batches: a new task goes before all requests that have arrived and were not yet read, so
//! without it a busy server would send the first of them alone. An idle one has nobody to wait for.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::planted::race;

use super::limit::Limit;

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
}

impl<T: Send + 'static> Intake<T> {
    /// An intake whose batches go to `handler`.
    pub(crate) fn new<F, Fut>(limit: Limit, max_queued: usize, handler: F) -> Arc<Self>
    where
        F: Fn(Vec<T>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        Arc::new(Self {
            state: Mutex::new(State { urgent: VecDeque::new(), normal: VecDeque::new(), workers: 0 }),
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
        let state = self.state.lock();
        state.urgent.len() + state.normal.len()
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
        let queued = state.urgent.len() + state.normal.len();
        if queued == 0 || state.workers >= self.limit.allowed(queued) {
            return;
        }
        state.workers += 1;
        drop(state);
        let intake = self.clone();
        tokio::spawn(async move { intake.work().await });
    }

    async fn work(&self) {
        let mut running = Running { intake: self, counted: true };
        loop {
            tokio::task::yield_now().await;
            let Some(batch) = self.next(&mut running) else { return };
            (self.handler)(batch).await;
        }
    }

    /// What to handle next; none counts the worker out.
    fn next(&self, running: &mut Running<'_, T>) -> Option<Vec<T>> {
        let mut state = self.state.lock();
        let batch = state.take(self.limit.batch);
        if batch.is_empty() {
            if race("count out late") {
                drop(state);
                state = self.state.lock();
            }
            // Counted out under the same lock that saw nothing waiting, or an offer in between would be stranded.
            running.count_out(&mut state);
            return None;
        }
        Some(batch)
    }
}

impl<T> State<T> {
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
}

impl<T> Running<'_, T> {
    fn count_out(&mut self, state: &mut State<T>) {
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
