//! `/api/v1/consumer-groups/…`: sending groups elsewhere, deleting them, seeing how far they are.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::field::{Field, Text};
use crate::shape::Time;
use crate::time::Millis;

/// `{"toEnd": true}`, `{"toBeginning": true}` or `{"timestamp": "…"}`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct SeekRequest<'a> {
    /// Behind the newest message.
    pub to_end: Field<bool>,
    /// To the oldest message.
    pub to_beginning: Field<bool>,
    /// Behind everything pushed up to this time.
    #[serde(borrow)]
    #[schemars(with = "Option<Time>")]
    pub timestamp: Text<'a>,
    /// Only tell what it would do.
    pub dry_run: Field<bool>,
}

/// What a seek would do.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct SeekPreviewEntry {
    /// Messages that would be delivered, of those there are now.
    pub messages: u64,
    /// Partitions they are in.
    pub partitions: u64,
    /// Messages that are before the group as it is.
    pub pending: u64,
}

/// Answer to a seek on a queue.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SeekAnswer<'a> {
    /// Always true.
    pub success: bool,
    /// The group.
    pub consumer_group: &'a str,
    /// The queue.
    pub queue_name: &'a str,
    /// It is at the end now.
    pub seek_to_end: bool,
    /// It is at the beginning now.
    pub seek_to_beginning: bool,
    /// It is at this time now.
    pub target_timestamp: Option<Millis>,
    /// Cursors that were moved.
    pub partitions_updated: u64,
    /// With `dryRun`: what the seek would do. It was not done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preview: Option<SeekPreviewEntry>,
}

/// Answer to a seek on one partition.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SeekPartitionAnswer<'a> {
    /// Always true.
    pub success: bool,
    /// The group.
    pub consumer_group: &'a str,
    /// The queue.
    pub queue_name: &'a str,
    /// The partition.
    pub partition_name: &'a str,
    /// False with `dryRun`.
    pub updated: bool,
    /// The offset that comes next.
    pub cursor_moved_to: Option<u64>,
    /// With `dryRun`: what the seek would do. It was not done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preview: Option<SeekPreviewEntry>,
}

/// `{"subscriptionTimestamp": "…"}`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["subscriptionTimestamp"]))]
pub struct SubscriptionRequest<'a> {
    /// Where the group starts on partitions it has not read. Required.
    #[serde(borrow)]
    #[schemars(with = "Time")]
    pub subscription_timestamp: Text<'a>,
}

/// Answer to a changed subscription.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubscriptionAnswer<'a> {
    /// Always true.
    pub success: bool,
    /// The group.
    pub consumer_group: &'a str,
    /// Where it starts now, as it was sent.
    pub new_timestamp: &'a str,
    /// Queues it was changed on.
    pub rows_updated: u64,
}

/// Answer to the deletion of a group.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeleteGroupAnswer<'a> {
    /// Always true: it is gone.
    pub success: bool,
    /// The group.
    pub consumer_group: &'a str,
    /// The queue, if it was deleted on one only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_name: Option<&'a str>,
    /// Cursors that were deleted.
    pub deleted_partitions: u64,
    /// There was a subscription, and it is gone too.
    pub metadata_deleted: bool,
}

/// A group on one queue.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct GroupQueueEntry<'a> {
    /// By name.
    pub partitions: Vec<GroupPartitionEntry<'a>>,
    /// There are more.
    #[serde(skip_serializing_if = "is_false")]
    pub truncated: bool,
}

/// A group in one partition.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupPartitionEntry<'a> {
    /// Its name.
    pub partition: &'a str,
    /// The lease that holds it.
    pub worker_id: Option<Uuid>,
    /// When the group was last given messages of it.
    pub last_consumed_at: Option<Millis>,
    /// Messages consumed so far.
    pub total_consumed: u64,
    /// Messages not acknowledged.
    pub offset_lag: u64,
    /// Age of the oldest of them.
    pub time_lag_seconds: u64,
    /// A lease holds it.
    pub lease_active: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
pub(crate) fn is_false(flag: &bool) -> bool {
    !flag
}
