//! Suite `rust-client`: the published Rust client's own integration tests, unchanged, against our server on every engine.
//!
//! Nothing of that package is kept here. Cargo fetches it, and its tests are built where cargo unpacked it, with the
//! versions its own lock file names, into a folder under `target/`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::server::Server;
use crate::suites::Run;
use crate::tools;

const PACKAGE: &str = "queen-mq";
const VERSION: &str = "2.7.0";
/// The files of tests that need a server with the routes we have, and how many tests each holds in this version. The
/// others test the client without a server, or surfaces of that server that we do not offer.
const FILES: [(&str, usize); 5] =
    [("core", 40), ("admin", 36), ("coverage", 38), ("semantics", 22), ("docs", 1)];
/// Most of the tests' time is waiting, for leases and delays to end.
const THREADS: &str = "--test-threads=16";

/// Runs the tests on every engine; all of them, even if some fail on the first.
pub(crate) fn run(run: &Run<'_>) -> Result<()> {
    let folder = run.target().join("rust-client");
    let program = run.server()?;
    let manifest = fetch(run, &folder.join("fetch"))?;
    // Built first, so that no server stands idle meanwhile.
    tools::run(test_command(run, &manifest, &folder).arg("--no-run"))?;
    run.on_every_engine(|engine| {
        let server = Server::start(&program, engine, &folder.join(engine.name()))?;
        let tally =
            make_a_queue(&server.url).and_then(|()| test_against(run, &manifest, &folder, &server.url));
        let verdict = tally.and_then(|tally| tally.check());
        if verdict.is_err() {
            server.show_log();
        }
        verdict
    })
}

/// Has cargo download the package; where its manifest is.
fn fetch(run: &Run<'_>, folder: &Path) -> Result<PathBuf> {
    fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    let manifest = folder.join("Cargo.toml");
    let text = format!(
        "[package]\nname = \"fetch\"\nedition = \"2024\"\n\n[lib]\npath = \"empty.rs\"\n\n[workspace]\n\n\
         [dependencies]\n{PACKAGE} = \"={VERSION}\"\n"
    );
    fs::write(&manifest, text).context("write the manifest")?;
    fs::write(folder.join("empty.rs"), "").context("write the empty source")?;
    let mut command = run.cargo_command();
    command.args(["metadata", "--format-version=1", "--manifest-path"]).arg(&manifest);
    let output = command.stderr(Stdio::inherit()).output().context("start cargo metadata")?;
    ensure!(output.status.success(), "cargo metadata: {}", output.status);
    let found = find_manifest(&String::from_utf8_lossy(&output.stdout));
    found.with_context(|| format!("cargo metadata does not say where {PACKAGE} {VERSION} is"))
}

/// The path of the package's manifest in what cargo says of all packages.
fn find_manifest(metadata: &str) -> Option<PathBuf> {
    let end = format!("/{PACKAGE}-{VERSION}/Cargo.toml");
    metadata.split("\"manifest_path\":\"").skip(1).find_map(|rest| {
        let path = rest.split('"').next()?;
        path.ends_with(&end).then(|| PathBuf::from(path))
    })
}

fn test_command(run: &Run<'_>, manifest: &Path, folder: &Path) -> Command {
    let mut command = run.cargo_command();
    command.args(["test", "--locked", "--no-fail-fast", "--manifest-path"]).arg(manifest);
    command.arg("--target-dir").arg(folder.join("build"));
    command.args(FILES.iter().flat_map(|(file, _)| ["--test", file]));
    command
}

/// One of the tests lists the queues and expects to find some; all the others remove theirs.
fn make_a_queue(url: &str) -> Result<()> {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--fail", "--output", "/dev/null"]);
    command.args(["--data", r#"{"queue":"standing"}"#]).arg(format!("{url}/api/v1/configure"));
    tools::run(&mut command)
}

/// Runs the tests against `url`, showing what they print except what passing ones printed.
fn test_against(run: &Run<'_>, manifest: &Path, folder: &Path, url: &str) -> Result<Tally> {
    let mut command = test_command(run, manifest, folder);
    command.args(["--", THREADS, "--show-output"]);
    // Without an address a test would pass by doing nothing; strict makes that a failure.
    command.env("QUEEN_TEST_URL", url).env("QUEEN_TEST_STRICT", "1").stdout(Stdio::piped());
    let mut child = command.spawn().context("start cargo test")?;
    let output = child.stdout.take().context("cargo test has no output")?;
    let mut tally = Tally::default();
    for line in BufReader::new(output).lines() {
        let line = line.context("read the output of cargo test")?;
        if tally.read(&line) {
            eprintln!("{line}");
        }
    }
    tally.failed |= !child.wait().context("wait for cargo test")?.success();
    Ok(tally)
}

/// What the tests' output says.
#[derive(Debug, Default)]
struct Tally {
    passed: usize,
    left_out: usize,
    skipped: Vec<String>,
    failed: bool,
    inside_successes: bool,
}

impl Tally {
    /// Takes one line into account; whether it is worth showing.
    fn read(&mut self, line: &str) -> bool {
        let result = line.strip_prefix("test result: ");
        match line {
            "successes:" => self.inside_successes = true,
            "failures:" => self.inside_successes = false,
            _ if result.is_some() => self.inside_successes = false,
            _ if line.starts_with("SKIP ") => self.skipped.push(line.to_owned()),
            _ => {}
        }
        for part in result.unwrap_or_default().split([';', '.']).map(str::trim) {
            let (number, what) = part.split_once(' ').unwrap_or_default();
            let number: usize = number.parse().unwrap_or_default();
            match what {
                "passed" => self.passed += number,
                "ignored" | "filtered out" => self.left_out += number,
                _ => {}
            }
        }
        !self.inside_successes && !line.is_empty()
    }

    /// Whether all tests of the package have run and passed.
    fn check(&self) -> Result<()> {
        let all: usize = FILES.iter().map(|(_, tests)| tests).sum();
        ensure!(!self.failed, "{} of {all} tests of {PACKAGE} {VERSION} passed", self.passed);
        ensure!(self.skipped.is_empty(), "tests did nothing: {}", self.skipped.join(", "));
        ensure!(self.left_out == 0, "{} tests were left out", self.left_out);
        ensure!(self.passed == all, "{} tests ran, not the {all} of {PACKAGE} {VERSION}", self.passed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSED: &str = "\nrunning 137 tests\ntest a ... ok\n\nsuccesses:\n\n---- a stdout ----\nhello\n\n\n\
         successes:\n    a\n\ntest result: ok. 137 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; \
         finished in 9.12s\n";

    fn tally(text: &str) -> (Tally, Vec<&str>) {
        let mut tally = Tally::default();
        let shown = text.lines().filter(|line| tally.read(line)).collect();
        (tally, shown)
    }

    #[test]
    fn all_tests_must_have_run() {
        let (good, shown) = tally(PASSED);
        good.check().unwrap();
        assert_eq!(shown.len(), 3, "what passing tests print is not shown: {shown:?}");
        for (from, to, what) in [
            ("137 passed", "136 passed", "136 tests ran"),
            ("0 ignored", "1 ignored", "1 tests were left out"),
            ("0 filtered out", "2 filtered out", "2 tests were left out"),
            ("hello", "SKIP x: QUEEN_TEST_URL is not set", "tests did nothing"),
        ] {
            let error = tally(&PASSED.replace(from, to)).0.check().unwrap_err();
            assert!(error.to_string().contains(what), "{error}");
        }
        let failed = Tally { failed: true, ..tally(PASSED).0 };
        assert!(failed.check().is_err());
        assert!(Tally::default().check().is_err());
    }

    #[test]
    fn results_of_several_files_are_added_and_failures_shown() {
        let text = "test result: ok. 40 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.5s\n\
            successes:\nnoise\nfailures:\n---- b stdout ----\nreason\n\
            test result: FAILED. 35 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 2s";
        let (tally, shown) = tally(text);
        assert_eq!(tally.passed, 75);
        assert!(shown.contains(&"reason") && !shown.contains(&"noise"), "{shown:?}");
    }

    #[test]
    fn the_package_is_found_in_what_cargo_says() {
        let other = r#"{"manifest_path":"/r/queen-protocol-2.7.0/Cargo.toml","x":1}"#;
        let own = format!(r#"{{"manifest_path":"/r/{PACKAGE}-{VERSION}/Cargo.toml","x":1}}"#);
        assert_eq!(find_manifest(other), None);
        let path = find_manifest(&format!("{other},{own}")).unwrap();
        assert_eq!(path, Path::new("/r/queen-mq-2.7.0/Cargo.toml"));
    }
}
