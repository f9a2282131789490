//! `cargo xtask models`: the concurrency models, with new orders of steps, for as long as one likes. One that goes wrong is told
//! with its number.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;

use crate::fuzz::minutes;
use crate::tools;

/// The packages with models.
const PACKAGES: [&str; 3] = ["bugle-broker-model", "bugle-wake-model", "bugle-room-model"];
/// How many models they have. Each runs on one thread.
const MODELS: u64 = 13;

/// Explores for as long as the arguments say.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    let minutes = minutes(arguments)?;
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get) as u64;
    // What `BUGLE_MODEL_SECONDS` says is for each of them; as many as there are threads take turns.
    let seconds = (minutes * 60 * threads / MODELS).max(1);
    let mut command = tools::cargo(root);
    // Not nextest, which ends every test after some minutes. Faults on purpose are found in the short version.
    command.args(["test", "--release", "--no-fail-fast"]);
    command.args(PACKAGES.iter().flat_map(|package| ["--package", package]));
    command.args(["--", "--nocapture", "--skip", "is_found", "--skip", "are_found"]);
    command.env("BUGLE_MODEL_SECONDS", seconds.to_string());
    tools::run(&mut command)?;
    Ok(ExitCode::SUCCESS)
}
