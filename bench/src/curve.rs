//! `curve`: latency against throughput up to the knee and past it, on a fresh server of each engine.
//!
//! What a closed loop can do at best sets the scale; then rates are offered in steps, from a tenth of that to twice of it. A
//! server that is asked for too much should go on doing what it can, and refuse or delay the rest.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Parser;

use crate::cli::{Cli, Command, Common};
use crate::cli_open::CurveArgs;
use crate::curve_report::{Curve, HalfKnee, Step, draw, table};
use crate::fsyncs::Fsyncs;
use crate::launch::{Place, Server};
use crate::offer::{Offered, offer};
use crate::open::Pushes;
use crate::{Outcome, commits, push};

/// Offered rates, as parts of what the closed loop reached.
const STEPS: [f64; 10] = [0.1, 0.25, 0.5, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0];
/// Rest between two steps, in which what the last one left is worked off.
const REST: Duration = Duration::from_millis(300);

/// Runs the command.
pub(crate) async fn run(args: CurveArgs) -> Result<Outcome> {
    args.check()?;
    let mut curves = Vec::new();
    if !args.only_postgres {
        let mut embedded = args.clone();
        embedded.servers.pg = None;
        curves.extend(engine(&embedded).await?);
    }
    if args.servers.pg.is_some() {
        curves.extend(engine(&args).await?);
    }
    if let Some(path) = &args.svg {
        std::fs::write(path, draw(&curves)).with_context(|| format!("write {}", path.display()))?;
    }
    let ok = curves.iter().all(|curve| curve.steps.iter().all(|step| step.answered > 0.0));
    let json =
        serde_json::json!({"command": "curve", "curves": curves.iter().map(Curve::json).collect::<Vec<_>>()});
    Ok(Outcome { json, ok, table: Some(table(&curves)) })
}

/// The curves of one engine, each on a server and data of its own.
async fn engine(args: &CurveArgs) -> Result<Vec<Curve>> {
    let mut curves = Vec::new();
    for batch in &args.batches {
        let place = Place::new(&args.servers)?;
        let measured = match place.start::<&str>(&[]).await {
            Ok(server) => Box::pin(measure(args, &place, &server, *batch)).await,
            Err(error) => Err(error),
        };
        let removed = place.remove().await;
        curves.push(measured?);
        removed?;
    }
    Ok(curves)
}

async fn measure(args: &CurveArgs, place: &Place, server: &Server, batch: usize) -> Result<Curve> {
    let common = common(args, place, server, batch)?;
    let closed = closed_loop(&common, args).await?;
    let mut steps = Vec::new();
    for part in STEPS {
        let rate = closed * part;
        let offered = window(&common, args, rate).await?;
        steps.push(step(rate, batch, &offered));
        tokio::time::sleep(REST).await;
    }
    let mut curve = Curve { engine: place.engine(), batch, closed, steps, half_knee: None };
    if let Some(knee) = curve.knee() {
        curve.half_knee = Some(half_knee(args, place, &common, knee / 2.0).await?);
    }
    Ok(curve)
}

fn step(rate: f64, batch: usize, offered: &Offered) -> Step {
    let at = |quantile| offered.latency.quantile_ms(quantile);
    Step {
        offered: rate,
        answered: offered.messages as f64 / offered.seconds,
        p50: at(0.5),
        p99: at(0.99),
        p999: at(0.999),
        refused: (offered.refused as usize * batch) as f64 / offered.seconds,
        errors: offered.errors.json(),
    }
}

/// Latency at a rate that leaves room, beside the yardstick of the engine.
async fn half_knee(args: &CurveArgs, place: &Place, common: &Common, rate: f64) -> Result<HalfKnee> {
    let probe = Fsyncs::start(place.directory())?;
    let offered = window(common, args, rate).await?;
    let fsync = probe.finish()?;
    let commit = match &args.servers.pg {
        None => None,
        Some(dsn) => {
            let requests = rate / common.batch as f64;
            let rows = commits::commits(dsn, requests, args.warmup_seconds, args.seconds).await?;
            Some(rows.latency.quantile_ms(0.99))
        }
    };
    let p99 = offered.latency.quantile_ms(0.99);
    Ok(HalfKnee { rate, p99, fsync_p99: fsync.quantile_ms(0.99), commit_p99: commit })
}

async fn window(common: &Common, args: &CurveArgs, rate: f64) -> Result<Offered> {
    let pushes = Pushes::new(common)?;
    let requests = rate / common.batch as f64;
    offer(pushes.senders(args.connections), requests, args.warmup_seconds, args.seconds).await
}

/// Messages per second of a closed loop over the same connections.
async fn closed_loop(common: &Common, args: &CurveArgs) -> Result<f64> {
    let spread = crate::cli::Spread::Request;
    let push =
        crate::cli::PushArgs { common: common.clone(), spread, seconds: args.seconds, warmup_seconds: 1.0 };
    let outcome = push::run(push).await?;
    let rate = outcome.json["msgs_per_s"].as_f64().unwrap_or(0.0);
    ensure!(rate > 0.0, "nothing could be pushed: {}", outcome.json);
    Ok(rate)
}

/// The options of pushes to this server.
fn common(args: &CurveArgs, place: &Place, server: &Server, batch: usize) -> Result<Common> {
    let defaults = Cli::try_parse_from(["bugle-bench", "push", "--url", server.url()])?;
    let Command::Push(push) = defaults.command else { anyhow::bail!("not the command that was asked for") };
    Ok(Common {
        batch,
        connections: args.connections,
        partitions: args.partitions,
        payload_bytes: args.payload_bytes,
        fsync_dir: place.directory().to_owned(),
        ..push.common
    })
}
