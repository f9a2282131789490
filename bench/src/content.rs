//! What a message contains: everything in it follows from (run, lane, number), so a reader can tell a damaged or foreign
//! message from a good one without keeping what was sent.

use anyhow::{Result, ensure};

use crate::ids::{write_hex, write_uuid};
use crate::scan::{Cursor, Malformed};

/// Paddings are slices of this many random characters; large enough that a compressing store gains little.
const TEXT: usize = 1 << 20;
/// Everything around lane and number: `{"l":,"n":,"c":"12345678","p":""}`.
const FRAME: usize = 33;
/// The frame with the longest lane and number that are supported.
const MIN_BYTES: usize = 64;

/// The content of one run's messages.
#[derive(Debug)]
pub struct Content {
    run: u64,
    bytes: usize,
    text: Vec<u8>,
}

/// Which message a payload says it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Lane it was written for.
    pub lane: u32,
    /// Its number, as the writer counts.
    pub number: u64,
    /// Whether check sum and padding are those of this lane and number.
    pub intact: bool,
}

/// What paddings of words are made of.
const WORDS: [&str; 24] = [
    "order",
    "customer",
    "amount",
    "currency",
    "created",
    "shipped",
    "address",
    "street",
    "city",
    "country",
    "item",
    "price",
    "quantity",
    "discount",
    "invoice",
    "payment",
    "status",
    "pending",
    "complete",
    "warehouse",
    "supplier",
    "tracking",
    "note",
    "total",
];

impl Content {
    /// The same with paddings of words and numbers, which compress about as JSON does.
    pub fn of_words(run: u64, bytes: usize) -> Result<Self> {
        let mut random = fastrand::Rng::with_seed(run);
        let mut content = Self::new(run, bytes)?;
        let len = content.text.len();
        content.text.clear();
        while content.text.len() < len {
            let word = WORDS[random.usize(..WORDS.len())];
            content.text.extend_from_slice(format!("{word} {} ", random.u16(..)).as_bytes());
        }
        Ok(content)
    }

    /// Content of `bytes` JSON bytes per message, different for each `run`.
    pub fn new(run: u64, bytes: usize) -> Result<Self> {
        ensure!(bytes >= MIN_BYTES, "--payload-bytes must be at least {MIN_BYTES}");
        ensure!(bytes <= 16 << 20, "--payload-bytes must be at most 16 MiB");
        let mut random = fastrand::Rng::with_seed(run);
        let text = (0..TEXT + bytes).map(|_| random.alphanumeric() as u8).collect();
        Ok(Self { run, bytes, text })
    }

    /// Writes the payload of a message.
    pub fn write(&self, out: &mut Vec<u8>, lane: u32, number: u64) {
        out.extend_from_slice(b"{\"l\":");
        write_number(out, u64::from(lane));
        out.extend_from_slice(b",\"n\":");
        write_number(out, number);
        out.extend_from_slice(b",\"c\":\"");
        write_hex(out, self.sum(lane, number), 8);
        out.extend_from_slice(b"\",\"p\":\"");
        out.extend_from_slice(self.padding(lane, number));
        out.extend_from_slice(b"\"}");
    }

    /// Writes the transaction id of a message.
    pub(crate) fn write_id(&self, out: &mut Vec<u8>, stamp: u64, lane: u32, number: u64) {
        write_uuid(out, stamp, self.hash(lane, number));
    }

    /// Which message a whole payload is; none if it is not one of ours at all.
    pub fn identify(&self, payload: &[u8]) -> Option<Identity> {
        self.read(&mut Cursor::new(payload)).ok()
    }

    /// Reads the payload the cursor stands at, in whatever order and spacing it came back.
    pub(crate) fn read(&self, cursor: &mut Cursor<'_>) -> Result<Identity, Malformed> {
        let (mut lane, mut number) = (None, None);
        let (mut sum, mut padding): (&[u8], &[u8]) = (b"", b"");
        cursor.open_object()?;
        while let Some(key) = cursor.next_key()? {
            match key {
                b"l" => lane = u32::try_from(cursor.number()?).ok(),
                b"n" => number = Some(cursor.number()?),
                b"c" => sum = cursor.text()?,
                b"p" => padding = cursor.text()?,
                _ => return Err(Malformed),
            }
        }
        let (lane, number) = (lane.ok_or(Malformed)?, number.ok_or(Malformed)?);
        let mut expected = Vec::with_capacity(8);
        write_hex(&mut expected, self.sum(lane, number), 8);
        let intact = sum == expected && padding == self.padding(lane, number);
        Ok(Identity { lane, number, intact })
    }

    /// Whether a transaction id is the one this message was pushed with.
    pub(crate) fn owns_id(&self, id: &[u8], lane: u32, number: u64) -> bool {
        let mut expected = Vec::with_capacity(36);
        self.write_id(&mut expected, 0, lane, number);
        id.len() == expected.len() && id[19..] == expected[19..]
    }

    fn padding(&self, lane: u32, number: u64) -> &[u8] {
        let used = FRAME + digits(u64::from(lane)) + digits(number);
        let start = (self.hash(lane, number) >> 32) as usize % TEXT;
        &self.text[start..start + self.bytes.saturating_sub(used)]
    }

    fn sum(&self, lane: u32, number: u64) -> u64 {
        self.hash(lane, number) & 0xffff_ffff
    }

    /// The finalizer of splitmix64, which spreads neighbouring numbers over all bits.
    fn hash(&self, lane: u32, number: u64) -> u64 {
        let mut x = self.run ^ (u64::from(lane) << 40) ^ number;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }
}

/// Writes a decimal number.
pub(crate) fn write_number(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

fn digits(value: u64) -> usize {
    value.checked_ilog10().map_or(1, |d| d as usize + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(content: &Content, lane: u32, number: u64) -> Vec<u8> {
        let mut out = Vec::new();
        content.write(&mut out, lane, number);
        out
    }

    #[test]
    fn payloads_of_words_are_told_apart_like_any() {
        let content = Content::of_words(7, 300).unwrap();
        for (lane, number) in [(0, 0), (3, 1_000_000)] {
            let out = written(&content, lane, number);
            assert_eq!(out.len(), 300);
            assert_eq!(content.identify(&out), Some(Identity { lane, number, intact: true }));
        }
        assert!(String::from_utf8(written(&content, 1, 1)).unwrap().contains("order"));
    }

    #[test]
    fn a_payload_has_exactly_the_asked_size_and_reads_back() {
        for bytes in [64, 65, 256, 5000] {
            let content = Content::new(7, bytes).unwrap();
            for (lane, number) in [(0, 0), (9, 10), (123_456, 9_999_999_999)] {
                let out = written(&content, lane, number);
                assert_eq!(out.len(), bytes);
                serde_json::from_slice::<serde_json::Value>(&out).expect("a payload is JSON");
                let read = content.read(&mut Cursor::new(&out));
                assert_eq!(read, Ok(Identity { lane, number, intact: true }));
            }
        }
    }

    #[test]
    fn a_reformatted_payload_is_intact() {
        let content = Content::new(7, 100).unwrap();
        let tree: serde_json::Value = serde_json::from_slice(&written(&content, 3, 4)).unwrap();
        let spaced = serde_json::to_vec_pretty(&tree).unwrap();
        assert!(content.read(&mut Cursor::new(&spaced)).unwrap().intact);
    }

    #[test]
    fn any_changed_byte_of_the_values_is_noticed() {
        let content = Content::new(7, 80).unwrap();
        let good = written(&content, 3, 4);
        for place in 0..good.len() {
            let mut bad = good.clone();
            bad[place] = if bad[place] == b'5' { b'6' } else { b'5' };
            let read = content.read(&mut Cursor::new(&bad));
            assert!(
                read.is_err() || !read.unwrap().intact,
                "byte {place} of {}",
                String::from_utf8_lossy(&bad)
            );
        }
    }

    #[test]
    fn another_runs_message_is_not_intact_and_does_not_own_the_id() {
        let (ours, theirs) = (Content::new(7, 100).unwrap(), Content::new(8, 100).unwrap());
        assert!(!ours.read(&mut Cursor::new(&written(&theirs, 1, 1))).unwrap().intact);
        let mut id = Vec::new();
        ours.write_id(&mut id, 99, 1, 1);
        assert!(ours.owns_id(&id, 1, 1));
        assert!(!ours.owns_id(&id, 1, 2) && !theirs.owns_id(&id, 1, 1));
    }
}
