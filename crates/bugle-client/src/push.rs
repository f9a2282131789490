//! Messages on their way in.

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use uuid::Uuid;

use crate::client::Client;
use crate::error::Error;
use crate::transport::Call;

/// A message to push.
///
/// It has a transaction id from the start. Pushed again with the same id, by a retry of this client or by a retry of
/// yours, it is stored once and answered as a duplicate.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NewMessage {
    queue: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    partition: Option<String>,
    transaction_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_id: Option<Uuid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tracestate: Option<String>,
    payload: Box<RawValue>,
    /// The id was made here, so nobody else can have used it.
    #[serde(skip)]
    own_id: bool,
}

impl NewMessage {
    /// A message for `queue` with anything that can be written as JSON.
    pub fn json(queue: impl Into<String>, payload: &(impl Serialize + ?Sized)) -> Result<Self, Error> {
        Ok(Self::with(queue.into(), to_raw_value(payload).map_err(Error::Payload)?))
    }

    /// A message for `queue` with JSON text, which is stored byte for byte.
    pub fn raw(queue: impl Into<String>, json: impl Into<String>) -> Result<Self, Error> {
        Ok(Self::with(queue.into(), RawValue::from_string(json.into()).map_err(Error::Payload)?))
    }

    fn with(queue: String, payload: Box<RawValue>) -> Self {
        let transaction_id = Uuid::now_v7().to_string();
        let (traceparent, tracestate) = (None, None);
        Self {
            queue,
            partition: None,
            transaction_id,
            trace_id: None,
            traceparent,
            tracestate,
            payload,
            own_id: true,
        }
    }

    /// Its partition: messages of one partition are delivered in the order of their pushes. `Default` unless set.
    #[must_use]
    pub fn partition(mut self, partition: impl Into<String>) -> Self {
        self.partition = Some(partition.into());
        self
    }

    /// An id of your own instead of a fresh UUIDv7, for pushes that must be stored once whoever repeats them.
    #[must_use]
    pub fn transaction_id(mut self, id: impl Into<String>) -> Self {
        self.transaction_id = id.into();
        self.own_id = false;
        self
    }

    /// An id that travels with the message. Only transactions keep it: by the contract a plain push carries none.
    #[must_use]
    pub fn trace_id(mut self, id: Uuid) -> Self {
        self.trace_id = Some(id);
        self
    }

    /// The W3C trace context that it belongs to, as your tracing library writes it into headers. Consumers get it with the
    /// message, through retries and dead letters too. The server refuses what is none.
    #[must_use]
    pub fn traceparent(mut self, traceparent: impl Into<String>) -> Self {
        self.traceparent = Some(traceparent.into());
        self
    }

    /// The `tracestate` of that context.
    #[must_use]
    pub fn tracestate(mut self, tracestate: impl Into<String>) -> Self {
        self.tracestate = Some(tracestate.into());
        self
    }

    /// Its transaction id.
    pub fn id(&self) -> &str {
        &self.transaction_id
    }

    /// Its queue.
    pub fn queue(&self) -> &str {
        &self.queue
    }

    /// Its payload as JSON text.
    pub fn payload(&self) -> &str {
        self.payload.get()
    }

    /// About as many bytes as it has on the wire.
    pub(crate) fn size(&self) -> usize {
        let names = self.queue.len() + self.partition.as_ref().map_or(0, String::len);
        let trace = [&self.traceparent, &self.tracestate].into_iter().flatten().map(|text| 18 + text.len());
        80 + names + trace.sum::<usize>() + self.transaction_id.len() + self.payload.get().len()
    }

    pub(crate) fn has_own_id(&self) -> bool {
        self.own_id
    }
}

/// What became of a pushed message.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct Pushed {
    /// Stored, known already, or not.
    pub status: PushStatus,
    /// As sent.
    #[serde(default, alias = "transactionId")]
    pub transaction_id: String,
    /// Of the stored message; a duplicate tells the original's.
    pub message_id: Option<Uuid>,
    /// Where it is. Not told for duplicates.
    pub partition_id: Option<Uuid>,
    /// Why it failed.
    pub error: Option<String>,
}

/// Whether a message was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum PushStatus {
    /// It was.
    Queued,
    /// Its transaction id was there already: the earlier message stands. After a retry that is your own message.
    Duplicate,
    /// It is safe on the server's disk and will be stored when maintenance ends.
    Buffered,
    /// It was not.
    Failed,
}

impl Client {
    /// Push one message.
    pub async fn push(&self, message: NewMessage) -> Result<Pushed, Error> {
        let [pushed] = <[Pushed; 1]>::try_from(self.push_all(&[message]).await?)
            .map_err(|all| Error::Answer(format!("{} outcomes for one message", all.len()).into()))?;
        Ok(pushed)
    }

    /// Push several messages by one request, which may go to different queues and partitions. The outcomes are in the
    /// order of the messages; those of one partition are stored in that order too.
    pub async fn push_all(&self, messages: &[NewMessage]) -> Result<Vec<Pushed>, Error> {
        #[derive(Serialize)]
        struct Body<'a> {
            items: &'a [NewMessage],
        }
        if messages.is_empty() {
            return Ok(Vec::new());
        }
        let call = Call::post("/api/v1/push", &Body { items: messages })?;
        let mut pushed: Vec<Pushed> = self.transport.ask(&call).await?;
        if pushed.len() != messages.len() {
            let counts = format!("{} outcomes for {} messages", pushed.len(), messages.len());
            return Err(Error::Answer(counts.into()));
        }
        for (pushed, message) in pushed.iter_mut().zip(messages) {
            pushed.transaction_id.clone_from(&message.transaction_id);
        }
        Ok(pushed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_message_is_spelled_with_its_id_and_its_payload_as_it_is() {
        let message = NewMessage::raw("q", r#"{"a": 1.0, "a":2}"#).unwrap().partition("p");
        let spelled = serde_json::to_string(&message).unwrap();
        assert!(spelled.ends_with(r#","payload":{"a": 1.0, "a":2}}"#), "{spelled}");
        assert!(Uuid::try_parse(message.id()).is_ok_and(|id| id.get_version_num() == 7));
        assert!(message.has_own_id() && !message.clone().transaction_id("t").has_own_id());
        let message = NewMessage::json("q", &json!([1])).unwrap().transaction_id("t").trace_id(Uuid::nil());
        assert_eq!(
            serde_json::to_value(&message).unwrap(),
            json!({"queue": "q", "transactionId": "t", "traceId": Uuid::nil(), "payload": [1]})
        );
        let (plain, message) = (message.size(), message.traceparent("00-1").tracestate("a=1"));
        let spelled = serde_json::to_value(&message).unwrap();
        assert_eq!((&spelled["traceparent"], &spelled["tracestate"]), (&json!("00-1"), &json!("a=1")));
        assert!(message.size() > plain);
        assert!(matches!(NewMessage::raw("q", "{"), Err(Error::Payload(_))));
    }

    #[test]
    fn every_form_of_outcome_is_read() {
        let pushed: Vec<Pushed> = serde_json::from_str(
            r#"[{"index":0,"transaction_id":"t","status":"queued","message_id":"00000000-0000-0000-0000-000000000000",
                 "partition_id":"00000000-0000-0000-0000-000000000000","trace_id":null,"queueName":"q","new":1},
                {"index":1,"transaction_id":"t","status":"duplicate","message_id":"00000000-0000-0000-0000-000000000000"},
                {"status":"buffered","queue":"q","partition":"p","transactionId":"t"},
                {"status":"failed","queue":"q","partition":"p","error":"disk full"}]"#,
        )
        .unwrap();
        let statuses: Vec<PushStatus> = pushed.iter().map(|p| p.status).collect();
        use PushStatus::{Buffered, Duplicate, Failed, Queued};
        assert_eq!(statuses, [Queued, Duplicate, Buffered, Failed]);
        assert_eq!(pushed[3].error.as_deref(), Some("disk full"));
        assert!(pushed[1].partition_id.is_none() && pushed[1].message_id.is_some());
    }
}
