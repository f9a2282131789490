//! Inputs as a producer makes them: payloads of 256 bytes of JSON, transaction ids that are UUIDs of version 7.

use bugle_store::Message;
use bytes::Bytes;
use uuid::Uuid;

const PAYLOAD: usize = 256;

/// The id of a message: always the same for a number, so that counts can be compared.
pub(crate) fn transaction_id(number: u64) -> String {
    let millis = 1_790_000_000_000 + number;
    Uuid::from_u128((u128::from(millis) << 80) | (7 << 76) | (1 << 63) | u128::from(number)).to_string()
}

/// JSON of exactly the usual size, with a string that must be scanned.
fn payload(number: u64) -> String {
    let front = format!("{{\"number\":{number},\"name\":\"a\\\"b\",\"list\":[1,2.5,null,true],\"text\":\"");
    let room = PAYLOAD - front.len() - 2;
    let text: String = (0..room).map(|i| char::from(b'a' + ((i as u64 * 7 + number) % 26) as u8)).collect();
    format!("{front}{text}\"}}")
}

/// The body of a push to one lane.
pub(crate) fn push_body(messages: usize) -> String {
    let item = |number: u64| {
        let (id, payload) = (transaction_id(number), payload(number));
        format!(
            "{{\"queue\":\"orders\",\"partition\":\"p7\",\"transactionId\":\"{id}\",\"payload\":{payload}}}"
        )
    };
    let items: Vec<String> = (0..messages as u64).map(item).collect();
    format!("{{\"items\":[{}]}}", items.join(","))
}

/// Messages as they are stored.
pub(crate) fn messages(count: u64) -> Vec<Message> {
    let message = |number: u64| Message {
        id: Uuid::from_u128(u128::from(number) + 1),
        transaction_id: Bytes::from(transaction_id(number)),
        trace_id: None,
        producer_sub: None,
        context: None,
        encrypted: false,
        payload: Bytes::from(payload(number)),
    };
    (0..count).map(message).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_what_they_say() {
        assert_eq!(payload(12345).len(), PAYLOAD);
        let id = transaction_id(9);
        assert_eq!(bugle_store::uuid_v7(id.as_bytes()).map(|u| u.to_string()), Some(id));
        assert_eq!(messages(3).len(), 3);
    }
}
