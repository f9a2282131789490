//! Segments: the messages of one lane that were committed together, as one immutable record.
//!
//! Stores keep the body opaque. Its messages are encoded one after the other (see [`crate::message`]), and all of them together may be
//! compressed (see [`crate::packed`]); beside the body a segment keeps one 64-bit fingerprint per message, so that a transaction id can be
//! looked for without reading it.

use std::sync::Arc;

use bytes::Bytes;
use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_64;

use crate::message::{MIN_ENCODED, Malformed, Message, record_len};
use crate::packed::{is_packed, plain_len, unpack};
use crate::time::Timestamp;

/// Position of a message in its lane: gapless, assigned in commit order.
pub type Offset = u64;

/// Fingerprint of a transaction id. A match is a candidate, never a proof.
pub fn fingerprint(transaction_id: &[u8]) -> u64 {
    xxh3_64(transaction_id)
}

/// A segment that is about to be appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSegment {
    /// Random; tells two segments apart that ever had the same base (after a restore or a new lane).
    pub id: u64,
    /// One per message, in order. Its length is the number of messages.
    pub fingerprints: Arc<[u64]>,
    /// Greatest UUIDv7 among the transaction ids, if any is one.
    pub greatest: Option<Uuid>,
    /// Encoded messages, compressed or not.
    pub body: Bytes,
}

impl NewSegment {
    /// Number of messages.
    pub fn count(&self) -> u32 {
        self.fingerprints.len() as u32
    }

    /// Encode `messages`, of which there must be at least one.
    pub fn build(id: u64, messages: &[Message]) -> Self {
        debug_assert!(!messages.is_empty());
        let mut body = Vec::with_capacity(messages.iter().map(Message::encoded_len).sum());
        for message in messages {
            message.encode(&mut body);
        }
        Self {
            id,
            fingerprints: messages.iter().map(|m| fingerprint(&m.transaction_id)).collect(),
            greatest: messages.iter().filter_map(|m| uuid_v7(&m.transaction_id)).max(),
            body: body.into(),
        }
    }
}

/// The transaction id as a UUIDv7 in its canonical spelling, or nothing.
///
/// Only the canonical lower-case spelling counts: ids are compared as text, and another spelling is another id.
pub fn uuid_v7(transaction_id: &[u8]) -> Option<Uuid> {
    if transaction_id.len() != 36 || transaction_id[14] != b'7' {
        return None;
    }
    let id = Uuid::try_parse_ascii(transaction_id).ok()?;
    (!transaction_id.iter().any(u8::is_ascii_uppercase)).then_some(id)
}

/// A segment as it is read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Offset of its first message.
    pub base: Offset,
    /// Number of messages.
    pub count: u32,
    /// When it was committed; never decreases along a lane.
    pub created_at: Timestamp,
    /// See [`NewSegment::id`].
    pub id: u64,
    /// Encoded messages, compressed or not.
    pub body: Bytes,
}

impl Segment {
    /// Offset after its last message.
    pub fn end(&self) -> Offset {
        self.base.saturating_add(Offset::from(self.count))
    }

    /// Whether its body is compressed.
    pub fn is_packed(&self) -> bool {
        is_packed(&self.body)
    }

    /// Bytes that its messages take when they are not compressed.
    pub fn plain_len(&self) -> usize {
        // A damaged body has no messages.
        plain_len(&self.body).unwrap_or(0)
    }

    /// The same segment with a plain body, for those who decode it more than once.
    pub fn opened(&self) -> Result<Self, Malformed> {
        Ok(Self { body: unpack(&self.body)?, ..*self })
    }

    /// Decode all messages; the result has exactly `count` entries and shares the plain body's memory.
    pub fn messages(&self) -> Result<Vec<Message>, Malformed> {
        self.between(self.base, self.end())
    }

    /// Decode the messages of `from..to` that are in it. Those before and behind are passed by without a look into them: who takes
    /// few messages of a large segment pays for few. Of a compressed one he pays for all, each time: see [`Self::opened`].
    pub fn between(&self, from: Offset, to: Offset) -> Result<Vec<Message>, Malformed> {
        let body = unpack(&self.body)?;
        // The count is kept beside the body and may be wrong where the body is right.
        if self.count as usize > body.len() / MIN_ENCODED {
            return Err(Malformed);
        }
        let (from, to) = (from.clamp(self.base, self.end()), to.clamp(self.base, self.end()));
        let mut at = 0;
        for _ in self.base..from {
            at += record_len(&body[at..])?;
        }
        let mut rest = body.slice(at..);
        let mut out = Vec::with_capacity(to.saturating_sub(from) as usize);
        for _ in from..to {
            out.push(Message::decode(&mut rest)?);
        }
        if to < self.end() || rest.is_empty() { Ok(out) } else { Err(Malformed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packed::{Codec, pack};

    #[test]
    fn a_count_that_the_body_cannot_hold_is_refused_before_room_is_made_for_it() {
        let body = Bytes::from(vec![0; 2 * MIN_ENCODED]);
        let of = |count| Segment { base: 0, count, created_at: Timestamp(1), id: 1, body: body.clone() };
        assert_eq!(of(2).messages().map(|messages| messages.len()), Ok(2));
        for count in [1, 3, u32::MAX] {
            assert_eq!(of(count).messages(), Err(Malformed), "{count}");
        }
    }

    #[test]
    fn any_part_can_be_taken() {
        let message = |n: u8| Message {
            id: Uuid::now_v7(),
            transaction_id: vec![b'a'; usize::from(n)].into(),
            trace_id: n.is_multiple_of(2).then(Uuid::new_v4),
            producer_sub: n.is_multiple_of(3).then(|| Bytes::from_static(b"p")),
            context: None,
            encrypted: false,
            payload: vec![b'1'; usize::from(n)].into(),
        };
        let all: Vec<Message> = (1..=9).map(message).collect();
        let NewSegment { id, body, .. } = NewSegment::build(1, &all);
        let packed = [Codec::Lz4, Codec::Zstd].map(|codec| pack(codec, &body).unwrap());
        for stored in [&body, &packed[0], &packed[1]] {
            let segment = Segment { base: 100, count: 9, created_at: Timestamp(1), id, body: stored.clone() };
            assert_eq!(segment.messages().as_ref(), Ok(&all));
            assert_eq!((segment.plain_len(), segment.is_packed()), (body.len(), *stored != body));
            assert_eq!(segment.opened(), Ok(Segment { body: body.clone(), ..segment.clone() }));
            for from in 98..111u64 {
                for to in 98..111u64 {
                    let inside = |n: u64| (n.clamp(100, 109) - 100) as usize;
                    let expected = all.get(inside(from)..inside(to)).unwrap_or_default().to_vec();
                    assert_eq!(segment.between(from, to), Ok(expected), "{from}..{to}");
                }
            }
            for count in [0, 8, 10, u32::MAX] {
                assert_eq!(Segment { count, ..segment.clone() }.messages(), Err(Malformed), "{count}");
            }
        }
    }

    #[test]
    fn only_canonical_uuid_v7_counts() {
        let id = Uuid::now_v7();
        assert_eq!(uuid_v7(id.to_string().as_bytes()), Some(id));
        assert_eq!(uuid_v7(id.to_string().to_uppercase().as_bytes()), None);
        assert_eq!(uuid_v7(id.simple().to_string().as_bytes()), None);
        assert_eq!(uuid_v7(Uuid::new_v4().to_string().as_bytes()), None);
    }
}
