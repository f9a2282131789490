//! `cargo xtask powercuts`: new random power cuts on the embedded engine and the spool, for as long as one likes. A seed that
//! fails is told.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;

use crate::fuzz::minutes;
use crate::tools;

/// Cuts for as long as the arguments say.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    let minutes = minutes("powercuts", arguments)?;
    let mut command = tools::cargo(root);
    // Not nextest, which ends every test after some minutes. Optimized, for more cuts per minute.
    command.args(["test", "--release", "--package", "bugle-store-embedded", "--package", "bugle-spool"]);
    command.args(["--test", "powercut", "--", "--nocapture", "--test-threads=2"]);
    command.env("BUGLE_POWERCUT_MINUTES", minutes.to_string());
    tools::run(&mut command)?;
    Ok(ExitCode::SUCCESS)
}
