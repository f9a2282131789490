//! What clients write down: one record for each request, with its outcome as far as they know it.

use std::io::{self, BufRead, Write};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// One request of one client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Its place in the order of all beginnings and ends: a number that was taken before it was sent.
    pub began: u64,
    /// A number of the same order that was taken when its outcome, or that there will be none, was known.
    pub ended: u64,
    /// When it began, in microseconds of the clients' monotonic clock.
    pub began_at: u64,
    /// When it ended.
    pub ended_at: u64,
    /// What was asked, and what came back.
    pub op: Op,
}

/// What was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Op {
    /// Store messages. Repeated with the same ids after an unknown outcome it is a request of its own.
    Push {
        /// In the order of the request.
        messages: Vec<Pushed>,
        /// What came back.
        outcome: Outcome<()>,
    },
    /// Ask for messages.
    Pop {
        /// From this queue.
        queue: String,
        /// For this group.
        group: String,
        /// The length of the lease asked for, in microseconds; `None` = committed by the delivery.
        lease_for: Option<u64>,
        /// At most so many messages were asked for. (Histories of before it was written down say: any number.)
        #[serde(default = "any")]
        batch: u32,
        /// From at most so many partitions.
        #[serde(default = "any")]
        partitions: u32,
        /// The lease, and messages in the order of the answer.
        outcome: Outcome<(Option<Uuid>, Vec<Delivered>)>,
    },
    /// Say what became of messages.
    Ack {
        /// For this group.
        group: String,
        /// Under this lease.
        lease: Uuid,
        /// In the order of the request.
        said: Vec<Said>,
        /// One answer for each.
        outcome: Outcome<Vec<Acked>>,
    },
    /// Make a lease longer.
    Renew {
        /// Which.
        lease: Uuid,
        /// How long from now, in microseconds.
        length: u64,
        /// What came back.
        outcome: Outcome<()>,
    },
    /// Say that messages are done and store others, all or nothing.
    Transact {
        /// For this group.
        group: String,
        /// Under this lease.
        lease: Uuid,
        /// What is done.
        said: Vec<Said>,
        /// What is stored.
        messages: Vec<Pushed>,
        /// What came back.
        outcome: Outcome<()>,
    },
    /// A group was given nothing more of a queue although it waited for longer than any lease lasts: what it has not
    /// been given by now is lost.
    Drained {
        /// Which queue.
        queue: String,
        /// Which group.
        group: String,
    },
}

fn any() -> u32 {
    u32::MAX
}

/// What a client knows of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome<T> {
    /// It was done, and this was answered.
    Done(T),
    /// It was certainly not done.
    Not,
    /// It was done, or will be, or not: no answer came.
    Unknown,
}

/// A message on its way in.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Pushed {
    /// Its queue.
    pub queue: String,
    /// Its partition.
    pub partition: String,
    /// Its transaction id, which no other message has.
    pub id: String,
}

/// A message on its way out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivered {
    /// Its partition.
    pub partition: String,
    /// Its position there.
    pub offset: u64,
    /// Its transaction id.
    pub id: String,
    /// What its payload says its id is.
    pub payload: String,
}

/// What is said of a delivered message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    /// Its queue.
    pub queue: String,
    /// Its partition.
    pub partition: String,
    /// Its position there.
    pub offset: u64,
    /// What became of it.
    pub status: Status,
    /// It was the last that the lease covers in its partition.
    pub last: bool,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Status {
    /// It is done.
    Completed,
    /// It failed and should come again, unless it failed too often.
    Failed,
    /// It should come again.
    Retry,
    /// It is given up.
    Dlq,
}

/// What was answered to [`Said`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acked {
    /// It was taken.
    pub success: bool,
    /// But it changed nothing.
    pub noop: bool,
    /// The message is a dead letter now.
    pub dlq: bool,
}

/// Everything that all clients of a run wrote down, in no particular order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The records. All beginnings and ends are different numbers.
    pub records: Vec<Record>,
}

impl History {
    /// Write one line of JSON for each record.
    pub fn save(&self, to: &mut impl Write) -> io::Result<()> {
        for record in &self.records {
            serde_json::to_writer(&mut *to, record)?;
            to.write_all(b"\n")?;
        }
        to.flush()
    }

    /// Read what [`Self::save`] has written.
    pub fn load(from: impl BufRead) -> io::Result<Self> {
        let mut records = Vec::new();
        for line in from.lines() {
            records.push(serde_json::from_str(&line?)?);
        }
        Ok(Self { records })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_is_read_as_it_was_written() {
        let message = Pushed { queue: "q".into(), partition: "p".into(), id: "m\"1".into() };
        let op = |op| Record { began: 1, ended: 2, began_at: 3, ended_at: 4, op };
        let drained = Op::Drained { queue: "q".into(), group: "g".into() };
        let push = Op::Push { messages: vec![message], outcome: Outcome::Unknown };
        let history = History { records: vec![op(push), op(drained)] };
        let mut text = Vec::new();
        history.save(&mut text).unwrap();
        assert_eq!(History::load(&text[..]).unwrap(), history);
        assert!(History::load(&b"{}"[..]).is_err());
    }
}
