//! `cargo xtask test browser`: the dashboard in a real browser; and `cargo xtask screenshots`, which keeps its pictures.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::suites::{self, Run};
use crate::tools::{self, Tool};

/// Where the documentation shows the dashboard.
const KEPT: &str = "docs/screenshots";

/// Every page and every action, with what the suite `build` has built. Pictures go to `target/browser`.
pub(crate) fn suite(run: &Run<'_>) -> Result<()> {
    let server = run.server()?;
    let mut play = Command::new(server.with_file_name("bugle-dashboard-tests"));
    play.arg("--server").arg(&server).arg("--shots").arg(run.target().join("browser"));
    play.arg("--postgres").arg(run.dsn()?);
    tools::run(play.current_dir(run.root()))
}

/// The same, and its pictures replace those in the documentation.
pub(crate) fn screenshots(root: &Path) -> Result<ExitCode> {
    suites::prepared(root, &[Tool::Chromium, Tool::Postgres], |run| {
        suite(run)?;
        let kept = root.join(KEPT);
        fs::create_dir_all(&kept)?;
        for entry in fs::read_dir(run.target().join("browser"))? {
            let entry = entry?;
            if entry.path().extension().is_none_or(|kind| kind != "png") {
                continue;
            }
            let to = kept.join(entry.file_name());
            fs::copy(entry.path(), &to).with_context(|| format!("copy to {}", to.display()))?;
        }
        Ok(ExitCode::SUCCESS)
    })
}
