//! Notices and channels.

pub mod oneshot;

use std::future::Future;

pub use tokio::sync::{Mutex, OwnedMutexGuard, Semaphore, SemaphorePermit, broadcast, mpsc, watch};

use crate::model::others_first;

/// tokio's notice, with a moment for others before every step.
#[derive(Debug, Default)]
pub struct Notify(tokio::sync::Notify);

impl Notify {
    /// Without a notice.
    pub const fn new() -> Self {
        Self(tokio::sync::Notify::const_new())
    }

    /// For one who waits, or for the next one who comes.
    pub fn notify_one(&self) {
        others_first();
        self.0.notify_one();
    }

    /// For all who wait.
    pub fn notify_waiters(&self) {
        others_first();
        self.0.notify_waiters();
    }

    /// Wait for a notice.
    pub fn notified(&self) -> impl Future<Output = ()> + '_ {
        others_first();
        self.0.notified()
    }
}
