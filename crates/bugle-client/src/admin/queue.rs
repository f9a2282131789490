//! Queues: configure, delete, list, count.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::Admin;
use super::options::QueueOptions;
use crate::error::Error;
use crate::time;
use crate::transport::{Call, encoded};

/// A queue as it is after [`Admin::configure`].
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Configured {
    /// Its id.
    pub queue_id: Uuid,
    /// All its options.
    pub options: QueueOptions,
}

/// A queue in the list.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// Its namespace.
    #[serde(default)]
    pub namespace: String,
    /// Its task.
    #[serde(default)]
    pub task: String,
    /// When it was created.
    #[serde(default, deserialize_with = "time::read_optional")]
    pub created_at: Option<SystemTime>,
    /// How many partitions it has.
    #[serde(default)]
    pub partitions: u64,
    /// What it holds: `total`, `pending` and `processing`. The list does not tell the others; see [`Admin::queue`].
    #[serde(default)]
    pub messages: Counts,
}

/// A queue and its partitions.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct QueueDetail {
    /// Its name.
    pub name: String,
    /// Its namespace.
    #[serde(default)]
    pub namespace: String,
    /// Its task.
    #[serde(default)]
    pub task: String,
    /// Its partitions, by name.
    #[serde(default)]
    pub partitions: Vec<QueuePartition>,
    /// There are more partitions.
    #[serde(default)]
    pub truncated: bool,
    /// What it holds.
    #[serde(default)]
    pub totals: Counts,
}

/// A partition of a queue.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct QueuePartition {
    /// Its id.
    pub id: Uuid,
    /// Its name.
    pub name: String,
    /// What it holds.
    #[serde(default)]
    pub stats: Counts,
    /// When its oldest kept message was pushed.
    #[serde(default, deserialize_with = "time::read_optional")]
    pub oldest_message: Option<SystemTime>,
    /// When its newest kept message was pushed.
    #[serde(default, deserialize_with = "time::read_optional")]
    pub newest_message: Option<SystemTime>,
}

/// Messages, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Counts {
    /// Kept.
    pub total: u64,
    /// Of those: to be delivered.
    pub pending: u64,
    /// Of those: under a lease.
    pub processing: u64,
    /// Of those: done.
    pub completed: u64,
    /// Dead letters.
    pub dead_letter: u64,
}

/// What [`Admin::clear_queue`] removed.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Cleared {
    /// Partitions that were emptied.
    #[serde(default)]
    pub partitions_cleared: u64,
    /// Messages that are gone.
    #[serde(default)]
    pub messages_deleted: u64,
}

/// How much work there is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Depth {
    /// Messages not acknowledged.
    pub pending: u64,
    /// Partitions that have some.
    pub partitions_pending: u64,
    /// The group gets only the newest message of each partition.
    pub conflation: bool,
    /// Deliveries that are needed: messages, or partitions where the group conflates.
    pub effective_pending: u64,
    /// The same by partition.
    pub partitions: Vec<PartitionDepth>,
    /// There are more partitions.
    pub truncated: bool,
}

/// How much work there is in one partition.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct PartitionDepth {
    /// Its name.
    pub partition: String,
    /// Messages not acknowledged.
    pub pending: u64,
}

impl Admin {
    /// Create a queue, or change the options of one. What is not set stays as it is.
    pub async fn configure(&self, queue: &str, options: &QueueOptions) -> Result<Configured, Error> {
        #[derive(Serialize)]
        struct Body<'a> {
            queue: &'a str,
            options: &'a QueueOptions,
        }
        let call = Call::post("/api/v1/configure", &Body { queue, options })?;
        self.client.transport.ask(&call).await
    }

    /// The same, with a namespace and a task by which queues can be consumed together.
    pub async fn configure_in(
        &self,
        queue: &str,
        namespace: &str,
        task: &str,
        options: &QueueOptions,
    ) -> Result<Configured, Error> {
        #[derive(Serialize)]
        struct Body<'a> {
            queue: &'a str,
            namespace: &'a str,
            task: &'a str,
            options: &'a QueueOptions,
        }
        let call = Call::post("/api/v1/configure", &Body { queue, namespace, task, options })?;
        self.client.transport.ask(&call).await
    }

    /// Delete a queue with everything in it; whether there was one. (After a lost answer and a retry: `false`.)
    pub async fn delete_queue(&self, queue: &str) -> Result<bool, Error> {
        #[derive(Deserialize)]
        struct Deleted {
            existed: bool,
        }
        let call = Call::delete(format!("/api/v1/resources/queues/{}", encoded(queue)));
        let deleted: Deleted = self.client.transport.ask(&call).await?;
        Ok(deleted.existed)
    }

    /// Remove all messages of a queue, or of one of its partitions. The queue, its options and its groups stay.
    pub async fn clear_queue(&self, queue: &str, partition: Option<&str>) -> Result<Cleared, Error> {
        let mut path = format!("/api/v1/queues/{}/clear", encoded(queue));
        if let Some(partition) = partition {
            path.push_str(&format!("?partition={}", encoded(partition)));
        }
        self.client.transport.ask(&Call::delete(path)).await
    }

    /// All queues, newest first.
    pub async fn queues(&self) -> Result<Vec<Queue>, Error> {
        #[derive(Deserialize)]
        struct List {
            queues: Vec<Queue>,
        }
        let list: List = self.client.transport.ask(&Call::get("/api/v1/resources/queues")).await?;
        Ok(list.queues)
    }

    /// One queue and its partitions.
    pub async fn queue(&self, queue: &str) -> Result<QueueDetail, Error> {
        let call = Call::get(format!("/api/v1/resources/queues/{}", encoded(queue)));
        self.client.transport.ask(&call).await
    }

    /// How much work a queue has for a group, or for the group that is furthest behind.
    pub async fn depth(&self, queue: &str, group: Option<&str>) -> Result<Depth, Error> {
        let mut path = format!("/api/v1/resources/queues/{}/depth", encoded(queue));
        if let Some(group) = group {
            path.push_str(&format!("?group={}", encoded(group)));
        }
        self.client.transport.ask(&Call::get(path)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    const NIL: &str = "00000000-0000-0000-0000-000000000000";

    #[test]
    fn answers_are_read_with_more_and_with_less_in_them() {
        let messages = json!({"total": 5, "pending": 3, "processing": 2, "later": {}});
        let queue = json!({"id": NIL, "name": "q", "namespace": "n", "task": "", "createdAt": "2026-01-02T03:04:05.678Z",
            "partitions": 4, "messages": messages, "segments": 1, "retainedBytes": 9});
        let queue: Queue = from_value(queue).unwrap();
        assert_eq!((queue.partitions, queue.messages.pending, queue.messages.completed), (4, 3, 0));
        assert!(queue.created_at.is_some());
        let stats =
            json!({"total": 5, "pending": 1, "processing": 1, "completed": 3, "failed": 0, "deadLetter": 2});
        let partition =
            json!({"id": NIL, "name": "p", "createdAt": null, "stats": stats, "oldestMessage": null});
        let detail: QueueDetail =
            from_value(json!({"name": "q", "partitions": [partition], "totals": stats})).unwrap();
        assert_eq!((detail.totals.dead_letter, detail.partitions[0].stats), (2, detail.totals));
        let depth = json!({"queue": "q", "group": "g", "pending": 9, "partitionsPending": 2, "conflation": true,
            "effectivePending": 2, "partitions": [{"partition": "p", "pending": 9}]});
        let depth: Depth = from_value(depth).unwrap();
        assert_eq!((depth.effective_pending, depth.partitions[0].pending, depth.conflation), (2, 9, true));
        assert_eq!(from_value::<Depth>(json!({"pending": 1})).unwrap().pending, 1);
        assert_eq!(from_value::<Queue>(json!({"name": "q"})).unwrap().messages, Counts::default());
    }
}
