//! Fuzzing without guidance, on any toolchain: what the tests do.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io};

use fastrand::Rng;

use crate::mutation::mutated;
use crate::targets::Target;

/// Where the kept inputs of a target are.
pub fn corpus_of(target: &Target) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name)
}

/// The kept inputs of a target, with their names, in order.
pub fn kept(target: &Target) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(corpus_of(target))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        all.push((name, fs::read(path)?));
    }
    all.sort();
    Ok(all)
}

/// One input. If it fails, it is written to `artifacts/`, from where it can be moved into the corpus.
pub fn play(target: &Target, bytes: &[u8], told: &str) {
    let Err(panic) = catch_unwind(AssertUnwindSafe(|| (target.run)(bytes))) else { return };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("artifacts").join(target.name);
    let file = folder.join(told.replace(|c: char| !c.is_ascii_alphanumeric(), "-"));
    let written = fs::create_dir_all(&folder).and_then(|()| fs::write(&file, bytes));
    eprintln!("{} fails: {told}, {} bytes, kept: {written:?} {}", target.name, bytes.len(), file.display());
    resume_unwind(panic)
}

/// Mutations of these inputs for so long. How many they were.
pub fn mutations(
    target: &Target,
    corpus: &[Vec<u8>],
    time: Duration,
    seed: u64,
    mut after: impl FnMut(&[u8]),
) -> u64 {
    let (mut random, end, mut played) = (Rng::with_seed(seed), Instant::now() + time, 0);
    while Instant::now() < end {
        for _ in 0..16 {
            let bytes = mutated(&mut random, corpus);
            play(target, &bytes, &format!("seed {seed}, input {played}"));
            after(&bytes);
            played += 1;
        }
    }
    played
}
