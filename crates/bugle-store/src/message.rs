//! One message as it is stored: a compact binary record that carries the payload's JSON bytes untouched.
//!
//! Layout (little-endian): id 16 · flags u8 · transaction id u16 + bytes · [trace id 16] · [producer u16 + bytes] ·
//! [trace context: trace 16, parent 8, flags u8] · [its state u16 + bytes] · payload u32 + bytes. The same record is kept
//! inside segments and in dead letters. What a message does not have takes no byte.

use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes};
use uuid::Uuid;

use crate::context::TraceContext;

const TRACE: u8 = 1;
const PRODUCER: u8 = 2;
const ENCRYPTED: u8 = 4;
const CONTEXT: u8 = 8;
/// Only together with [`CONTEXT`].
const STATE: u8 = 16;
/// Never a message's: in its place a compressed body has its mark (see [`crate::packed`]).
pub(crate) const PACKED: u8 = 128;

/// Bytes of a trace context without its state.
const CONTEXT_LEN: usize = 16 + 8 + 1;

/// Bytes of a message without any content.
pub(crate) const MIN_ENCODED: usize = 16 + 1 + 2 + 4;

/// A message, borrowing nothing; cloning shares the payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Server-minted id, UUIDv7.
    pub id: Uuid,
    /// The producer's id, unique in its lane inside the dedupe window.
    pub transaction_id: Bytes,
    /// Pass-through trace id.
    pub trace_id: Option<Uuid>,
    /// Subject of the token that pushed it.
    pub producer_sub: Option<Bytes>,
    /// The trace it belongs to. Shared: messages of one request often have the same.
    pub context: Option<Arc<TraceContext>>,
    /// Whether `payload` is ciphertext (see the broker's crypto module) instead of JSON.
    pub encrypted: bool,
    /// JSON exactly as the producer sent it, or ciphertext.
    pub payload: Bytes,
}

/// A stored record that cannot be read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stored message record is malformed")]
pub struct Malformed;

impl Message {
    /// The transaction id as text.
    pub fn transaction(&self) -> &str {
        std::str::from_utf8(&self.transaction_id).unwrap_or_default()
    }

    /// The producer's subject as text.
    pub fn producer(&self) -> Option<&str> {
        self.producer_sub.as_deref().and_then(|b| std::str::from_utf8(b).ok())
    }

    /// A copy that does not keep the memory of its segment alive.
    #[must_use]
    pub fn detached(&self) -> Self {
        Self {
            transaction_id: Bytes::copy_from_slice(&self.transaction_id),
            producer_sub: self.producer_sub.as_deref().map(Bytes::copy_from_slice),
            context: self.context.as_ref().map(|context| Arc::new(context.detached())),
            payload: Bytes::copy_from_slice(&self.payload),
            ..*self
        }
    }

    /// Bytes this message takes when encoded.
    pub fn encoded_len(&self) -> usize {
        16 + 1
            + 2
            + self.transaction_id.len()
            + self.trace_id.map_or(0, |_| 16)
            + self.producer_sub.as_ref().map_or(0, |p| 2 + p.len())
            + self
                .context
                .as_ref()
                .map_or(0, |c| CONTEXT_LEN + c.state.as_ref().map_or(0, |state| 2 + state.len()))
            + 4
            + self.payload.len()
    }

    /// Append the record to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_slice(self.id.as_bytes());
        let mut flags = 0;
        flags |= if self.trace_id.is_some() { TRACE } else { 0 };
        flags |= if self.producer_sub.is_some() { PRODUCER } else { 0 };
        flags |= if self.encrypted { ENCRYPTED } else { 0 };
        if let Some(context) = &self.context {
            flags |= CONTEXT;
            flags |= if context.state.is_some() { STATE } else { 0 };
        }
        out.put_u8(flags);
        put_short(out, &self.transaction_id);
        if let Some(trace) = self.trace_id {
            out.put_slice(trace.as_bytes());
        }
        if let Some(producer) = &self.producer_sub {
            put_short(out, producer);
        }
        if let Some(context) = &self.context {
            encode_context(context, out);
        }
        out.put_u32_le(self.payload.len() as u32);
        out.put_slice(&self.payload);
    }

    /// The record as a buffer of its own, as dead letters keep it.
    pub fn to_bytes(&self) -> Bytes {
        let mut out = Vec::with_capacity(self.encoded_len());
        self.encode(&mut out);
        out.into()
    }

    /// Read one record from the front of `from` and advance past it. Shares `from`'s memory.
    pub fn decode(from: &mut Bytes) -> Result<Self, Malformed> {
        let id = take_uuid(from)?;
        let [flags] = take_array(from)?;
        check(flags)?;
        let transaction_id = take_short(from)?;
        let trace_id = if flags & TRACE != 0 { Some(take_uuid(from)?) } else { None };
        let producer_sub = if flags & PRODUCER != 0 { Some(take_short(from)?) } else { None };
        let context =
            if flags & CONTEXT != 0 { Some(decode_context(from, flags & STATE != 0)?) } else { None };
        let len = u32::from_le_bytes(take_array(from)?) as usize;
        let payload = take(from, len)?;
        Ok(Self {
            id,
            transaction_id,
            trace_id,
            producer_sub,
            context,
            encrypted: flags & ENCRYPTED != 0,
            payload,
        })
    }
}

/// Whether all flags are known: what an unknown one announces would be taken for something else.
fn check(flags: u8) -> Result<(), Malformed> {
    let known = flags & !(TRACE | PRODUCER | ENCRYPTED | CONTEXT | STATE) == 0;
    if known && flags & (CONTEXT | STATE) != STATE { Ok(()) } else { Err(Malformed) }
}

/// Bytes of the record at the front of `from`, of which nothing else is looked at.
pub(crate) fn record_len(from: &[u8]) -> Result<usize, Malformed> {
    let short = |at: usize| -> Result<usize, Malformed> {
        let len = from.get(at..).and_then(|rest| rest.first_chunk()).ok_or(Malformed)?;
        Ok(at + 2 + usize::from(u16::from_le_bytes(*len)))
    };
    let flags = *from.get(16).ok_or(Malformed)?;
    check(flags)?;
    let mut at = short(17)?;
    at += if flags & TRACE != 0 { 16 } else { 0 };
    at = if flags & PRODUCER != 0 { short(at)? } else { at };
    at += if flags & CONTEXT != 0 { CONTEXT_LEN } else { 0 };
    at = if flags & STATE != 0 { short(at)? } else { at };
    let payload = from.get(at..).and_then(|rest| rest.first_chunk()).ok_or(Malformed)?;
    let len = at + 4 + u32::from_le_bytes(*payload) as usize;
    if len <= from.len() { Ok(len) } else { Err(Malformed) }
}

fn encode_context(context: &TraceContext, out: &mut Vec<u8>) {
    out.put_slice(&context.trace_id);
    out.put_slice(&context.parent_id);
    out.put_u8(context.flags);
    if let Some(state) = &context.state {
        put_short(out, state);
    }
}

fn decode_context(from: &mut Bytes, has_state: bool) -> Result<Arc<TraceContext>, Malformed> {
    let (trace_id, parent_id) = (take_array(from)?, take_array(from)?);
    let [flags] = take_array(from)?;
    let state = if has_state { Some(take_short(from)?) } else { None };
    Ok(Arc::new(TraceContext { trace_id, parent_id, flags, state }))
}

fn put_short(out: &mut Vec<u8>, bytes: &[u8]) {
    debug_assert!(bytes.len() <= usize::from(u16::MAX));
    out.put_u16_le(bytes.len() as u16);
    out.put_slice(bytes);
}

fn take(from: &mut Bytes, len: usize) -> Result<Bytes, Malformed> {
    if from.len() < len { Err(Malformed) } else { Ok(from.split_to(len)) }
}

/// The next bytes by value: a piece that shares the memory costs two atomic counts.
fn take_array<const N: usize>(from: &mut Bytes) -> Result<[u8; N], Malformed> {
    let array = *from.first_chunk().ok_or(Malformed)?;
    from.advance(N);
    Ok(array)
}

fn take_uuid(from: &mut Bytes) -> Result<Uuid, Malformed> {
    Ok(Uuid::from_bytes(take_array(from)?))
}

fn take_short(from: &mut Bytes) -> Result<Bytes, Malformed> {
    let len = u16::from_le_bytes(take_array(from)?);
    take(from, usize::from(len))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(trace: bool, producer: bool) -> Message {
        Message {
            id: Uuid::now_v7(),
            transaction_id: Bytes::from_static("tx-é".as_bytes()),
            trace_id: trace.then(Uuid::new_v4),
            producer_sub: producer.then(|| Bytes::from_static(b"svc")),
            context: None,
            encrypted: trace,
            payload: Bytes::from_static(br#"{"a": 1.0, "a": 2}"#),
        }
    }

    fn traced(state: Option<&'static str>) -> Message {
        let mut context =
            TraceContext::parse(b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").unwrap();
        context.state = state.map(Bytes::from);
        Message { context: Some(context.into()), ..sample(true, true) }
    }

    #[test]
    fn round_trips_every_shape() {
        let plain = [(false, false), (true, false), (false, true), (true, true)];
        let plain = plain.into_iter().map(|(trace, producer)| sample(trace, producer));
        for message in plain.chain([traced(None), traced(Some("a=1,b=2"))]) {
            let mut bytes = message.to_bytes();
            assert_eq!(bytes.len(), message.encoded_len());
            assert_eq!(record_len(&bytes), Ok(bytes.len()));
            assert_eq!(Message::decode(&mut bytes), Ok(message.clone()));
            assert!(bytes.is_empty());
            assert_eq!(message.detached(), message);
        }
    }

    #[test]
    fn a_context_costs_only_those_who_have_one() {
        assert_eq!(traced(None).encoded_len(), sample(true, true).encoded_len() + 25);
    }

    #[test]
    fn a_message_of_the_first_version_is_read() {
        let mut old = vec![7; 16];
        old.extend([PRODUCER, 1, 0, b't', 3, 0, b's', b'v', b'c', 2, 0, 0, 0, b'{', b'}']);
        let message = Message::decode(&mut old.into()).unwrap();
        assert_eq!((message.transaction(), message.producer()), ("t", Some("svc")));
        assert_eq!(message.context, None);
    }

    #[test]
    fn a_flag_of_another_version_is_an_error() {
        let mut bytes = sample(true, true).to_bytes().to_vec();
        bytes[16] |= 32;
        assert_eq!(record_len(&bytes), Err(Malformed));
        assert_eq!(Message::decode(&mut bytes.into()), Err(Malformed));
        let mut bytes = traced(Some("a=1")).to_bytes().to_vec();
        bytes[16] &= !CONTEXT;
        assert_eq!(Message::decode(&mut bytes.into()), Err(Malformed), "a state of no context");
    }

    #[test]
    fn every_truncation_is_an_error() {
        let whole = traced(Some("a=1")).to_bytes();
        for len in 0..whole.len() {
            assert_eq!(record_len(&whole[..len]), Err(Malformed), "at {len}");
            assert_eq!(Message::decode(&mut whole.slice(..len)), Err(Malformed), "at {len}");
        }
    }
}
