//! `GET /api/v1/consumer-groups` and `GET /api/v1/consumer-groups/lagging`.

use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

use crate::time::Millis;

/// A group on one queue.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupEntry<'a> {
    /// The group.
    pub name: &'a str,
    /// The queue, in a list.
    pub topics: [&'a str; 1],
    /// The queue.
    pub queue_name: &'a str,
    /// Partitions it has a cursor on.
    pub members: u64,
    /// The same by its later name.
    pub partition_cursors: u64,
    /// Partitions with messages it has not acknowledged.
    pub partitions_with_lag: u64,
    /// Those messages.
    pub total_lag: u64,
    /// There were too many partitions to see where the group begins in each: the lag is at most this.
    #[serde(skip_serializing_if = "crate::group::is_false")]
    pub truncated: bool,
    /// Age of the oldest of them in seconds; `null` if there were too many partitions to look for it.
    pub max_time_lag: Option<u64>,
    /// `Stable`, `Lagging` or `Dead`.
    #[schemars(extend("enum" = ["Stable", "Lagging", "Dead"]))]
    pub state: &'static str,
    /// Messages consumed so far.
    pub total_consumed: u64,
    /// `all`, `new` or `timestamp`.
    #[schemars(extend("enum" = ["all", "new", "timestamp", null]))]
    pub subscription_mode: Option<&'static str>,
    /// Where it began, if not with everything.
    pub subscription_timestamp: Option<Millis>,
    /// When it first came, or was last sent elsewhere.
    pub subscription_created_at: Option<Millis>,
    /// It gets only the newest message of a partition.
    pub conflation: bool,
}

/// A partition in which a group is behind.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LaggingEntry<'a> {
    /// The group.
    pub consumer_group: &'a str,
    /// The queue.
    pub queue_name: &'a str,
    /// The partition.
    pub partition_name: &'a str,
    /// Its `partitionId`.
    pub partition_id: Uuid,
    /// The lease that holds it.
    pub worker_id: Option<Uuid>,
    /// Messages not acknowledged.
    pub offset_lag: u64,
    /// Age of the oldest of them.
    pub time_lag_seconds: u64,
    /// The same in hours, to the hundredth.
    pub lag_hours: f64,
    /// When that one was pushed.
    pub oldest_unconsumed_at: Millis,
    /// When the group was last given messages of it.
    pub last_consumed_at: Option<Millis>,
}
