//! Stored JSON inside an answer that is spelled by serde.

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

/// JSON bytes that go out as they are; `null` for none, and for bytes that are no JSON.
#[derive(Clone, Copy, Debug, Default)]
pub struct Payload<'a>(pub Option<&'a [u8]>);

impl Serialize for Payload<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw = self.0.and_then(|bytes| serde_json::from_slice::<&RawValue>(bytes).ok());
        raw.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_go_out_as_they_are_and_what_is_no_json_is_null() {
        for (bytes, shown) in [
            (Some(&br#"{"a": 1.0, "a":2}"#[..]), r#"{"a": 1.0, "a":2}"#),
            (Some(b"1e400"), "1e400"),
            (Some(b"{"), "null"),
            (Some(b"\xff"), "null"),
            (None, "null"),
        ] {
            assert_eq!(serde_json::to_string(&Payload(bytes)).unwrap(), shown);
        }
    }
}
