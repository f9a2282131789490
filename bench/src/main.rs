//! `bugle-bench`: prints one JSON line (or one table) per run and fails when what was popped is not what was pushed.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;

fn main() -> ExitCode {
    measure().unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::from(2)
    })
}

fn measure() -> anyhow::Result<ExitCode> {
    let cli = bugle_bench::Cli::parse();
    // One thread on purpose: the generator shares the machine with the server it measures.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("runtime")?;
    let outcome = runtime.block_on(bugle_bench::run(cli))?;
    let line = outcome.table.unwrap_or_else(|| outcome.json.to_string());
    writeln!(std::io::stdout(), "{line}")?;
    Ok(if outcome.ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
