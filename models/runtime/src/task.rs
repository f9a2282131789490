//! Tasks.

use std::future::Future;

pub use shuttle::future::{JoinError, JoinHandle, yield_now};
pub use tokio::task::JoinSet;

/// A task of its own, which goes on if nobody waits for it.
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    shuttle::future::spawn(future)
}
