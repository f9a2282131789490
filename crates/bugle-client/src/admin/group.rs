//! Consumer groups: where they stand, and sending them elsewhere.

use std::collections::BTreeMap;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::Admin;
use crate::error::Error;
use crate::time;
use crate::transport::{Call, encoded};

/// A group on one queue.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Group {
    /// Its name.
    pub name: String,
    /// The queue.
    #[serde(default)]
    pub queue_name: String,
    /// Partitions it has begun to read.
    #[serde(default)]
    pub members: u64,
    /// Partitions in which it is behind.
    #[serde(default)]
    pub partitions_with_lag: u64,
    /// Messages it has not acknowledged, where told.
    #[serde(default)]
    pub total_lag: Option<u64>,
    /// Age of the oldest of them in seconds, where told.
    #[serde(default)]
    pub max_time_lag: Option<f64>,
    /// `Stable`, `Lagging` or `Dead`.
    #[serde(default)]
    pub state: String,
}

/// How far a group is on a queue.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct GroupQueue {
    /// By name.
    pub partitions: Vec<GroupPartition>,
    /// There are more.
    pub truncated: bool,
}

/// How far a group is in a partition.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct GroupPartition {
    /// Its name.
    pub partition: String,
    /// Messages consumed so far.
    #[serde(default)]
    pub total_consumed: u64,
    /// Messages not acknowledged.
    #[serde(default)]
    pub offset_lag: u64,
    /// Age of the oldest of them, in seconds.
    #[serde(default)]
    pub time_lag_seconds: u64,
    /// Somebody works on it.
    #[serde(default)]
    pub lease_active: bool,
    /// When the group was last given messages of it.
    #[serde(default, deserialize_with = "time::read_optional")]
    pub last_consumed_at: Option<SystemTime>,
}

/// Where to send a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SeekTo {
    /// To the oldest message that is kept.
    Beginning,
    /// Behind the newest message.
    End,
    /// Behind everything that was pushed up to this time.
    Time(SystemTime),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SeekBody {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    to_beginning: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    to_end: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<String>,
}

impl From<SeekTo> for SeekBody {
    fn from(to: SeekTo) -> Self {
        let timestamp = match to {
            SeekTo::Time(at) => Some(time::spell(at)),
            SeekTo::Beginning | SeekTo::End => None,
        };
        Self { to_beginning: to == SeekTo::Beginning, to_end: to == SeekTo::End, timestamp }
    }
}

impl Admin {
    /// All groups, one entry for each queue that a group reads.
    pub async fn groups(&self) -> Result<Vec<Group>, Error> {
        self.client.transport.ask(&Call::get("/api/v1/consumer-groups")).await
    }

    /// How far a group is, by queue. Empty if nobody knows it.
    pub async fn group(&self, group: &str) -> Result<BTreeMap<String, GroupQueue>, Error> {
        let call = Call::get(format!("/api/v1/consumer-groups/{}", encoded(group)));
        self.client.transport.ask(&call).await
    }

    /// Forget a group on all queues, or on one: its next pop begins anew. How many partitions it had begun to read.
    pub async fn delete_group(&self, group: &str, queue: Option<&str>) -> Result<u64, Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Deleted {
            deleted_partitions: u64,
        }
        let mut path = format!("/api/v1/consumer-groups/{}", encoded(group));
        if let Some(queue) = queue {
            path.push_str(&format!("/queues/{}", encoded(queue)));
        }
        let deleted: Deleted = self.client.transport.ask(&Call::delete(path)).await?;
        Ok(deleted.deleted_partitions)
    }

    /// Send a group elsewhere on a queue. How many of its positions were moved.
    pub async fn seek(&self, group: &str, queue: &str, to: SeekTo) -> Result<u64, Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Sought {
            partitions_updated: u64,
        }
        let path = format!("/api/v1/consumer-groups/{}/queues/{}/seek", encoded(group), encoded(queue));
        let sought: Sought = self.client.transport.ask(&Call::post(path, &SeekBody::from(to))?).await?;
        Ok(sought.partitions_updated)
    }

    /// Send a group elsewhere in one partition. The offset that comes next, where known.
    pub async fn seek_partition(
        &self,
        group: &str,
        queue: &str,
        partition: &str,
        to: SeekTo,
    ) -> Result<Option<u64>, Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Sought {
            #[serde(default)]
            cursor_moved_to: Option<u64>,
        }
        let (group, queue, partition) = (encoded(group), encoded(queue), encoded(partition));
        let path = format!("/api/v1/consumer-groups/{group}/queues/{queue}/partitions/{partition}/seek");
        let sought: Sought = self.client.transport.ask(&Call::post(path, &SeekBody::from(to))?).await?;
        Ok(sought.cursor_moved_to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json, to_value};

    #[test]
    fn a_group_is_read_with_and_without_its_lag() {
        let group = json!({"name": "g", "topics": ["q"], "queueName": "q", "members": 2, "partitionsWithLag": 1,
            "totalLag": 7, "maxTimeLag": 3, "state": "Stable", "subscriptionMode": null, "later": []});
        let group: Group = from_value(group).unwrap();
        assert_eq!((group.total_lag, group.max_time_lag, group.members), (Some(7), Some(3.0), 2));
        let older: Group = from_value(json!({"name": "g", "totalLag": null, "maxTimeLag": null})).unwrap();
        assert_eq!((older.total_lag, older.max_time_lag), (None, None));
    }

    #[test]
    fn a_seek_names_one_place() {
        let body = |to: SeekTo| to_value(SeekBody::from(to)).unwrap();
        assert_eq!(body(SeekTo::End), json!({"toEnd": true}));
        assert_eq!(body(SeekTo::Beginning), json!({"toBeginning": true}));
        assert_eq!(body(SeekTo::Time(SystemTime::UNIX_EPOCH)), json!({"timestamp": "1970-01-01T00:00:00Z"}));
    }
}
