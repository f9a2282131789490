//! `cargo xtask bench compare`: installs what Bugle is compared with, builds both sides as they would be released, and runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};

use crate::tools::{self, Tool};

/// The manifest of the comparison.
pub(crate) const MANIFEST: &str = "bench/compare/Cargo.toml";
/// Its own folder: it shares no compiled crate with the workspace, whose lock file is another.
const TARGET: &str = "target/bench-compare";
/// Scripts for libraries of Node.js, and the list of their versions.
const SCRIPTS: &str = "bench/peers";
/// The program under test.
const SERVER: &str = "target/release/bugle";
const NEEDED: [Tool; 6] = [Tool::Postgres, Tool::Redis, Tool::RabbitMq, Tool::Nats, Tool::Npm, Tool::Strace];

/// Runs the comparison with the rest of the arguments.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    tools::ensure_installed(&NEEDED)?;
    let packages = install_packages(root)?;
    let mut command = built(root)?;
    command.arg("run").arg("--server").arg(root.join(SERVER));
    command.arg("--node-modules").arg(packages.join("node_modules")).arg("--scripts").arg(root.join(SCRIPTS));
    command
        .arg("--results")
        .arg(root.join("bench/RESULTS.md"))
        .arg("--chart")
        .arg(root.join("bench/RESULTS.svg"));
    finish(command.args(arguments))
}

/// `cargo xtask bench curve` and `bench growth`: the load generator's command of that name on both engines, beside a PostgreSQL
/// that is durable.
pub(crate) fn on_both_engines(root: &Path, name: &str, arguments: &[String]) -> Result<ExitCode> {
    tools::ensure_installed(&[Tool::Postgres])?;
    let mut command = built(root)?;
    command.arg(name).arg("--server").arg(root.join(SERVER));
    let file = |ending: &str| root.join("bench").join(name.to_uppercase()).with_extension(ending);
    command.arg("--results").arg(file("md")).arg("--svg").arg(file("svg"));
    finish(command.args(arguments))
}

/// Builds both sides. The program is not run through cargo, which would stand between the terminal and a run that must end
/// its servers when it is interrupted.
fn built(root: &Path) -> Result<Command> {
    let mut server = tools::cargo(root);
    tools::run(server.args(["build", "--release", "--locked", "--package", "bugle", "--bin", "bugle"]))?;
    let mut build = tools::cargo(root);
    build.args(["build", "--release", "--locked", "--manifest-path", MANIFEST, "--target-dir", TARGET]);
    tools::run(&mut build)?;
    Ok(Command::new(root.join(TARGET).join("release/bugle-compare")))
}

fn finish(command: &mut Command) -> Result<ExitCode> {
    let status = command.status().context("start the comparison")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Installs the packages of the lock file, outside of the sources, unless they are there.
fn install_packages(root: &Path) -> Result<PathBuf> {
    let folder = root.join("target/bench-peers");
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    let lock = fs::read(root.join(SCRIPTS).join("package-lock.json")).context("read package-lock.json")?;
    let installed = folder.join("installed-lock.json");
    if fs::read(&installed).is_ok_and(|there| there == lock) {
        return Ok(folder);
    }
    for file in ["package.json", "package-lock.json"] {
        fs::copy(root.join(SCRIPTS).join(file), folder.join(file)).with_context(|| format!("copy {file}"))?;
    }
    let mut npm = Command::new("npm");
    npm.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"]).current_dir(&folder);
    tools::run(&mut npm)?;
    ensure!(folder.join("node_modules").is_dir(), "npm has installed nothing");
    fs::write(&installed, lock).context("note what is installed")?;
    Ok(folder)
}
