//! `bugle-duroxide-bench`: PostgreSQL providers for duroxide side by side in one run, as Markdown tables.
//!
//! Read `lab.rs` for how a measurement is isolated, then the file of a row: `idle`, `wake`, `timer`, `matrix`, `drain`,
//! `stress`, `herd`, `burst`. Each says at its top what its figures mean.

mod cli;
mod contender;
mod lab;
mod stage;

mod dispatcher;
mod samples;
mod table;
mod workload;

mod burst;
mod drain;
mod herd;
mod idle;
mod matrix;
mod matrix_event;
mod matrix_orchestration;
mod matrix_work;
mod restart;
mod stress;
mod timer;
mod wake;

mod report;

use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    // Set before any runtime starts: duroxide would otherwise log every orchestration to the standard output, where the
    // tables go. What the providers log can be seen with RUST_LOG.
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("off"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    report::run(&cli::Cli::parse()).unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::from(2)
    })
}
