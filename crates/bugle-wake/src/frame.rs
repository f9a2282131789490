//! The form of a frame. Every carrier moves the same frames.
//!
//! A sender is one start of one server: a random number, so that a server that starts again is a new sender. `sequence`
//! counts the frames with hints in one stream; frames without hints repeat it, which is how a lost last hint is found.

use bytes::Bytes;

use crate::interest::Digest;

const VERSION: u8 = 1;
/// The kind of a frame with hints.
const HINTS: u8 = 1;
/// Version, kind, sender, addressee, sequence.
pub(crate) const HEADER: usize = 2 + 8 + 8 + 8;
/// Longest server name that travels.
pub(crate) const NAME: usize = 64;

/// A frame, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Who sent it; 0: somebody who does not stay, with hints and nothing else.
    pub(crate) sender: u64,
    /// For whom it is; 0: for everybody, or not known yet.
    pub(crate) to: u64,
    /// Number of frames with hints sent in this stream, this one included; 0: it says nothing about that.
    pub(crate) sequence: u64,
    pub(crate) body: Body,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// Encoded tidings. Counts.
    Hints(Bytes),
    /// Too much moved to be listed. Counts.
    Recheck,
    /// Nothing but the sequence, a while after a burst.
    Trailing,
    /// Are you there? Also a greeting of a newcomer, which everybody answers.
    Ping(Ping),
    /// Answer to a ping.
    Pong { nonce: u64, confirmed: u64 },
    /// Answer to a greeting, or to somebody who was not known.
    Welcome {
        /// The one who is answered was not known.
        forgot: bool,
        name: String,
    },
    /// The sender ends.
    Goodbye,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ping {
    pub(crate) hello: bool,
    pub(crate) nonce: u64,
    /// Only in a greeting.
    pub(crate) name: String,
    /// Version of the digest.
    pub(crate) version: u64,
    /// What the sender wants to hear of; none on carriers that reach everybody anyway.
    pub(crate) digest: Option<Digest>,
}

impl Body {
    /// Whether the frame takes a number of its own.
    pub(crate) fn counts(&self) -> bool {
        matches!(self, Self::Hints(_) | Self::Recheck)
    }
}

impl Frame {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(HEADER + 64);
        let kind = match &self.body {
            Body::Hints(_) => HINTS,
            Body::Recheck => 2,
            Body::Trailing => 3,
            Body::Ping(ping) if ping.hello => 5,
            Body::Ping(_) => 4,
            Body::Pong { .. } => 6,
            Body::Welcome { .. } => 7,
            Body::Goodbye => 8,
        };
        out.extend([VERSION, kind]);
        for number in [self.sender, self.to, self.sequence] {
            out.extend(number.to_be_bytes());
        }
        match &self.body {
            Body::Hints(bytes) => out.extend_from_slice(bytes),
            Body::Ping(ping) => {
                out.extend(ping.nonce.to_be_bytes());
                out.extend(ping.version.to_be_bytes());
                put_name(&mut out, &ping.name);
                if let Some(digest) = &ping.digest {
                    digest.encode(&mut out);
                }
            }
            Body::Pong { nonce, confirmed } => {
                out.extend(nonce.to_be_bytes());
                out.extend(confirmed.to_be_bytes());
            }
            Body::Welcome { forgot, name } => {
                out.push(u8::from(*forgot));
                put_name(&mut out, name);
            }
            Body::Recheck | Body::Trailing | Body::Goodbye => {}
        }
        out.into()
    }

    /// `None`: of no known shape.
    pub(crate) fn decode(bytes: &Bytes) -> Option<Self> {
        let mut rest: &[u8] = bytes;
        let [version, kind] = take::<2>(&mut rest)?;
        let (sender, to, sequence) = (number(&mut rest)?, number(&mut rest)?, number(&mut rest)?);
        if version != VERSION || (sender == 0 && kind != HINTS) {
            return None;
        }
        let body = match kind {
            HINTS => Body::Hints(bytes.slice(HEADER..)),
            2 => Body::Recheck,
            3 => Body::Trailing,
            4 | 5 => Body::Ping(Ping {
                hello: kind == 5,
                nonce: number(&mut rest)?,
                version: number(&mut rest)?,
                name: name(&mut rest)?,
                digest: if rest.is_empty() { None } else { Some(Digest::decode(rest)?) },
            }),
            6 => Body::Pong { nonce: number(&mut rest)?, confirmed: number(&mut rest)? },
            7 => Body::Welcome { forgot: take::<1>(&mut rest)? != [0], name: name(&mut rest)? },
            8 => Body::Goodbye,
            _ => return None,
        };
        Some(Self { sender, to, sequence, body })
    }

    /// The sender of an encoded frame.
    pub(crate) fn sender_of(bytes: &[u8]) -> Option<u64> {
        bytes.get(2..10).and_then(|b| b.try_into().ok()).map(u64::from_be_bytes)
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, tail) = rest.split_first_chunk::<N>()?;
    *rest = tail;
    Some(*first)
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    take::<8>(rest).map(u64::from_be_bytes)
}

/// The name as it travels: cut at a character's end.
pub(crate) fn short_name(name: &str) -> &str {
    &name[..name.floor_char_boundary(NAME)]
}

fn put_name(out: &mut Vec<u8>, name: &str) {
    let name = short_name(name);
    out.push(name.len() as u8);
    out.extend_from_slice(name.as_bytes());
}

fn name(rest: &mut &[u8]) -> Option<String> {
    let [length] = take::<1>(rest)?;
    let (name, tail) = rest.split_at_checked(usize::from(length))?;
    *rest = tail;
    std::str::from_utf8(name).ok().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Vec<Frame> {
        let ping =
            |hello, digest| Body::Ping(Ping { hello, nonce: 7, name: "näme".into(), version: 3, digest });
        [
            Body::Hints(Bytes::from_static(b"abc")),
            Body::Recheck,
            Body::Trailing,
            ping(true, None),
            ping(false, Some(Digest::exact([1, 2, 3]))),
            Body::Pong { nonce: 1, confirmed: 2 },
            Body::Welcome { forgot: true, name: "w".into() },
            Body::Goodbye,
        ]
        .into_iter()
        .map(|body| Frame { sender: 9, to: 8, sequence: 7, body })
        .collect()
    }

    #[test]
    fn every_kind_survives_the_way() {
        for frame in samples() {
            assert_eq!(Frame::decode(&frame.encode()), Some(frame.clone()));
            assert_eq!(Frame::sender_of(&frame.encode()), Some(9));
        }
    }

    #[test]
    fn what_is_cut_or_random_is_refused_and_never_panics() {
        for frame in samples() {
            let whole = frame.encode();
            for length in 0..HEADER {
                assert_eq!(Frame::decode(&whole.slice(..length)), None);
            }
            for length in HEADER..whole.len() {
                let _ = Frame::decode(&whole.slice(..length));
            }
        }
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..10_000 {
            let length = random.usize(0..200);
            let mut bytes: Vec<u8> = (0..length).map(|_| random.u8(..)).collect();
            if random.bool() && bytes.len() > 2 {
                (bytes[0], bytes[1]) = (VERSION, random.u8(0..10));
            }
            let _ = Frame::decode(&bytes.into());
        }
    }

    #[test]
    fn long_names_are_cut_between_characters() {
        assert_eq!(short_name(&"ä".repeat(40)).chars().count(), 32);
        assert_eq!(short_name(&format!("x{}", "ä".repeat(40))).len(), 63);
    }
}
