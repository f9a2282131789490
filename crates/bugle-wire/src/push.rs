//! `POST /api/v1/push`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::field::{List, Raw, Text};
use crate::shape::{MaybeId, MaybeName, MaybeTraceparent, Name};

/// `{"items": [...]}`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("required" = ["items"]))]
pub struct PushRequest<'a> {
    /// The messages.
    #[serde(borrow)]
    #[schemars(with = "Vec<PushEntry<'a>>")]
    pub items: List<PushEntry<'a>>,
}

/// One message.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["queue"]))]
pub struct PushEntry<'a> {
    /// The queue; made by its first message. Required.
    #[serde(borrow)]
    #[schemars(with = "Name")]
    pub queue: Text<'a>,
    /// The partition; messages of one are delivered in order. `Default` if absent.
    #[serde(borrow)]
    #[schemars(with = "Option<Name>")]
    pub partition: Text<'a>,
    /// Any JSON; `null` if absent.
    #[serde(borrow)]
    pub payload: Raw<'a>,
    /// The producer's id, by which a repeated push is found out. Minted by the server if absent or empty.
    #[serde(borrow)]
    #[schemars(with = "MaybeName")]
    pub transaction_id: Text<'a>,
    /// A UUID, handed on to consumers.
    #[serde(borrow)]
    #[schemars(with = "MaybeId")]
    pub trace_id: Text<'a>,
    /// The W3C trace context the message belongs to (`traceparent`), handed on to consumers. If absent or empty: the request's
    /// header of that name.
    #[serde(borrow)]
    #[schemars(with = "MaybeTraceparent")]
    pub traceparent: Text<'a>,
    /// The `tracestate` of that `traceparent`.
    #[serde(borrow)]
    pub tracestate: Text<'a>,
}

/// What became of one message. The mixed casing is the contract.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PushResult<'a> {
    /// Position in the request.
    pub index: usize,
    /// As sent, or minted.
    pub transaction_id: &'a str,
    /// Stored or not.
    pub status: PushStatus,
    /// Of the stored message; a duplicate tells the original's.
    pub message_id: Uuid,
    /// Told only for what is stored now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition_id: Option<Uuid>,
    /// Not told for duplicates; `null` if the message has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<Option<Uuid>>,
    /// Queue name.
    #[serde(rename = "queueName")]
    pub queue_name: &'a str,
    /// What else is told of a message that is not stored yet.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub buffered: Option<BufferedPush<'a>>,
}

/// A message that is kept on the server's disk, in the words of the contract for it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BufferedPush<'a> {
    /// Queue name.
    pub queue: &'a str,
    /// Partition name.
    pub partition: &'a str,
    /// As sent, or minted.
    pub transaction_id: &'a str,
}

/// Whether a message was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PushStatus {
    /// It was.
    Queued,
    /// Its transaction id was there already.
    Duplicate,
    /// Not yet: it is kept on the server's disk until maintenance ends.
    Buffered,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::{Field, Object};
    use crate::read;

    #[test]
    fn payload_bytes_are_kept_as_sent() {
        for payload in [
            "null",
            "1.0",
            "1e400",
            "-0.0",
            "123456789012345678901234567890",
            r#"{"a":1,"a":2, "\u0000":"\ud83d\ude00\u00e9é"}"#,
            "[ 1 ,2]",
        ] {
            let body = format!(r#"{{"items":[{{"queue":"q","payload":  {payload}  }}]}}"#);
            let request: PushRequest<'_> = read(body.as_bytes()).unwrap();
            let Field::Is(items) = request.items else { panic!("items") };
            let Field::Is(Object(item)) = &items[0] else { panic!("item") };
            assert_eq!(item.payload.0.unwrap().get(), payload);
        }
    }

    #[test]
    fn a_missing_payload_is_told_from_null() {
        let request: PushRequest<'_> = read(br#"{"items":[{"queue":"q"}]}"#).unwrap();
        let Field::Is(items) = request.items else { panic!("items") };
        let Field::Is(Object(item)) = &items[0] else { panic!("item") };
        assert!(item.payload.0.is_none());
        assert_eq!(item.partition, Field::Absent);
    }

    #[test]
    fn results_are_spelled_as_the_contract_says() {
        let id = Uuid::nil();
        let queued = PushResult {
            index: 0,
            transaction_id: "t",
            status: PushStatus::Queued,
            message_id: id,
            partition_id: Some(id),
            trace_id: Some(None),
            queue_name: "q",
            buffered: None,
        };
        let buffered = PushResult {
            status: PushStatus::Buffered,
            partition_id: None,
            buffered: Some(BufferedPush { queue: "q", partition: "p", transaction_id: "t" }),
            ..queued.clone()
        };
        assert_eq!(
            serde_json::to_string(&buffered).unwrap(),
            r#"{"index":0,"transaction_id":"t","status":"buffered","message_id":"00000000-0000-0000-0000-000000000000","trace_id":null,"queueName":"q","queue":"q","partition":"p","transactionId":"t"}"#
        );
        let duplicate = PushResult {
            status: PushStatus::Duplicate,
            partition_id: None,
            trace_id: None,
            ..queued.clone()
        };
        assert_eq!(
            serde_json::to_string(&queued).unwrap(),
            r#"{"index":0,"transaction_id":"t","status":"queued","message_id":"00000000-0000-0000-0000-000000000000","partition_id":"00000000-0000-0000-0000-000000000000","trace_id":null,"queueName":"q"}"#
        );
        assert_eq!(
            serde_json::to_string(&duplicate).unwrap(),
            r#"{"index":0,"transaction_id":"t","status":"duplicate","message_id":"00000000-0000-0000-0000-000000000000","queueName":"q"}"#
        );
    }
}
