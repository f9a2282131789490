//! `/api/v1/traces`. Unlike all others these answers spell their fields with underscores.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::field::{Raw, Text};
use crate::payload::Payload;
use crate::shape::{MaybeName, Name, Names, Something};
use crate::time::Millis;

/// `POST /api/v1/traces`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["transactionId", "partitionId", "data"]))]
pub struct TraceRequest<'a> {
    /// Which message. Required.
    #[serde(borrow)]
    #[schemars(with = "Name")]
    pub transaction_id: Text<'a>,
    /// Its lane. Required.
    #[serde(borrow)]
    #[schemars(with = "String", length(min = 1))]
    pub partition_id: Text<'a>,
    /// Any JSON but `null`, 256 KiB at most. Required.
    #[serde(borrow)]
    #[schemars(with = "Something")]
    pub data: Raw<'a>,
    /// Who records it.
    #[serde(borrow)]
    #[schemars(with = "MaybeName")]
    pub consumer_group: Text<'a>,
    /// `info` if absent.
    #[serde(borrow)]
    #[schemars(with = "MaybeName")]
    pub event_type: Text<'a>,
    /// Names to find it by: a text, or a list of 100 at most.
    #[serde(borrow)]
    #[schemars(with = "Names")]
    pub trace_names: Raw<'a>,
}

/// It was recorded.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TraceRecorded {
    /// Always true.
    pub success: bool,
    /// Its id.
    pub trace_id: Uuid,
}

/// A refusal that says `success: false` beside its text.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct NoSuccess<'a> {
    /// Always false.
    pub success: bool,
    /// What is wrong.
    pub error: &'a str,
}

/// One trace.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TraceEntry<'a> {
    /// Its id.
    pub id: Uuid,
    /// Kind of event.
    pub event_type: &'a str,
    /// As it was sent.
    pub data: Payload<'a>,
    /// Who recorded it.
    pub consumer_group: &'a str,
    /// Who recorded it.
    pub worker_id: Option<&'a str>,
    /// When.
    pub created_at: Millis,
    /// Names it is found by.
    pub trace_names: &'a [String],
}

/// A trace found by name, and its message.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct NamedTrace<'a> {
    /// The trace.
    #[serde(flatten)]
    pub trace: TraceEntry<'a>,
    /// Of the message.
    pub transaction_id: &'a str,
    /// Of the message.
    pub partition_id: Uuid,
    /// Of the message.
    pub queue_name: &'a str,
    /// Of the message, while it exists.
    pub partition_name: Option<&'a str>,
    /// Of the message, while it is kept.
    pub message_payload: Payload<'a>,
}

/// A page of traces.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "{T}List")]
pub struct TraceList<T, P> {
    /// The traces.
    pub traces: Vec<T>,
    /// How many there are in all.
    pub total: u64,
    /// Which of them these are.
    pub pagination: P,
}

/// A trace name.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TraceNameEntry<'a> {
    /// The name.
    pub trace_name: &'a str,
    /// Traces that carry it.
    pub trace_count: u64,
    /// Messages they belong to.
    pub message_count: u64,
    /// The latest.
    pub last_seen: Millis,
}

/// A page of trace names.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "TraceNameList")]
pub struct TraceNameList<'a, P> {
    /// Latest first.
    pub trace_names: Vec<TraceNameEntry<'a>>,
    /// How many there are in all.
    pub total: u64,
    /// Which of them these are.
    pub pagination: P,
}
