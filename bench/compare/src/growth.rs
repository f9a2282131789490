//! The load generator's `growth`, on both engines, with a PostgreSQL as durable as that of the comparison.

use std::ffi::OsString;
use std::time::Instant;

use anyhow::Result;
use bugle_bench::Cli;
use clap::Parser;

use crate::cli::GrowthArgs;
use crate::lab::Scratch;
use crate::{postgres, print, report, write};

pub(crate) async fn run(args: &GrowthArgs) -> Result<bool> {
    let parent = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    let (scratch, started) = (Scratch::new(&parent)?, Instant::now());
    let mut database = postgres::start(&scratch.0).await?;
    let machine = report::Machine::look(&parent)?;
    let pid = database.process.pid().to_string();
    let words = ["bugle-bench", "growth", "--pg", &database.dsn, "--pg-pid", &pid].map(OsString::from);
    let paths = [("--server", &args.server), ("--data-parent", &scratch.0), ("--svg", &args.svg)];
    let paths = paths.into_iter().flat_map(|(name, path)| [name.into(), path.as_os_str().to_owned()]);
    let words = words.into_iter().chain(paths).chain(args.rest.iter().cloned());
    let outcome = bugle_bench::run(Cli::try_parse_from(words)?).await?;
    database.process.stop().await?;
    let options = args.rest.join(" ".as_ref());
    let text = format!(
        "# Growth\n\nWritten by `cargo xtask bench growth {}` in {:.0} minutes. Drawing: [GROWTH.svg](GROWTH.svg).\n\n{}. PostgreSQL {} with {}. \
         Each point is measured in turn with the base (base, point, base, point, …), after a round that does not count; rates and times are \
         medians of the rounds, CPU is over all of them. Closed loops: 16 connections, 100 messages of 256 bytes per request and 100 lanes where \
         nothing else is said; what a window pushes is then popped and acknowledged. Below 1 a point is faster than the base.\n\n{}",
        options.to_string_lossy(),
        started.elapsed().as_secs_f64() / 60.0,
        machine.told(),
        database.version,
        postgres::TOLD,
        outcome.table.unwrap_or_default(),
    );
    write(&args.results, &text)?;
    print(&text)?;
    Ok(outcome.ok)
}
