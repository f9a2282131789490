//! `cargo xtask faults`: everything breaks under load, and every promise is checked; and a short round of each for CI.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;

use crate::suites::Run;
use crate::tools::{self, Tool};

/// Faults that a server has to cooperate in are built into it on demand only.
const FEATURES: [&str; 2] = ["--features", "bugle/planted-bugs"];

/// Faults of a database cluster, which needs programs of its own.
const CLUSTER: [&str; 6] =
    ["failover", "switchover", "switchover-haproxy", "isolated", "cut-off", "failover-async"];

/// Builds the server as it is released, and plays for as long as the arguments say.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    tools::ensure_installed(&[Tool::Postgres, Tool::Faketime])?;
    if arguments.iter().any(|word| CLUSTER.contains(&word.trim_start_matches("--fault="))) {
        tools::ensure_installed(&[Tool::Patroni, Tool::Etcd, Tool::Haproxy])?;
    }
    let mut build = tools::cargo(root);
    build.args(["build", "--release", "--package", "bugle", "--package", "bugle-faults"]).args(FEATURES);
    tools::run(&mut build)?;
    let folder = target(root).join("release");
    let mut play = std::process::Command::new(folder.join("bugle-faults"));
    play.arg("--server").arg(folder.join("bugle")).args(arguments).current_dir(root);
    tools::run(&mut play)?;
    Ok(ExitCode::SUCCESS)
}

/// A short round of every fault, with what the suite `build` has built.
pub(crate) fn suite(run: &Run<'_>) -> Result<()> {
    let server = run.server()?;
    let mut play = std::process::Command::new(server.with_file_name("bugle-faults"));
    play.arg("--short").arg("--at-once=6").arg("--server").arg(&server);
    tools::run(play.current_dir(run.root()))
}

fn target(root: &Path) -> PathBuf {
    root.join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}
