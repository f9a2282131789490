//! What must hold whatever is in the files of a spool, for fuzzing. Each function panics if it does not.

use bugle_store::Spooled;
use bytes::Bytes;

use crate::format::{self, GROUP_HEADER, GroupHead, Header, Place, RECORD_HEADER};

const SALT: u64 = 99;
const OFFSET: u64 = 64;

/// Bytes where a group should be, and the same bytes as the content of a group with a good checksum.
pub fn group(bytes: &[u8]) {
    // A fuzzer sees what is compared and makes checksums that fit, so records that do not are no fault: they are refused as damage.
    if let Some(head) = GroupHead::read(bytes)
        && let Some(whole) = bytes.get(..head.length as usize)
        && head.fits(whole, SALT, OFFSET)
        && let Some(records) = format::records(&Bytes::copy_from_slice(whole), head.count)
    {
        assert_eq!(records.len(), head.count as usize);
        assert_eq!(format::size_of(&records), (whole.len() - GROUP_HEADER) as u64);
    }
    let Some((count, content)) = bytes.split_at_checked(4) else { return };
    let count = count.iter().fold(0, |n, byte| (n << 8) | u32::from(*byte));
    let mut made = vec![0; GROUP_HEADER];
    made.extend_from_slice(content);
    if let Some(records) = format::records(&Bytes::from(made.clone()), count) {
        assert!(records.len() * RECORD_HEADER <= content.len());
        let again = format::group(records.iter(), 3, SALT, OFFSET);
        assert_eq!(again[GROUP_HEADER..], made[GROUP_HEADER..]);
        let head = GroupHead::read(&again).filter(|head| head.fits(&again, SALT, OFFSET));
        assert!(head.is_some_and(|head| head.count == count), "what was written is whole");
    }
}

/// Bytes where the head of a file, or the position, should be.
pub fn heads(bytes: &[u8]) {
    if let Some(header) = Header::read(bytes) {
        assert_eq!(header.to_bytes(), bytes[..format::HEADER as usize]);
    }
    if let Some((generation, place)) = format::read_slot(bytes) {
        assert_eq!(format::slot(generation, place), bytes[..format::SLOT]);
    }
}

/// Groups, a header and a slot as they are written, for corpora.
pub fn samples() -> Vec<Vec<u8>> {
    let records =
        [Spooled { lane: 1, body: "a record".into() }, Spooled { lane: u64::MAX, body: Bytes::new() }];
    let group = format::group(records.iter(), 3, SALT, OFFSET);
    let content = [&2_u32.to_be_bytes()[..], &group[GROUP_HEADER..]].concat();
    let header = Header { id: 7, salt: SALT, first: 3 }.to_bytes();
    vec![group, content, header, format::slot(8, Place { seq: 5, file: 7, offset: OFFSET })]
}
