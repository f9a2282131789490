//! Tasks. None of them keeps an execution from its end: an execution is over when its body is, and stuck when its body is.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use shuttle::future::AbortHandle;
use tokio::sync::oneshot;

pub use shuttle::future::yield_now;
pub use tokio::task::JoinSet;

/// Waits for a task.
pub struct JoinHandle<T> {
    output: oneshot::Receiver<T>,
    task: AbortHandle,
}

/// The task was aborted.
#[derive(Debug)]
pub struct JoinError(());

/// A task of its own, which goes on if nobody waits for it.
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let (done, output) = oneshot::channel();
    let handle = shuttle::future::spawn(async move {
        let _ = done.send(future.await);
    });
    JoinHandle { output, task: handle.abort_handle() }
}

/// Work that would hold up other tasks; here a task like all others.
pub fn spawn_blocking<F, T>(work: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    spawn(async move { work() })
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the task was aborted")
    }
}

impl std::error::Error for JoinError {}

impl<T> JoinHandle<T> {
    /// End the task where it waits.
    pub fn abort(&self) {
        self.task.abort();
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.output).poll(cx).map(|output| output.map_err(|_| JoinError(())))
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JoinHandle")
    }
}
