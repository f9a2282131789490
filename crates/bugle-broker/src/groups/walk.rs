//! Walking all lanes of a queue by name, in pages, while lanes come and go.

use std::sync::Arc;

use bugle_store::{Lane, QueueId};

use crate::api::Refused;
use crate::inner::Inner;

/// Lanes per page.
const PAGE: usize = 500;

/// See the module.
pub(super) struct Walk {
    queue: QueueId,
    last: Option<Arc<str>>,
}

impl Walk {
    pub(super) fn of(queue: QueueId) -> Self {
        Self { queue, last: None }
    }

    /// The next lanes; none at the end.
    pub(super) async fn next(&mut self, inner: &Inner) -> Result<Vec<Lane>, Refused> {
        let lanes = inner.watch(inner.engine.lanes(self.queue, self.last.clone(), PAGE).await)?;
        if let Some(last) = lanes.last() {
            self.last = Some(last.name.clone());
        }
        Ok(lanes)
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
