//! `POST /api/v1/transaction`.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::field::{Field, List, Raw, Text};
use crate::push::PushEntry;

/// `{"operations": [...], "requiredLeases": [...]}`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TransactRequest<'a> {
    /// In order. Required, not empty.
    #[serde(borrow)]
    pub operations: List<OperationEntry<'a>>,
    /// Leases for acks that name none.
    #[serde(borrow)]
    pub required_leases: Field<Vec<Field<Cow<'a, str>>>>,
    /// Of a later contract; refused rather than left out of an atomic bundle.
    #[serde(borrow)]
    pub kv: Raw<'a>,
    /// Of a later contract; refused rather than left out of an atomic bundle.
    #[serde(borrow)]
    pub timers: Raw<'a>,
}

/// One operation: a push (nested with `items`, or flat) or an ack.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OperationEntry<'a> {
    /// `push` or `ack`. Required.
    #[serde(borrow, rename = "type")]
    pub kind: Text<'a>,
    /// Nested push: the messages.
    #[serde(borrow)]
    pub items: List<PushEntry<'a>>,
    /// Flat push.
    #[serde(borrow)]
    pub queue: Text<'a>,
    /// Flat push.
    #[serde(borrow)]
    pub partition: Text<'a>,
    /// Flat push.
    #[serde(borrow)]
    pub payload: Raw<'a>,
    /// Flat push: the payload under its old name.
    #[serde(borrow)]
    pub data: Raw<'a>,
    /// Flat push.
    #[serde(borrow)]
    pub trace_id: Text<'a>,
    /// Flat push, or ack.
    #[serde(borrow)]
    pub transaction_id: Text<'a>,
    /// Ack.
    #[serde(borrow)]
    pub partition_id: Text<'a>,
    /// Ack.
    #[serde(borrow)]
    pub status: Text<'a>,
    /// Ack.
    #[serde(borrow)]
    pub consumer_group: Text<'a>,
    /// Ack.
    #[serde(borrow)]
    pub lease_id: Text<'a>,
    /// Ack.
    #[serde(borrow)]
    pub error: Text<'a>,
}

/// Answer to a transaction; a rollback is an answer too.
#[derive(Clone, Debug, Serialize)]
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
#[derive(Clone, Debug, Serialize)]
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
