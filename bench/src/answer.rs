//! Reads a pop answer in one pass: checks each message and writes its acknowledgment at the same time.

use crate::body::{self, Receipt};
use crate::cli::AckStyle;
use crate::content::{Content, Identity};
use crate::scan::{Cursor, Malformed};
use crate::verify::{Answer, Ledger};

/// Walks a pop answer once: books each message and writes the ack while at it.
pub(crate) struct AnswerReader<'r> {
    pub(crate) content: &'r Content,
    pub(crate) ack: AckStyle,
    pub(crate) auto_ack: bool,
    pub(crate) ledger: &'r mut Ledger,
    pub(crate) answer: Answer,
    /// Where the items of the ack go.
    pub(crate) out: &'r mut Vec<u8>,
    /// First message of each run of one lane.
    pub(crate) claimed: &'r mut Vec<(u32, u64)>,
}

/// One message of an answer.
#[derive(Default)]
pub(crate) struct Message<'a> {
    pub(crate) receipt: Receipt<'a>,
    lane_name: &'a [u8],
    /// Which message the payload says it is; none when it cannot be read.
    pub(crate) identity: Option<Identity>,
}

impl Message<'_> {
    /// Whether id and lane are those this message was pushed with.
    pub(crate) fn genuine(&self, content: &Content, lane: u32, number: u64) -> bool {
        let id = self.receipt.transaction;
        let id = id.get(1..id.len().saturating_sub(1)).unwrap_or_default();
        content.owns_id(id, lane, number) && is_lane_name(self.lane_name, lane)
    }
}

/// Hands each message of a pop answer to `visit`, in order.
pub(crate) fn each_message<'a>(
    body: &'a [u8],
    content: &Content,
    auto_ack: bool,
    mut visit: impl FnMut(Message<'a>),
) -> Result<(), Malformed> {
    let mut cursor = Cursor::new(body);
    cursor.open_object()?;
    while let Some(key) = cursor.next_key()? {
        if key != b"messages" {
            cursor.value()?;
            continue;
        }
        cursor.open_array()?;
        while cursor.next_element()? {
            visit(read_message(&mut cursor, content, auto_ack)?);
        }
    }
    Ok(())
}

fn read_message<'a>(
    cursor: &mut Cursor<'a>,
    content: &Content,
    auto_ack: bool,
) -> Result<Message<'a>, Malformed> {
    let mut message = Message::default();
    cursor.open_object()?;
    while let Some(key) = cursor.next_key()? {
        match key {
            b"transactionId" => message.receipt.transaction = cursor.value()?,
            b"partitionId" => message.receipt.partition = cursor.value()?,
            b"leaseId" => message.receipt.lease = cursor.value()?,
            b"partition" => message.lane_name = cursor.value()?,
            b"data" => {
                // A damaged payload must not end the walk: skim the whole value first, then look inside.
                let data = cursor.value()?;
                message.identity = content.read(&mut Cursor::new(data)).ok();
            }
            _ => drop(cursor.value()?),
        }
    }
    let Receipt { transaction, partition, lease } = message.receipt;
    let leased = auto_ack || (lease.len() > 2 && lease[0] == b'"');
    if transaction.is_empty() || partition.is_empty() || !leased { Err(Malformed) } else { Ok(message) }
}

impl AnswerReader<'_> {
    /// The number of messages in the answer.
    pub(crate) fn read(&mut self, body: &[u8]) -> Result<u64, Malformed> {
        let mut last = Receipt::default();
        let mut count = 0;
        let (content, auto_ack) = (self.content, self.auto_ack);
        each_message(body, content, auto_ack, |message| {
            count += 1;
            self.book(&message);
            match self.ack {
                AckStyle::All => body::ack_item(self.out, &message.receipt),
                AckStyle::Last => {
                    if count > 1 && last.partition != message.receipt.partition {
                        body::ack_item(self.out, &last);
                    }
                    last = message.receipt;
                }
            }
        })?;
        if count > 0 && self.ack == AckStyle::Last {
            body::ack_item(self.out, &last);
        }
        Ok(count)
    }

    fn book(&mut self, message: &Message<'_>) {
        let Some(identity) = message.identity else { return self.ledger.unreadable() };
        let Identity { lane, number, .. } = identity;
        self.ledger.receive(identity, message.genuine(self.content, lane, number), self.answer);
        if self.claimed.last().is_none_or(|(last, _)| *last != lane) {
            self.claimed.push((lane, number));
        }
    }
}

fn is_lane_name(raw: &[u8], lane: u32) -> bool {
    let mut number = itoa::Buffer::new();
    raw.strip_prefix(b"\"p").and_then(|r| r.strip_suffix(b"\"")) == Some(number.format(lane).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lane_names_are_compared_whole() {
        assert!(is_lane_name(b"\"p12\"", 12));
        assert!(!is_lane_name(b"\"p123\"", 12) && !is_lane_name(b"p12", 12) && !is_lane_name(b"", 12));
    }
}
