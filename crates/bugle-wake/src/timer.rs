//! Exact timers by key: one sleeping task for all of them, nothing polled.
//!
//! A key has at most one due time; setting it again replaces the old one, earlier or later. The task that calls
//! [`Timers::due`] sleeps until the earliest due time and is woken only when an earlier one is set.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::planted::race;

/// Due times by key.
#[derive(Debug)]
pub struct Timers<K> {
    state: Mutex<State<K>>,
    earlier: Notify,
}

#[derive(Debug)]
struct State<K> {
    by_key: HashMap<K, Instant, foldhash::fast::RandomState>,
    by_time: BTreeSet<(Instant, K)>,
}

impl<K: Ord + Hash + Clone> Default for Timers<K> {
    fn default() -> Self {
        Self {
            state: Mutex::new(State { by_key: HashMap::default(), by_time: BTreeSet::new() }),
            earlier: Notify::new(),
        }
    }
}

impl<K: Ord + Hash + Clone> Timers<K> {
    /// Make `key` due at `at`, replacing what was set for it.
    pub fn set(&self, key: K, at: Instant) {
        let mut state = self.state.lock();
        if let Some(old) = state.by_key.insert(key.clone(), at) {
            if old == at {
                return;
            }
            state.by_time.remove(&(old, key.clone()));
        }
        let first = state.by_time.first().is_none_or(|(first, _)| at < *first);
        state.by_time.insert((at, key));
        drop(state);
        if first && !race("set an earlier time silently") {
            self.earlier.notify_one();
        }
    }

    /// Forget `key`.
    pub fn clear(&self, key: &K) {
        let mut state = self.state.lock();
        if let Some(at) = state.by_key.remove(key) {
            state.by_time.remove(&(at, key.clone()));
        }
    }

    /// Number of keys with a due time.
    pub fn len(&self) -> usize {
        self.state.lock().by_key.len()
    }

    /// Whether nothing is due ever.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Wait until something is due and take it, at least one key. Meant for one task.
    pub async fn due(&self) -> Vec<K> {
        loop {
            let earlier = self.earlier.notified();
            let next = match self.take_due(Instant::now()) {
                Ok(keys) => return keys,
                Err(next) => next,
            };
            match next {
                Some(at) => tokio::select! { () = sleep_until(at) => (), () = earlier => () },
                None => earlier.await,
            }
        }
    }

    fn take_due(&self, now: Instant) -> Result<Vec<K>, Option<Instant>> {
        let mut state = self.state.lock();
        let mut keys = Vec::new();
        while let Some((at, _)) = state.by_time.first() {
            if *at > now {
                break;
            }
            if let Some((_, key)) = state.by_time.pop_first() {
                state.by_key.remove(&key);
                keys.push(key);
            }
        }
        if keys.is_empty() { Err(state.by_time.first().map(|(at, _)| *at)) } else { Ok(keys) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn keys_come_due_in_order_and_on_time() {
        let timers = Timers::default();
        let start = Instant::now();
        timers.set("b", start + Duration::from_secs(2));
        timers.set("a", start + Duration::from_secs(1));
        assert_eq!(timers.due().await, ["a"]);
        assert_eq!(start.elapsed().as_secs(), 1);
        assert_eq!(timers.due().await, ["b"]);
        assert_eq!(start.elapsed().as_secs(), 2);
        assert!(timers.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn an_earlier_time_replaces_a_later_one_while_the_task_sleeps() {
        let timers = Arc::new(Timers::default());
        let start = Instant::now();
        timers.set(1, start + Duration::from_secs(60));
        let sleeper = tokio::spawn({
            let timers = timers.clone();
            async move { timers.due().await }
        });
        tokio::task::yield_now().await;
        timers.set(1, start + Duration::from_secs(1));
        assert_eq!(sleeper.await.unwrap(), [1]);
        assert_eq!(start.elapsed().as_secs(), 1);
        assert!(timers.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_cleared_key_never_comes_due() {
        let timers = Timers::default();
        let start = Instant::now();
        timers.set("gone", start + Duration::from_secs(1));
        timers.set("stays", start + Duration::from_secs(2));
        timers.clear(&"gone");
        assert_eq!(timers.due().await, ["stays"]);
    }
}
