//! Restart: PostgreSQL is stopped and started under two waiting nodes. When does the first orchestration run?

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use duroxide::Client;
use tokio::process::Command;

use crate::cli::Cli;
use crate::contender::Contender;
use crate::lab::{self, Lab};
use crate::matrix::late;
use crate::samples::{Samples, ms_between};
use crate::stage::Stage;
use crate::table::{Better, Cell, Line, Table, Unavailable};
use crate::workload::{Mark, Marks, NOTHING};

const PARK: Duration = Duration::from_secs(1);
const BACK_LIMIT: Duration = Duration::from_secs(60);
/// Node A tries to enqueue this often, for this long.
const RETRY: Duration = Duration::from_millis(10);
const RETRY_LIMIT: Duration = Duration::from_secs(60);

pub(crate) fn run(cli: &Cli, lab: &Lab, contenders: &[Contender]) -> Table {
    let about = format!(
        "Time in ms from the first connection that PostgreSQL takes after `pg_ctl stop -m fast` and `start` until an orchestration \
         runs on node B (2+2 dispatchers), which node A enqueues as soon as it can: median / worst of up to {} rounds (fewer if \
         they take over {} s), ratio of the worst.",
        lab.scale.matrix_rounds,
        lab.scale.matrix_budget.as_secs()
    );
    let outcomes = contenders.iter().map(|c| (*c, measure(cli, lab, *c)));
    let cells = outcomes.map(|(c, o)| (c, Cell::from_result(&o, late))).collect();
    let label = "first orchestration".to_owned();
    Table { title: "Restart of PostgreSQL", about, lines: vec![Line { label, better: Better::Lower, cells }] }
}

fn measure(cli: &Cli, lab: &Lab, contender: Contender) -> Result<Samples> {
    let Some((data, programs)) = cli.pgdata.as_deref().zip(cli.pgbin.as_deref()) else {
        return Err(Unavailable("needs --pgdata and --pgbin, to restart the server".to_owned()).into());
    };
    let (mut samples, start) = (Samples::default(), Instant::now());
    for round in 0..lab.scale.matrix_rounds {
        if round > 0 && start.elapsed() > lab.scale.matrix_budget {
            break;
        }
        samples.add(lab.measure("restart", contender, async |stage| restart(stage, data, programs).await)?);
    }
    Ok(samples)
}

async fn restart(stage: &Stage, data: &Path, programs: &Path) -> Result<f64> {
    let (a, b) = (stage.node().await?, stage.node().await?);
    let (marks, mut ends) = Marks::new();
    let runtime = marks.runtime(b.provider.clone(), 2, 2).await;
    let client = Client::new(a.provider.clone());
    client.start_orchestration("before", NOTHING, "before").await.context("start")?;
    ends.of("before").await?;
    tokio::time::sleep(PARK).await;
    pg_ctl(data, programs, &["-m", "fast", "-w", "stop"]).await?;
    pg_ctl(data, programs, &["-W", "start"]).await?;
    let back = taking_connections(&stage.url).await?;
    // An enqueue that failed may have been stored all the same: each try has its own name, and the first to run counts.
    for number in 0.. {
        let id = format!("after-{number}");
        match client.start_orchestration(&id, NOTHING, &id).await {
            Ok(()) => break,
            Err(error) => ensure!(back.elapsed() < RETRY_LIMIT, "node A cannot enqueue: {error}"),
        }
        tokio::time::sleep(RETRY).await;
    }
    let first = ends.next().await?;
    let late = ms_between(back, marks.at(&first, Mark::End)?);
    runtime.shutdown(Some(0)).await;
    Ok(late)
}

/// When the server first took a connection.
async fn taking_connections(url: &str) -> Result<Instant> {
    let start = Instant::now();
    while let Err(error) = lab::connect(url).await {
        ensure!(start.elapsed() < BACK_LIMIT, "PostgreSQL does not come back: {error:#}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(Instant::now())
}

async fn pg_ctl(data: &Path, programs: &Path, what: &[&str]) -> Result<()> {
    let program = programs.join("pg_ctl");
    // It refuses to run as root; the owner of the data may.
    let mut command = if std::fs::metadata("/proc/self")?.uid() == 0 {
        let owner = std::fs::metadata(data).context("--pgdata")?;
        let mut command = Command::new("setpriv");
        command.args([format!("--reuid={}", owner.uid()), format!("--regid={}", owner.gid())]);
        command.arg("--clear-groups").arg(program);
        command
    } else {
        Command::new(program)
    };
    command.arg("-D").arg(data).arg("-l").arg(data.join("restarted.log")).args(what).current_dir(data);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let status = command.status().await.context("run pg_ctl")?;
    ensure!(status.success(), "pg_ctl {}: {status}", what.join(" "));
    Ok(())
}
