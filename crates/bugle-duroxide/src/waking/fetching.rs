//! A fetch from beginning to end: look, sit down, be woken, look again, until there is something or the time is over.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::ProviderError;
use tokio::time::Instant;

use crate::waking::counters::{Counters, count};
use crate::waking::room::{Cause, Place, Sat, Seen};
use crate::waking::watch::Watch;
use crate::waking::work::{Queue, Want};

/// How often to look while nobody tells, and while the database does not answer.
const POLL: Duration = Duration::from_millis(100);

/// What a look found.
pub(crate) struct Look<T> {
    /// What was taken.
    pub(crate) item: Option<Taken<T>>,
    /// There is more that this fetch could take; others may be taking it just now.
    pub(crate) more: bool,
    /// When there may be something, by the database's clock; told if there is no more.
    pub(crate) next: Option<i64>,
    /// Something is there for these session owners alone.
    pub(crate) owners: Vec<String>,
}

/// Something taken, and when its lease ends.
pub(crate) struct Taken<T> {
    pub(crate) item: T,
    pub(crate) until: i64,
}

/// One kind of fetch.
pub(crate) trait Looker: Sync {
    type Item: Send;

    /// What it would take.
    fn want(&self) -> Want;

    /// On whose behalf sessions are held.
    fn owner(&self) -> Option<&str>;

    /// Ask the database once.
    fn look(&self) -> impl Future<Output = Result<Look<Self::Item>, ProviderError>> + Send;
}

/// Look once.
pub(crate) async fn fetch_once<L: Looker>(looker: &L) -> Result<Option<L::Item>, ProviderError> {
    Ok(looker.look().await?.item.map(|taken| taken.item))
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
        let seen = place.seen();
        // Whoever asks without patience gets a true answer, not a remembered one.
        let spared = std::mem::take(&mut first) && !poll.is_zero() && watch.hears() && place.is_known_empty();
        if spared {
            count(&counters.looks_spared);
        } else {
            count(&counters.looks);
            place.look();
            match looker.look().await {
                Ok(look) => {
                    if let Some(taken) = digest(watch, &mut place, seen, queue, look) {
                        return Ok(Some(taken));
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

/// Draw the conclusions from a look: for this group, for session owners, for other nodes.
fn digest<T>(watch: &Watch, place: &mut Place, seen: Seen, queue: Queue, look: Look<T>) -> Option<T> {
    let Look { item, more, next, owners } = look;
    let woken = place.conclude();
    let mut unheard = !owners.is_empty() && !watch.room.call(&owners);
    if item.is_none() {
        count(&watch.room.counters.empty_looks);
    }
    if item.is_some() && more {
        // One of many got up: the rest is for the next ones, here or elsewhere.
        unheard |= !place.found_more(woken.is_some());
    } else {
        place.found_no_more(seen, next.map(|at| watch.instant(at)), more, owners.is_empty());
    }
    // An event of this node that was for somebody else: nobody told the others of it.
    if unheard && woken == Some(Cause::Local) {
        watch.tell_now(queue);
    }
    let Taken { item, until } = item?;
    watch.tell_at(queue, until);
    Some(item)
}

/// Sit until woken or until the deadline; while nobody tells, only until the next look by the clock.
async fn sit(watch: &Watch, place: &mut Place, seen: Seen, deadline: Instant) -> Sat {
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
