//! `/api/v1/traces`. Unlike all others these answers spell their fields with underscores.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::field::{Raw, Text};
use crate::payload::Payload;
use crate::time::Millis;

/// `POST /api/v1/traces`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TraceRequest<'a> {
    /// Which message. Required.
    #[serde(borrow)]
    pub transaction_id: Text<'a>,
    /// Its lane. Required.
    #[serde(borrow)]
    pub partition_id: Text<'a>,
    /// Any JSON. Required.
    #[serde(borrow)]
    pub data: Raw<'a>,
    /// Who records it.
    #[serde(borrow)]
    pub consumer_group: Text<'a>,
    /// `info` if absent.
    #[serde(borrow)]
    pub event_type: Text<'a>,
    /// A text, or a list of them.
    #[serde(borrow)]
    pub trace_names: Raw<'a>,
}

/// It was recorded.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TraceRecorded {
    /// Always true.
    pub success: bool,
    /// Its id.
    pub trace_id: Uuid,
}

/// A refusal that says `success: false` beside its text.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct NoSuccess<'a> {
    /// Always false.
    pub success: bool,
    /// What is wrong.
    pub error: &'a str,
}

/// One trace.
#[derive(Clone, Debug, Serialize)]
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
#[derive(Clone, Debug, Serialize)]
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
#[derive(Clone, Debug, Serialize)]
pub struct TraceList<T, P> {
    /// The traces.
    pub traces: Vec<T>,
    /// How many there are in all.
    pub total: u64,
    /// Which of them these are.
    pub pagination: P,
}

/// A trace name.
#[derive(Clone, Debug, Serialize)]
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
#[derive(Clone, Debug, Serialize)]
pub struct TraceNameList<'a, P> {
    /// Latest first.
    pub trace_names: Vec<TraceNameEntry<'a>>,
    /// How many there are in all.
    pub total: u64,
    /// Which of them these are.
    pub pagination: P,
}
