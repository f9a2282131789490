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
    each_receipt(body, auto_ack, |receipt, lane_name, data| {
        let identity = data.and_then(|data| content.read(&mut Cursor::new(data)).ok());
        visit(Message { receipt, lane_name, identity });
    })
}

/// Hands receipt, lane and payload of each message to `visit`, in order, without a look into the payload.
pub(crate) fn each_receipt<'a>(
    body: &'a [u8],
    auto_ack: bool,
    mut visit: impl FnMut(Receipt<'a>, &'a [u8], Option<&'a [u8]>),
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
            let (receipt, lane_name, data) = read_message(&mut cursor, auto_ack)?;
            visit(receipt, lane_name, data);
        }
    }
    Ok(())
}

/// Receipt, name of the lane, payload.
type Read<'a> = (Receipt<'a>, &'a [u8], Option<&'a [u8]>);

fn read_message<'a>(cursor: &mut Cursor<'a>, auto_ack: bool) -> Result<Read<'a>, Malformed> {
    let (mut receipt, mut lane_name, mut payload): Read<'a> = (Receipt::default(), b"", None);
    cursor.open_object()?;
    while let Some(key) = cursor.next_key()? {
        match key {
            b"transactionId" => receipt.transaction = cursor.value()?,
            b"partitionId" => receipt.partition = cursor.value()?,
            b"leaseId" => receipt.lease = cursor.value()?,
            b"partition" => lane_name = cursor.value()?,
            // Skimmed as a whole: a damaged payload must not end the walk.
            b"data" => payload = Some(cursor.value()?),
            _ => drop(cursor.value()?),
        }
    }
    let Receipt { transaction, partition, lease } = receipt;
    let leased = auto_ack || (lease.len() > 2 && lease[0] == b'"');
    if transaction.is_empty() || partition.is_empty() || !leased {
        return Err(Malformed);
    }
    Ok((receipt, lane_name, payload))
}

/// Writes the items of an ack: every message, or the last of each run of one lane.
pub(crate) struct AckItems<'o, 'a> {
    style: AckStyle,
    out: &'o mut Vec<u8>,
    last: Option<Receipt<'a>>,
}

impl<'o, 'a> AckItems<'o, 'a> {
    pub(crate) fn new(style: AckStyle, out: &'o mut Vec<u8>) -> Self {
        Self { style, out, last: None }
    }

    /// Takes the next message of the answer.
    pub(crate) fn add(&mut self, receipt: Receipt<'a>) {
        let before = self.last.replace(receipt);
        match self.style {
            AckStyle::All => body::ack_item(self.out, &receipt),
            AckStyle::Last => {
                if let Some(before) = before.filter(|before| before.partition != receipt.partition) {
                    body::ack_item(self.out, &before);
                }
            }
        }
    }

    /// No more will come.
    pub(crate) fn end(self) {
        if let (AckStyle::Last, Some(last)) = (self.style, &self.last) {
            body::ack_item(self.out, last);
        }
    }
}

impl AnswerReader<'_> {
    /// The number of messages in the answer.
    pub(crate) fn read(&mut self, body: &[u8]) -> Result<u64, Malformed> {
        let Self { content, ack, auto_ack, ledger, answer, out, claimed } = self;
        let (mut items, mut count) = (AckItems::new(*ack, out), 0);
        each_message(body, content, *auto_ack, |message| {
            count += 1;
            book(ledger, claimed, content, *answer, &message);
            items.add(message.receipt);
        })?;
        items.end();
        Ok(count)
    }
}

fn book(
    ledger: &mut Ledger,
    claimed: &mut Vec<(u32, u64)>,
    content: &Content,
    answer: Answer,
    message: &Message<'_>,
) {
    let Some(identity) = message.identity else { return ledger.unreadable() };
    let Identity { lane, number, .. } = identity;
    ledger.receive(identity, message.genuine(content, lane, number), answer);
    if claimed.last().is_none_or(|(last, _)| *last != lane) {
        claimed.push((lane, number));
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
    fn an_ack_names_every_message_or_the_last_of_each_lane() {
        let receipt = |transaction, partition| Receipt { transaction, partition, lease: b"\"l\"" };
        let all = [receipt(b"1", b"a"), receipt(b"2", b"a"), receipt(b"3", b"b")];
        let named = |style| {
            let mut out = Vec::new();
            let mut items = AckItems::new(style, &mut out);
            all.iter().for_each(|receipt| items.add(*receipt));
            items.end();
            let text = String::from_utf8(out).unwrap();
            [1, 2, 3].map(|number| text.contains(&format!("\"transactionId\":{number},")))
        };
        assert_eq!(named(AckStyle::All), [true, true, true]);
        assert_eq!(named(AckStyle::Last), [false, true, true]);
    }

    #[test]
    fn lane_names_are_compared_whole() {
        assert!(is_lane_name(b"\"p12\"", 12));
        assert!(!is_lane_name(b"\"p123\"", 12) && !is_lane_name(b"p12", 12) && !is_lane_name(b"", 12));
    }
}
