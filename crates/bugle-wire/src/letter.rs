//! `/api/v1/dlq` and what belongs to it: dead letters, replay, redrive.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::field::{Field, Object, Raw, Text};
use crate::payload::Payload;
use crate::shape::{MaybeName, MaybeTime, Name, RedriveCursor, Traceparent};
use crate::time::Millis;

/// Which part of a listing an answer is.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Pagination {
    /// Most rows.
    pub limit: usize,
    /// Rows skipped.
    pub offset: usize,
}

/// One dead letter.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LetterEntry<'a> {
    /// Its own id.
    pub id: Uuid,
    /// Of the message.
    pub transaction_id: &'a str,
    /// Where it was.
    pub partition_id: Uuid,
    /// Where it was.
    pub queue: &'a str,
    /// Where it was.
    pub partition: &'a str,
    /// Who gave up.
    pub consumer_group: &'a str,
    /// Why.
    pub error_message: &'a str,
    /// Failed deliveries before.
    pub retry_count: u32,
    /// The payload.
    pub data: Payload<'a>,
    /// Who pushed the message.
    pub producer_sub: Option<&'a str>,
    /// The W3C trace context that it was pushed with. Told only where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Traceparent")]
    pub traceparent: Option<String>,
    /// Of that context. Told only where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<&'a str>,
    /// When the message was pushed.
    pub created_at: Millis,
    /// When it was given up.
    pub failed_at: Millis,
}

/// `GET /api/v1/dlq`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LetterList<'a> {
    /// Latest failure first.
    pub messages: Vec<LetterEntry<'a>>,
    /// How many match in all.
    pub total: u64,
    /// Fewer than asked for, because they are large: go on behind the last one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// Which of them these are.
    pub pagination: Pagination,
}

/// `GET /api/v1/dlq/count`.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct LetterCount {
    /// How many match.
    pub count: u64,
}

/// Body of a replay; all of it may be absent.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ReplayRequest<'a> {
    /// Payload instead of the original.
    #[serde(borrow)]
    pub payload: Raw<'a>,
    /// Queue instead of its own.
    #[serde(borrow)]
    #[schemars(with = "MaybeName")]
    pub queue: Text<'a>,
    /// Partition instead of its own.
    #[serde(borrow)]
    #[schemars(with = "MaybeName")]
    pub partition: Text<'a>,
}

/// A dead letter went back.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplayAnswer<'a> {
    /// Always true.
    pub success: bool,
    /// The dead letter, which is gone.
    pub id: Uuid,
    /// Of the message it became.
    pub transaction_id: &'a str,
    /// Of the message it became.
    pub message_id: Uuid,
    /// Where it went.
    pub queue: &'a str,
    /// Where it went.
    pub partition: &'a str,
    /// Where it went.
    pub partition_id: Uuid,
    /// It had gone there before; nothing was stored now.
    pub duplicate: bool,
}

/// Body of a redrive.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["filter"]))]
pub struct RedriveRequest<'a> {
    /// Which letters. Required.
    #[serde(borrow)]
    #[schemars(with = "RedriveFilter<'a>")]
    pub filter: Field<Object<RedriveFilter<'a>>>,
    /// Where to; absent = where they came from.
    #[serde(borrow)]
    pub destination: Field<Object<RedriveDestination<'a>>>,
    /// Payload for all of them instead of their own.
    #[serde(borrow)]
    pub payload: Raw<'a>,
    /// Most letters to look at: 1000 if absent, cut to 1..10000.
    pub limit: Field<i64>,
    /// Only count.
    pub dry_run: Field<bool>,
    /// Go on where an earlier answer said.
    #[serde(borrow)]
    #[schemars(with = "RedriveCursor")]
    pub cursor: Text<'a>,
}

/// Which letters to redrive.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["queue"]))]
pub struct RedriveFilter<'a> {
    /// Of this queue. Required.
    #[serde(borrow)]
    #[schemars(with = "Name")]
    pub queue: Text<'a>,
    /// Given up by this group.
    #[serde(borrow)]
    #[schemars(with = "MaybeName")]
    pub consumer_group: Text<'a>,
    /// Of this partition.
    #[serde(borrow)]
    #[schemars(with = "MaybeName")]
    pub partition: Text<'a>,
    /// Failed at or after.
    #[serde(borrow)]
    #[schemars(with = "MaybeTime")]
    pub from: Text<'a>,
    /// Failed before.
    #[serde(borrow)]
    #[schemars(with = "MaybeTime")]
    pub to: Text<'a>,
    /// With this text in the error.
    #[serde(borrow)]
    pub error_contains: Text<'a>,
}

/// Where to redrive.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("required" = ["queue"]))]
pub struct RedriveDestination<'a> {
    /// The queue. Required.
    #[serde(borrow)]
    #[schemars(with = "Name")]
    pub queue: Text<'a>,
    /// Absent = each its own.
    #[serde(borrow)]
    #[schemars(with = "MaybeName")]
    pub partition: Text<'a>,
}

/// What a redrive did.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RedriveAnswer<'a> {
    /// Letters that matched when it began.
    pub matched: u64,
    /// Moved.
    pub redriven: u64,
    /// Moved before, or left because they cannot be read.
    pub skipped: u64,
    /// Not looked at yet.
    pub remaining: u64,
    /// Where to go on; `null` = this was all.
    pub cursor: Option<String>,
    /// It only counted.
    pub dry_run: bool,
    /// Why it ended early.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<&'a str>,
}
