//! `bugle completions`: a script that lets a shell complete our commands.

use anyhow::Result;
use clap::{Args, ValueEnum};
use clap_complete::aot::{Shell, generate};

use crate::output::put;

/// Shells there are scripts for.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Name {
    Bash,
    Zsh,
    Fish,
}

/// Arguments of `bugle completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Name,
}

/// `bugle completions`.
pub(crate) fn run(args: &CompletionsArgs, command: &mut clap::Command) -> Result<()> {
    let shell = match args.shell {
        Name::Bash => Shell::Bash,
        Name::Zsh => Shell::Zsh,
        Name::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    generate(shell, command, "bugle", &mut script);
    put(&String::from_utf8_lossy(&script))
}
