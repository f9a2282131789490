//! What is done with an append that failed as a whole: its lanes are tried again in halves, so that one the store cannot
//! take (a value it refuses, a limit it reaches) does not fail the others.
//!
//! Only a store that answers is asked again, and only so often: one that is away must be reported at once.

use tokio::time::{Duration, Instant};

use bugle_store::{Append, Guard};

use crate::api::Refused;
use crate::inner::Inner;

use super::append::Work;

/// Failed calls of one batch after which the rest of it is refused. One bad lane among 1,024 takes 11.
const MOST_FAILURES: u32 = 64;
/// How long a batch is divided further: where every call runs into a time limit, its pushers have waited enough.
const LONGEST: Duration = Duration::from_secs(5);
/// Far longer than a push takes with all its tries.
const WINDOW_TO_REPEAT: Duration = Duration::from_secs(60);

/// How often and since when calls of one batch fail.
#[derive(Default)]
pub(super) struct Splits {
    failures: u32,
    since: Option<Instant>,
}

impl Splits {
    /// Count a failure. `false` = it is enough.
    fn go_on(&mut self) -> bool {
        self.failures += 1;
        let since = *self.since.get_or_insert_with(Instant::now);
        self.failures < MOST_FAILURES && since.elapsed() < LONGEST
    }
}

impl Work {
    /// Whether what was sent with this guard may be sent again although its outcome is not known. Not if it was
    /// unconditional, and may be stored at any moment, nor if a first try might leave the window before a second is made.
    pub(super) fn repeatable(&self, guard: Guard) -> bool {
        guard != Guard::Free && self.window.is_none_or(|window| window >= WINDOW_TO_REPEAT)
    }
}

/// Where ids are not screened, the head alone can tell whether an append whose outcome is not known has happened; so it is
/// made the condition as long as nobody else writes there.
pub(super) fn pinned(append: Append, work: &Work) -> Append {
    let inner = work.lane.inner.lock();
    if append.guard == Guard::Free && !inner.contended {
        return Append { guard: Guard::Head, known_head: inner.lane.head, ..append };
    }
    append
}

impl Inner {
    /// The halves of what was sent and is `repeatable`, or nothing if it was refused.
    pub(super) async fn split(
        &self,
        sent: Vec<Work>,
        repeatable: Vec<bool>,
        refused: &Refused,
        splits: &mut Splits,
    ) -> Vec<Vec<Work>> {
        let alone = sent.len() == 1;
        if alone || !splits.go_on() || self.watch(self.engine.ping().await).is_err() {
            return self.refuse_all(sent, refused);
        }
        let mut again = Vec::new();
        for (mut work, repeatable) in sent.into_iter().zip(repeatable) {
            if repeatable {
                work.tries += 1;
                again.push(work);
            } else {
                self.refuse(work, refused);
            }
        }
        let second = again.split_off(again.len().div_ceil(2));
        [second, again].into_iter().filter(|half| !half.is_empty()).collect()
    }

    /// Refuse what may be among the messages that came to its lane since: without fingerprints nothing tells.
    pub(super) fn drop_uncertain(&self, open: Vec<Work>) -> Vec<Work> {
        let mut certain = Vec::with_capacity(open.len());
        for work in open {
            match work.unsure {
                Some(head) if work.lane.bounds().0 != head => {
                    self.refuse(work, &Refused::Unavailable("the outcome of the push is unknown".into()));
                }
                _ => certain.push(work),
            }
        }
        certain
    }
}
