//! Every kept input, and a second of new ones for each target: no panic, nothing read that cannot be written again, no
//! memory that the input gave no reason for.
//!
//! `BUGLE_FUZZ_SECONDS` makes it longer; `BUGLE_RENEW_CORPUS=1` writes the samples of the code into the corpora.

mod memory;

use std::time::Duration;

use bugle_fuzz::blind::{corpus_of, kept, mutations, play};
use bugle_fuzz::{TARGETS, Target, target};

/// What an input may make a decoder allocate at once: room for its own content, several times over, and something to
/// work with. A length that is believed unread is far beyond that.
fn allowed(bytes: &[u8]) -> usize {
    (1 << 20) + bytes.len() * 64
}

fn checked(bytes: &[u8]) {
    let largest = memory::largest();
    assert!(largest <= allowed(bytes), "{largest} bytes at once for an input of {}", bytes.len());
}

fn test(target: &Target) {
    if std::env::var_os("BUGLE_RENEW_CORPUS").is_some() {
        std::fs::create_dir_all(corpus_of(target)).expect("a folder for the corpus");
        for (number, bytes) in (target.samples)().iter().enumerate() {
            std::fs::write(corpus_of(target).join(format!("sample-{number}")), bytes).expect("a sample");
        }
    }
    let kept = kept(target).expect("every target has a corpus");
    assert!(!kept.is_empty(), "every target has a corpus");
    for (name, bytes) in &kept {
        memory::forget();
        play(target, bytes, name);
        checked(bytes);
    }
    let mut inputs: Vec<Vec<u8>> = kept.into_iter().map(|(_, bytes)| bytes).collect();
    inputs.extend((target.samples)());
    let seconds = std::env::var("BUGLE_FUZZ_SECONDS").ok().map_or(1, |text| text.parse().expect("a number"));
    memory::forget();
    let played = mutations(target, &inputs, Duration::from_secs(seconds), fastrand::u64(..), |bytes| {
        checked(bytes);
        memory::forget();
    });
    eprintln!("{}: {} kept inputs, {played} new ones", target.name, inputs.len());
}

macro_rules! targets {
    ($($name:ident)*) => {
        const NAMES: &[&str] = &[$(stringify!($name)),*];
        $(#[test] fn $name() { test(target(stringify!($name))) })*
    };
}

targets! {
    push_body other_bodies pop_uri datagram notify_payload segment log_record log_file checkpoint index spool
    envelope escape
}

#[test]
fn no_target_is_left_out() {
    let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    assert_eq!(names, NAMES);
    let manifest = include_str!("../../Cargo.toml");
    for name in NAMES {
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name} is no target of cargo fuzz");
    }
}
