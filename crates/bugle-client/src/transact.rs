//! Acknowledgements and pushes that happen together or not at all.

use serde::ser::{SerializeStruct, Serializer};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::ack::Ack;
use crate::client::Client;
use crate::error::{Cause, Error};
use crate::message::Message;
use crate::push::NewMessage;
use crate::transport::Call;

/// A bundle of acknowledgements and pushes, made by [`Client::transaction`].
#[derive(Clone, Debug)]
#[must_use = "nothing happens until it is sent"]
pub struct Transaction {
    client: Client,
    operations: Vec<Operation>,
}

#[derive(Clone, Debug)]
enum Operation {
    Push(NewMessage),
    Ack(Ack),
}

/// A transaction that happened.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Committed {
    /// What the operations did, in their order. Empty if the answer was lost: that it happened is known from a second
    /// attempt, which found its messages stored already.
    pub results: Vec<OperationResult>,
}

/// What one operation of a transaction did.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct OperationResult {
    /// The message's transaction id.
    #[serde(default)]
    pub transaction_id: String,
    /// Of the stored message, after a push.
    #[serde(default)]
    pub message_id: Option<Uuid>,
    /// Where it is, after a push.
    #[serde(default)]
    pub partition_id: Option<Uuid>,
    /// After an acknowledgement: the message is a dead letter now.
    #[serde(default, rename = "dlq")]
    pub dead_lettered: bool,
}

impl Client {
    /// Begin a transaction. It is gathered here and sent whole.
    pub fn transaction(&self) -> Transaction {
        Transaction { client: self.clone(), operations: Vec::new() }
    }
}

impl Transaction {
    /// The message is done.
    pub fn ack(self, message: &Message) -> Self {
        self.settle(Ack::completed(message))
    }

    /// Say anything else of a message. In a transaction a failed message becomes a dead letter at once, and none can be
    /// given back.
    pub fn settle(mut self, ack: Ack) -> Self {
        self.operations.push(Operation::Ack(ack));
        self
    }

    /// Push a message.
    pub fn push(mut self, message: NewMessage) -> Self {
        self.operations.push(Operation::Push(message));
        self
    }

    /// Do all of it. [`Error::Rejected`] means that none of it happened.
    pub async fn send(self) -> Result<Committed, Error> {
        #[derive(Serialize)]
        struct Body<'a> {
            operations: &'a [Operation],
        }
        if self.operations.is_empty() {
            return Ok(Committed::default());
        }
        let call = Call::post("/api/v1/transaction", &Body { operations: &self.operations })?;
        let answer = self.client.transport.call(&call).await?;
        self.read(answer.json()?, answer.doubt)
    }

    /// `doubt`: an earlier attempt may have happened.
    fn read(&self, told: Told, doubt: bool) -> Result<Committed, Error> {
        if told.success {
            return Ok(Committed { results: told.results });
        }
        let reason = told.reason.as_deref();
        if doubt && reason == Some("duplicate") && self.only_own_ids() {
            // Nobody else knows these ids: what was found is what the earlier attempt stored, and all of it with it.
            return Ok(Committed::default());
        }
        let message = told.error.unwrap_or_else(|| "no reason given".to_owned());
        if !doubt {
            return Err(Error::Rejected { message, reason: told.reason });
        }
        // It may be turned down because the earlier attempt happened.
        let server = self.client.transport.servers.current().name();
        let cause = Cause::Status { server, status: 200, message, code: told.reason, retry_after: None };
        Err(Error::OutcomeUnknown { attempts: 2, cause })
    }

    fn only_own_ids(&self) -> bool {
        let mut pushes = self.operations.iter().filter_map(|operation| match operation {
            Operation::Push(message) => Some(message),
            Operation::Ack(_) => None,
        });
        pushes.all(NewMessage::has_own_id)
    }
}

#[derive(Deserialize)]
struct Told {
    success: bool,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    results: Vec<OperationResult>,
}

impl Serialize for Operation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Push(message) => {
                let mut push = serializer.serialize_struct("push", 2)?;
                push.serialize_field("type", "push")?;
                push.serialize_field("items", std::slice::from_ref(message))?;
                push.end()
            }
            Self::Ack(ack) => {
                let mut entry = serializer.serialize_struct("ack", 7)?;
                entry.serialize_field("type", "ack")?;
                entry.serialize_field("transactionId", &ack.transaction_id)?;
                entry.serialize_field("partitionId", &ack.partition_id)?;
                entry.serialize_field("leaseId", &ack.lease_id)?;
                entry.serialize_field("status", ack.status)?;
                entry.serialize_field("error", &ack.error)?;
                entry.serialize_field("consumerGroup", &ack.consumer_group)?;
                entry.end()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(reason: &str) -> Told {
        let (error, reason) = (Some("no".to_owned()), Some(reason.to_owned()));
        Told { success: false, error, reason, results: Vec::new() }
    }

    #[test]
    fn a_duplicate_after_doubt_is_our_own_if_nobody_else_knows_the_ids() {
        let client = Client::new("http://localhost").unwrap();
        let minted = client.transaction().push(NewMessage::json("q", &1).unwrap());
        let chosen = minted.clone().push(NewMessage::json("q", &1).unwrap().transaction_id("t"));
        assert!(minted.read(told("duplicate"), true).is_ok());
        for (transaction, reason) in [(&chosen, "duplicate"), (&minted, "ack_rejected")] {
            assert!(matches!(transaction.read(told(reason), true), Err(Error::OutcomeUnknown { .. })));
        }
        for transaction in [&chosen, &minted] {
            let first = transaction.read(told("duplicate"), false);
            assert!(matches!(first, Err(Error::Rejected { reason: Some(r), .. }) if r == "duplicate"));
        }
    }
}
