//! Working through a queue: pop, handle, acknowledge, again.

mod handler;
mod keeper;
mod tally;
mod worker;

use std::fmt::{self, Display};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::ack::Verdict;
use crate::client::Client;
use crate::error::Error;
use crate::message::Message;
use crate::pop::{Subscription, Terms};
use crate::retry::RetryPolicy;
use handler::{Batches, Each, Handler};
use worker::Worker;

pub use tally::Consumed;

/// A consumer, made by [`Client::consume`] and started by [`each`](Self::each) or [`batches`](Self::batches).
///
/// Some number of workers wait for messages, handle them and say what became of them. While a handler works its lease
/// is renewed. A message whose handler fails or panics is reported as failed with the error's text: it comes again, and
/// becomes a dead letter when the queue's retries are used up. A message is never reported as done unless its
/// handler said so.
///
/// The order inside a partition is kept: what stands behind a failed message is given back with it. Delivery is at
/// least once, so a handler may see a message again after a crash or a lost lease.
///
/// Servers that end, restart or are busy are waited for. The consumer ends when it is told to ([`stop_on`](Self::stop_on)),
/// or when a server refuses it.
#[must_use = "a consumer does nothing until it is given a handler"]
pub struct Consumer {
    client: Client,
    terms: Terms,
    workers: usize,
    stop: CancellationToken,
    pauses: RetryPolicy,
}

impl fmt::Debug for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer").field("terms", &self.terms).field("workers", &self.workers).finish()
    }
}

impl Client {
    /// Consume a queue.
    pub fn consume(&self, queue: impl Into<String>) -> Consumer {
        Consumer::new(self.clone(), Terms::queue(queue.into()))
    }

    /// Consume all queues of a namespace, of a task, or of both.
    pub fn consume_where(&self, namespace: Option<&str>, task: Option<&str>) -> Consumer {
        Consumer::new(self.clone(), Terms::filter(namespace.map(str::to_owned), task.map(str::to_owned)))
    }
}

impl Consumer {
    fn new(client: Client, mut terms: Terms) -> Self {
        terms.wait = Some(Duration::from_secs(30));
        let pauses = RetryPolicy::new(1, Duration::from_millis(100), Duration::from_secs(5));
        Self { client, terms, workers: 1, stop: CancellationToken::new(), pauses }
    }

    /// Only from this partition.
    pub fn partition(mut self, partition: impl Into<String>) -> Self {
        self.terms.set_partition(partition.into());
        self
    }

    /// In the name of this consumer group. Each group gets every message; without one, all who name none share them.
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.terms.group = Some(group.into());
        self
    }

    /// So many workers, each with its own messages; 1 unless set. They work on different partitions.
    pub fn concurrency(mut self, workers: usize) -> Self {
        self.workers = workers.max(1);
        self
    }

    /// At most so many messages at a time for each worker.
    pub fn batch(mut self, messages: u32) -> Self {
        self.terms.batch = Some(messages);
        self
    }

    /// From at most so many partitions at a time for each worker; 1 unless set.
    pub fn partitions(mut self, partitions: u32) -> Self {
        self.terms.partitions = Some(partitions);
        self
    }

    /// Let the server choose how many messages and partitions, where they are not set.
    pub fn autopilot(mut self) -> Self {
        self.terms.autopilot = true;
        self
    }

    /// Where the group begins, if the queue has not seen it before.
    pub fn subscribe(mut self, from: Subscription) -> Self {
        self.terms.subscription = Some(from);
        self
    }

    /// Only the newest message of each partition; needs a group, whose first pop decides for all.
    pub fn conflate(mut self) -> Self {
        self.terms.conflation = true;
        self
    }

    /// Leases of this length, in whole seconds, instead of the queue's. They are renewed while a handler works: this
    /// is how long messages stay unreachable when this process dies.
    pub fn lease(mut self, length: Duration) -> Self {
        self.terms.lease = Some(length);
        self
    }

    /// How long one request waits for messages before the next; 30 s unless set.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.terms.wait = Some(wait.max(Duration::from_millis(1)));
        self
    }

    /// The shortest and the longest pause while a server is away or busy; 100 ms and 5 s unless set.
    pub fn backoff(mut self, first: Duration, longest: Duration) -> Self {
        self.pauses = RetryPolicy::new(1, first.max(Duration::from_millis(10)), longest);
        self
    }

    /// Stop when this token is cancelled: finish the message in hand, say what became of it, give back the rest.
    pub fn stop_on(mut self, stop: CancellationToken) -> Self {
        self.stop = stop;
        self
    }

    /// Handle one message at a time with each worker. A worker's messages are reported together, when all of them are
    /// handled. Dropping the future ends the handlers where they are; what they had comes again when its lease ends.
    pub async fn each<F, Fut, E>(self, handler: F) -> Result<Consumed, Error>
    where
        F: Fn(Message) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send,
        E: Display + Send,
    {
        self.judge(move |message| {
            let handling = handler(message);
            async move {
                match handling.await {
                    Ok(()) => Verdict::Completed,
                    Err(error) => Verdict::Failed(error.to_string()),
                }
            }
        })
        .await
    }

    /// The same, with a handler that says what became of each message, so that it can give one back without blame, or give
    /// it up at once. What stands behind a message that is not done is given back.
    pub async fn judge<F, Fut>(self, handler: F) -> Result<Consumed, Error>
    where
        F: Fn(Message) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Verdict> + Send,
    {
        self.run(Each(handler)).await
    }

    /// Handle all messages of a request at once with each worker: they are done, or they fail, together.
    pub async fn batches<F, Fut, E>(self, handler: F) -> Result<Consumed, Error>
    where
        F: Fn(Vec<Message>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send,
        E: Display + Send,
    {
        self.run(Batches(handler)).await
    }

    async fn run(self, handler: impl Handler) -> Result<Consumed, Error> {
        let handler = Arc::new(handler);
        // The workers end together: by the caller's word, or because one of them was refused.
        let stop = self.stop.child_token();
        let mut workers = JoinSet::new();
        for _ in 0..self.workers {
            let worker = Worker {
                client: self.client.clone(),
                terms: self.terms.clone(),
                pauses: self.pauses,
                stop: stop.clone(),
                handler: handler.clone(),
            };
            workers.spawn(worker.run());
        }
        let (mut all, mut failure) = (Consumed::default(), None);
        while let Some(ended) = workers.join_next().await {
            match ended {
                Ok((consumed, Ok(()))) => all += consumed,
                Ok((consumed, Err(error))) => {
                    all += consumed;
                    failure.get_or_insert(error);
                    stop.cancel();
                }
                // Handlers' panics are caught, so this one is ours, and not to be hidden.
                Err(ended) => {
                    if let Ok(panic) = ended.try_into_panic() {
                        std::panic::resume_unwind(panic);
                    }
                }
            }
        }
        failure.map_or(Ok(all), Err)
    }
}
