//! `cargo xtask bench`: benchmarks that are packages of their own, built apart from the workspace.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::tools;

/// The manifest of the comparison of duroxide providers.
pub(crate) const DUROXIDE: &str = "bench/duroxide/Cargo.toml";
/// Its own folder: it shares no compiled crate with the workspace, whose lock file is another.
const TARGET: &str = "target/bench-duroxide";

/// Builds the named benchmark as it would be released and runs it with the rest of the arguments.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    let Some(("duroxide", rest)) = arguments.split_first().map(|(name, rest)| (name.as_str(), rest)) else {
        bail!(
            "which benchmark? There is: duroxide. The load generator for servers is the package bugle-bench"
        );
    };
    let rest = rest.strip_prefix(&["--".to_owned()]).unwrap_or(rest);
    let mut command = tools::cargo(root);
    command.args(["run", "--release", "--locked", "--manifest-path", DUROXIDE, "--target-dir", TARGET, "--"]);
    tools::run(command.args(rest))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_benchmark_is_refused() {
        for arguments in [vec![], vec!["nonsense".to_owned()]] {
            let error = run(Path::new("."), &arguments).unwrap_err();
            assert!(error.to_string().contains("duroxide"));
        }
    }
}
