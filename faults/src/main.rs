//! `bugle-faults`: plays faults under load, prints what was checked, and fails if a promise was broken.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use bugle_faults::{Engine, Plan, choose, play, scenarios};
use bugle_history::{History, Terms, check};
use clap::Parser;

/// Break servers, databases, networks, clocks and disks under load, and check every promise.
#[derive(Debug, Parser)]
struct Arguments {
    /// For all faults together, about
    #[arg(long, value_name = "N", default_value_t = 10.0, conflicts_with = "short")]
    minutes: f64,
    /// One short round of each, to see that all of this works
    #[arg(long)]
    short: bool,
    /// Only on this engine
    #[arg(long)]
    engine: Option<Engine>,
    /// Only this fault; may be given several times
    #[arg(long, value_name = "NAME")]
    fault: Vec<String>,
    /// The program to break
    #[arg(long, value_name = "FILE", default_value = "target/release/bugle")]
    server: PathBuf,
    /// Faults played side by side, where they do not disturb each other
    #[arg(long, value_name = "N", default_value_t = 2)]
    at_once: usize,
    /// PostgreSQL does not wait for the disk: faster, and as good as long as the machine stays up
    #[arg(long)]
    no_fsync: bool,
    /// Play what clients did in another run
    #[arg(long)]
    seed: Option<u64>,
    /// Write the table to a file too
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Name the faults and do nothing
    #[arg(long)]
    list: bool,
    /// Only check a history that was kept of a failed round
    #[arg(long, value_name = "FILE")]
    judge: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("runtime");
    match runtime.and_then(|runtime| runtime.block_on(run(arguments))) {
        Ok(code) => code,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::from(2)
        }
    }
}

async fn run(arguments: Arguments) -> Result<ExitCode> {
    let mut output = std::io::stdout();
    if arguments.list {
        for scenario in scenarios() {
            writeln!(output, "{:<24} {:<9} {}", scenario.name(), scenario.engine(), scenario.about())?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(file) = &arguments.judge {
        let history = std::fs::File::open(file).with_context(|| file.display().to_string())?;
        let history = History::load(std::io::BufReader::new(history)).context("read the history")?;
        let report = check(&history, &Terms::default());
        writeln!(output, "{report}")?;
        return Ok(if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let chosen = choose(scenarios(), &arguments.fault, arguments.engine)?;
    let binary = arguments.server.canonicalize().with_context(|| arguments.server.display().to_string())?;
    let plan = Plan {
        binary,
        time: (!arguments.short).then(|| Duration::from_secs_f64(arguments.minutes * 60.0)),
        at_once: arguments.at_once,
        fsync: !arguments.no_fsync && !arguments.short,
        seed: arguments.seed.unwrap_or_else(|| fastrand::u64(..)),
    };
    let table = play(&plan, chosen).await?;
    writeln!(output, "{table}")?;
    if let Some(file) = &arguments.out {
        std::fs::write(file, table.to_string()).with_context(|| file.display().to_string())?;
    }
    Ok(if table.0.iter().all(bugle_faults::Row::is_good) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
