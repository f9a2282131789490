//! Whatever comes in from outside, and whatever is found on disk: for each decoder one target, which panics if something
//! does not hold that must hold for every input, and a corpus of inputs worth keeping in `corpus/`.
//!
//! What must hold stands in the modules `fuzz` of the crates, behind a feature of that name. A decoder refuses, or what it
//! read can be written again and is the same; it never panics; and it allocates no more than it was given reason to.
//!
//! Two engines use the targets. Ordinary tests ([`blind`]) replay the corpora and play mutations of them for a second each,
//! on any toolchain. For more, `cargo xtask fuzz-input` builds them with libFuzzer and the coverage passes of the stable
//! compiler, which is what `cargo fuzz run --sanitizer none TARGET` does too. Blind mutation reaches what is behind a
//! checksum as well, since the targets make checksums good; guidance finds the rare branch.
//!
//! Modules in reading order; each uses only those above it.

pub mod blind;
pub mod mutation;
mod targets;

pub use targets::{TARGETS, Target, target};

/// The body of a file in `fuzz_targets/`: the target of this name, guided by libFuzzer. Without `--cfg fuzzing` it is a
/// program that does nothing, so that all of the workspace can be built together.
#[macro_export]
macro_rules! guided {
    ($name:literal) => {
        #[cfg(fuzzing)]
        libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
            static TARGET: std::sync::LazyLock<&'static $crate::Target> =
                std::sync::LazyLock::new(|| $crate::target($name));
            (TARGET.run)(bytes);
        });

        #[cfg(not(fuzzing))]
        fn main() {}
    };
}
