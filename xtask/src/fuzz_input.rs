//! `cargo xtask fuzz-input`: the targets of `fuzz/`, guided by coverage, for as long as one likes.
//!
//! Needs nothing that is not here: libFuzzer comes with a crate and a C++ compiler, and the coverage passes are in the
//! stable compiler. What a run finds is written to `fuzz/artifacts`; inputs that reach something new are collected in
//! `target/fuzz/corpus`, and are moved into `fuzz/corpus` by hand if they are worth keeping.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};

use crate::tools;

/// As `cargo fuzz run --sanitizer none` has them, with arithmetic and assertions checked.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Cllvm-args=-simplifycfg-branch-fold-threshold=0 \
    -Cdebug-assertions -Coverflow-checks";
const DEFAULT_MINUTES: u64 = 10;
/// Longest input; what matters is near the front of everything.
const LONGEST: &str = "-max_len=16384";
/// A decoder that needs more than this has believed a length.
const MEMORY: &str = "-rss_limit_mb=1024";
/// A decoder that needs longer for one input is stuck.
const PATIENCE: &str = "-timeout=10";

/// What to run.
#[derive(Debug, PartialEq, Eq)]
struct Wish {
    minutes: u64,
    target: Option<String>,
}

/// Fuzzes for as long as the arguments say.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    let wish = wish(arguments)?;
    let known = targets(root)?;
    if let Some(target) = wish.target.as_ref().filter(|target| !known.contains(target)) {
        bail!("no target {target:?}. Targets: {}", known.join(", "));
    }
    let chosen: Vec<&String> =
        known.iter().filter(|t| wish.target.as_ref().is_none_or(|w| w == *t)).collect();
    let folder = root.join("target/fuzz");
    let host = host()?;
    build(root, &folder, &host, &chosen)?;
    let seconds = (wish.minutes * 60 / chosen.len() as u64).max(1);
    let mut failed = Vec::new();
    for target in &chosen {
        eprintln!("\n-- {target}, {seconds} s");
        let program = folder.join(&host).join("release").join(target);
        if !fuzz(root, &folder, target, &program, seconds)? {
            failed.push(target.as_str());
        }
    }
    ensure!(failed.is_empty(), "failed: {}; see fuzz/artifacts", failed.join(", "));
    Ok(ExitCode::SUCCESS)
}

fn build(root: &Path, folder: &Path, host: &str, targets: &[&String]) -> Result<()> {
    let mut command = tools::cargo(root);
    // Named, although it is the host: then the flags are not for what runs while building.
    command
        .args(["build", "--release", "--package", "bugle-fuzz", "--target", host, "--target-dir"])
        .arg(folder);
    command.args(targets.iter().map(|target| format!("--bin={target}")));
    // Optimising each of the programs as a whole would take longer than fuzzing it.
    command.env("CARGO_PROFILE_RELEASE_LTO", "off").env("CARGO_PROFILE_RELEASE_DEBUG", "0");
    tools::run(command.env("RUSTFLAGS", FLAGS))
}

fn fuzz(root: &Path, folder: &Path, target: &str, program: &Path, seconds: u64) -> Result<bool> {
    let (found, kept) = (folder.join("corpus").join(target), root.join("fuzz/corpus").join(target));
    let artifacts = root.join("fuzz/artifacts").join(target);
    for made in [&found, &artifacts] {
        std::fs::create_dir_all(made).with_context(|| format!("make {}", made.display()))?;
    }
    let mut command = Command::new(program);
    // New inputs go to the first folder.
    command.arg(&found).arg(&kept).args([LONGEST, MEMORY, PATIENCE, "-print_final_stats=1"]);
    command.arg(format!("-max_total_time={seconds}"));
    command.arg(format!("-artifact_prefix={}/", artifacts.display()));
    Ok(command.status().with_context(|| format!("start {}", program.display()))?.success())
}

/// The names in the manifest.
fn targets(root: &Path) -> Result<Vec<String>> {
    let manifest = std::fs::read_to_string(root.join("fuzz/Cargo.toml")).context("read fuzz/Cargo.toml")?;
    let bins = manifest.split("[[bin]]").skip(1);
    Ok(bins.filter_map(|bin| bin.split('"').nth(1)).map(str::to_owned).collect())
}

/// What the compiler builds for if nobody says otherwise.
fn host() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("start rustc")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not say what it builds for")?.to_owned())
}

fn wish(arguments: &[String]) -> Result<Wish> {
    let mut wish = Wish { minutes: DEFAULT_MINUTES, target: None };
    for pair in arguments.chunks(2) {
        match pair {
            [flag, number] if flag == "--minutes" => {
                wish.minutes =
                    number.parse().with_context(|| format!("--minutes {number:?} is no number"))?;
            }
            [flag, target] if flag == "--target" => wish.target = Some(target.clone()),
            other => bail!("fuzz-input takes --minutes N and --target NAME, not {other:?}"),
        }
    }
    Ok(wish)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_and_target_are_read_or_the_usual_ones() {
        let read = |text: &str| wish(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        let of = |minutes, target: Option<&str>| Wish { minutes, target: target.map(str::to_owned) };
        assert_eq!(read("").unwrap(), of(DEFAULT_MINUTES, None));
        assert_eq!(read("--minutes 3").unwrap(), of(3, None));
        assert_eq!(read("--target spool --minutes 1").unwrap(), of(1, Some("spool")));
        for wrong in ["--minutes", "--minutes x", "3", "--hours 3", "--target"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_targets_are_those_of_the_manifest() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let targets = targets(root).unwrap();
        assert!(targets.contains(&"push_body".to_owned()) && targets.len() > 10, "{targets:?}");
        for target in targets {
            assert!(root.join("fuzz/corpus").join(&target).is_dir(), "{target} has no corpus");
        }
    }
}
