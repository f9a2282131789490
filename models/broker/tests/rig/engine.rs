//! The reference store, whose calls take their time: others may run before a call is done and before its answer is there.
//! It watches what must never be in flight twice.

use std::collections::HashSet;
use std::future::poll_fn;
use std::sync::Mutex;
use std::task::Poll;

use bugle_store::*;
use tokio::model::{broken, note};

/// See the module.
pub(crate) struct Slow {
    inner: MemoryStore,
    /// One server only, so that nobody else claims.
    watched: bool,
    appending: Mutex<HashSet<LaneId>>,
    claiming: Mutex<HashSet<(LaneId, Group)>>,
}

/// Let others run, and end here if nobody waits for the answer any more.
async fn a_while() {
    let mut over = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut over, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

impl Slow {
    pub(crate) fn new(inner: MemoryStore, watched: bool) -> Self {
        Self { inner, watched, appending: Mutex::default(), claiming: Mutex::default() }
    }
}

macro_rules! slow {
    ($($name:ident($($arg:ident: $type:ty),*) -> $answer:ty;)*) => {$(
        fn $name(&self, $($arg: $type),*) -> Answer<'_, $answer> {
            Box::pin(async move {
                note(|| format!("{} {:?}", stringify!($name), ($(&$arg,)*)));
                a_while().await;
                let answer = self.inner.$name($($arg),*).await;
                a_while().await;
                note(|| format!("{} answers", stringify!($name)));
                answer
            })
        }
    )*};
}

impl Store for Slow {
    fn now(&self) -> Now {
        self.inner.now()
    }

    fn exclusive(&self) -> bool {
        self.inner.exclusive()
    }

    fn append(&self, batch: Vec<Append>) -> Answer<'_, Vec<Result<Appended, AppendError>>> {
        let lanes: Vec<LaneId> =
            if self.watched { batch.iter().map(|append| append.lane).collect() } else { Vec::new() };
        Box::pin(async move {
            for lane in &lanes {
                if !self.appending.lock().unwrap().insert(*lane) {
                    broken("two appends to one lane are in flight");
                }
            }
            note(|| format!("append {batch:?}"));
            a_while().await;
            let answer = self.inner.append(batch).await;
            a_while().await;
            note(|| format!("append answers {answer:?}"));
            for lane in &lanes {
                self.appending.lock().unwrap().remove(lane);
            }
            answer
        })
    }

    fn swap(&self, batch: Vec<Swap>) -> Answer<'_, Vec<Result<Swapped, SwapError>>> {
        // No model renews a lease or acknowledges a part of one: an exchange with a lease is a claim.
        let claim = |swap: &&Swap| self.watched && swap.next.lease.is_some();
        let claims: Vec<_> = batch.iter().filter(claim).map(|swap| (swap.lane, swap.group.clone())).collect();
        Box::pin(async move {
            for claim in &claims {
                if !self.claiming.lock().unwrap().insert(claim.clone()) {
                    broken("a lane is in two hands at once");
                }
            }
            note(|| format!("swap {batch:?}"));
            a_while().await;
            let answer = self.inner.swap(batch).await;
            a_while().await;
            note(|| format!("swap answers {answer:?}"));
            for claim in &claims {
                self.claiming.lock().unwrap().remove(claim);
            }
            answer
        })
    }

    engine_calls!(changes, questions => slow);
}

impl Catalog for Slow {
    engine_calls!(catalog_changes, catalog_questions => slow);
}

impl Engine for Slow {
    fn close(&self) -> Answer<'_, ()> {
        self.inner.close()
    }
}
