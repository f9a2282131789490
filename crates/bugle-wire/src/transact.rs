//! `POST /api/v1/transaction`.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::field::{Field, List, Raw, Text};
use crate::push::PushEntry;
use crate::shape::{MaybeId, MaybeName, MaybeTraceparent, Name, Nothing};

/// `{"operations": [...], "requiredLeases": [...]}`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["operations"]))]
pub struct TransactRequest<'a> {
    /// In order. Required, not empty.
    #[serde(borrow)]
    #[schemars(with = "Vec<OperationEntry<'a>>", length(min = 1))]
    pub operations: List<OperationEntry<'a>>,
    /// Leases for acks that name none.
    #[serde(borrow)]
    pub required_leases: Field<Vec<Field<Cow<'a, str>>>>,
    /// Of a later contract; refused rather than left out of an atomic bundle.
    #[serde(borrow)]
    #[schemars(with = "Nothing")]
    pub kv: Raw<'a>,
    /// Of a later contract; refused rather than left out of an atomic bundle.
    #[serde(borrow)]
    #[schemars(with = "Nothing")]
    pub timers: Raw<'a>,
}

/// One operation: a push (nested with `items`, or flat) or an ack.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("oneOf" = [
    {
        "properties": {"type": {"const": "ack"}, "transactionId": {"type": "string", "minLength": 1}, "partitionId": {"type": "string", "minLength": 1}},
        "required": ["type", "transactionId", "partitionId"],
    },
    {
        "properties": {"type": {"const": "push"}, "items": {"type": "null"}, "queue": {"type": "string"}},
        "required": ["type", "queue"],
    },
    {"properties": {"type": {"const": "push"}, "items": {"type": "array"}}, "required": ["type", "items"]},
]))]
pub struct OperationEntry<'a> {
    /// What to do. Required.
    #[serde(borrow, rename = "type")]
    #[schemars(with = "String", extend("enum" = ["push", "ack"]))]
    pub kind: Text<'a>,
    /// Nested push: the messages.
    #[serde(borrow)]
    #[schemars(with = "Option<Vec<PushEntry<'a>>>")]
    pub items: List<PushEntry<'a>>,
    /// Flat push.
    #[serde(borrow)]
    #[schemars(with = "Option<Name>")]
    pub queue: Text<'a>,
    /// Flat push.
    #[serde(borrow)]
    #[schemars(with = "Option<Name>")]
    pub partition: Text<'a>,
    /// Flat push.
    #[serde(borrow)]
    pub payload: Raw<'a>,
    /// Flat push: the payload under its old name.
    #[serde(borrow)]
    pub data: Raw<'a>,
    /// Flat push.
    #[serde(borrow)]
    #[schemars(with = "MaybeId")]
    pub trace_id: Text<'a>,
    /// Flat push. If absent or empty: the request's header of that name, or else what the first acknowledged message of the
    /// transaction has that has one.
    #[serde(borrow)]
    #[schemars(with = "MaybeTraceparent")]
    pub traceparent: Text<'a>,
    /// Flat push.
    #[serde(borrow)]
    pub tracestate: Text<'a>,
    /// Flat push, or ack.
    #[serde(borrow)]
    #[schemars(with = "MaybeName")]
    pub transaction_id: Text<'a>,
    /// Ack.
    #[serde(borrow)]
    pub partition_id: Text<'a>,
    /// Ack.
    #[serde(borrow)]
    pub status: Text<'a>,
    /// Ack.
    #[serde(borrow)]
    #[schemars(with = "MaybeName")]
    pub consumer_group: Text<'a>,
    /// Ack.
    #[serde(borrow)]
    pub lease_id: Text<'a>,
    /// Ack.
    #[serde(borrow)]
    pub error: Text<'a>,
}

/// Answer to a transaction; a rollback is an answer too.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TransactAnswer<'a> {
    /// Id of the call.
    pub transaction_id: Uuid,
    /// Everything happened; otherwise nothing did.
    pub success: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<&'a str>,
    /// Why not, for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'a str>,
    /// Outcomes by flattened operation.
    pub results: Vec<OperationOutcome<'a>>,
}

/// Outcome of one operation.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub enum OperationOutcome<'a> {
    /// A push.
    Push {
        /// Position among the flattened operations.
        index: usize,
        /// It ran.
        success: bool,
        /// As sent, or minted.
        transaction_id: &'a str,
        /// Of the stored message.
        message_id: Uuid,
        /// Its lane.
        partition_id: Uuid,
        /// Its queue.
        queue_name: &'a str,
        /// It repeats a message of the same bundle.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        duplicate: bool,
    },
    /// An acknowledgement.
    Ack {
        /// Position among the flattened operations.
        index: usize,
        /// It ran.
        success: bool,
        /// As sent.
        transaction_id: &'a str,
        /// Always `null`.
        error: Option<&'a str>,
        /// The message is a dead letter now.
        dlq: bool,
    },
}
