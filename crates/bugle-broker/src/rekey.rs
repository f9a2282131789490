//! The change of an encryption key: stored payloads are encrypted anew with the first key, so that the others can be thrown away.

use std::sync::atomic::{AtomicU64, Ordering};

use bugle_store::{LaneId, Message, unpack};
use bytes::Bytes;

use crate::config::EncryptionKey;
use crate::crypto::Keyring;

/// What becomes of stored messages; see [`bugle_store::Recode`].
pub struct Rekey {
    keyring: Keyring,
    encrypted: AtomicU64,
    old: AtomicU64,
}

impl Rekey {
    /// The first key encrypts, all decrypt.
    pub fn new(keys: &[EncryptionKey]) -> Self {
        Self { keyring: Keyring::new(keys), encrypted: AtomicU64::new(0), old: AtomicU64::new(0) }
    }

    /// Encrypted payloads that were looked at.
    pub fn encrypted(&self) -> u64 {
        self.encrypted.load(Ordering::Relaxed)
    }

    /// Of those: under another key than the first.
    pub fn old(&self) -> u64 {
        self.old.load(Ordering::Relaxed)
    }

    /// The same messages with all payloads under the first key; `None` if they are already. A payload that no key opens is an
    /// error: whoever throws a key away after that would lose it.
    pub fn messages(&self, lane: LaneId, stored: &Bytes) -> Result<Option<Bytes>, String> {
        // What is written anew is not compressed: it holds ciphertext.
        let mut rest = unpack(stored).map_err(|error| error.to_string())?;
        let (mut out, mut changed) = (Vec::with_capacity(rest.len()), false);
        while !rest.is_empty() {
            let mut message = Message::decode(&mut rest).map_err(|error| error.to_string())?;
            if message.encrypted {
                self.encrypted.fetch_add(1, Ordering::Relaxed);
                let renewed = self.keyring.renew(&message.payload, lane.0.as_bytes());
                if let Some(payload) = renewed.map_err(|error| format!("message {}: {error}", message.id))? {
                    self.old.fetch_add(1, Ordering::Relaxed);
                    (message.payload, changed) = (payload.into(), true);
                }
            }
            message.encode(&mut out);
        }
        Ok(changed.then(|| out.into()))
    }
}

#[cfg(test)]
mod tests {
    use bugle_store::{Codec, pack};
    use uuid::Uuid;

    use super::*;

    fn key(id: &str, byte: u8) -> EncryptionKey {
        EncryptionKey { id: id.into(), key: [byte; 32] }
    }

    fn message(payload: Vec<u8>, encrypted: bool) -> Message {
        let (transaction_id, payload) = (Bytes::from_static(b"t"), payload.into());
        Message {
            id: Uuid::nil(),
            transaction_id,
            trace_id: None,
            producer_sub: None,
            context: None,
            encrypted,
            payload,
        }
    }

    /// One message in clear, one under each key.
    fn stored(lane: LaneId) -> Bytes {
        let under = |id, byte| {
            let cipher = Keyring::new(&[key(id, byte)]).encrypt(id.as_bytes(), lane.0.as_bytes());
            message(cipher.unwrap(), true)
        };
        let mut out = Vec::new();
        message(b"clear".to_vec(), false).encode(&mut out);
        under("old", 1).encode(&mut out);
        under("new", 2).encode(&mut out);
        out.into()
    }

    #[test]
    fn payloads_under_other_keys_are_renewed_and_nothing_else_changes() {
        let lane = LaneId(Uuid::new_v4());
        let before = stored(lane);
        let rekey = Rekey::new(&[key("new", 2), key("old", 1)]);
        let after = rekey.messages(lane, &before).unwrap().unwrap();
        assert_eq!((rekey.encrypted(), rekey.old()), (2, 1));
        assert_eq!(rekey.messages(lane, &after).unwrap(), None, "nothing is left to do");
        let only = Keyring::new(&[key("new", 2)]);
        let mut rest = after;
        assert_eq!(Message::decode(&mut rest).unwrap(), message(b"clear".to_vec(), false));
        for plain in ["old", "new"] {
            let message = Message::decode(&mut rest).unwrap();
            assert_eq!(only.decrypt(&message.payload, lane.0.as_bytes()).unwrap(), plain.as_bytes());
        }
        assert!(rest.is_empty());
    }

    #[test]
    fn compressed_messages_are_opened_and_stay_compressed_if_nothing_changes() {
        let lane = LaneId(Uuid::new_v4());
        let (plain, both) = (stored(lane), [key("new", 2), key("old", 1)]);
        for codec in [Codec::Lz4, Codec::Zstd] {
            let packed = pack(codec, &plain).unwrap();
            let after = Rekey::new(&both).messages(lane, &packed).unwrap().unwrap();
            assert_eq!(Rekey::new(&[key("new", 2)]).messages(lane, &after).unwrap(), None);
            let mut rest = after;
            let ids = std::iter::from_fn(|| Message::decode(&mut rest).ok()).count();
            assert_eq!(ids, 3);
            let damaged = packed.slice(..packed.len() - 1);
            assert!(Rekey::new(&both).messages(lane, &damaged).is_err());
            let mut clear = Vec::new();
            message(b"clear".to_vec(), false).encode(&mut clear);
            let clear = pack(codec, &clear).unwrap();
            assert_eq!(Rekey::new(&both).messages(lane, &clear).unwrap(), None);
        }
    }

    #[test]
    fn what_no_key_opens_ends_it_and_names_the_key() {
        let lane = LaneId(Uuid::new_v4());
        let missing = Rekey::new(&[key("new", 2)]).messages(lane, &stored(lane)).unwrap_err();
        assert!(missing.contains("\"old\", which is not configured"), "{missing}");
        let wrong = Rekey::new(&[key("new", 3), key("old", 1)]).messages(lane, &stored(lane)).unwrap_err();
        assert!(wrong.contains("does not open with key \"new\""), "{wrong}");
        assert!(Rekey::new(&[key("new", 2)]).messages(lane, &Bytes::from_static(b"garbage")).is_err());
    }
}
