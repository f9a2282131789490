//! Walking all lanes of a queue by name, in pages, while lanes come and go.
//!
//! The store counts pages in rows. A lane that is collected moves all behind it one row up, and the next page would pass one
//! over; so each page begins with the last row of the one before, and if that is not there any more, it is looked for
//! further up.

use std::sync::Arc;

use bugle_store::{Lane, Page, QueueId};

use crate::api::Refused;
use crate::inner::Inner;

/// Lanes per page.
const PAGE: usize = 500;

/// See the module.
pub(super) struct Walk {
    queue: QueueId,
    /// Row of the next page, as far as is known.
    row: usize,
    last: Option<Arc<str>>,
    done: bool,
}

impl Walk {
    pub(super) fn of(queue: QueueId) -> Self {
        Self { queue, row: 0, last: None, done: false }
    }

    /// The next lanes; none at the end.
    pub(super) async fn next(&mut self, inner: &Inner) -> Result<Vec<Lane>, Refused> {
        while !self.done {
            let page = Page { offset: self.row, limit: PAGE + 1 };
            let lanes = inner.watch(inner.engine.lanes(self.queue, page).await)?;
            if self.take(&lanes) {
                let fresh = lanes.into_iter().filter(|lane| self.is_new(lane)).collect::<Vec<_>>();
                if let Some(last) = fresh.last() {
                    self.last = Some(last.name.clone());
                    return Ok(fresh);
                }
            }
        }
        Ok(Vec::new())
    }

    /// A page was read. `false` = it begins too far down.
    fn take(&mut self, lanes: &[Lane]) -> bool {
        if self.row > 0 && lanes.first().is_none_or(|first| self.is_new(first)) {
            self.row = self.row.saturating_sub(PAGE);
            return false;
        }
        self.done = lanes.len() <= PAGE;
        self.row += lanes.len().saturating_sub(1);
        true
    }

    fn is_new(&self, lane: &Lane) -> bool {
        self.last.as_ref().is_none_or(|last| lane.name > *last)
    }
}

#[cfg(test)]
mod tests {
    use bugle_store::{Catalog, Expire, MemoryStore, NewLane, Queue, QueueOptions, Timestamp};

    use super::*;
    use crate::{Broker, BrokerConfig};

    async fn add(store: &MemoryStore, queue: QueueId, prefix: &str, count: usize, now: Timestamp) {
        let new = (0..count).map(|n| NewLane { queue, name: format!("{prefix}{n:05}").into(), now });
        store.ensure_lanes(new.collect()).await.unwrap();
    }

    #[tokio::test]
    async fn lanes_that_come_and_go_make_it_pass_over_none_that_stays() {
        let store = MemoryStore::default();
        let queue = Queue {
            id: QueueId::random(),
            name: "q".into(),
            namespace: "".into(),
            task: "".into(),
            created_at: Timestamp(1),
            version: 1,
            options: QueueOptions::default(),
        };
        store.put_queue(queue.clone()).await.unwrap();
        // Lanes that are old are collected below; those that stay are recent.
        add(&store, queue.id, "a", 700, Timestamp(10)).await;
        add(&store, queue.id, "b", 1200, Timestamp(1000)).await;
        let store = Arc::new(store);
        let broker = Broker::open(store.clone(), BrokerConfig::default()).await.unwrap();
        let mut walk = Walk::of(queue.id);
        let mut seen: Vec<String> = Vec::new();
        let mut pages = 0;
        loop {
            let lanes = walk.next(&broker.0).await.unwrap();
            if lanes.is_empty() {
                break;
            }
            seen.extend(lanes.iter().map(|lane| lane.name.to_string()));
            pages += 1;
            match pages {
                2 => assert_eq!(store.expire(Expire::Lanes(Timestamp(100)), 10_000).await.unwrap(), 700),
                3 => add(&store, queue.id, "0", 800, Timestamp(1000)).await,
                _ => (),
            }
        }
        let stayed: Vec<&String> = seen.iter().filter(|name| name.starts_with('b')).collect();
        assert_eq!(stayed.len(), 1200);
        assert!(seen.is_sorted() && !seen.iter().any(|name| name.starts_with('0')));
    }
}
