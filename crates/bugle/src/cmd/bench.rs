//! `bugle bench`: the load generator of `bench/`, the same code as `bugle-bench`.

use anyhow::{Result, bail};
use clap::Args;

use crate::output::put;

/// Arguments of `bugle bench`.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    command: bugle_bench::Command,
}

/// `bugle bench`.
pub(crate) async fn run(args: BenchArgs) -> Result<()> {
    let outcome = bugle_bench::run(bugle_bench::Cli { command: args.command }).await?;
    let line = outcome.table.unwrap_or_else(|| outcome.json.to_string());
    put(&format!("{line}\n"))?;
    if !outcome.ok {
        bail!("something was lost, doubled, reordered or damaged, or nothing was measured");
    }
    Ok(())
}
