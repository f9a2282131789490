//! All rows in order, printed as they are done.

use std::fs;
use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::cli::{Cli, Row};
use crate::contender::{Contender, Part};
use crate::lab::Lab;
use crate::table::Table;
use crate::{burst, drain, herd, idle, matrix, restart, stress, timer, wake};

const ROWS: [Row; 9] = [
    Row::Idle,
    Row::Wake,
    Row::Timer,
    Row::Matrix,
    Row::Restart,
    Row::Drain,
    Row::Stress,
    Row::Herd,
    Row::Burst,
];

/// Measures what was asked for. Success means that no measurement failed.
pub(crate) fn run(cli: &Cli) -> Result<ExitCode> {
    let lab = Lab::open(&cli.pg, cli.scale()?)?;
    let outcome = measure(cli, &lab);
    lab.close()?;
    outcome
}

fn measure(cli: &Cli, lab: &Lab) -> Result<ExitCode> {
    let start = Instant::now();
    let mut text = head(cli, lab)?;
    print(&text)?;
    let mut whole = true;
    for row in ROWS.into_iter().filter(|row| cli.wants(*row)) {
        let began = Instant::now();
        let table = table(cli, lab, row);
        ensure!(!lab.interrupted(), "interrupted");
        whole &= !table.has_failures();
        let part = format!("{}\n", table.markdown());
        print(&part)?;
        text += &part;
        eprintln!("{row:?}: {:.0} s, load {}", began.elapsed().as_secs_f64(), load());
    }
    let foot = format!("Took {:.0} s; load average at the end {}.\n", start.elapsed().as_secs_f64(), load());
    print(&foot)?;
    if let Some(file) = &cli.out {
        fs::write(file, text + &foot).with_context(|| format!("write {}", file.display()))?;
    }
    Ok(if whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn table(cli: &Cli, lab: &Lab, row: Row) -> Table {
    let all = cli.chosen();
    let waiting: Vec<Contender> = all.iter().copied().filter(|c| c.part() != Part::OursPolling).collect();
    match row {
        Row::Idle => idle::run(lab, &waiting),
        Row::Wake => wake::run(lab, &waiting),
        Row::Timer => timer::run(lab, &waiting),
        Row::Matrix => matrix::run(lab, &waiting),
        Row::Restart => restart::run(cli, lab, &waiting),
        Row::Drain => drain::run(lab, &all),
        Row::Stress => stress::run(lab, &all),
        Row::Herd => herd::run(lab, &waiting),
        Row::Burst => burst::run(lab, &waiting),
    }
}

/// What has to be known to compare with another run.
fn head(cli: &Cli, lab: &Lab) -> Result<String> {
    let setting = |name: &str| lab.ask(&format!("SELECT current_setting('{name}')"));
    let settings = ["fsync", "synchronous_commit", "shared_buffers", "max_connections"]
        .into_iter()
        .map(|name| Ok(format!("{name} {}", setting(name)?)))
        .collect::<Result<Vec<_>>>()?;
    let kind = if cli.quick { "Quick check, not a measurement" } else { "Full run" };
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    Ok(format!(
        "{kind}: duroxide 0.1.32, PostgreSQL {} ({}), {cpus} CPUs shared by server and nodes, load average at the start {}. \
         Every provider runs with its own defaults, in a fresh database for each figure.\n\n",
        setting("server_version")?,
        settings.join(", "),
        load()
    ))
}

/// The load average over one minute, where the system tells.
fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().filter(|load| !load.is_empty()).unwrap_or("unknown").to_owned()
}

fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}
