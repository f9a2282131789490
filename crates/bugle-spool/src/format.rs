//! The bytes of a spool: file headers, groups of records, the position. `docs/format.md` describes them.
//!
//! A group is what one fsync made durable. It is written behind the group before it, which is durable by then, so that after
//! a crash only the last group of the last file can be unfinished. Whatever else cannot be read is damage.

use bugle_store::Spooled;
use bytes::{Buf, BufMut, Bytes};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Version of everything in the directory.
const VERSION: u32 = 1;
const FILE_MAGIC: [u8; 8] = *b"BUGLESPL";
const GROUP_MAGIC: [u8; 4] = *b"BGSG";
const POSITION_MAGIC: [u8; 8] = *b"BUGLEPOS";

/// Length of a file's header; its first group follows.
pub(crate) const HEADER: u64 = 64;
/// Length of a group's header.
pub(crate) const GROUP_HEADER: usize = 32;
/// What a record takes beside its body.
pub(crate) const RECORD_HEADER: usize = 12;
/// Length of a slot of the position file.
pub(crate) const SLOT: usize = 64;
/// Where the second slot is: on a page of its own, so that writing one cannot harm the other.
pub(crate) const SECOND_SLOT: u64 = 4096;

pub(crate) fn file_name(id: u64) -> String {
    format!("spool-{id:016}.log")
}

/// The id in a file's name.
pub(crate) fn id_in(name: &str) -> Option<u64> {
    name.strip_prefix("spool-")?.strip_suffix(".log")?.parse().ok()
}

/// What a file says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) id: u64,
    /// Random; seeds every checksum in the file.
    pub(crate) salt: u64,
    /// Number of its first group.
    pub(crate) first: u64,
}

impl Header {
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER as usize);
        out.put_slice(&FILE_MAGIC);
        out.put_u32_le(VERSION);
        out.put_u32_le(0);
        out.put_u64_le(self.id);
        out.put_u64_le(self.salt);
        out.put_u64_le(self.first);
        sealed(out, HEADER as usize)
    }

    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = unsealed(bytes, HEADER as usize)?;
        let known = fields.copy_to_bytes(8)[..] == FILE_MAGIC && fields.get_u32_le() == VERSION;
        let unused = fields.get_u32_le();
        let header = Self { id: fields.get_u64_le(), salt: fields.get_u64_le(), first: fields.get_u64_le() };
        (known && unused == 0 && is_unused(fields)).then_some(header)
    }
}

/// Everything before it is done with: a place, and the number of the group there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) seq: u64,
    pub(crate) file: u64,
    pub(crate) offset: u64,
}

/// A slot of the position file.
pub(crate) fn slot(generation: u64, place: Place) -> Vec<u8> {
    let mut out = Vec::with_capacity(SLOT);
    out.put_slice(&POSITION_MAGIC);
    out.put_u64_le(generation);
    out.put_u64_le(place.seq);
    out.put_u64_le(place.file);
    out.put_u64_le(place.offset);
    sealed(out, SLOT)
}

/// Generation and place of a slot.
pub(crate) fn read_slot(bytes: &[u8]) -> Option<(u64, Place)> {
    let mut fields = unsealed(bytes, SLOT)?;
    let known = fields.copy_to_bytes(8)[..] == POSITION_MAGIC;
    let generation = fields.get_u64_le();
    let place = Place { seq: fields.get_u64_le(), file: fields.get_u64_le(), offset: fields.get_u64_le() };
    (known && is_unused(fields)).then_some((generation, place))
}

/// Fill with zeroes to the length and put the checksum at the end.
fn sealed(mut out: Vec<u8>, length: usize) -> Vec<u8> {
    out.resize(length - 8, 0);
    let sum = xxh3_64(&out);
    out.put_u64_le(sum);
    out
}

/// What a version that gives these bytes a meaning writes there must not be passed over.
fn is_unused(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

fn unsealed(bytes: &[u8], length: usize) -> Option<&[u8]> {
    let (content, mut sum) = bytes.get(..length)?.split_at_checked(length - 8)?;
    (sum.get_u64_le() == xxh3_64(content)).then_some(content)
}

/// Bytes that a put of these records takes, the header of a group not counted.
pub(crate) fn size_of(records: &[Spooled]) -> u64 {
    records.iter().map(|record| (RECORD_HEADER + record.body.len()) as u64).sum()
}

/// The head of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupHead {
    /// Length, the head included.
    pub(crate) length: u32,
    pub(crate) seq: u64,
    pub(crate) count: u32,
    sum: u64,
}

impl GroupHead {
    /// The head at the front of `bytes`, of which nothing is believed but that it looks like one.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = bytes.get(..GROUP_HEADER)?;
        if fields.copy_to_bytes(4)[..] != GROUP_MAGIC {
            return None;
        }
        let (length, seq, count) = (fields.get_u32_le(), fields.get_u64_le(), fields.get_u32_le());
        fields.get_u32_le();
        let head = Self { length, seq, count, sum: fields.get_u64_le() };
        (length as usize >= GROUP_HEADER).then_some(head)
    }

    /// Whether these bytes are the group, whole, as it was written at this place of this file.
    pub(crate) fn fits(&self, bytes: &[u8], salt: u64, offset: u64) -> bool {
        bytes.len() == self.length as usize && checksum(bytes, salt, offset) == self.sum
    }
}

/// Everything but the checksum itself.
fn checksum(group: &[u8], salt: u64, offset: u64) -> u64 {
    let head = xxh3_64_with_seed(&group[..GROUP_HEADER - 8], salt ^ offset);
    xxh3_64_with_seed(&group[GROUP_HEADER..], head)
}

/// A group as it is written at `offset` of a file.
pub(crate) fn group<'a>(
    records: impl Iterator<Item = &'a Spooled>,
    seq: u64,
    salt: u64,
    offset: u64,
) -> Vec<u8> {
    let mut out = vec![0; GROUP_HEADER];
    let mut count = 0;
    for record in records {
        out.put_u64_le(record.lane);
        out.put_u32_le(record.body.len() as u32);
        out.put_slice(&record.body);
        count += 1;
    }
    let length = out.len() as u32;
    let mut head = &mut out[..GROUP_HEADER - 8];
    head.put_slice(&GROUP_MAGIC);
    head.put_u32_le(length);
    head.put_u64_le(seq);
    head.put_u32_le(count);
    head.put_u32_le(0);
    let sum = checksum(&out, salt, offset);
    (&mut out[GROUP_HEADER - 8..GROUP_HEADER]).put_u64_le(sum);
    out
}

/// The records of a group whose checksum fits. They share its memory.
pub(crate) fn records(group: &Bytes, count: u32) -> Option<Vec<Spooled>> {
    let mut rest = group.slice(GROUP_HEADER..);
    let mut out = Vec::new();
    for _ in 0..count {
        if rest.len() < RECORD_HEADER {
            return None;
        }
        let (lane, length) = (rest.get_u64_le(), rest.get_u32_le() as usize);
        if rest.len() < length {
            return None;
        }
        out.push(Spooled { lane, body: rest.split_to(length) });
    }
    rest.is_empty().then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_places_and_groups_come_back_and_no_bit_may_be_wrong() {
        let header = Header { id: 7, salt: 99, first: 3 };
        let place = Place { seq: 5, file: 7, offset: 64 };
        let all = [Spooled { lane: 1, body: "a".into() }, Spooled { lane: u64::MAX, body: Bytes::new() }];
        let (bytes, slot_bytes) = (header.to_bytes(), slot(8, place));
        let group_bytes = group(all.iter(), 3, 99, 64);
        assert_eq!(Header::read(&bytes), Some(header));
        assert_eq!(read_slot(&slot_bytes), Some((8, place)));
        let head = GroupHead::read(&group_bytes).unwrap();
        assert_eq!((head.length as usize, head.seq, head.count), (group_bytes.len(), 3, 2));
        assert!(
            head.fits(&group_bytes, 99, 64)
                && !head.fits(&group_bytes, 99, 65)
                && !head.fits(&group_bytes, 98, 64)
        );
        assert_eq!(records(&group_bytes.clone().into(), 2).unwrap(), all);
        for bit in 0..bytes.len() * 8 {
            let flipped = |bytes: &[u8]| {
                let mut bytes = bytes.to_vec();
                bytes[bit / 8] ^= 1 << (bit % 8);
                bytes
            };
            assert_eq!(Header::read(&flipped(&bytes)), None, "{bit}");
            assert_eq!(read_slot(&flipped(&slot_bytes)), None, "{bit}");
            if bit / 8 < group_bytes.len() {
                let bytes = flipped(&group_bytes);
                assert!(GroupHead::read(&bytes).is_none_or(|head| !head.fits(&bytes, 99, 64)), "{bit}");
            }
        }
    }
    /// Found by fuzzing: with a checksum that fits, anything was accepted where zeroes belong.
    #[test]
    fn bytes_without_a_meaning_are_zero() {
        let place = Place { seq: 5, file: 7, offset: 64 };
        let (header, slot) = (Header { id: 7, salt: 99, first: 3 }.to_bytes(), slot(8, place));
        let changed = |bytes: &[u8], at: usize| {
            let mut content = bytes[..bytes.len() - 8].to_vec();
            content[at] ^= 1;
            sealed(content, bytes.len())
        };
        for at in (12..16).chain(40..56) {
            assert_eq!(Header::read(&changed(&header, at)), None, "{at}");
        }
        for at in 40..56 {
            assert_eq!(read_slot(&changed(&slot, at)), None, "{at}");
        }
        // So far as they have one they may be anything.
        assert!(Header::read(&changed(&header, 39)).is_some() && read_slot(&changed(&slot, 39)).is_some());
    }
}
