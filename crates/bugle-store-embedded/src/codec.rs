//! Little-endian fields in byte buffers: the writing and the bounds-checked reading of everything but bodies.

use std::sync::Arc;

use bugle_store::{Cursor, Lease, Timestamp};
use bytes::BufMut;
use uuid::Uuid;

/// The bytes end early or hold an impossible value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed field")]
pub(crate) struct Malformed;

/// Reads fields from the front of a slice.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        if self.0.len() < len {
            return Err(Malformed);
        }
        let (front, rest) = self.0.split_at(len);
        self.0 = rest;
        Ok(front)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.bytes(N)?.try_into().map_err(|_| Malformed)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn time(&mut self) -> Result<Timestamp, Malformed> {
        Ok(Timestamp(i64::from_le_bytes(self.array()?)))
    }

    pub(crate) fn uuid(&mut self) -> Result<Uuid, Malformed> {
        Ok(Uuid::from_bytes(self.array()?))
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, Malformed> {
        let len = self.u32()? as usize;
        std::str::from_utf8(self.bytes(len)?).map_err(|_| Malformed)
    }

    pub(crate) fn shared(&mut self) -> Result<Arc<str>, Malformed> {
        Ok(self.text()?.into())
    }

    pub(crate) fn cursor(&mut self) -> Result<Cursor, Malformed> {
        let epoch = self.u64()?;
        let committed = self.u64()?;
        let attempts = self.u32()?;
        let deliveries = self.u32()?;
        let not_before = self.time()?;
        let served_at = self.time()?;
        let consumed = self.u64()?;
        let lease = match self.u8()? {
            0 => None,
            1 => Some(Lease { id: self.uuid()?, until: self.time()?, end: self.u64()? }),
            _ => return Err(Malformed),
        };
        Ok(Cursor { epoch, committed, lease, attempts, deliveries, not_before, served_at, consumed })
    }
}

pub(crate) fn put_time(out: &mut Vec<u8>, time: Timestamp) {
    out.put_i64_le(time.0);
}

pub(crate) fn put_uuid(out: &mut Vec<u8>, id: Uuid) {
    out.put_slice(id.as_bytes());
}

pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    out.put_u32_le(text.len() as u32);
    out.put_slice(text.as_bytes());
}

pub(crate) fn put_cursor(out: &mut Vec<u8>, cursor: &Cursor) {
    out.put_u64_le(cursor.epoch);
    out.put_u64_le(cursor.committed);
    out.put_u32_le(cursor.attempts);
    out.put_u32_le(cursor.deliveries);
    put_time(out, cursor.not_before);
    put_time(out, cursor.served_at);
    out.put_u64_le(cursor.consumed);
    match &cursor.lease {
        None => out.put_u8(0),
        Some(lease) => {
            out.put_u8(1);
            put_uuid(out, lease.id);
            put_time(out, lease.until);
            out.put_u64_le(lease.end);
        }
    }
}
