//! `POST /api/v1/ack` and `/api/v1/ack/batch`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::field::{List, Text};
use crate::shape::{MaybeName, Name};

/// One acknowledgement: the body of a single ack, or an item of a batch.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["transactionId", "partitionId"]))]
pub struct AckEntry<'a> {
    /// Which message. Required.
    #[serde(borrow)]
    #[schemars(with = "Name")]
    pub transaction_id: Text<'a>,
    /// Its lane. Required.
    #[serde(borrow)]
    #[schemars(with = "String", length(min = 1))]
    pub partition_id: Text<'a>,
    /// `completed` (also `success`, `acked`, `ok`), `retry`, `dlq` or `failed` (also anything else). `completed` if absent.
    #[serde(borrow)]
    pub status: Text<'a>,
    /// Whose cursor; not read in a batch.
    #[serde(borrow)]
    #[schemars(with = "MaybeName")]
    pub consumer_group: Text<'a>,
    /// The lease it was delivered under.
    #[serde(borrow)]
    pub lease_id: Text<'a>,
    /// For dead letters.
    #[serde(borrow)]
    pub error: Text<'a>,
}

/// `{"acknowledgments": [...], "consumerGroup": ...}`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["acknowledgments"]))]
pub struct AckBatchRequest<'a> {
    /// The items. Required.
    #[serde(borrow)]
    #[schemars(with = "Vec<AckEntry<'a>>")]
    pub acknowledgments: List<AckEntry<'a>>,
    /// Whose cursor, for every item.
    #[serde(borrow)]
    #[schemars(with = "MaybeName")]
    pub consumer_group: Text<'a>,
}

/// What became of one acknowledgement.
#[derive(Clone, Debug, Serialize, JsonSchema)]
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
