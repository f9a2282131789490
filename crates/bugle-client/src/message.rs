//! Messages on their way out, and the lease they are delivered under.

use std::time::{Duration, SystemTime};

use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::error::Error;
use crate::time;

/// A message that was delivered.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Message {
    /// The server's id of it.
    pub id: Uuid,
    /// The producer's id of it.
    pub transaction_id: String,
    /// Its queue.
    #[serde(default)]
    pub queue: String,
    /// Its partition.
    pub partition: String,
    /// Its partition's id.
    pub partition_id: Uuid,
    /// Position in its partition.
    #[serde(default)]
    pub offset: Option<u64>,
    /// Which delivery this is to the group, from 1.
    #[serde(default = "first")]
    pub delivery_attempt: u32,
    /// The group it was delivered to.
    pub consumer_group: String,
    /// The lease it was delivered under; none when it was acknowledged by the delivery.
    #[serde(default, deserialize_with = "lease_id")]
    pub lease_id: Option<Uuid>,
    /// The id that the producer sent with it.
    #[serde(default)]
    pub trace_id: Option<Uuid>,
    /// The W3C trace context that it was pushed with: the parent, or a link, of the span in which you handle it.
    #[serde(default)]
    pub traceparent: Option<String>,
    /// The `tracestate` of that context.
    #[serde(default)]
    pub tracestate: Option<String>,
    /// Who pushed it, as the server knows it.
    #[serde(default)]
    pub producer_sub: Option<String>,
    /// When it was pushed.
    #[serde(deserialize_with = "time::read")]
    pub created_at: SystemTime,
    data: Box<RawValue>,
    /// Set by a consumer.
    #[serde(skip)]
    pub(crate) lost: Option<CancellationToken>,
}

fn first() -> u32 {
    1
}

impl Message {
    /// The payload, read as `T`, which may borrow from the message.
    pub fn json<'a, T: Deserialize<'a>>(&'a self) -> Result<T, Error> {
        serde_json::from_str(self.data.get()).map_err(Error::Payload)
    }

    /// The payload as the JSON text that was pushed.
    pub fn payload(&self) -> &str {
        self.data.get()
    }

    /// Inside the handler of a consumer: ends when the server says that the lease is over although it was renewed, so
    /// that somebody else may be working on the message by now. For messages that were popped by hand it never ends.
    pub async fn lease_lost(&self) {
        match &self.lost {
            Some(lost) => lost.cancelled().await,
            None => std::future::pending().await,
        }
    }
}

/// The right to work on delivered messages until some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lease {
    /// Its id.
    pub id: Uuid,
    /// When it ends, by the server's clock.
    pub expires_at: SystemTime,
    /// How long it lasts, as near as the server's answer tells: up to a second too long.
    pub length: Duration,
}

/// The answer to a pop: messages of one or several partitions, in order inside each.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Batch {
    /// The messages; none if there was nothing.
    pub messages: Vec<Message>,
    /// The lease they are all under; none if there was nothing, or if they are acknowledged by the delivery.
    pub lease: Option<Lease>,
    /// The group gets only the newest message of each partition.
    pub conflation: bool,
    /// The pop disagreed with that.
    pub conflation_conflict: bool,
    /// What the server chose, if it was left to it.
    pub autopilot: Option<Autopilot>,
    /// The server cannot reach its store at the moment.
    pub store_unavailable: bool,
}

/// What the server chose for a pop that left it to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Autopilot {
    /// Most partitions.
    pub partitions: u32,
    /// Most messages.
    pub batch: u32,
    /// Time waited, in milliseconds.
    pub wait_ms: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    #[serde(default, deserialize_with = "lease_id")]
    lease_id: Option<Uuid>,
    #[serde(default, deserialize_with = "time::read_optional")]
    lease_expires_at: Option<SystemTime>,
    #[serde(default)]
    conflation: bool,
    #[serde(default)]
    conflation_conflict: bool,
    #[serde(default)]
    autopilot: Option<Autopilot>,
    #[serde(default)]
    messages: Vec<Message>,
}

/// Assumed where a server tells no end: renewed far more often than any queue needs.
const UNTOLD: Duration = Duration::from_secs(3);

impl Batch {
    /// Read an answer; `date` is when the server sent it, by its own clock.
    pub(crate) fn read(body: &[u8], date: Option<SystemTime>) -> Result<Self, serde_json::Error> {
        let body: Body = serde_json::from_slice(body)?;
        let lease = body.lease_id.map(|id| {
            // Both times are the server's, so that its clock may be wrong.
            let told = body.lease_expires_at.zip(date).and_then(|(end, sent)| end.duration_since(sent).ok());
            let length = told.unwrap_or(UNTOLD);
            Lease { id, expires_at: body.lease_expires_at.unwrap_or(SystemTime::UNIX_EPOCH), length }
        });
        Ok(Self {
            messages: body.messages,
            lease,
            conflation: body.conflation,
            conflation_conflict: body.conflation_conflict,
            autopilot: body.autopilot,
            store_unavailable: false,
        })
    }
}

/// A lease id; the empty text and `null` are none.
fn lease_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Uuid>, D::Error> {
    match Option::<String>::deserialize(deserializer)?.filter(|text| !text.is_empty()) {
        None => Ok(None),
        Some(text) => Uuid::try_parse(&text).map(Some).map_err(D::Error::custom),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NIL: &str = "00000000-0000-0000-0000-000000000000";

    #[test]
    fn an_answer_is_read_with_its_payloads_untouched() {
        let body = format!(
            r#"{{"success":true,"queue":"q","partition":"p","partitionId":"{NIL}","leaseId":"{NIL}",
                "leaseExpiresAt":"1994-11-15T08:12:41.500Z","consumerGroup":"g","partitionsClaimed":1,"later":{{}},
                "messages":[{{"id":"{NIL}","transactionId":"t","traceId":null,"producerSub":null,
                "createdAt":"1994-11-15T08:12:31.000001Z","offset":7,"data":{{"n": 1.0}},"queue":"q","partition":"p",
                "partitionId":"{NIL}","leaseId":"{NIL}","consumerGroup":"g","deliveryAttempt":3}}]}}"#
        );
        let date = time::http_date("Tue, 15 Nov 1994 08:12:31 GMT");
        let batch = Batch::read(body.as_bytes(), date).unwrap();
        assert_eq!(batch.lease.unwrap().length, Duration::from_millis(10_500));
        let message = &batch.messages[0];
        assert_eq!(
            (message.payload(), message.offset, message.delivery_attempt),
            (r#"{"n": 1.0}"#, Some(7), 3)
        );
        #[derive(Deserialize)]
        struct N {
            n: f64,
        }
        assert_eq!(message.json::<N>().unwrap().n, 1.0);
        assert!(matches!(message.json::<String>(), Err(Error::Payload(_))));
    }

    #[test]
    fn what_was_acknowledged_by_the_delivery_has_no_lease() {
        let batch =
            Batch::read(br#"{"success":true,"leaseId":"","messages":[],"conflation":true}"#, None).unwrap();
        assert!(batch.lease.is_none() && batch.messages.is_empty() && batch.conflation);
        let untold = format!(r#"{{"leaseId":"{NIL}"}}"#);
        assert_eq!(Batch::read(untold.as_bytes(), None).unwrap().lease.unwrap().length, UNTOLD);
    }
}
