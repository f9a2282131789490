//! `cargo xtask bench instructions`: counts what the hot pure functions cost and compares it with the baseline.
//!
//! Time on a shared machine moves by tens of percent from minute to minute; the number of instructions does not. It depends on the
//! compiler, though: after a new one the baseline is renewed with `--save`, in a change that does nothing else.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};

use crate::tools::{self, Tool};

/// What each function cost when somebody last looked.
const BASELINE: &str = "bench/instructions/baseline.txt";
/// Parts of a hundred by which a count may grow. Less is noise of hashing and of where memory lies.
const TOLERANCE: f64 = 2.0;
/// Numbers of calls of the two runs; the difference is divided by the difference.
const CALLS: (u64, u64) = (20, 220);

/// Counts everything; fails if something has become dearer.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    let save = match arguments {
        [] => false,
        [only] if only == "--save" => true,
        _ => bail!("bench instructions takes nothing but --save"),
    };
    tools::ensure_installed(&[Tool::Valgrind])?;
    let mut build = tools::cargo(root);
    tools::run(build.args(["build", "--release", "--locked", "--package", "bugle-instructions"]))?;
    let program = root.join("target/release/bugle-instructions");
    let counted = count_all(&program)?;
    let file = root.join(BASELINE);
    if save {
        fs::write(&file, text(&counted)).with_context(|| format!("write {BASELINE}"))?;
    }
    let baseline = parse(&fs::read_to_string(&file).with_context(|| format!("read {BASELINE}"))?)?;
    let verdicts = compare(&baseline, &counted);
    eprintln!("{:<24} {:>12} {:>12} {:>8}", "function", "baseline", "now", "change");
    for verdict in &verdicts {
        eprintln!("{}", verdict.line);
    }
    let dearer = verdicts.iter().filter(|verdict| verdict.dearer).count();
    if dearer > 0 {
        eprintln!(
            "{dearer} dearer by more than {TOLERANCE} %. If that is meant: --save, and say why in the commit."
        );
    }
    Ok(if dearer == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn count_all(program: &Path) -> Result<Vec<(String, u64)>> {
    let list = Command::new(program).arg("list").output().context("start bugle-instructions")?;
    let names = String::from_utf8(list.stdout).context("names of functions")?;
    names
        .lines()
        .map(|name| {
            let (few, many) = (collected(program, name, CALLS.0)?, collected(program, name, CALLS.1)?);
            Ok((name.to_owned(), many.saturating_sub(few) / (CALLS.1 - CALLS.0)))
        })
        .collect()
}

/// Instructions of a whole run.
fn collected(program: &Path, name: &str, times: u64) -> Result<u64> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program);
    let output = command.args([name, &times.to_string()]).output().context("start valgrind")?;
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{name}: {}: {told}", output.status);
    find_count(&told).with_context(|| format!("{name}: valgrind says nothing of a count: {told}"))
}

/// The number in callgrind's line `Collected : 123`.
fn find_count(told: &str) -> Option<u64> {
    let line = told.lines().find_map(|line| line.split_once("Collected :"))?;
    line.1.trim().parse().ok()
}

fn text(counted: &[(String, u64)]) -> String {
    let lines: String = counted.iter().map(|(name, count)| format!("{name} {count}\n")).collect();
    format!("# Instructions per call, by `cargo xtask bench instructions --save`.\n{lines}")
}

fn parse(text: &str) -> Result<Vec<(String, u64)>> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (name, count) = line.split_once(' ').with_context(|| format!("{BASELINE}: {line:?}"))?;
            Ok((name.to_owned(), count.parse().with_context(|| format!("{BASELINE}: {line:?}"))?))
        })
        .collect()
}

struct Verdict {
    line: String,
    dearer: bool,
}

fn compare(baseline: &[(String, u64)], counted: &[(String, u64)]) -> Vec<Verdict> {
    let verdict = |(name, now): &(String, u64)| {
        let Some((_, before)) = baseline.iter().find(|(known, _)| known == name) else {
            return Verdict {
                line: format!("{name:<24} {:>12} {now:>12} {:>8}", "none", "new"),
                dearer: true,
            };
        };
        let change = (*now as f64 / (*before).max(1) as f64 - 1.0) * 100.0;
        let line = format!("{name:<24} {before:>12} {now:>12} {change:>+7.1}%");
        Verdict { line, dearer: change > TOLERANCE }
    };
    counted.iter().map(verdict).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[(&str, u64)]) -> Vec<(String, u64)> {
        entries.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    #[test]
    fn what_grew_beyond_the_tolerance_or_is_unknown_fails() {
        let baseline = list(&[("a", 1000), ("b", 1000), ("c", 1000)]);
        let verdicts = compare(&baseline, &list(&[("a", 1019), ("b", 1021), ("c", 500), ("d", 1)]));
        assert_eq!(verdicts.iter().map(|v| v.dearer).collect::<Vec<_>>(), [false, true, false, true]);
    }

    #[test]
    fn a_baseline_reads_back() {
        let counted = list(&[("push-body-1", 12), ("settle", 3456)]);
        assert_eq!(parse(&text(&counted)).unwrap(), counted);
        assert!(parse("nonsense\n").is_err());
    }

    #[test]
    fn the_count_is_found_among_what_valgrind_says() {
        assert_eq!(find_count("==7== Callgrind\n==7== Collected : 123456\n==7== bye\n"), Some(123_456));
        assert_eq!(find_count("==7== Command: x\n"), None);
    }
}
