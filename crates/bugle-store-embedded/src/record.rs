//! Records (one group commit) and the frames in them (one segment or catalog row): layout, checksums, nothing else.
//!
//! The checksum of a record covers all of it and is seeded with the file's salt and the record's position, so that what
//! an earlier life of a recycled file left behind never passes. A frame has a checksum of its own, because a body is
//! read back alone.

use std::sync::Arc;

use bugle_store::Timestamp;
use bytes::{BufMut, Bytes};
use uuid::Uuid;
use xxhash_rust::xxh3::Xxh3;

use crate::codec::{Fields, Malformed, put_time};
use crate::op::Op;

/// Records and pages of tables start at multiples of this.
pub(crate) const PAGE: u64 = 4096;
/// Bytes before a record's changes.
pub(crate) const RECORD_HEADER: usize = 64;
/// Bytes before a frame's fingerprints.
pub(crate) const FRAME_HEADER: usize = 64;
/// First bytes of a record.
pub(crate) const RECORD_MAGIC: [u8; 4] = *b"BGLR";
const RECORD_VERSION: u32 = 1;
const CHECKSUM_AT: usize = 56;

/// Lane uids below this are taken by the catalog's rows.
pub(crate) const FIRST_UID: u64 = 16;
/// Frames with this uid are dead letters; their base is the row number.
pub(crate) const DEAD_UID: u64 = 1;
/// Frames with this uid are traces; their base is the row number.
pub(crate) const TRACE_UID: u64 = 2;

/// A segment or row as it is written and read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) uid: u64,
    pub(crate) base: u64,
    pub(crate) count: u32,
    pub(crate) id: u64,
    pub(crate) created_at: Timestamp,
    pub(crate) greatest: Option<Uuid>,
    pub(crate) fingerprints: Arc<[u64]>,
    pub(crate) body: Bytes,
}

impl Frame {
    pub(crate) fn encoded_len(&self) -> usize {
        FRAME_HEADER + self.fingerprints.len() * 8 + self.body.len()
    }

    pub(crate) fn encode(&self, salt: u64, out: &mut Vec<u8>) {
        let start = out.len();
        out.put_u32_le(0);
        out.put_u32_le(self.body.len() as u32);
        out.put_u32_le(self.count);
        out.put_u32_le(self.fingerprints.len() as u32);
        out.put_u64_le(self.uid);
        out.put_u64_le(self.base);
        out.put_u64_le(self.id);
        put_time(out, self.created_at);
        out.put_slice(self.greatest.unwrap_or(Uuid::nil()).as_bytes());
        self.fingerprints.iter().for_each(|f| out.put_u64_le(*f));
        out.put_slice(&self.body);
        let sum = frame_checksum(salt, &out[start + 4..]);
        out[start..start + 4].copy_from_slice(&sum.to_le_bytes());
    }

    /// The frame at the front of `bytes`; shares their memory.
    pub(crate) fn decode(salt: u64, bytes: &Bytes) -> Result<Self, Malformed> {
        let mut fields = Fields(bytes);
        let sum = fields.u32()?;
        let len = fields.u32()? as usize;
        let count = fields.u32()?;
        let prints = fields.u32()? as usize;
        let (uid, base, id) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let created_at = fields.time()?;
        let greatest = Some(fields.uuid()?).filter(|id| !id.is_nil());
        let body_at = prints.checked_mul(8).and_then(|n| n.checked_add(FRAME_HEADER)).ok_or(Malformed)?;
        let end = body_at.checked_add(len).filter(|end| *end <= bytes.len()).ok_or(Malformed)?;
        if frame_checksum(salt, &bytes[4..end]) != sum {
            return Err(Malformed);
        }
        let fingerprints = (0..prints).map(|_| fields.u64()).collect::<Result<_, _>>()?;
        Ok(Self { uid, base, count, id, created_at, greatest, fingerprints, body: bytes.slice(body_at..end) })
    }
}

pub(crate) fn frame_checksum(salt: u64, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&salt.to_le_bytes()), bytes)
}

/// A record's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    pub(crate) len: u32,
    pub(crate) ops_len: u32,
    pub(crate) seq: u64,
    pub(crate) file: u64,
    pub(crate) frames: u32,
    pub(crate) ops: u32,
    pub(crate) created_at: Timestamp,
}

impl RecordHeader {
    /// Fields of something that looks like a record; the checksum is not checked.
    pub(crate) fn peek(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        if fields.bytes(4).ok()? != RECORD_MAGIC || fields.u32().ok()? != RECORD_VERSION {
            return None;
        }
        let header = Self {
            len: fields.u32().ok()?,
            ops_len: fields.u32().ok()?,
            seq: fields.u64().ok()?,
            file: fields.u64().ok()?,
            frames: fields.u32().ok()?,
            ops: fields.u32().ok()?,
            created_at: fields.time().ok()?,
        };
        (header.len as usize >= RECORD_HEADER).then_some(header)
    }
}

/// Encoded changes.
#[derive(Default)]
pub(crate) struct Ops {
    count: u32,
    bytes: Vec<u8>,
}

impl Ops {
    pub(crate) fn encode(ops: &[Op]) -> Self {
        let mut bytes = Vec::new();
        ops.iter().for_each(|op| op.encode(&mut bytes));
        Self { count: ops.len() as u32, bytes }
    }

    /// Bytes of a record of these changes and frames, without padding.
    pub(crate) fn record_len(&self, frames: &[Frame]) -> usize {
        RECORD_HEADER + self.bytes.len() + frames.iter().map(Frame::encoded_len).sum::<usize>()
    }
}

/// Where a record goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) file: u64,
    pub(crate) salt: u64,
    pub(crate) position: u64,
}

fn record_checksum(place: Place, bytes: &[u8]) -> u64 {
    let mut hash = Xxh3::with_seed(place.salt ^ place.position);
    hash.update(&bytes[..CHECKSUM_AT]);
    hash.update(&bytes[RECORD_HEADER..]);
    hash.digest()
}

/// Build a record, padded to whole pages, into `out`. Answers where each frame starts, relative to the record.
pub(crate) fn build_record(
    place: Place,
    seq: u64,
    created_at: Timestamp,
    ops: &Ops,
    frames: &[Frame],
    out: &mut Vec<u8>,
) -> Vec<u32> {
    out.clear();
    out.resize(RECORD_HEADER, 0);
    out.put_slice(&ops.bytes);
    let ops_len = ops.bytes.len();
    let mut starts = Vec::with_capacity(frames.len());
    for frame in frames {
        starts.push(out.len() as u32);
        frame.encode(place.salt, out);
    }
    let len = out.len();
    let mut header = Vec::with_capacity(RECORD_HEADER);
    header.put_slice(&RECORD_MAGIC);
    header.put_u32_le(RECORD_VERSION);
    header.put_u32_le(len as u32);
    header.put_u32_le(ops_len as u32);
    header.put_u64_le(seq);
    header.put_u64_le(place.file);
    header.put_u32_le(frames.len() as u32);
    header.put_u32_le(ops.count);
    put_time(&mut header, created_at);
    header.resize(CHECKSUM_AT, 0);
    out[..CHECKSUM_AT].copy_from_slice(&header);
    seal_record(place, &mut out[..len]);
    out.resize(len.next_multiple_of(PAGE as usize), 0);
    starts
}

/// Put the right checksum into these bytes (exactly the record's length).
pub(crate) fn seal_record(place: Place, bytes: &mut [u8]) {
    let sum = record_checksum(place, bytes);
    bytes[CHECKSUM_AT..RECORD_HEADER].copy_from_slice(&sum.to_le_bytes());
}

/// Whether these bytes (exactly the record's length) are what was written there.
pub(crate) fn record_is_valid(place: Place, bytes: &[u8]) -> bool {
    bytes.len() >= RECORD_HEADER
        && bytes[CHECKSUM_AT..RECORD_HEADER] == record_checksum(place, bytes).to_le_bytes()
}

/// A record taken apart.
pub(crate) struct Record {
    pub(crate) header: RecordHeader,
    pub(crate) position: u64,
    pub(crate) ops: Vec<Op>,
    /// Each with its start relative to the record.
    pub(crate) frames: Vec<(u32, Frame)>,
}

/// Take a valid record apart.
pub(crate) fn parse_record(place: Place, bytes: &Bytes) -> Result<Record, Malformed> {
    let header = RecordHeader::peek(bytes).ok_or(Malformed)?;
    let frames_at = RECORD_HEADER + header.ops_len as usize;
    let mut fields = Fields(bytes.get(RECORD_HEADER..frames_at).ok_or(Malformed)?);
    let ops = (0..header.ops).map(|_| Op::decode(&mut fields)).collect::<Result<_, _>>()?;
    let mut at = frames_at;
    if header.frames as usize > (bytes.len() - frames_at) / FRAME_HEADER {
        return Err(Malformed);
    }
    let mut frames = Vec::with_capacity(header.frames as usize);
    for _ in 0..header.frames {
        if at > bytes.len() {
            return Err(Malformed);
        }
        let frame = Frame::decode(place.salt, &bytes.slice(at..))?;
        let start = at as u32;
        at += frame.encoded_len();
        frames.push((start, frame));
    }
    Ok(Record { header, position: place.position, ops, frames })
}
