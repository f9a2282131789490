//! Job libraries for Node.js, measured by the scripts in `bench/peers`: there the library is the client, and its server
//! side is PostgreSQL.

use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};
use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::Command;

use crate::lab::{Lab, output};
use crate::load::{Clock, PAYLOAD};
use crate::peer::{Driver, Facts, Measured, Running, Shape, Verb, Whole, Window};
use crate::postgres::{self, connect};

/// A library there is a script for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Library {
    PgBoss,
    GraphileWorker,
}

impl Library {
    fn package(self) -> &'static str {
        match self {
            Self::PgBoss => "pg-boss",
            Self::GraphileWorker => "graphile-worker",
        }
    }

    fn schema(self) -> &'static str {
        match self {
            Self::PgBoss => "pgboss",
            Self::GraphileWorker => "graphile_worker",
        }
    }

    fn calls(self) -> &'static str {
        match self {
            Self::PgBoss => {
                "send or insert, fetch with batchSize n, complete; upkeep off; one process, one pool"
            }
            Self::GraphileWorker => {
                "addJob or addJobs; run with concurrentJobs = connections, above batch 1 a local queue and batched \
                 completion; one process, one pool"
            }
        }
    }
}

pub(crate) async fn start(lab: &Lab, library: Library) -> Result<Running> {
    let manifest = lab.node_modules.join(library.package()).join("package.json");
    let manifest = std::fs::read_to_string(&manifest).with_context(|| format!("{}", manifest.display()))?;
    let manifest: Value = serde_json::from_str(&manifest)?;
    let node = output(std::process::Command::new("node").arg("--version"))?;
    let drop = format!("DROP SCHEMA IF EXISTS {} CASCADE", library.schema());
    connect(&lab.dsn).await?.batch_execute(&drop).await?;
    let version = manifest["version"].as_str().unwrap_or("unknown");
    let script = Script {
        library,
        dsn: lab.dsn.clone(),
        script: lab.scripts.join("measure.cjs"),
        node_modules: lab.node_modules.clone(),
        pids: vec![lab.postgres],
    };
    Ok(Running {
        facts: Facts {
            version: format!("{version}, Node.js {node}, PostgreSQL {}", lab.postgres_version),
            settings: format!("{}; {}", postgres::TOLD, library.calls()),
        },
        pids: vec![lab.postgres],
        driver: Driver::Whole(Box::new(script)),
        processes: Vec::new(),
    })
}

struct Script {
    library: Library,
    dsn: String,
    script: std::path::PathBuf,
    node_modules: std::path::PathBuf,
    pids: Vec<u32>,
}

#[async_trait(?Send)]
impl Whole for Script {
    async fn push(&mut self, shape: Shape, window: Window) -> Result<Measured> {
        self.run(Verb::Push, shape, window, 0).await
    }

    async fn pop(&mut self, shape: Shape, window: Window, stock: u64) -> Result<Measured> {
        self.run(Verb::Pop, shape, window, stock).await
    }
}

impl Script {
    async fn run(&self, verb: Verb, shape: Shape, window: Window, stock: u64) -> Result<Measured> {
        let options = json!({
            "verb": if verb == Verb::Push { "push" } else { "pop" }, "dsn": self.dsn, "bytes": PAYLOAD,
            "batch": shape.batch, "connections": shape.connections, "stock": stock,
            "warmupMs": window.warmup.as_millis() as u64, "measuredMs": window.measured.as_millis() as u64,
        });
        let mut command = Command::new("node");
        command.arg(&self.script).arg(self.library.package()).arg(options.to_string());
        command.env("NODE_PATH", &self.node_modules).env("NODE_ENV", "production").kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("start node")?;
        let mut lines = BufReader::new(child.stdout.take().context("no output")?).lines();
        let mut errors = child.stderr.take().context("no errors")?;
        let (mut clock, mut measured) = (None, None);
        while let Some(line) = lines.next_line().await? {
            if line == "begin" {
                clock = Some(Clock::start(&self.pids)?);
            } else if let (Some(report), Some(clock)) = (line.strip_prefix("end "), &clock) {
                measured = Some(read(report, clock)?);
            }
        }
        let mut text = String::new();
        errors.read_to_string(&mut text).await?;
        let status = child.wait().await?;
        ensure!(status.success(), "{}: {status}: {}", self.library.package(), text.trim());
        let Some(measured) = measured else { bail!("{} measured nothing", self.library.package()) };
        Ok(measured)
    }
}

fn read(report: &str, clock: &Clock) -> Result<Measured> {
    let report: Value = serde_json::from_str(report)?;
    let messages = report["messages"].as_u64().context("no messages")?;
    let seconds = report["seconds"].as_f64().context("no seconds")?;
    let client_cpu = report["clientCpuMicros"].as_u64().context("no CPU")?;
    Ok(Measured { messages, seconds, client_cpu, ..clock.stop(messages, None)? })
}
