//! `bugle-compare`: Bugle beside what a user would pick instead, on one machine in one run. `cargo xtask bench compare`
//! builds it, installs what it needs and runs it.

mod campaign;
mod chart;
mod cli;
mod curve;
mod floors;
mod growth;
mod lab;
mod load;
mod peer;
mod peers;
mod postgres;
mod report;
mod syncs;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::{Cli, Command, RunArgs};
use crate::lab::{Lab, Scratch};

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Constant { items } => floors::constant::serve(items).map(|()| true),
        Command::Run(args) => on_one_thread(run(&args)),
        Command::Curve(args) => on_one_thread(curve::run(&args)),
        Command::Growth(args) => on_one_thread(growth::run(&args)),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn on_one_thread(work: impl Future<Output = Result<bool>>) -> Result<bool> {
    // One thread: the generator shares the machine with what it measures.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("runtime")?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).context("listen for the signal to end")?;
        tokio::select! {
            done = Box::pin(work) => done,
            // Everything that was started ends with what is dropped here.
            _ = tokio::signal::ctrl_c() => bail!("interrupted"),
            _ = terminate.recv() => bail!("asked to end"),
        }
    })
}

async fn run(args: &RunArgs) -> Result<bool> {
    let plan = args.plan(Instant::now())?;
    let parent = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    let scratch = Scratch::new(&parent)?;
    let started = Instant::now();
    let mut postgres = postgres::start(&scratch.0).await?;
    let lab = Lab {
        directory: scratch.0.clone(),
        server: args.server.clone(),
        node_modules: args.node_modules.clone(),
        scripts: args.scripts.clone(),
        dsn: postgres.dsn.clone(),
        postgres: postgres.process.pid(),
        postgres_version: postgres.version.clone(),
    };
    let machine = report::Machine::look(&parent)?;
    let entries = campaign::run(&lab, &plan).await;
    postgres.process.stop().await?;
    let text = report::text(&machine, &plan, &entries, started.elapsed());
    write(&args.results, &text)?;
    write(&args.chart, &chart::draw(&plan, &entries))?;
    print(&text)?;
    Ok(entries.iter().all(|entry| entry.failures.is_empty()))
}

pub(crate) fn write(path: &std::path::Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("write {}", path.display()))
}

pub(crate) fn print(text: &str) -> Result<()> {
    use std::io::Write;
    std::io::stdout().write_all(text.as_bytes()).context("print")
}

/// Minutes as a span.
pub(crate) fn minutes(count: u64) -> Duration {
    Duration::from_secs(count * 60)
}
