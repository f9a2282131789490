//! What must hold whatever comes in from other servers, for fuzzing. Each function panics if it does not.

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD_NO_PAD;
use bytes::Bytes;
use tokio::time::Instant;

use crate::core::{Action, Core};
use crate::frame::{Body, Frame, NAME};
use crate::hint::{Source, Tiding};
use crate::options::BellOptions;
use crate::replay::Windows;
use crate::status::{Counters, DropReason};
use crate::transport::Shape;
use crate::udp::Seal;

/// A datagram as it comes from the network, and the same bytes as the content of a datagram that is properly signed.
pub fn datagram<T: Tiding>(bytes: &[u8]) {
    let now = 1 << 40;
    let seal = Seal::new(b"a secret that nobody guesses");
    let opened = seal.open(bytes, now, &mut Windows::default());
    assert!(opened.is_err(), "nobody signed it");
    // Time and number stand before the frame; both are the sender's to choose.
    let (at, frame) =
        bytes.split_first().map_or((now, bytes), |(late, frame)| (now + u64::from(*late) * 1000, frame));
    let mut windows = Windows::default();
    let signed = seal.wrap(at, 7, frame);
    match seal.open(&signed, now, &mut windows) {
        Ok(content) => {
            assert_eq!(content, frame);
            assert_eq!(seal.open(&signed, now, &mut windows), Err(DropReason::Replayed));
            heard::<T>(&content, Source::Udp, Shape::Peers(vec!["127.0.0.1:1".to_owned()]));
        }
        Err(reason) => assert!(matches!(reason, DropReason::Malformed | DropReason::Stale), "{reason:?}"),
    }
}

/// The payload of a NOTIFY.
pub fn notification<T: Tiding>(text: &str) {
    let Ok(bytes) = BASE64_STANDARD_NO_PAD.decode(text) else { return };
    assert_eq!(BASE64_STANDARD_NO_PAD.encode(&bytes), text, "one spelling only");
    heard::<T>(&bytes.into(), Source::Notify, Shape::Everyone);
}

/// The payload that carries these bytes, for corpora.
pub fn payload(frame: &[u8]) -> String {
    BASE64_STANDARD_NO_PAD.encode(frame)
}

/// A frame that is read can be written again, and whoever hears it twice asks at most for a look and an answer.
fn heard<T: Tiding>(bytes: &Bytes, source: Source, shape: Shape) {
    if let Some(frame) = Frame::decode(bytes) {
        let again = frame.encode();
        assert!(again.len() <= bytes.len(), "what is written has no more than what was read");
        if !names_are_cut(&frame) {
            assert_eq!(Frame::decode(&again), Some(frame));
        }
    }
    let now = Instant::now();
    let mut core: Core<T> =
        Core::new(BellOptions::default(), source, shape, 1200, now, Arc::new(Counters::default()));
    for _ in 0..2 {
        let mut out = Vec::new();
        core.frame(now, None, bytes, &mut out);
        let told: usize =
            out.iter().map(|action| if let Action::Tidings(t) = action { t.len() } else { 1 }).sum();
        assert!(told <= 8 + bytes.len(), "{told} actions for {} bytes", bytes.len());
    }
}

/// Names are cut when they are written, and longer ones are read all the same.
fn names_are_cut(frame: &Frame) -> bool {
    match &frame.body {
        Body::Ping(ping) => ping.name.len() > NAME,
        Body::Welcome { name, .. } => name.len() > NAME,
        _ => false,
    }
}

/// One frame of every kind, for corpora.
pub fn samples(hints: &[u8]) -> Vec<Vec<u8>> {
    use crate::frame::Ping;
    use crate::interest::Digest;
    let ping =
        |hello, digest| Body::Ping(Ping { hello, nonce: 7, name: "server-1".into(), version: 3, digest });
    let bodies = [
        Body::Hints(Bytes::copy_from_slice(hints)),
        Body::Recheck,
        Body::Trailing,
        ping(true, None),
        ping(false, Some(Digest::All)),
        ping(false, Some(Digest::exact([1, 2, 3]))),
        ping(true, Some(Digest::exact(0..200))),
        Body::Pong { nonce: 1, confirmed: 2 },
        Body::Welcome { forgot: true, name: "server-2".into() },
        Body::Goodbye,
    ];
    let frame = |body| Frame { sender: 9, to: 8, sequence: 7, body }.encode().to_vec();
    bodies.into_iter().map(frame).collect()
}
