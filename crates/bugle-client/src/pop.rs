//! Asking for messages.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use crate::client::Client;
use crate::error::Error;
use crate::message::Batch;
use crate::time;
use crate::transport::{Answer, Call, encoded};

/// Where a group begins that a queue has not seen before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Subscription {
    /// At the oldest message that is kept.
    All,
    /// Behind what is there now.
    New,
    /// Behind everything that was pushed up to this time.
    From(SystemTime),
}

/// What to ask for. Shared by [`Pop`] and [`Consumer`](crate::Consumer).
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    target: Target,
    pub(crate) group: Option<String>,
    pub(crate) batch: Option<u32>,
    pub(crate) partitions: Option<u32>,
    pub(crate) wait: Option<Duration>,
    pub(crate) lease: Option<Duration>,
    pub(crate) auto_ack: bool,
    pub(crate) autopilot: bool,
    pub(crate) conflation: bool,
    pub(crate) subscription: Option<Subscription>,
}

#[derive(Clone, Debug)]
enum Target {
    Queue { queue: String, partition: Option<String> },
    Filter { namespace: Option<String>, task: Option<String> },
}

impl Terms {
    pub(crate) fn queue(queue: String) -> Self {
        Self::of(Target::Queue { queue, partition: None })
    }

    pub(crate) fn filter(namespace: Option<String>, task: Option<String>) -> Self {
        Self::of(Target::Filter { namespace, task })
    }

    fn of(target: Target) -> Self {
        Self {
            target,
            group: None,
            batch: None,
            partitions: None,
            wait: None,
            lease: None,
            auto_ack: false,
            autopilot: false,
            conflation: false,
            subscription: None,
        }
    }

    pub(crate) fn set_partition(&mut self, name: String) {
        if let Target::Queue { partition, .. } = &mut self.target {
            *partition = Some(name);
        }
    }

    pub(crate) fn call(&self) -> Call {
        let mut path = String::from("/api/v1/pop");
        // Writing to a string cannot fail.
        let _ = match &self.target {
            Target::Queue { queue, partition: None } => write!(path, "/queue/{}", encoded(queue)),
            Target::Queue { queue, partition: Some(partition) } => {
                write!(path, "/queue/{}/partition/{}", encoded(queue), encoded(partition))
            }
            Target::Filter { .. } => Ok(()),
        };
        let mut join = '?';
        let mut add = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                let _ = write!(path, "{join}{name}={}", encoded(&value));
                join = '&';
            }
        };
        if let Target::Filter { namespace, task } = &self.target {
            add("namespace", namespace.clone());
            add("task", task.clone());
        }
        let flag = |set: bool| set.then(|| "true".to_owned());
        add("consumerGroup", self.group.clone());
        add("batch", self.batch.map(|n| n.to_string()));
        add("partitions", self.partitions.map(|n| n.to_string()));
        add("wait", flag(self.wait.is_some()));
        add("timeout", self.wait.map(|wait| wait.as_millis().max(1).to_string()));
        add("leaseSeconds", self.lease.map(|lease| whole_seconds(lease).to_string()));
        add("autoAck", flag(self.auto_ack));
        add("autopilot", flag(self.autopilot));
        add("conflation", flag(self.conflation));
        let (mode, from) = match self.subscription {
            None => (None, None),
            Some(Subscription::All) => (Some("all"), None),
            Some(Subscription::New) => (Some("new"), None),
            Some(Subscription::From(start)) => (None, Some(time::spell(start))),
        };
        add("subscriptionMode", mode.map(str::to_owned));
        add("subscriptionFrom", from);
        Call::get(path).waiting(self.wait)
    }
}

/// The wire knows whole seconds only; less than was asked for would be a broken promise.
pub(crate) fn whole_seconds(time: Duration) -> u64 {
    time.as_millis().div_ceil(1000).clamp(1, u64::MAX.into()) as u64
}

/// Read the answer to a pop.
pub(crate) fn batch(answer: &Answer) -> Result<Batch, Error> {
    let batch = if answer.is_empty() {
        Batch::default()
    } else {
        Batch::read(answer.bytes(), answer.date).map_err(|e| Error::Answer(e.into()))?
    };
    Ok(Batch { store_unavailable: answer.store_unavailable, ..batch })
}

/// A single request for messages, made by [`Client::pop`]. To work through a queue use [`Client::consume`].
#[derive(Clone, Debug)]
#[must_use = "nothing is asked for until it is sent"]
pub struct Pop {
    client: Client,
    terms: Terms,
}

impl Client {
    /// Ask `queue` for messages.
    pub fn pop(&self, queue: impl Into<String>) -> Pop {
        Pop { client: self.clone(), terms: Terms::queue(queue.into()) }
    }

    /// Ask all queues of a namespace, of a task, or of both, for messages.
    pub fn pop_where(&self, namespace: Option<&str>, task: Option<&str>) -> Pop {
        let terms = Terms::filter(namespace.map(str::to_owned), task.map(str::to_owned));
        Pop { client: self.clone(), terms }
    }
}

impl Pop {
    /// Only from this partition.
    pub fn partition(mut self, partition: impl Into<String>) -> Self {
        self.terms.set_partition(partition.into());
        self
    }

    /// For this consumer group. Each group gets every message; without one, all who name none share the messages.
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.terms.group = Some(group.into());
        self
    }

    /// At most so many messages.
    pub fn batch(mut self, messages: u32) -> Self {
        self.terms.batch = Some(messages);
        self
    }

    /// From at most so many partitions; 1 unless set.
    pub fn partitions(mut self, partitions: u32) -> Self {
        self.terms.partitions = Some(partitions);
        self
    }

    /// Let the server choose how many messages and partitions, where they are not set.
    pub fn autopilot(mut self) -> Self {
        self.terms.autopilot = true;
        self
    }

    /// If there is nothing, wait this long for something.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.terms.wait = Some(wait);
        self
    }

    /// A lease of this length, in whole seconds, instead of the queue's.
    pub fn lease(mut self, length: Duration) -> Self {
        self.terms.lease = Some(length);
        self
    }

    /// Acknowledge by the delivery: at most once, and lost if this process dies with them.
    pub fn auto_ack(mut self) -> Self {
        self.terms.auto_ack = true;
        self
    }

    /// Only the newest message of each partition; needs a group, whose first pop decides for all.
    pub fn conflate(mut self) -> Self {
        self.terms.conflation = true;
        self
    }

    /// Where the group begins, if the queue has not seen it before.
    pub fn subscribe(mut self, from: Subscription) -> Self {
        self.terms.subscription = Some(from);
        self
    }

    /// Ask. A batch without messages is the answer if there are none.
    pub async fn send(self) -> Result<Batch, Error> {
        batch(&self.client.transport.call(&self.terms.call()).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_become_a_path() {
        let mut terms = Terms::queue("a/b".into());
        assert_eq!(terms.call().path(), "/api/v1/pop/queue/a%2Fb");
        terms.set_partition("c d".into());
        terms.group = Some("g&h".into());
        terms.wait = Some(Duration::from_secs(2));
        terms.lease = Some(Duration::from_millis(1500));
        terms.subscription = Some(Subscription::From(SystemTime::UNIX_EPOCH));
        assert_eq!(
            terms.call().path(),
            "/api/v1/pop/queue/a%2Fb/partition/c%20d?consumerGroup=g%26h&wait=true&timeout=2000&leaseSeconds=2\
             &subscriptionFrom=1970-01-01T00%3A00%3A00Z"
        );
        let mut terms = Terms::filter(Some("n".into()), None);
        terms.batch = Some(9);
        terms.autopilot = true;
        assert_eq!(terms.call().path(), "/api/v1/pop?namespace=n&batch=9&autopilot=true");
    }
}
