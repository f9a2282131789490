//! `cargo xtask bench`: benchmarks that are packages of their own, built apart from the workspace.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::{compare, flames, instructions, tools};

/// The manifest of the comparison of duroxide providers.
pub(crate) const DUROXIDE: &str = "bench/duroxide/Cargo.toml";
/// Its own folder: it shares no compiled crate with the workspace, whose lock file is another.
const TARGET: &str = "target/bench-duroxide";

/// Builds the named benchmark as it would be released and runs it with the rest of the arguments.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    let (name, rest) = arguments.split_first().map_or(("", arguments), |(name, rest)| (name.as_str(), rest));
    let rest = rest.strip_prefix(&["--".to_owned()]).unwrap_or(rest);
    match name {
        "compare" => compare::run(root, rest),
        "curve" => compare::on_both_engines(root, "curve", rest),
        "duroxide" => duroxide(root, rest),
        "flames" => flames::run(root, rest),
        "growth" => compare::on_both_engines(root, "growth", rest),
        "instructions" => instructions::run(root, rest),
        _ => bail!(
            "which benchmark? There are: compare, curve, duroxide, flames, growth, instructions. The load generator for servers is the package bugle-bench"
        ),
    }
}

fn duroxide(root: &Path, rest: &[String]) -> Result<ExitCode> {
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
            assert!(error.to_string().contains("compare, curve, duroxide"));
        }
    }
}
