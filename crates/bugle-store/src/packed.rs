//! Compressed bodies of segments.
//!
//! Layout (little-endian): XXH3-64 of all that follows u64 · length of the plain body u32 · length of the compressed data u32 · mark u8 ·
//! the data · zeroes up to a [`MAX_RATIO`]th of the plain body.
//!
//! The mark stands where a plain body has the flags of its first message, with bits that no message has: neither kind can be taken for the
//! other, and a server that knows nothing of compression refuses the body. Whatever a body says of itself, reading it takes at most
//! [`MAX_RATIO`] times its own bytes and at most [`MAX_PLAIN`]; that is why extremely compressible bodies are filled up.

use std::cell::RefCell;

use bytes::{BufMut, Bytes};
use xxhash_rust::xxh3::xxh3_64;
use zstd::bulk::{Compressor, Decompressor};

use crate::message::{Malformed, PACKED};

/// Most bytes of a plain body that is compressed; a longer one stays as it is.
pub const MAX_PLAIN: usize = 16 << 20;
/// Bytes of a plain body for each byte of the compressed one, at most.
pub const MAX_RATIO: usize = 64;

/// Bytes of the checksum.
const SUM: usize = 8;
/// Bytes before the data; the last one is the mark.
const HEADER: usize = SUM + 4 + 4 + 1;
/// Level of zstd: the fastest of the ordinary ones.
const LEVEL: i32 = 1;

/// How a body is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// LZ4, as one block.
    Lz4,
    /// Zstandard, as one frame.
    Zstd,
}

thread_local! {
    // Making one costs more than a small body takes to compress.
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

impl Codec {
    /// The mark of a body. Beside [`PACKED`] it has a pair of flags that no message has, so that one wrong bit makes no message of it.
    fn mark(self) -> u8 {
        PACKED
            | match self {
                Self::Lz4 => 0x11,
                Self::Zstd => 0x12,
            }
    }

    fn compress(self, plain: &[u8], out: &mut [u8]) -> Option<usize> {
        match self {
            Self::Lz4 => lz4_flex::block::compress_into(plain, out).ok(),
            Self::Zstd => COMPRESSOR.with_borrow_mut(|kept| {
                let compressor = match kept {
                    Some(compressor) => compressor,
                    None => kept.insert(Compressor::new(LEVEL).ok()?),
                };
                compressor.compress_to_buffer(plain, out).ok()
            }),
        }
    }

    fn decompress(self, data: &[u8], out: &mut [u8]) -> Option<usize> {
        match self {
            Self::Lz4 => lz4_flex::block::decompress_into(data, out).ok(),
            Self::Zstd => DECOMPRESSOR.with_borrow_mut(|kept| {
                let decompressor = match kept {
                    Some(decompressor) => decompressor,
                    None => kept.insert(Decompressor::new().ok()?),
                };
                decompressor.decompress_to_buffer(data, out).ok()
            }),
        }
    }
}

/// A plain body compressed, or nothing if it is longer than [`MAX_PLAIN`]. The result may well be longer than the plain body: whoever
/// asks decides whether it is worth it.
pub fn pack(codec: Codec, plain: &[u8]) -> Option<Bytes> {
    if plain.len() > MAX_PLAIN {
        return None;
    }
    let mut out = vec![0; HEADER + lz4_flex::block::get_maximum_output_size(plain.len())];
    let len = codec.compress(plain, &mut out[HEADER..])?;
    let mut header = &mut out[SUM..HEADER];
    header.put_u32_le(plain.len() as u32);
    header.put_u32_le(len as u32);
    header.put_u8(codec.mark());
    out.truncate(HEADER + len);
    out.resize(out.len().max(plain.len().div_ceil(MAX_RATIO)), 0);
    out.shrink_to_fit();
    let sum = xxh3_64(&out[SUM..]);
    out[..SUM].copy_from_slice(&sum.to_le_bytes());
    Some(out.into())
}

/// Whether a body says that it is compressed.
pub(crate) fn is_packed(body: &[u8]) -> bool {
    body.get(HEADER - 1).is_some_and(|mark| mark & PACKED != 0)
}

/// The plain body of a body of either kind. A plain one comes back as it is, unread.
pub fn unpack(body: &Bytes) -> Result<Bytes, Malformed> {
    let Some(header) = Header::of(body)? else { return Ok(body.clone()) };
    let data = body[HEADER..].get(..header.data).ok_or(Malformed)?;
    if header.sum != xxh3_64(&body[SUM..]) {
        return Err(Malformed);
    }
    let mut plain = vec![0; header.plain];
    let len = header.codec.decompress(data, &mut plain);
    if len == Some(plain.len()) { Ok(plain.into()) } else { Err(Malformed) }
}

/// Length of the plain body, as a body of either kind says; nothing is made or read for it.
pub fn plain_len(body: &[u8]) -> Result<usize, Malformed> {
    Ok(Header::of(body)?.map_or(body.len(), |header| header.plain))
}

struct Header {
    plain: usize,
    data: usize,
    sum: u64,
    codec: Codec,
}

impl Header {
    /// What a compressed body says of itself, within the bounds; `None` = the body is a plain one.
    fn of(body: &[u8]) -> Result<Option<Self>, Malformed> {
        if !is_packed(body) {
            return Ok(None);
        }
        let u32_at = |at: usize| -> Result<usize, Malformed> {
            let bytes = body.get(at..).and_then(|rest| rest.first_chunk()).ok_or(Malformed)?;
            Ok(u32::from_le_bytes(*bytes) as usize)
        };
        let sum = *body.first_chunk().ok_or(Malformed)?;
        let codecs = [Codec::Lz4, Codec::Zstd];
        let codec = codecs.into_iter().find(|codec| codec.mark() == body[HEADER - 1]).ok_or(Malformed)?;
        let header =
            Self { plain: u32_at(SUM)?, data: u32_at(SUM + 4)?, sum: u64::from_le_bytes(sum), codec };
        let bounded = header.plain <= MAX_PLAIN && header.plain <= body.len() * MAX_RATIO;
        if bounded { Ok(Some(header)) } else { Err(Malformed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Message;
    use uuid::Uuid;

    const CODECS: [Codec; 2] = [Codec::Lz4, Codec::Zstd];

    fn plain(messages: usize, payload: usize) -> Bytes {
        let mut out = Vec::new();
        for n in 0..messages {
            Message {
                id: Uuid::now_v7(),
                transaction_id: format!("order-{n}").into(),
                trace_id: None,
                producer_sub: None,
                context: None,
                encrypted: false,
                payload: format!(r#"{{"order":{n},"note":"{}"}}"#, "again ".repeat(payload / 6)).into(),
            }
            .encode(&mut out);
        }
        out.into()
    }

    /// The same body with a checksum that is right.
    fn sealed(mut body: Vec<u8>) -> Bytes {
        let sum = xxh3_64(&body[SUM..]);
        body[..SUM].copy_from_slice(&sum.to_le_bytes());
        body.into()
    }

    #[test]
    fn what_was_compressed_comes_back() {
        for codec in CODECS {
            for plain in
                [plain(1, 0), plain(100, 200), plain(3, 200_000), Bytes::new(), vec![0; 1 << 20].into()]
            {
                let packed = pack(codec, &plain).unwrap();
                assert_eq!(packed[16], codec.mark());
                assert_eq!(unpack(&packed), Ok(plain.clone()), "{codec:?}");
                assert_eq!(plain_len(&packed), Ok(plain.len()));
                assert!(packed.len() * MAX_RATIO >= plain.len());
            }
            let plain = plain(100, 200);
            assert!(pack(codec, &plain).unwrap().len() * 4 < plain.len());
        }
    }

    #[test]
    fn a_plain_body_is_left_alone_and_no_compressed_one_is_taken_for_messages() {
        let plain = plain(2, 10);
        assert_eq!(unpack(&plain), Ok(plain.clone()));
        assert_eq!(plain_len(&plain), Ok(plain.len()));
        for codec in CODECS {
            let packed = pack(codec, &plain).unwrap();
            assert_eq!(Message::decode(&mut packed.clone()), Err(Malformed));
            assert_eq!(crate::message::record_len(&packed), Err(Malformed));
        }
    }

    #[test]
    fn every_wrong_bit_and_every_missing_byte_is_found() {
        for codec in CODECS {
            // The second ends with a filling.
            for plain in [plain(20, 50), vec![b'x'; 20_000].into()] {
                let packed = pack(codec, &plain).unwrap();
                for bit in 0..packed.len() * 8 {
                    let mut wrong = packed.to_vec();
                    wrong[bit / 8] ^= 1 << (bit % 8);
                    let wrong = Bytes::from(wrong);
                    // Without its highest bit the mark is one of a plain body, which is for the messages' decoder to refuse.
                    let refused = unpack(&wrong).and_then(|mut plain| Message::decode(&mut plain));
                    assert_eq!(refused, Err(Malformed), "{codec:?} bit {bit}");
                    // And with a checksum that is right nothing worse happens than that other bytes come back.
                    let _ = unpack(&sealed(wrong.to_vec()));
                }
                for len in HEADER..packed.len() {
                    assert_eq!(unpack(&packed.slice(..len)), Err(Malformed), "{codec:?} cut to {len}");
                    let _ = unpack(&sealed(packed[..len].to_vec()));
                }
                let longer = [&packed[..], &[1]].concat();
                assert_eq!(unpack(&longer.into()), Err(Malformed), "{codec:?}");
            }
        }
    }

    #[test]
    fn a_length_is_held_against_the_bounds_and_the_content() {
        for codec in CODECS {
            let packed = pack(codec, &plain(20, 50)).unwrap();
            let said = |len: usize| {
                let mut body = packed.to_vec();
                body[SUM..SUM + 4].copy_from_slice(&(len as u32).to_le_bytes());
                sealed(body)
            };
            let right = plain_len(&packed).unwrap();
            for len in [0, 1, right - 1, right + 1] {
                assert_eq!(plain_len(&said(len)), Ok(len));
                assert_eq!(unpack(&said(len)), Err(Malformed), "{codec:?} {len}");
            }
            for len in [packed.len() * MAX_RATIO + 1, MAX_PLAIN + 1, u32::MAX as usize] {
                assert_eq!(plain_len(&said(len)), Err(Malformed), "{codec:?} {len}");
            }
            assert_eq!(pack(codec, &vec![0; MAX_PLAIN + 1]), None);
        }
    }

    #[test]
    fn a_bomb_is_refused_whatever_it_says() {
        let zeroes = vec![0; MAX_PLAIN];
        for codec in CODECS {
            let filled = pack(codec, &zeroes).unwrap();
            assert_eq!(filled.len(), MAX_PLAIN / MAX_RATIO);
            assert_eq!(unpack(&filled), Ok(zeroes.clone().into()));
            let len = u32::from_le_bytes(filled[12..16].try_into().unwrap()) as usize;
            let bare = sealed(filled[..HEADER + len].to_vec());
            assert!(bare.len() * MAX_RATIO < MAX_PLAIN);
            assert_eq!(unpack(&bare), Err(Malformed));
            // One that says less than it holds.
            let mut modest = bare.to_vec();
            modest[SUM..SUM + 4].copy_from_slice(&1000u32.to_le_bytes());
            assert_eq!(unpack(&sealed(modest)), Err(Malformed));
            // And one whose data do not end where they are said to.
            let mut short = filled.to_vec();
            short[SUM + 4..SUM + 8].copy_from_slice(&(len as u32 - 1).to_le_bytes());
            assert_eq!(unpack(&sealed(short)), Err(Malformed));
        }
    }
}
