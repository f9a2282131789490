//! A fetch from beginning to end: look, sit down, be woken, look again, until there is something or the time is over.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::ProviderError;
use tokio::time::Instant;

use crate::waking::counters::{Counters, count};
use crate::waking::room::{Cause, Place, Sat};
use crate::waking::watch::Watch;
use crate::waking::work::Want;

/// How often to look while nobody tells, and while the database does not answer.
const POLL: Duration = Duration::from_millis(100);
/// When to look again for something that others were just taking.
const CONTENDED: Duration = Duration::from_millis(50);

/// What a look found.
pub(crate) enum Look<T> {
    Found {
        item: T,
        /// When its lease ends.
        until: i64,
        /// There is more; only told to those who were woken.
        more: bool,
    },
    Nothing {
        /// When there may be something, by the database's clock.
        next: Option<i64>,
        /// Something was there, but others were taking it.
        contended: bool,
        /// Something is there for these session owners alone.
        owners: Vec<String>,
    },
}

/// One kind of fetch.
pub(crate) trait Looker: Sync {
    type Item: Send;

    /// What it would take.
    fn want(&self) -> Want;

    /// On whose behalf sessions are held.
    fn owner(&self) -> Option<&str>;

    /// Ask the database once. `woken`: somebody got this fetch up.
    fn look(&self, woken: bool) -> impl Future<Output = Result<Look<Self::Item>, ProviderError>> + Send;
}

/// Look once.
pub(crate) async fn fetch_once<L: Looker>(looker: &L) -> Result<Option<L::Item>, ProviderError> {
    Ok(match looker.look(false).await? {
        Look::Found { item, .. } => Some(item),
        Look::Nothing { .. } => None,
    })
}

/// Look, and wait up to `poll` for something to find.
pub(crate) async fn fetch<L: Looker>(
    watch: &Watch,
    looker: &L,
    poll: Duration,
) -> Result<Option<L::Item>, ProviderError> {
    let want = looker.want();
    let (queue, deadline) = (want.queue(), Instant::now() + poll);
    let counters: &Arc<Counters> = &watch.room.counters;
    watch.fetching();
    let mut place = watch.room.enter(want, looker.owner());
    let mut first = true;
    loop {
        let seen = place.events();
        // Whoever asks without patience gets a true answer, not a remembered one.
        let spared = std::mem::take(&mut first) && !poll.is_zero() && watch.hears() && place.is_known_empty();
        if spared {
            count(&counters.looks_spared);
        } else {
            count(&counters.looks);
            match looker.look(place.is_woken()).await {
                Ok(Look::Found { item, until, more }) => {
                    let woken = place.take_ticket();
                    // One of many got up: the rest is for the next ones, here or elsewhere.
                    if woken.is_some() && more && !place.chain() && woken == Some(Cause::Local) {
                        watch.tell_now(queue);
                    }
                    watch.tell_at(queue, until);
                    return Ok(Some(item));
                }
                Ok(Look::Nothing { next, contended, owners }) => {
                    count(&counters.empty_looks);
                    let local = place.take_ticket() == Some(Cause::Local);
                    nothing(watch, &place, seen, next, contended, &owners);
                    if !owners.is_empty() && !watch.room.call(&owners) && local {
                        watch.tell_now(queue);
                    }
                }
                Err(error) => {
                    let again = Instant::now() + POLL;
                    if !error.is_retryable() || again >= deadline {
                        return Err(error);
                    }
                    tracing::debug!(%error, "a look failed; looking again soon");
                    tokio::time::sleep_until(again).await;
                    continue;
                }
            }
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        if sit(watch, &mut place, seen, deadline).await == Sat::TimeOver && Instant::now() >= deadline {
            return Ok(None);
        }
    }
}

fn nothing(watch: &Watch, place: &Place, seen: u64, next: Option<i64>, contended: bool, owners: &[String]) {
    let due = next.map(|at| watch.instant(at));
    let soon = contended.then(|| Instant::now() + CONTENDED);
    place.found_nothing(seen, [due, soon].into_iter().flatten().min(), owners.is_empty());
}

/// Sit until woken or until the deadline; while nobody tells, only until the next look by the clock.
async fn sit(watch: &Watch, place: &mut Place, seen: u64, deadline: Instant) -> Sat {
    if watch.hears() {
        return place.sit(seen, deadline).await;
    }
    let poll = Instant::now() + POLL.mul_f64(0.9 + fastrand::f64() * 0.1);
    let sat = place.sit(seen, poll.min(deadline)).await;
    if sat == Sat::TimeOver && poll < deadline {
        count(&watch.room.counters.polls);
    }
    sat
}
