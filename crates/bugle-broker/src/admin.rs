//! Queues: create, change, delete.

use std::sync::Arc;

use bugle_store::{PutQueue, Queue, QueueId, QueueOptions};

use crate::api::{Configure, Configured, Refused};
use crate::inner::Inner;
use crate::news::News;
use crate::semantics::configure::{Merged, merge};

const MAX_TRIES: u32 = 16;

impl Inner {
    /// See [`crate::Broker::configure`].
    pub(crate) async fn configure(self: &Arc<Self>, request: Configure) -> Result<Configured, Refused> {
        // Wrong options are refused before the store is asked for anything.
        merge(&QueueOptions::default(), &request.options, request.replace).map_err(Refused::Invalid)?;
        for _ in 0..MAX_TRIES {
            let known = self.catalog.queue(&request.queue);
            let (queue, ignored) = self.configured(known.as_deref(), &request)?;
            match self.watch(self.engine.put_queue(queue).await)? {
                PutQueue::Stored(queue) => {
                    let queue = self.catalog.learn(queue);
                    self.options_changed(&queue);
                    self.tell(News::Catalog);
                    return Ok(Configured {
                        queue_id: queue.id.0,
                        namespace: queue.namespace.clone(),
                        task: queue.task.clone(),
                        options: queue.options.clone(),
                        ignored,
                    });
                }
                PutQueue::Exists(Some(other)) => drop(self.catalog.learn(other)),
                PutQueue::Exists(None) => {
                    if let Some(known) = known {
                        self.forget_queue(known.id);
                    }
                }
            }
        }
        Err(self.busy("the queue is configured by too many"))
    }

    fn configured(
        &self,
        known: Option<&Queue>,
        request: &Configure,
    ) -> Result<(Queue, Vec<String>), Refused> {
        let now = self.engine.now().latest;
        let mut queue = known.cloned().unwrap_or_else(|| Queue {
            id: QueueId::random(),
            name: request.queue.clone(),
            namespace: "".into(),
            task: "".into(),
            created_at: now,
            version: 0,
            options: QueueOptions::default(),
        });
        let Merged { options, ignored } =
            merge(&queue.options, &request.options, request.replace).map_err(Refused::Invalid)?;
        queue.options = options;
        queue.version += 1;
        let text = |sent: &Option<String>, now: &Arc<str>| match sent {
            Some(text) => Arc::from(text.as_str()),
            None if request.replace => Arc::from(""),
            None => now.clone(),
        };
        queue.namespace = text(&request.namespace, &queue.namespace);
        queue.task = text(&request.task, &queue.task);
        Ok((queue, ignored))
    }

    /// See [`crate::Broker::delete_queue`].
    pub(crate) async fn delete_queue(self: &Arc<Self>, name: &str) -> Result<bool, Refused> {
        let Some(queue) = self.known_queue(name).await else { return Ok(false) };
        let existed = self.watch(self.engine.delete_queue(queue.id).await)?;
        self.forget_queue(queue.id);
        self.tell(News::Catalog);
        Ok(existed)
    }
}
