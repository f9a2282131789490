//! `curve`: latency against throughput up to the knee and past it, on a fresh server of each engine.
//!
//! What a closed loop can do at best sets the scale; then rates are offered in steps, from a tenth of that to twice of it. A
//! server that is asked for too much should go on doing what it can, and refuse or delay the rest; and when it is asked for
//! less again, it should be as it was.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Parser;

use crate::cli::{Cli, Command, Common, PushArgs, Spread};
use crate::cli_open::CurveArgs;
use crate::curve_report::{Curve, HalfKnee, Step, draw, knee, table};
use crate::launch::{Place, Server};
use crate::offer::{Offered, offer};
use crate::open::Pushes;
use crate::yardstick::Yardstick;
use crate::{Outcome, push};

/// Offered rates, as parts of what the closed loop reached.
const STEPS: [f64; 10] = [0.1, 0.25, 0.5, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0];
/// Rest between two steps, in which what the last one left is worked off; no longer than a step.
const REST_SECONDS: f64 = 0.3;
/// How much more than the closed loop reached is asked for before the load returns to half of the knee.
const OVERLOAD: f64 = 2.0;

/// How a rate is offered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Windows {
    /// The most requests under way at once.
    pub(crate) connections: usize,
    pub(crate) warmup_seconds: f64,
    pub(crate) seconds: f64,
}

impl Windows {
    /// Offers so many messages per second.
    pub(crate) async fn offer(&self, common: &Common, rate: f64) -> Result<Offered> {
        let pushes = Pushes::new(common)?;
        let requests = rate / common.batch as f64;
        offer(pushes.senders(self.connections), requests, self.warmup_seconds, self.seconds).await
    }

    /// Messages per second of a closed loop over the same connections.
    pub(crate) async fn closed_loop(&self, common: &Common) -> Result<f64> {
        let (common, spread, seconds) = (common.clone(), Spread::Request, self.seconds);
        let outcome =
            push::run(PushArgs { common, spread, seconds, warmup_seconds: seconds.min(1.0) }).await?;
        let rate = outcome.json["msgs_per_s"].as_f64().unwrap_or(0.0);
        ensure!(rate > 0.0, "nothing could be pushed: {}", outcome.json);
        Ok(rate)
    }

    /// Offers these parts of a rate, one after the other.
    pub(crate) async fn climb(&self, common: &Common, closed: f64, parts: &[f64]) -> Result<Vec<Step>> {
        let mut steps = Vec::new();
        for part in parts {
            let rate = closed * part;
            let offered = self.offer(common, rate).await?;
            steps.push(step(rate, common.batch, &offered));
            tokio::time::sleep(Duration::from_secs_f64(REST_SECONDS.min(self.seconds))).await;
        }
        Ok(steps)
    }
}

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
    let common = Common {
        batch,
        connections: args.connections,
        partitions: args.partitions,
        payload_bytes: args.payload_bytes,
        ..pushes_to(server, place)?
    };
    let CurveArgs { connections, warmup_seconds, seconds, .. } = *args;
    let windows = Windows { connections, warmup_seconds, seconds };
    let closed = windows.closed_loop(&common).await?;
    let steps = windows.climb(&common, closed, &STEPS).await?;
    let mut curve = Curve { engine: place.engine(), batch, closed, steps, half_knee: None };
    if let Some(knee) = knee(&curve.steps) {
        let yardstick = Yardstick::new(args.servers.pg.as_deref(), place.directory());
        let half = half_knee(windows, &yardstick, &common, (knee / 2.0, closed * OVERLOAD));
        curve.half_knee = Some(Box::pin(half).await?);
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
        refused_requests: offered.refused,
        errors: offered.errors.json(),
    }
}

/// Latency at a rate that leaves room, beside the yardstick of the engine; and again right after too much was asked for.
async fn half_knee(
    windows: Windows,
    yardstick: &Yardstick<'_>,
    common: &Common,
    (rate, overload): (f64, f64),
) -> Result<HalfKnee> {
    let requests = rate / common.batch as f64;
    let before = yardstick.alone(requests, windows).await?;
    let beside = yardstick.beside().await?;
    let offered = windows.offer(common, rate).await?;
    let beside = beside.finish().await?;
    let after = yardstick.alone(requests, windows).await?;
    let flood = windows.offer(common, overload).await?;
    // No rest: what the flood has left is part of the question.
    let returned = windows.offer(common, rate).await?;
    Ok(HalfKnee {
        rate,
        p99: offered.latency.quantile_ms(0.99),
        probe_before: before,
        probe_beside: beside,
        probe_after: after,
        at_rate: yardstick.is_at_rate(),
        flood_refused: flood.refused,
        returned_p50: returned.latency.quantile_ms(0.5),
        returned_p99: returned.latency.quantile_ms(0.99),
        returned_answered: returned.messages as f64 / returned.seconds,
    })
}

/// The options of pushes to this server, with the defaults of `push`.
pub(crate) fn pushes_to(server: &Server, place: &Place) -> Result<Common> {
    let defaults = Cli::try_parse_from(["bugle-bench", "push", "--url", server.url()])?;
    let Command::Push(push) = defaults.command else { anyhow::bail!("not the command that was asked for") };
    Ok(Common { fsync_dir: place.directory().to_owned(), ..push.common })
}
