//! `cargo xtask fuzz`: the model of the protocol against the broker, with new cases on every engine at once, for as long as
//! one likes. A case that fails is told with its seed.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::suites;
use crate::tools::{self, Tool};

const DEFAULT_MINUTES: u64 = 10;

/// Plays for as long as the arguments say.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    let minutes = minutes(arguments)?;
    suites::prepared(root, &[Tool::Postgres], |run| {
        let mut command = run.cargo_command();
        // Not nextest, which ends every test after some minutes.
        command.args(["test", "--package", "bugle-broker", "--test", "model"]);
        command.args(["--", "--nocapture", "--test-threads=4"]);
        command.env("BUGLE_MODEL_MINUTES", minutes.to_string());
        tools::run(&mut command)?;
        Ok(ExitCode::SUCCESS)
    })
}

/// How long, as the arguments say.
pub(crate) fn minutes(arguments: &[String]) -> Result<u64> {
    match arguments {
        [] => Ok(DEFAULT_MINUTES),
        [flag, number] if flag == "--minutes" => {
            number.parse().with_context(|| format!("--minutes {number:?} is no number"))
        }
        other => bail!("only --minutes N is understood, not {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_read_or_the_usual_one() {
        let read = |text: &str| minutes(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(read("").unwrap(), DEFAULT_MINUTES);
        assert_eq!(read("--minutes 3").unwrap(), 3);
        for wrong in ["--minutes", "--minutes x", "3", "--hours 3"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
