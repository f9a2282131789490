//! Queues as they come, change and go, here or on another server.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bugle_store::{Queue, QueueId};

use crate::api::Refused;
use crate::inner::Inner;
use crate::meters::WakeSource;
use crate::news::News;

impl Inner {
    /// A queue is gone: forget everything about it; its waiting pops look again.
    pub(crate) fn forget_queue(self: &Inner, id: QueueId) {
        self.catalog.forget(id);
        self.lanes.forget_queue(id);
        self.meters.queues.forget(id);
        self.dispatch(self.channels.forget_queue(id), WakeSource::Local);
    }

    /// The queue, created if it does not exist.
    pub(crate) async fn ensure_queue(&self, name: &Arc<str>) -> Result<Arc<Queue>, Refused> {
        if let Some(queue) = self.catalog.queue(name) {
            return Ok(queue);
        }
        let queue = self.watch(self.catalog.ensure_queue(name).await)?;
        self.tell(News::Catalog);
        Ok(queue)
    }

    /// Something in memory turned out to be wrong: read the catalog again soon.
    pub(crate) fn stale_catalog(self: &Arc<Self>) {
        if self.refreshes.fetch_add(1, Ordering::AcqRel) > 0 {
            return; // One is running; it will go again.
        }
        let inner = self.clone();
        tokio::spawn(async move {
            loop {
                let asked = inner.refreshes.load(Ordering::Acquire);
                inner.refresh_catalog().await;
                let done = inner.refreshes.compare_exchange(asked, 0, Ordering::AcqRel, Ordering::Acquire);
                if done.is_ok() {
                    return;
                }
            }
        });
    }

    /// Ask a shared store for catalog changes if the last look is old; costs nothing on an exclusive one.
    pub(crate) fn keep_catalog_fresh(self: &Arc<Self>) {
        // The floor tells it too; asking at the same moment would ask twice.
        let floor = &self.config.floor;
        if self.catalog.wants_refresh(if self.hears() { floor.with_carrier * 2 } else { floor.max }) {
            self.stale_catalog();
        }
    }

    /// Read the catalog again and forget what is gone.
    pub(crate) async fn refresh_catalog(self: &Arc<Self>) {
        let Ok(changes) = self.watch(self.catalog.refresh().await) else { return };
        for id in changes.gone {
            self.forget_queue(id);
        }
        for queue in changes.changed {
            self.options_changed(&queue);
        }
    }

    /// A queue is new or has other options: what they hide may be visible now, and filters may want it.
    pub(crate) fn options_changed(self: &Arc<Self>, queue: &Queue) {
        for channel in self.channels.of_queue(queue.id) {
            let hidden = channel.state.lock().hidden();
            for lane in hidden {
                self.ring(&channel, lane, WakeSource::Local);
            }
        }
        let known = |group: &str| self.channels.get(queue.id, group).is_some();
        self.dispatch(self.channels.wake_filters_new_to(queue, known), WakeSource::Local);
    }
}
