//! Background tasks that must not end: one that panics is logged, counted and started again.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::waking::counters::{Counters, count};

/// Rest before a task is started again, so that one that panics at once does not spin.
const REST: Duration = Duration::from_millis(100);

/// Run `make()` until it returns or `stop` is cancelled, again after every panic.
pub(crate) fn supervise<F>(
    name: &'static str,
    stop: CancellationToken,
    counters: Arc<Counters>,
    mut make: impl FnMut() -> F + Send + 'static,
) where
    F: Future<Output = ()> + Send + 'static,
{
    tokio::spawn(stop.clone().run_until_cancelled_owned(async move {
        loop {
            // Aborted with the supervisor: a task whose handle is dropped would go on alone.
            let task = tokio_util::task::AbortOnDropHandle::new(tokio::spawn(make()));
            match task.await {
                Ok(()) => return,
                Err(error) if error.is_panic() => {
                    count(&counters.restarts);
                    tracing::error!(task = name, %error, "a background task panicked; starting it again");
                }
                Err(_) => return,
            }
            tokio::time::sleep(REST).await;
        }
    }));
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_task_that_panics_runs_again_and_is_counted() {
        let (counters, runs) = (Arc::new(Counters::default()), Arc::new(AtomicU32::new(0)));
        let (done, finished) = tokio::sync::oneshot::channel();
        let mut done = Some(done);
        supervise("test", CancellationToken::new(), Arc::clone(&counters), {
            let runs = Arc::clone(&runs);
            move || {
                let run = runs.fetch_add(1, Ordering::Relaxed);
                let done = if run == 2 { done.take() } else { None };
                async move {
                    let Some(done) = done else { panic!("planted") };
                    done.send(()).unwrap();
                }
            }
        });
        finished.await.unwrap();
        assert_eq!(counters.stats().restarts, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn cancelling_ends_the_task_itself() {
        struct Ends(Option<tokio::sync::oneshot::Sender<()>>);
        impl Drop for Ends {
            fn drop(&mut self) {
                self.0.take().map(|s| s.send(()));
            }
        }
        let (ended, end) = tokio::sync::oneshot::channel();
        let stop = CancellationToken::new();
        let mut guard = Some(Ends(Some(ended)));
        supervise("test", stop.clone(), Arc::default(), move || {
            let guard = guard.take();
            async move {
                let _guard = guard;
                std::future::pending::<()>().await;
            }
        });
        tokio::task::yield_now().await;
        stop.cancel();
        end.await.unwrap();
    }
}
