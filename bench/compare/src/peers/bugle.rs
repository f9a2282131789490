//! Bugle itself, by its own generator over HTTP: that is the interface its users have.

use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use bugle_bench::{Cli, Place, Server, Servers};
use clap::Parser;
use serde_json::Value;

use crate::lab::{Lab, output};
use crate::load::PAYLOAD;
use crate::peer::{Driver, Facts, Measured, Running, Shape, Whole, Window};
use crate::postgres;

/// Lanes of the queue. A lane is handed to one consumer at a time, so there must be more of them than consumers.
const LANES: &str = "100";

/// Starts a server with its default settings; without a DSN on the embedded engine.
pub(crate) async fn start(lab: &Lab, dsn: Option<&str>) -> Result<Running> {
    let place = Place::new(&Servers {
        server: lab.server.clone(),
        pg: dsn.map(str::to_owned),
        schema: None,
        data_parent: Some(lab.directory.clone()),
        server_flag: Vec::new(),
    })?;
    let server = place.start::<&str>(&[]).await?;
    let version = output(std::process::Command::new(&lab.server).arg("--version"))?;
    let told = match dsn {
        Some(_) => format!("{}; ", postgres::TOLD),
        None => "default settings; ".to_owned(),
    };
    let settings = format!(
        "{told}HTTP/1.1; {LANES} partitions; POST push of n, GET pop of n, POST ack of every message"
    );
    let version = match dsn {
        Some(_) => format!("{version}, PostgreSQL {}", lab.postgres_version),
        None => version,
    };
    let pids: Vec<u32> = [server.pid()].into_iter().chain(dsn.map(|_| lab.postgres)).collect();
    let bugle = Bugle {
        url: server.url().to_owned(),
        pids: pids.clone(),
        place: Some((place, server)),
        constant: false,
    };
    Ok(Running {
        facts: Facts { version, settings },
        pids,
        driver: Driver::Whole(Box::new(bugle)),
        processes: Vec::new(),
    })
}

/// A server that is pushed to by our generator.
pub(crate) struct Bugle {
    pub(crate) url: String,
    pub(crate) pids: Vec<u32>,
    pub(crate) place: Option<(Place, Server)>,
    /// Answers always the same and keeps nothing.
    pub(crate) constant: bool,
}

#[async_trait(?Send)]
impl Whole for Bugle {
    async fn push(&mut self, shape: Shape, window: Window) -> Result<Measured> {
        let mut arguments = self.common("push", shape);
        arguments.extend(["--seconds".to_owned(), window.measured.as_secs_f64().to_string()]);
        arguments.extend(["--warmup-seconds".to_owned(), window.warmup.as_secs_f64().to_string()]);
        self.run(arguments).await
    }

    async fn pop(&mut self, shape: Shape, window: Window, stock: u64) -> Result<Measured> {
        let mut arguments = self.common("pop", shape);
        arguments.extend(["--seconds".to_owned(), window.measured.as_secs_f64().to_string()]);
        arguments.extend([
            "--messages".to_owned(),
            stock.to_string(),
            "--idle-seconds".to_owned(),
            "1".to_owned(),
        ]);
        // Stored pieces are as large as pushes of this shape make them.
        arguments.extend(["--preload-run".to_owned(), shape.batch.to_string()]);
        self.run(arguments).await
    }

    fn consumes(&self) -> bool {
        !self.constant
    }

    async fn close(mut self: Box<Self>) -> Result<()> {
        if let Some((place, server)) = self.place.take() {
            drop(server);
            place.remove().await?;
        }
        Ok(())
    }
}

impl Bugle {
    fn common(&self, command: &str, shape: Shape) -> Vec<String> {
        let numbers =
            [("--batch", shape.batch), ("--connections", shape.connections), ("--payload-bytes", PAYLOAD)];
        let words = ["bugle-bench", command, "--url", &self.url, "--partitions", LANES].map(str::to_owned);
        let pids = self.pids.iter().flat_map(|pid| ["--pid".to_owned(), pid.to_string()]);
        let numbers = numbers.into_iter().flat_map(|(name, value)| [name.to_owned(), value.to_string()]);
        words.into_iter().chain(numbers).chain(pids).collect()
    }

    async fn run(&self, arguments: Vec<String>) -> Result<Measured> {
        let outcome = bugle_bench::run(Cli::try_parse_from(arguments)?).await?;
        let report = &outcome.json;
        ensure!(outcome.ok, "the generator is not content: {report}");
        ensure!(
            report["errors"].as_object().is_none_or(serde_json::Map::is_empty),
            "errors: {}",
            report["errors"]
        );
        let messages = report["messages"].as_u64().context("no messages in the report")?;
        let per_second = report["msgs_per_s"].as_f64().context("no rate in the report")?;
        let processes = report["processes"].as_array().context("no processes in the report")?;
        let micros = |process: &Value| (process["cpu_seconds"].as_f64().unwrap_or(0.0) * 1e6) as u64;
        // The generator itself is the last.
        let (servers, generator) = processes.split_at(self.pids.len().min(processes.len()));
        let (server_cpu, client_cpu) = (servers.iter().map(micros).sum(), generator.iter().map(micros).sum());
        let elapsed = if per_second > 0.0 { messages as f64 / per_second } else { 0.0 };
        Ok(Measured { messages, seconds: elapsed, server_cpu, client_cpu })
    }
}
