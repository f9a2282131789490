//! Suite `python-client`: our tests in `tests/python`, through the published Python clients, against our server on every
//! engine. Each version of the client has a virtual environment of its own under `target/`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::server::Server;
use crate::suites::Run;
use crate::tools;

/// Folders of `tests/python`, each with the requirements that name its version of the client.
const VERSIONS: [&str; 2] = ["current", "old"];

/// Runs the tests of every version on every engine.
pub(crate) fn run(run: &Run<'_>) -> Result<()> {
    let folder = run.target().join("python-client");
    let program = run.server()?;
    let mut clients = Vec::new();
    for version in VERSIONS {
        let tests = run.root().join("tests/python").join(version);
        clients.push((install(&tests, &folder.join(version))?, tests));
    }
    run.on_every_engine(|engine| {
        let server = Server::start(&program, engine, &folder.join(engine.name()))?;
        let verdict = clients.iter().try_for_each(|(python, tests)| test(python, tests, &server.url));
        if verdict.is_err() {
            server.show_log();
        }
        verdict
    })
}

/// An environment with what the folder's requirements name; its interpreter. Made again when they change.
fn install(tests: &Path, environment: &Path) -> Result<PathBuf> {
    let requirements = tests.join("requirements.txt");
    let wanted =
        fs::read_to_string(&requirements).with_context(|| format!("read {}", requirements.display()))?;
    let python = environment.join("bin/python");
    // Written last: an environment without it is unfinished.
    let installed = environment.join("installed.txt");
    if fs::read_to_string(&installed).is_ok_and(|text| text == wanted) && python.is_file() {
        return Ok(python);
    }
    tools::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(environment))?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"];
    tools::run(Command::new(&python).args(pip).arg(&requirements))?;
    fs::write(&installed, wanted).context("note what is installed")?;
    Ok(python)
}

/// Runs the tests of a folder and holds what is said of them against what is there.
fn test(python: &Path, tests: &Path, url: &str) -> Result<()> {
    eprintln!("\n-- {}", tests.display());
    let written = count(tests)?;
    let top = tests.parent().context("the tests have no parent folder")?;
    let mut command = Command::new(python);
    command.args(["-m", "unittest", "discover", "--verbose", "--start-directory"]).arg(tests);
    command.arg("--top-level-directory").arg(top);
    command.env("BUGLE_URL", url).env("PYTHONDONTWRITEBYTECODE", "1").env_remove("QUEEN_SDK_POP_AUTOPILOT");
    let output = command.stdin(Stdio::null()).output().context("start the interpreter")?;
    let said = String::from_utf8_lossy(&output.stderr);
    eprint!("{said}");
    if !output.status.success() {
        // What the clients print is of interest only now.
        eprint!("{}", String::from_utf8_lossy(&output.stdout));
        bail!("{}: {}", tests.display(), output.status);
    }
    check(&said, written)
}

/// How many tests the folder holds.
fn count(tests: &Path) -> Result<usize> {
    let mut written = 0;
    for entry in fs::read_dir(tests).with_context(|| format!("read {}", tests.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "py") {
            let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
            written += text.lines().filter(|line| line.trim_start().starts_with("async def test_")).count();
        }
    }
    Ok(written)
}

/// Whether as many tests ran as are written, and none was skipped.
fn check(said: &str, written: usize) -> Result<()> {
    let ran = said.lines().find_map(|line| line.strip_prefix("Ran ")?.split(' ').next()?.parse().ok());
    let ran: usize = ran.context("the interpreter does not say how many tests ran")?;
    ensure!(ran == written && ran > 0, "{ran} tests ran, but {written} are written");
    ensure!(said.trim_end().lines().next_back() == Some("OK"), "tests were skipped or expected to fail");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn all_tests_must_have_run() {
        let said = |ran: &str, end: &str| format!("test_a ... ok\n\n{ran}\n\n{end}\n");
        check(&said("Ran 7 tests in 1.2s", "OK"), 7).unwrap();
        for (ran, end, written) in [
            ("Ran 7 tests in 1.2s", "OK", 8),
            ("Ran 7 tests in 1.2s", "OK (skipped=1)", 7),
            ("Ran 7 tests in 1.2s", "OK (expected failures=1)", 7),
            ("Ran 0 tests in 0.0s", "OK", 0),
            ("", "OK", 7),
        ] {
            assert!(check(&said(ran, end), written).is_err(), "{ran} {end} {written}");
        }
    }
}
