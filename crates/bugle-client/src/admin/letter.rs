//! Dead letters: look at them, send one back, send many back.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::Admin;
use crate::error::Error;
use crate::time;
use crate::transport::{Call, encoded};

/// A message that a group gave up on.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct DeadLetter {
    /// Its own id.
    pub id: Uuid,
    /// Of the message.
    pub transaction_id: String,
    /// Where it was.
    pub queue: String,
    /// Where it was.
    pub partition: String,
    /// Where it was.
    pub partition_id: Uuid,
    /// Who gave up.
    pub consumer_group: String,
    /// Why.
    #[serde(default)]
    pub error_message: String,
    /// Failed deliveries before.
    #[serde(default)]
    pub retry_count: u32,
    /// The W3C trace context that the message was pushed with.
    #[serde(default)]
    pub traceparent: Option<String>,
    /// The `tracestate` of that context.
    #[serde(default)]
    pub tracestate: Option<String>,
    /// When the message was pushed.
    #[serde(deserialize_with = "time::read")]
    pub created_at: SystemTime,
    /// When it was given up.
    #[serde(deserialize_with = "time::read")]
    pub failed_at: SystemTime,
    data: Box<RawValue>,
}

impl DeadLetter {
    /// The payload, read as `T`, which may borrow from the letter.
    pub fn json<'a, T: Deserialize<'a>>(&'a self) -> Result<T, Error> {
        serde_json::from_str(self.data.get()).map_err(Error::Payload)
    }

    /// The payload as the JSON text that was pushed.
    pub fn payload(&self) -> &str {
        self.data.get()
    }
}

/// A page of dead letters.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct DeadLetters {
    /// Latest failure first.
    pub messages: Vec<DeadLetter>,
    /// How many match in all.
    #[serde(default)]
    pub total: u64,
}

/// Which dead letters; all of them by default.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetterFilter {
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    partition: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    consumer_group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_contains: Option<String>,
}

impl DeadLetterFilter {
    /// Those of a queue.
    pub fn queue(queue: impl Into<String>) -> Self {
        Self { queue: Some(queue.into()), ..Self::default() }
    }

    /// Those of a partition.
    #[must_use]
    pub fn partition(mut self, partition: impl Into<String>) -> Self {
        self.partition = Some(partition.into());
        self
    }

    /// Those that this group gave up on.
    #[must_use]
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.consumer_group = Some(group.into());
        self
    }

    /// Those given up from this time on.
    #[must_use]
    pub fn from(mut self, time: SystemTime) -> Self {
        self.from = Some(time::spell(time));
        self
    }

    /// Those given up before this time.
    #[must_use]
    pub fn to(mut self, time: SystemTime) -> Self {
        self.to = Some(time::spell(time));
        self
    }

    /// Those with this text in their error.
    #[must_use]
    pub fn error_contains(mut self, text: impl Into<String>) -> Self {
        self.error_contains = Some(text.into());
        self
    }

    fn query(&self) -> String {
        let parts = [
            ("queue", &self.queue),
            ("partition", &self.partition),
            ("consumerGroup", &self.consumer_group),
            ("from", &self.from),
            ("to", &self.to),
            ("errorContains", &self.error_contains),
        ];
        let given = parts.iter().filter_map(|(name, value)| value.as_ref().map(|value| (name, value)));
        given.map(|(name, value)| format!("&{name}={}", encoded(value))).collect()
    }
}

/// A dead letter that went back to a queue.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Replayed {
    /// Of the message it became.
    pub transaction_id: String,
    /// Of the message it became.
    pub message_id: Uuid,
    /// Where it went.
    pub queue: String,
    /// Where it went.
    pub partition: String,
}

/// How to send many dead letters back; see [`Admin::redrive`].
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[must_use = "nothing is sent back until this is given to `redrive`"]
pub struct Redrive {
    filter: DeadLetterFilter,
    #[serde(skip_serializing_if = "Option::is_none")]
    destination: Option<Destination>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u32>,
    dry_run: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
struct Destination {
    queue: String,
}

impl Redrive {
    /// Those that the filter names, which must name a queue, to where they came from.
    pub fn new(filter: DeadLetterFilter) -> Self {
        Self { filter, destination: None, limit: None, dry_run: false, cursor: None }
    }

    /// To another queue.
    pub fn into_queue(mut self, queue: impl Into<String>) -> Self {
        self.destination = Some(Destination { queue: queue.into() });
        self
    }

    /// At most so many by this call.
    pub fn limit(mut self, letters: u32) -> Self {
        self.limit = Some(letters);
        self
    }

    /// Only count.
    pub fn dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }

    /// Go on where an earlier call ended ([`Redriven::cursor`]).
    pub fn from_cursor(mut self, cursor: impl Into<String>) -> Self {
        self.cursor = Some(cursor.into());
        self
    }
}

/// What a redrive did.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct Redriven {
    /// Letters that matched when it began.
    pub matched: u64,
    /// Sent back.
    pub redriven: u64,
    /// Sent back before, or left because they cannot be read.
    #[serde(default)]
    pub skipped: u64,
    /// Not looked at yet.
    #[serde(default)]
    pub remaining: u64,
    /// Where to go on; none if this was all.
    #[serde(default)]
    pub cursor: Option<String>,
    /// Why it ended early.
    #[serde(default)]
    pub error: Option<String>,
}

impl Admin {
    /// A page of dead letters, the latest failure first.
    pub async fn dead_letters(
        &self,
        filter: &DeadLetterFilter,
        offset: usize,
        limit: usize,
    ) -> Result<DeadLetters, Error> {
        let path = format!("/api/v1/dlq?offset={offset}&limit={limit}{}", filter.query());
        self.client.transport.ask(&Call::get(path)).await
    }

    /// Send one dead letter back to where it came from. It is not tried again when the answer is lost: the letter is
    /// gone if it went back.
    pub async fn replay(&self, letter: Uuid) -> Result<Replayed, Error> {
        #[derive(Serialize)]
        struct Body {}
        let call = Call::post(format!("/api/v1/dlq/{letter}/replay"), &Body {})?.once();
        self.client.transport.ask(&call).await
    }

    /// Send many dead letters back. It is not tried again when the answer is lost, but calling it again is safe: what
    /// went back is no dead letter any more.
    pub async fn redrive(&self, redrive: &Redrive) -> Result<Redriven, Error> {
        self.client.transport.ask(&Call::post("/api/v1/dlq/redrive", redrive)?.once()).await
    }
}
