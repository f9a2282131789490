//! Work that takes its time moves aside, so that messages do not wait for it.
//!
//! There are few threads for requests, perhaps one (`--worker-threads`). Whoever keeps one
//! for milliseconds, with a body of megabytes or a list of ten thousand queues, hands the thread's other tasks to another
//! thread before that. Short work does not: the handing over costs more than it saves.

use std::future::poll_fn;
use std::pin::pin;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

/// What is asked for message by message begins so, and takes microseconds. All else is for people and programs that look on.
const SHORT: [&str; 5] =
    ["/api/v1/push", "/api/v1/pop", "/api/v1/ack", "/api/v1/lease/", "/api/v1/transaction"];

/// Whether a request may keep a thread for long.
pub(crate) fn may_be_long(path: &str) -> bool {
    !SHORT.iter().any(|short| path.starts_with(short))
}

/// Do something that takes its time.
pub(crate) fn aside<T>(work: impl FnOnce() -> T) -> T {
    // A runtime of a single thread has nobody to hand its tasks to; only tests have one.
    let can_move = Handle::try_current().is_ok_and(|on| on.runtime_flavor() == RuntimeFlavor::MultiThread);
    if can_move { block_in_place(work) } else { work() }
}

/// Run something whose steps take their time.
pub(crate) async fn all_aside<F: Future>(work: F) -> F::Output {
    let mut work = pin!(work);
    poll_fn(|cx| aside(|| work.as_mut().poll(cx))).await
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn messages_are_short_and_lists_are_not() {
        for path in ["/api/v1/push", "/api/v1/pop/queue/q", "/api/v1/ack/batch", "/api/v1/lease/x/extend"] {
            assert!(!may_be_long(path), "{path}");
        }
        for path in ["/", "/metrics", "/api/v1/resources/queues", "/api/v1/consumer-groups", "/health"] {
            assert!(may_be_long(path), "{path}");
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn what_is_aside_does_not_keep_the_only_thread_to_itself() {
        let (beside, heard) = mpsc::channel();
        let (begun, wait) = tokio::sync::oneshot::channel();
        let long = tokio::spawn(all_aside(async move {
            begun.send(()).unwrap();
            heard.recv_timeout(Duration::from_secs(20))
        }));
        wait.await.unwrap();
        tokio::spawn(async move { beside.send(()).unwrap() });
        assert_eq!(long.await.unwrap(), Ok(()));
    }

    #[tokio::test]
    async fn where_there_is_one_thread_it_does_it() {
        assert_eq!(all_aside(async { 7 }).await, 7);
    }
}
