//! Suite `duroxide-import`: an application moves from the published `duroxide-pg` provider to ours.
//!
//! The test is a package of its own, with its own lock file, because that provider brings libraries that our workspace must
//! not depend on.

use anyhow::Result;

use crate::suites::Run;
use crate::tools;

const MANIFEST: &str = "tests/duroxide-import/Cargo.toml";

/// Builds the package apart from everything else and runs its tests.
pub(crate) fn run(run: &Run<'_>) -> Result<()> {
    tools::run(run.cargo_command().args(["fmt", "--check", "--manifest-path", MANIFEST]))?;
    let mut command = run.cargo_command();
    command.args(["test", "--locked", "--manifest-path", MANIFEST]);
    tools::run(command.arg("--target-dir").arg(run.target().join("duroxide-import")))
}
