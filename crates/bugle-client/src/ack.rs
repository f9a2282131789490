//! What became of delivered messages.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::client::Client;
use crate::error::Error;
use crate::message::{Lease, Message};
use crate::pop::whole_seconds;
use crate::time;
use crate::transport::Call;

/// What is said of one message.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Ack {
    pub(crate) transaction_id: String,
    pub(crate) partition_id: Uuid,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lease_id: Option<Uuid>,
    pub(crate) status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// In a batch it stands once, for all.
    #[serde(skip)]
    pub(crate) consumer_group: String,
}

/// What became of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// It is done; see [`Ack::completed`].
    Completed,
    /// It failed, and why; see [`Ack::failed`].
    Failed(String),
    /// It is given back; see [`Ack::retry`].
    Retry,
    /// It is given up, and why; see [`Ack::dead_letter`].
    DeadLetter(String),
}

impl Verdict {
    /// As it is spelled, and the text that goes with it.
    fn spelled(self) -> (&'static str, Option<String>) {
        match self {
            Self::Completed => ("completed", None),
            Self::Failed(error) => ("failed", Some(error)),
            Self::Retry => ("retry", None),
            Self::DeadLetter(error) => ("dlq", Some(error)),
        }
    }
}

/// Who consumes without a group.
const ANONYMOUS: &str = "__QUEUE_MODE__";

impl Ack {
    /// A verdict on a message of which only the ids are at hand. It speaks for those who consume without a group; see
    /// [`group`](Self::group) and [`lease`](Self::lease).
    pub fn by_id(transaction_id: impl Into<String>, partition_id: Uuid, verdict: Verdict) -> Self {
        let (status, error) = verdict.spelled();
        let (transaction_id, consumer_group) = (transaction_id.into(), ANONYMOUS.to_owned());
        Self { transaction_id, partition_id, lease_id: None, status, error, consumer_group }
    }

    /// In the name of this group.
    #[must_use]
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.consumer_group = group.into();
        self
    }

    /// Under this lease: it is turned down if the lease is over.
    #[must_use]
    pub fn lease(mut self, lease: Uuid) -> Self {
        self.lease_id = Some(lease);
        self
    }

    /// The same message, judged.
    pub(crate) fn judged(self, verdict: Verdict) -> Self {
        let (status, error) = verdict.spelled();
        Self { status, error, ..self }
    }

    fn of(message: &Message, status: &'static str, error: Option<String>) -> Self {
        Self {
            transaction_id: message.transaction_id.clone(),
            partition_id: message.partition_id,
            lease_id: message.lease_id,
            status,
            error,
            consumer_group: message.consumer_group.clone(),
        }
    }

    /// It is done, and with it every earlier message of its partition.
    pub fn completed(message: &Message) -> Self {
        Self::of(message, "completed", None)
    }

    /// It failed: it and what follows it in its partition come again, until the queue's limit of retries makes it a
    /// dead letter with this text.
    pub fn failed(message: &Message, error: impl Into<String>) -> Self {
        Self::of(message, "failed", Some(error.into()))
    }

    /// Give it back, and what follows it in its partition. This counts as no failure.
    pub fn retry(message: &Message) -> Self {
        Self::of(message, "retry", None)
    }

    /// Give it up: it becomes a dead letter now.
    pub fn dead_letter(message: &Message, error: impl Into<String>) -> Self {
        Self::of(message, "dlq", Some(error.into()))
    }
}

/// What became of an [`Ack`].
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Acked {
    /// It was taken.
    pub success: bool,
    /// Why not.
    #[serde(default)]
    pub error: Option<String>,
    /// The partition is free for the group now, where known.
    #[serde(default)]
    pub lease_released: Option<bool>,
    /// The message is a dead letter now.
    #[serde(default, rename = "dlq")]
    pub dead_lettered: bool,
    /// It was taken but changed nothing: it was done already, or it comes again with an earlier one.
    #[serde(default)]
    pub noop: bool,
}

impl Acked {
    fn taken(self) -> Result<Self, Error> {
        if self.success {
            return Ok(self);
        }
        let message = self.error.unwrap_or_else(|| "no reason given".to_owned());
        Err(Error::Rejected { message, reason: None })
    }
}

impl Client {
    /// The message is done.
    pub async fn ack(&self, message: &Message) -> Result<Acked, Error> {
        self.settle_one(Ack::completed(message)).await
    }

    /// The message failed, and why; see [`Ack::failed`].
    pub async fn nack(&self, message: &Message, error: impl Into<String>) -> Result<Acked, Error> {
        self.settle_one(Ack::failed(message, error)).await
    }

    /// Give the message back; see [`Ack::retry`].
    pub async fn retry(&self, message: &Message) -> Result<Acked, Error> {
        self.settle_one(Ack::retry(message)).await
    }

    /// Give the message up; see [`Ack::dead_letter`].
    pub async fn dead_letter(&self, message: &Message, error: impl Into<String>) -> Result<Acked, Error> {
        self.settle_one(Ack::dead_letter(message, error)).await
    }

    async fn settle_one(&self, ack: Ack) -> Result<Acked, Error> {
        let one = self.settle(&[ack]).await?.pop();
        one.ok_or_else(|| Error::Answer("no outcome for an acknowledgement".into()))?.taken()
    }

    /// Say what became of several messages, by one request for each group among them. Those of one partition are
    /// taken together: what lies behind the first that comes again comes again too, whatever is said of it. One
    /// outcome for each, in order; an outcome that says no is not an error here.
    pub async fn settle(&self, acks: &[Ack]) -> Result<Vec<Acked>, Error> {
        let mut outcomes: Vec<Option<Acked>> = acks.iter().map(|_| None).collect();
        let mut open: Vec<usize> = (0..acks.len()).collect();
        while let Some(first) = open.first() {
            let group = &acks[*first].consumer_group;
            let (now, later) = open.iter().partition(|i: &&usize| acks[**i].consumer_group == *group);
            open = later;
            let of_group: Vec<usize> = now;
            let answered = self.settle_group(group, of_group.iter().map(|i| &acks[*i]).collect()).await?;
            for (index, acked) in of_group.into_iter().zip(answered) {
                outcomes[index] = Some(acked);
            }
        }
        Ok(outcomes.into_iter().flatten().collect())
    }

    async fn settle_group(&self, group: &str, acks: Vec<&Ack>) -> Result<Vec<Acked>, Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Body<'a> {
            consumer_group: &'a str,
            acknowledgments: Vec<&'a Ack>,
        }
        let count = acks.len();
        let body = Body { consumer_group: group, acknowledgments: acks };
        let acked: Vec<Acked> = self.transport.ask(&Call::post("/api/v1/ack/batch", &body)?).await?;
        if acked.len() != count {
            let counts = format!("{} outcomes for {count} acknowledgements", acked.len());
            return Err(Error::Answer(counts.into()));
        }
        Ok(acked)
    }

    /// Make a lease last so long from now, in whole seconds; it never becomes shorter. When it ends then.
    pub async fn renew(&self, lease: &Lease, length: Duration) -> Result<SystemTime, Error> {
        #[derive(Serialize)]
        struct Body {
            seconds: u64,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Renewed {
            success: bool,
            #[serde(default)]
            error: Option<String>,
            #[serde(default, deserialize_with = "time::read_optional")]
            expires_at: Option<SystemTime>,
        }
        let path = format!("/api/v1/lease/{}/extend", lease.id);
        let call = Call::post(path, &Body { seconds: whole_seconds(length) })?;
        let renewed: Renewed = self.transport.ask(&call).await?;
        match renewed.expires_at.filter(|_| renewed.success) {
            Some(end) => Ok(end),
            None => {
                let message = renewed.error.unwrap_or_else(|| "the lease is over".to_owned());
                Err(Error::Rejected { message, reason: None })
            }
        }
    }
}
