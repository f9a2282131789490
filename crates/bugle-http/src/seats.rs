//! Connections have seats, of which there is a bounded number.
//!
//! A connection is *busy* while a request of it is being answered: from the handler's beginning to its end, so a waiting pop
//! is busy all the time. Otherwise it is *idle*: it was opened and nothing was said yet, or it is kept for the next request,
//! or its headers dribble in. While seats are free nobody looks at that. When a newcomer finds none, those connections
//! that stay idle for a second are asked to leave, the oldest first and some at a time, and the newcomer waits until
//! somebody left. So whoever opens connections and says nothing cannot keep others out, and whoever waits for messages is
//! never sent away.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;

use crate::edge::Edge;

/// A connection that is idle for so long is asked to leave when seats are short.
const IDLE: Duration = Duration::from_secs(1);
/// This part of all seats is emptied at a time, or so many; but never more than half.
const PART: usize = 32;
const SOME: usize = 16;
/// In a seat's mark: one more request was begun, one more is being answered.
const BEGUN: u64 = 1 << 32;
const BUSY: u64 = 1;

/// All seats of a server.
pub(crate) struct Seats {
    free: Arc<Semaphore>,
    most: usize,
    taken: Mutex<BTreeMap<u64, Arc<Seat>>>,
    next: AtomicU64,
    edge: Edge,
}

/// One connection's.
#[derive(Default)]
pub(crate) struct Seat {
    /// Requests begun (upper half, which may wrap) and being answered (lower half): whoever sees the same mark twice, with
    /// an empty lower half, knows that nothing happened in between. One number, so that a request costs two additions.
    mark: AtomicU64,
    leave: Notify,
}

impl Seat {
    /// A request is being answered until this is dropped.
    pub(crate) fn busy(self: &Arc<Self>) -> Busy {
        self.mark.fetch_add(BEGUN + BUSY, Ordering::Relaxed);
        Busy(self.clone())
    }

    /// The mark, while nothing is being answered.
    pub(crate) fn idle(&self) -> Option<u64> {
        Some(self.mark.load(Ordering::Relaxed)).filter(|mark| mark % BEGUN == 0)
    }

    /// Whether no request was ever begun.
    pub(crate) fn unused(&self) -> bool {
        self.mark.load(Ordering::Relaxed) == 0
    }

    /// Ends when the connection is asked to leave.
    pub(crate) async fn asked_to_leave(&self) {
        self.leave.notified().await;
    }
}

/// See [`Seat::busy`].
pub(crate) struct Busy(Arc<Seat>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.mark.fetch_sub(BUSY, Ordering::Relaxed);
    }
}

/// A seat that is taken; free again when this is dropped.
pub(crate) struct Taken {
    pub(crate) seat: Arc<Seat>,
    number: u64,
    seats: Arc<Seats>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.seats.lock().remove(&self.number);
        self.seats.edge.closed();
    }
}

impl Seats {
    pub(crate) fn new(most: usize, edge: Edge) -> Self {
        let most = most.min(Semaphore::MAX_PERMITS);
        let free = Arc::new(Semaphore::new(most));
        Self { free, most, taken: Mutex::default(), next: AtomicU64::new(0), edge }
    }

    /// A seat for a connection that is here. Waits while there is none.
    pub(crate) async fn take(self: &Arc<Self>) -> Option<Taken> {
        if let Ok(permit) = self.free.clone().try_acquire_owned() {
            return Some(self.seated(permit));
        }
        let mut freed = std::pin::pin!(self.free.clone().acquire_owned());
        loop {
            let before = self.marks();
            tokio::select! {
                biased;
                permit = freed.as_mut() => return Some(self.seated(permit.ok()?)),
                () = sleep(IDLE) => self.ask(before),
            }
        }
    }

    fn seated(self: &Arc<Self>, permit: OwnedSemaphorePermit) -> Taken {
        let (seat, number) = (Arc::<Seat>::default(), self.next.fetch_add(1, Ordering::Relaxed));
        self.lock().insert(number, seat.clone());
        self.edge.opened();
        Taken { seat, number, seats: self.clone(), _permit: permit }
    }

    /// The marks of all that are idle, oldest connection first.
    fn marks(&self) -> Vec<(Arc<Seat>, u64)> {
        self.lock().values().filter_map(|seat| Some((seat.clone(), seat.idle()?))).collect()
    }

    /// Ask those to leave that still have the mark they had.
    fn ask(&self, before: Vec<(Arc<Seat>, u64)>) {
        let still = before.into_iter().filter(|(seat, mark)| seat.idle() == Some(*mark));
        let some = (self.most / PART).max(SOME).min(self.most / 2).max(1);
        let leaving: Vec<_> = still.take(some).collect();
        leaving.iter().for_each(|(seat, _)| seat.leave.notify_one());
        self.edge.shed(leaving.len());
        tracing::debug!(leaving = leaving.len(), "no seat is free; idle connections are closed");
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Arc<Seat>>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test(start_paused = true)]
    async fn the_oldest_idle_one_leaves_and_busy_ones_stay() {
        let seats = Arc::new(Seats::new(3, Edge::default()));
        let first = seats.take().await.unwrap();
        let second = seats.take().await.unwrap();
        let third = seats.take().await.unwrap();
        let waiting = first.seat.busy();
        let newcomer = tokio::spawn({
            let seats = seats.clone();
            async move { seats.take().await.unwrap() }
        });
        second.seat.asked_to_leave().await;
        assert!(first.seat.asked_to_leave().now_or_never().is_none(), "it is busy");
        assert!(third.seat.asked_to_leave().now_or_never().is_none(), "one at a time");
        drop(second);
        let fourth = newcomer.await.unwrap();
        assert_eq!(seats.edge.read().connections, 3);
        drop((waiting, first, third, fourth));
        assert_eq!((seats.edge.read().connections, seats.edge.read().shed), (0, 1));
        assert!(seats.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_does_something_in_between_is_not_idle() {
        let seats = Arc::new(Seats::new(1, Edge::default()));
        let only = seats.take().await.unwrap();
        assert!(only.seat.unused());
        let before = seats.marks();
        drop(only.seat.busy());
        assert!(!only.seat.unused());
        seats.ask(before);
        assert!(only.seat.asked_to_leave().now_or_never().is_none());
        seats.ask(seats.marks());
        assert!(only.seat.asked_to_leave().now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn while_seats_are_free_nobody_is_asked() {
        let seats = Arc::new(Seats::new(2, Edge::default()));
        let (first, second) = (seats.take().await.unwrap(), seats.take().await.unwrap());
        sleep(IDLE * 10).await;
        assert!(first.seat.asked_to_leave().now_or_never().is_none());
        drop(second);
        assert!(seats.take().now_or_never().is_some());
    }
}
