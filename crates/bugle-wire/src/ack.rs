//! `POST /api/v1/ack` and `/api/v1/ack/batch`.

use serde::{Deserialize, Serialize};

use crate::field::{List, Text};

/// One acknowledgement: the body of a single ack, or an item of a batch.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AckEntry<'a> {
    /// Which message. Required.
    #[serde(borrow)]
    pub transaction_id: Text<'a>,
    /// Its lane. Required.
    #[serde(borrow)]
    pub partition_id: Text<'a>,
    /// `completed` if absent.
    #[serde(borrow)]
    pub status: Text<'a>,
    /// Whose cursor; not read in a batch.
    #[serde(borrow)]
    pub consumer_group: Text<'a>,
    /// The lease it was delivered under.
    #[serde(borrow)]
    pub lease_id: Text<'a>,
    /// For dead letters.
    #[serde(borrow)]
    pub error: Text<'a>,
}

/// `{"acknowledgments": [...], "consumerGroup": ...}`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AckBatchRequest<'a> {
    /// The items. Required.
    #[serde(borrow)]
    pub acknowledgments: List<AckEntry<'a>>,
    /// Applies to every item.
    #[serde(borrow)]
    pub consumer_group: Text<'a>,
}

/// What became of one acknowledgement.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AckResult<'a> {
    /// Position in the request.
    pub index: usize,
    /// As sent.
    pub transaction_id: &'a str,
    /// It was taken.
    pub success: bool,
    /// `null` on success: clients take any text for a failure.
    pub error: Option<&'a str>,
    /// Where known.
    pub queue_name: Option<&'a str>,
    /// Where known.
    pub partition_name: Option<&'a str>,
    /// The lane is free now. Never `null`: clients read a boolean.
    pub lease_released: bool,
    /// The message is a dead letter now.
    pub dlq: bool,
    /// It was taken but changed nothing.
    pub noop: bool,
}
