//! Request bodies, written by hand in the exact form of the contract.

use crate::content::{Content, write_number};

/// Begins a push body.
pub(crate) fn begin_push(out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"items\":[");
}

/// Appends one message to a push body.
pub(crate) fn push_item(out: &mut Vec<u8>, queue: &str, content: &Content, message: (u32, u64), stamp: u64) {
    let (lane, number) = message;
    push_item_of(
        out,
        queue,
        lane,
        |out| content.write_id(out, stamp, lane, number),
        |out| content.write(out, lane, number),
    );
}

/// Appends a message whose transaction id and payload are written by the caller.
pub(crate) fn push_item_of(
    out: &mut Vec<u8>,
    queue: &str,
    lane: u32,
    id: impl FnOnce(&mut Vec<u8>),
    payload: impl FnOnce(&mut Vec<u8>),
) {
    if out.last() == Some(&b'}') {
        out.push(b',');
    }
    out.extend_from_slice(b"{\"queue\":\"");
    out.extend_from_slice(queue.as_bytes());
    out.extend_from_slice(b"\",\"partition\":\"");
    write_lane(out, lane);
    out.extend_from_slice(b"\",\"transactionId\":\"");
    id(out);
    out.extend_from_slice(b"\",\"payload\":");
    payload(out);
    out.push(b'}');
}

/// Ends a push body.
pub(crate) fn end_push(out: &mut Vec<u8>) {
    out.extend_from_slice(b"]}");
}

/// Writes the name of a lane.
pub(crate) fn write_lane(out: &mut Vec<u8>, lane: u32) {
    out.push(b'p');
    write_number(out, u64::from(lane));
}

/// The three ids an ack repeats from the message, as raw JSON values with their quotes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Receipt<'a> {
    pub(crate) transaction: &'a [u8],
    pub(crate) partition: &'a [u8],
    pub(crate) lease: &'a [u8],
}

/// Begins a body of `ack/batch`.
pub(crate) fn begin_ack(out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"acknowledgments\":[");
}

/// Appends one message to an ack body.
pub(crate) fn ack_item(out: &mut Vec<u8>, receipt: &Receipt<'_>) {
    if out.last() == Some(&b'}') {
        out.push(b',');
    }
    out.extend_from_slice(b"{\"transactionId\":");
    out.extend_from_slice(receipt.transaction);
    out.extend_from_slice(b",\"partitionId\":");
    out.extend_from_slice(receipt.partition);
    out.extend_from_slice(b",\"leaseId\":");
    out.extend_from_slice(receipt.lease);
    out.extend_from_slice(b",\"status\":\"completed\"}");
}

/// Ends a body of `ack/batch`.
pub(crate) fn end_ack(out: &mut Vec<u8>, group: &str) {
    out.extend_from_slice(b"],\"consumerGroup\":\"");
    out.extend_from_slice(group.as_bytes());
    out.extend_from_slice(b"\"}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn a_push_body_is_the_json_of_the_contract() {
        let content = Content::new(1, 64).unwrap();
        let mut out = Vec::new();
        begin_push(&mut out);
        push_item(&mut out, "q", &content, (3, 8), 1);
        push_item(&mut out, "q", &content, (4, 9), 2);
        end_push(&mut out);
        let body: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(body["items"].as_array().unwrap().len(), 2);
        assert_eq!(body["items"][1]["queue"], "q");
        assert_eq!(body["items"][1]["partition"], "p4");
        assert_eq!(body["items"][1]["payload"]["n"], 9);
        assert_ne!(body["items"][0]["transactionId"], body["items"][1]["transactionId"]);
    }

    #[test]
    fn an_ack_body_is_the_json_of_the_contract() {
        let receipt = Receipt { transaction: b"\"t\"", partition: b"\"p\"", lease: b"\"l\"" };
        let mut out = Vec::new();
        begin_ack(&mut out);
        ack_item(&mut out, &receipt);
        ack_item(&mut out, &receipt);
        end_ack(&mut out, "g");
        let item = json!({"transactionId": "t", "partitionId": "p", "leaseId": "l", "status": "completed"});
        let expected = json!({"acknowledgments": [item, item], "consumerGroup": "g"});
        assert_eq!(serde_json::from_slice::<Value>(&out).unwrap(), expected);
    }
}
