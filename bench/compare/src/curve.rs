//! The load generator's `curve`, on both engines, with a PostgreSQL as durable as that of the comparison.

use anyhow::Result;
use bugle_bench::Cli;
use clap::Parser;

use crate::cli::CurveArgs;
use crate::lab::Scratch;
use crate::{postgres, print, report, write};

pub(crate) async fn run(args: &CurveArgs) -> Result<bool> {
    let parent = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    let scratch = Scratch::new(&parent)?;
    let mut database = postgres::start(&scratch.0).await?;
    let machine = report::Machine::look(&parent)?;
    let (seconds, dsn) = (args.seconds.to_string(), database.dsn.as_str());
    let words = ["bugle-bench", "curve", "--seconds", &seconds, "--batches", &args.batches, "--pg", dsn]
        .map(Into::into);
    let paths = [("--server", &args.server), ("--data-parent", &scratch.0), ("--svg", &args.svg)];
    let paths = paths.into_iter().flat_map(|(name, path)| [name.into(), path.as_os_str().to_owned()]);
    let outcome = bugle_bench::run(Cli::try_parse_from(words.into_iter().chain(paths))?).await?;
    database.process.stop().await?;
    let table = outcome.table.unwrap_or_default();
    let text = format!(
        "# Latency at fixed rates\n\nWritten by `cargo xtask bench curve`. Drawing: [CURVE.svg](CURVE.svg).\n\n{}. PostgreSQL {} with {}. \
         Windows of {} s; times are from the moment a request was due to its answer (corrected for coordinated omission), and a \
         request that no connection was free for counts with the time it had waited. Rates are parts of what a closed loop over as \
         many connections (256) reached.\n\n{table}",
        machine.told(),
        database.version,
        postgres::TOLD,
        args.seconds,
    );
    write(&args.results, &text)?;
    print(&text)?;
    Ok(outcome.ok)
}
