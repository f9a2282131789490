//! Queues as they come, change and go, here or on another server.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bugle_store::{Queue, QueueId};

use crate::api::Refused;
use crate::catalog::Changes;
use crate::inner::Inner;
use crate::meters::WakeSource;
use crate::news::News;
use crate::waiting::Channel;

impl Inner {
    /// A queue is gone: forget everything about it; its waiting pops look again.
    pub(crate) fn forget_queue(self: &Inner, id: QueueId) {
        self.catalog.forget(id);
        self.lanes.forget_queue(id);
        self.meters.queues.forget(id);
        self.forget_stats(id);
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

    /// A queue by name, also if another server has just made it.
    pub(crate) async fn known_queue(self: &Arc<Self>, name: &str) -> Option<Arc<Queue>> {
        if self.catalog.queue(name).is_none() && !self.engine.exclusive() {
            self.refresh_catalog().await;
        }
        self.catalog.queue(name)
    }

    /// A queue by id, also if another server has just made it.
    pub(crate) async fn known_queue_by_id(self: &Arc<Self>, id: QueueId) -> Option<Arc<Queue>> {
        if self.catalog.queue_by_id(id).is_none() && !self.engine.exclusive() {
            self.refresh_catalog().await;
        }
        self.catalog.queue_by_id(id)
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
    ///
    /// `true` = it was not asked, and should be waited for: the server had nothing to do for a while and hears nobody, so what
    /// it knows may be long out of date.
    pub(crate) fn keep_catalog_fresh(self: &Arc<Self>) -> bool {
        // The floor tells it too; asking at the same moment would ask twice.
        let (floor, hears) = (&self.config.floor, self.hears());
        let after = if hears { floor.with_carrier * 2 } else { floor.max };
        match self.catalog.wants_refresh(after) {
            Some(age) if !hears && age > after * 2 => true,
            Some(_) => {
                self.stale_catalog();
                false
            }
            None => false,
        }
    }

    /// Wait for the catalog as it is now, but not for long. Where pushes do not need the store they do not wait for it either.
    pub(crate) async fn catch_up_with_catalog(self: &Arc<Self>) {
        if self.board.detours() {
            return self.stale_catalog();
        }
        let _ = tokio::time::timeout(self.config.floor.max, self.refresh_catalog()).await;
    }

    /// Read the catalog again and forget what is gone.
    pub(crate) async fn refresh_catalog(self: &Arc<Self>) {
        let Ok(changes) = self.watch(self.catalog.refresh().await) else { return };
        self.follow(changes);
    }

    /// The catalog as it is now, for who is about to change it. Costs nothing on an exclusive store.
    pub(crate) async fn latest_catalog(self: &Arc<Self>) -> Result<(), Refused> {
        if !self.engine.exclusive() {
            let changes = self.watch(self.catalog.refresh().await)?;
            self.follow(changes);
        }
        Ok(())
    }

    fn follow(self: &Arc<Self>, changes: Changes) {
        self.follow_switches();
        for id in changes.gone {
            self.forget_queue(id);
        }
        for queue in changes.changed {
            self.options_changed(&queue);
        }
        for (queue, group) in changes.groups {
            self.renew_channel(queue, &group);
        }
    }

    /// The channel of a group that is in the catalog, with the record that is there now.
    pub(crate) fn channel(&self, queue: QueueId, group: &str) -> Option<Arc<Channel>> {
        // Each further round means that the record was changed meanwhile.
        loop {
            let record = self.catalog.group(queue, group)?;
            let channel = self.channels.get_or_make(&record);
            if self.catalog.group(queue, group).is_some_and(|now| now == channel.record) {
                return Some(channel);
            }
            self.renew_channel(queue, group);
        }
    }

    /// A group reads a queue in another way, or from elsewhere, than is remembered: forget what is, and let everybody
    /// who waits ask again.
    pub(crate) fn renew_channel(&self, queue: QueueId, group: &str) {
        let mut jobs = self.channels.forget_group(queue, group);
        if let Some(queue) = self.catalog.queue_by_id(queue) {
            jobs.extend(self.channels.wake_filters_new_to(&queue, |other| other != group));
        }
        self.ask_again(jobs, WakeSource::Local);
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
