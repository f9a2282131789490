//! What must hold whatever is stored as ciphertext or told by other servers, for fuzzing. Each function panics if it does
//! not.

use bugle_store::{LaneId, QueueId};
use bugle_wake::Tiding as _;

use crate::config::EncryptionKey;
use crate::crypto::Keyring;
use crate::news::News;

const LANE: &[u8] = b"lane-id-16-bytes";

fn ring() -> Keyring {
    let key = |id: &str, byte| EncryptionKey { id: id.into(), key: [byte; 32] };
    Keyring::new(&[key("k1", 1), key("", 2)])
}

/// Bytes that are said to be an encrypted payload: nobody encrypted them. And as a plain payload they come back.
pub fn envelope(bytes: &[u8]) {
    let ring = ring();
    assert!(ring.decrypt(bytes, LANE).is_err(), "nobody encrypted it");
    let Some(sealed) = ring.encrypt(bytes, LANE) else { return };
    assert_eq!(ring.decrypt(&sealed, LANE).as_deref(), Ok(bytes));
    assert!(ring.decrypt(&sealed, b"another lane").is_err());
}

/// An envelope, for corpora. Nobody has its key.
pub fn sealed(plain: &[u8]) -> Vec<u8> {
    let foreign = Keyring::new(&[EncryptionKey { id: "k1".into(), key: [9; 32] }]);
    foreign.encrypt(plain, LANE).unwrap_or_default()
}

/// Hints: what is read is written again as it was.
pub fn hints(bytes: &[u8]) {
    let mut rest = bytes;
    while !rest.is_empty() {
        let before = rest;
        let Some(news) = News::decode(&mut rest) else { return };
        assert!(rest.len() < before.len(), "a hint takes at least a byte");
        let mut again = Vec::new();
        news.encode(&mut again);
        assert_eq!(again, before[..before.len() - rest.len()]);
        let _ = news.topic();
    }
}

/// One hint of every kind, for corpora.
pub fn sample_hints() -> Vec<u8> {
    let queue = QueueId(uuid::Uuid::from_u128(1));
    let lane = LaneId(uuid::Uuid::from_u128(2));
    let mut out = Vec::new();
    for news in
        [News::Written { queue, lane }, News::Moved { queue, lane, group: "workers".into() }, News::Catalog]
    {
        news.encode(&mut out);
    }
    out
}

/// What [`bugle_wake::fuzz`] is to read hints as.
pub fn datagram(bytes: &[u8]) {
    bugle_wake::fuzz::datagram::<News>(bytes);
}

/// See [`datagram`].
pub fn notification(text: &str) {
    bugle_wake::fuzz::notification::<News>(text);
}
