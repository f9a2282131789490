//! Inputs out of inputs: a few changes at random places, now and then a piece of another one.

use fastrand::Rng;

/// Longest input that is made.
const LONGEST: usize = 16 << 10;
/// Values at the edges of what fields can hold.
const EDGES: [u64; 9] =
    [0, 1, 0x7F, 0xFF, 0xFFFF, 0x7FFF_FFFF, 0xFFFF_FFFF, 0x7FFF_FFFF_FFFF_FFFF, 0xFFFF_FFFF_FFFF_FFFF];
/// Pieces that mean something to somebody.
const WORDS: [&[u8]; 16] = [
    b"\"",
    b"\\u0000",
    b"\\ud800",
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b",",
    b"null",
    b"1e999",
    b"%00",
    b"%ff",
    b"&",
    b"=",
    "\u{E000}".as_bytes(),
];

/// A new input out of `corpus`, which must not be empty.
pub fn mutated(random: &mut Rng, corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut out = corpus[random.usize(..corpus.len())].clone();
    for _ in 0..random.usize(1..6) {
        let at = random.usize(..=out.len());
        match random.u8(..9) {
            0 => flip(random, &mut out),
            1 => out.insert(at, random.u8(..)),
            2 => out.truncate(at),
            3 => drop(out.drain(at..(at + random.usize(..16)).min(out.len()))),
            4 => edge(random, &mut out, at),
            5 => drop(out.splice(at..at, WORDS[random.usize(..WORDS.len())].iter().copied())),
            6 => {
                let piece: Vec<u8> = out[at..(at + random.usize(..64)).min(out.len())].to_vec();
                let times = random.usize(1..4);
                (0..times).for_each(|_| drop(out.splice(at..at, piece.iter().copied())));
            }
            7 => {
                let other = &corpus[random.usize(..corpus.len())];
                out.truncate(at);
                out.extend_from_slice(&other[random.usize(..=other.len())..]);
            }
            _ => out.extend((0..random.usize(..40)).map(|_| random.u8(..))),
        }
        out.truncate(LONGEST);
    }
    out
}

fn flip(random: &mut Rng, out: &mut [u8]) {
    if !out.is_empty() {
        let at = random.usize(..out.len());
        out[at] ^= 1 << random.u8(..8);
    }
}

/// An edge value, in either order of bytes, over what stands at a place.
fn edge(random: &mut Rng, out: &mut [u8], at: usize) {
    let value = EDGES[random.usize(..EDGES.len())];
    let bytes = if random.bool() { value.to_be_bytes() } else { value.to_le_bytes() };
    let width = [1, 2, 4, 8][random.usize(..4)];
    let from = if random.bool() { 0 } else { 8 - width };
    for (to, byte) in out[at..].iter_mut().zip(&bytes[from..from + width]) {
        *to = *byte;
    }
}
