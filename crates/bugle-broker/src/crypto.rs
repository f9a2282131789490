//! Payload encryption at rest: AES-256-GCM with several keys by name.
//!
//! What is stored is `version, key id length, key id, nonce (12), ciphertext, tag (16)`. The nonce is random. Everything
//! before it, and the caller's context, is authenticated along: a ciphertext that is moved to another lane, or claims
//! another key, does not open. The first key encrypts, every key decrypts, so a key is changed by putting a new one in
//! front. That is also advised before one key has encrypted some billions of payloads, since nonces are drawn by chance.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::rand;

use bugle_store::Message;
use bytes::Bytes;

use crate::config::EncryptionKey;

const VERSION: u8 = 1;
const TAG_LEN: usize = 16;
/// Longest key id in an envelope; its length is one byte. Longer ids are told apart by this many bytes, and where these
/// are equal by trying.
const ID_MAX: usize = u8::MAX as usize;

/// The keys of a server.
pub(crate) struct Keyring {
    keys: Vec<NamedKey>,
}

struct NamedKey {
    id: Box<[u8]>,
    key: LessSafeKey,
}

/// Why a payload cannot be read. Names the key, never its bytes or the payload's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DecryptError {
    /// Not an envelope of this server at all.
    #[error("the stored payload is not an encrypted payload of a known version")]
    Malformed,
    /// The key is not configured.
    #[error("the payload was encrypted with key {0:?}, which is not configured")]
    UnknownKey(String),
    /// The bytes were changed, belong elsewhere, or the key of this name is another one.
    #[error("the payload does not open with key {0:?}")]
    Damaged(String),
    /// There is no randomness.
    #[error("the payload cannot be encrypted anew: the system has no randomness to give")]
    NotRenewed,
}

impl Keyring {
    /// The first key encrypts.
    pub(crate) fn new(keys: &[EncryptionKey]) -> Self {
        let keys = keys.iter().map(|k| {
            let key = UnboundKey::new(&AES_256_GCM, &k.key).expect("an AES-256 key has 32 bytes");
            let id = k.id.as_bytes();
            NamedKey { id: id[..id.len().min(ID_MAX)].into(), key: LessSafeKey::new(key) }
        });
        Self { keys: keys.collect() }
    }

    /// Whether there is a key to encrypt with.
    pub(crate) fn has_keys(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Encrypt for `context` (the lane's id). `None` without a key, or if the system has no randomness to give: the
    /// payload must then be refused, never stored as it is.
    pub(crate) fn encrypt(&self, plain: &[u8], context: &[u8]) -> Option<Vec<u8>> {
        let key = self.keys.first()?;
        let mut nonce = [0u8; NONCE_LEN];
        rand::fill(&mut nonce).ok()?;
        let header = 2 + key.id.len();
        let mut out = Vec::with_capacity(header + NONCE_LEN + plain.len() + TAG_LEN);
        out.extend([VERSION, key.id.len() as u8]);
        out.extend_from_slice(&key.id);
        let aad = associated(&out, context);
        out.extend_from_slice(&nonce);
        out.extend_from_slice(plain);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = key
            .key
            .seal_in_place_separate_tag(nonce, Aad::from(&aad), &mut out[header + NONCE_LEN..])
            .ok()?;
        out.extend_from_slice(tag.as_ref());
        Some(out)
    }

    /// Decrypt what [`Keyring::encrypt`] made for the same `context`.
    pub(crate) fn decrypt(&self, cipher: &[u8], context: &[u8]) -> Result<Vec<u8>, DecryptError> {
        let envelope = Envelope::parse(cipher).ok_or(DecryptError::Malformed)?;
        let named = || String::from_utf8_lossy(envelope.id).into_owned();
        let aad = associated(envelope.header, context);
        let mut known = false;
        for key in self.keys.iter().filter(|k| *k.id == *envelope.id) {
            known = true;
            let mut sealed = envelope.sealed.to_vec();
            let nonce = Nonce::assume_unique_for_key(envelope.nonce);
            if let Ok(plain) = key.key.open_in_place(nonce, Aad::from(&aad), &mut sealed) {
                let length = plain.len();
                sealed.truncate(length);
                return Ok(sealed);
            }
        }
        Err(if known { DecryptError::Damaged(named()) } else { DecryptError::UnknownKey(named()) })
    }

    /// The same payload under the first key; `None` if it is under it already.
    pub(crate) fn renew(&self, cipher: &[u8], context: &[u8]) -> Result<Option<Vec<u8>>, DecryptError> {
        let plain = self.decrypt(cipher, context)?;
        let first = self.keys.first().map(|key| &*key.id);
        let id = Envelope::parse(cipher).map(|envelope| envelope.id);
        if first == id {
            return Ok(None);
        }
        let renewed = self.encrypt(&plain, context);
        renewed.map(Some).ok_or(DecryptError::NotRenewed)
    }
}

impl Keyring {
    /// A copy of a stored message to be stored elsewhere, under the first key: what is read from memory may be older than a change
    /// of keys. What no key opens is copied as it is.
    pub(crate) fn copy(&self, message: &Message, context: &[u8]) -> Bytes {
        let renewed = message.encrypted.then(|| self.renew(&message.payload, context));
        match renewed {
            Some(Ok(Some(payload))) => Message { payload: payload.into(), ..message.clone() }.to_bytes(),
            _ => message.to_bytes(),
        }
    }
}

/// Header and context; the header carries its own length, so no two pairs give the same bytes.
fn associated(header: &[u8], context: &[u8]) -> Vec<u8> {
    [header, context].concat()
}

struct Envelope<'a> {
    header: &'a [u8],
    id: &'a [u8],
    nonce: [u8; NONCE_LEN],
    /// Ciphertext and tag.
    sealed: &'a [u8],
}

impl<'a> Envelope<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let [VERSION, length, ..] = *bytes else { return None };
        let (header, rest) = bytes.split_at_checked(2 + usize::from(length))?;
        let (nonce, sealed) = rest.split_first_chunk()?;
        (sealed.len() >= TAG_LEN).then_some(Self { header, id: &header[2..], nonce: *nonce, sealed })
    }
}

impl std::fmt::Debug for Keyring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ids = self.keys.iter().map(|k| String::from_utf8_lossy(&k.id));
        f.debug_list().entries(ids).finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LANE: &[u8] = b"lane-id-16-bytes";
    const PLAIN: &[u8] = br#"{"card":"4111"}"#;

    fn key(id: &str, byte: u8) -> EncryptionKey {
        EncryptionKey { id: id.into(), key: [byte; 32] }
    }

    fn ring(keys: &[EncryptionKey]) -> Keyring {
        Keyring::new(keys)
    }

    #[test]
    fn what_was_encrypted_comes_back_and_does_not_show() {
        let ring = ring(&[key("k1", 1)]);
        let cipher = ring.encrypt(PLAIN, LANE).unwrap();
        assert_eq!(cipher.len(), 2 + 2 + NONCE_LEN + PLAIN.len() + TAG_LEN);
        assert_eq!(cipher[..4], [VERSION, 2, b'k', b'1']);
        assert!(!cipher.windows(4).any(|w| w == b"4111"));
        assert_eq!(ring.decrypt(&cipher, LANE).unwrap(), PLAIN);
    }

    #[test]
    fn the_same_payload_never_looks_the_same() {
        let ring = ring(&[key("k1", 1)]);
        assert_ne!(ring.encrypt(PLAIN, LANE), ring.encrypt(PLAIN, LANE));
    }

    #[test]
    fn without_a_key_nothing_is_encrypted() {
        assert_eq!(ring(&[]).encrypt(PLAIN, LANE), None);
    }

    #[test]
    fn a_new_key_in_front_encrypts_and_the_old_one_still_decrypts() {
        let old = ring(&[key("old", 1)]).encrypt(PLAIN, LANE).unwrap();
        let both = ring(&[key("new", 2), key("old", 1)]);
        assert_eq!(both.decrypt(&old, LANE).unwrap(), PLAIN);
        let fresh = both.encrypt(PLAIN, LANE).unwrap();
        assert_eq!(ring(&[key("old", 1)]).decrypt(&fresh, LANE), Err(DecryptError::UnknownKey("new".into())));
    }

    #[test]
    fn keys_that_share_an_id_are_all_tried() {
        let long = "x".repeat(300);
        let cipher = ring(&[key(&long, 1)]).encrypt(PLAIN, LANE).unwrap();
        let other = format!("{long}y");
        assert_eq!(ring(&[key(&other, 2), key(&long, 1)]).decrypt(&cipher, LANE).unwrap(), PLAIN);
    }

    #[test]
    fn another_lane_or_another_key_of_the_same_name_does_not_open_it() {
        let cipher = ring(&[key("k1", 1)]).encrypt(PLAIN, LANE).unwrap();
        let damaged = Err(DecryptError::Damaged("k1".into()));
        assert_eq!(ring(&[key("k1", 1)]).decrypt(&cipher, b"other"), damaged);
        assert_eq!(ring(&[key("k1", 2)]).decrypt(&cipher, LANE), damaged);
    }

    #[test]
    fn a_changed_key_id_does_not_open_even_with_the_same_key_under_it() {
        let mut cipher = ring(&[key("k1", 1)]).encrypt(PLAIN, LANE).unwrap();
        cipher[3] = b'2';
        assert_eq!(ring(&[key("k2", 1)]).decrypt(&cipher, LANE), Err(DecryptError::Damaged("k2".into())));
    }

    #[test]
    fn neither_errors_nor_debug_show_a_key() {
        let ring = ring(&[key("k1", 0xab)]);
        assert_eq!(format!("{ring:?}"), r#"["k1"]"#);
        let error = DecryptError::Damaged("k1".into()).to_string();
        assert_eq!(error, r#"the payload does not open with key "k1""#);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_payload_survives_and_any_damage_is_noticed(
            plain in proptest::collection::vec(any::<u8>(), 0..200), context in any::<[u8; 16]>(),
            place in any::<proptest::sample::Index>(), bit in 0u8..8,
        ) {
            let ring = ring(&[key("k1", 1), key("k2", 2)]);
            let mut cipher = ring.encrypt(&plain, &context).unwrap();
            prop_assert_eq!(ring.decrypt(&cipher, &context), Ok(plain));
            let cut = place.index(cipher.len());
            prop_assert!(ring.decrypt(&cipher[..cut], &context).is_err());
            cipher[cut] ^= 1 << bit;
            prop_assert!(ring.decrypt(&cipher, &context).is_err());
        }

        #[test]
        fn garbage_is_refused_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            prop_assert!(ring(&[key("", 1)]).decrypt(&bytes, LANE).is_err());
            let mut enveloped = vec![VERSION, 0];
            enveloped.extend(bytes);
            prop_assert!(ring(&[key("", 1)]).decrypt(&enveloped, LANE).is_err());
        }
    }
}
