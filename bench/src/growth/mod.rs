//! `growth`: what a message costs when something grows. Each point is measured in turn with the base (base, point, base, point, …), because a
//! shared machine changes more from minute to minute than what is looked for; the ratio is that of the medians.

mod backlog;
mod drawing;
mod groups;
mod lag;
mod lanes;
mod load;
mod payload;
mod report;
mod retention;
mod shape;
mod station;
mod waiters;

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use self::report::{Findings, Row, Side};
use self::shape::{Plan, Shape, Step};
use self::station::{Part, Station};
use crate::Outcome;
use crate::cli_growth::{Axis, Engine, GrowthArgs};
use crate::cli_servers::Servers;

/// Runs the command.
pub(crate) async fn run(args: GrowthArgs) -> Result<Outcome> {
    args.check()?;
    let mut run = Run {
        deadline: Instant::now() + Duration::from_secs(args.minutes * 60),
        findings: Findings::default(),
        args,
    };
    for axis in run.args.axes() {
        for engine in run.args.engines() {
            Box::pin(run.axis(axis, engine)).await?;
        }
    }
    let Run { args, findings, .. } = run;
    if let Some(path) = &args.svg {
        std::fs::write(path, drawing::draw(&findings.rows))
            .with_context(|| format!("write {}", path.display()))?;
    }
    let ok = !findings.rows.is_empty() && findings.gaps.is_empty();
    Ok(Outcome { json: findings.json(), ok, table: Some(findings.table()) })
}

struct Run {
    args: GrowthArgs,
    deadline: Instant,
    findings: Findings,
}

impl Run {
    fn servers(&self, engine: Engine) -> Servers {
        let mut servers = self.args.servers.clone();
        if engine == Engine::Embedded {
            servers.pg = None;
        }
        servers
    }

    fn plan(&self, axis: Axis, engine: Engine) -> Plan {
        let shrink = self.args.scale();
        match axis {
            Axis::Lanes => lanes::plan(shrink),
            Axis::Groups => groups::plan(),
            Axis::Backlog => backlog::plan(engine, shrink, self.args.deep),
            Axis::Waiters => waiters::plan(shrink),
            Axis::Payload => payload::plan(),
            Axis::Retention => retention::plan(),
        }
    }

    /// All points of one axis on one engine. What fails is a gap, not the end of everything.
    async fn axis(&mut self, axis: Axis, engine: Engine) -> Result<()> {
        let (plan, servers) = (self.plan(axis, engine), self.servers(engine));
        if !self.findings.told.iter().any(|(told, _)| *told == axis) {
            self.findings.told.push((axis, plan.told));
        }
        if self.late(axis, engine, "everything") {
            return Ok(());
        }
        let base = Station::prepare(&self.args, &servers, plan.base).await.context("the base")?;
        for shape in plan.points {
            let label = shape.label.clone();
            if self.late(axis, engine, &label) {
                continue;
            }
            eprintln!("{axis:?}, {engine:?}: {label}");
            if let Err(error) = Box::pin(self.point(axis, &base, &servers, shape)).await {
                self.findings.gaps.push(format!("{axis:?}, {engine:?}, {label}: {error:#}"));
            }
        }
        base.end().await?;
        if axis == Axis::Groups && !self.late(axis, engine, "ten groups at a fifth of the knee") {
            eprintln!("{axis:?}, {engine:?}: ten groups at a fifth of the knee");
            match Box::pin(lag::measure(&self.args, &servers)).await {
                Ok(lags) => {
                    self.findings.bars.extend(lags.iter().flat_map(lag::Lag::bars));
                    self.findings.lags.extend(lags);
                }
                Err(error) => self
                    .findings
                    .gaps
                    .push(format!("{engine:?}, ten groups at a fifth of the knee: {error:#}")),
            }
        }
        Ok(())
    }

    /// Whether the time is over; then what is left out is noted.
    fn late(&mut self, axis: Axis, engine: Engine, what: &str) -> bool {
        let late = Instant::now() > self.deadline;
        if late {
            let minutes = self.args.minutes;
            self.findings
                .gaps
                .push(format!("{axis:?}, {engine:?}, {what}: not begun within {minutes} minutes"));
        }
        late
    }

    async fn point(&mut self, axis: Axis, base: &Station, servers: &Servers, shape: Shape) -> Result<()> {
        let begun = Instant::now();
        let grown = Station::prepare(&self.args, servers, shape).await?;
        let prepared = begun.elapsed();
        let measured = async {
            let sides = alternate(base, &grown, self.args.rounds()).await?;
            if axis == Axis::Retention {
                retention::check(base.kept().await, grown.kept().await)?;
            }
            anyhow::Ok(sides)
        };
        let measured = Box::pin(measured).await;
        let mut rows = match measured {
            Ok(sides) => rows(axis, base, &grown, sides),
            Err(error) => {
                grown.end().await?;
                return Err(error);
            }
        };
        for row in &mut rows {
            row.remark = remark(axis, row, base, &grown).await;
        }
        if axis == Axis::Lanes && grown.shape.lanes > base.shape.lanes {
            self.findings.bars.extend(lanes::bars(base, &grown, &rows));
        }
        self.findings.rows.extend(rows);
        grown.end().await?;
        eprintln!(
            "  prepared in {:.0} s, measured in {:.0} s",
            prepared.as_secs_f64(),
            (begun.elapsed() - prepared).as_secs_f64()
        );
        Ok(())
    }
}

/// Both sides of every step, after a round that does not count.
async fn alternate(base: &Station, grown: &Station, rounds: usize) -> Result<Vec<(Step, Side, Side)>> {
    let mut sides: Vec<(Step, Side, Side)> =
        base.shape.steps.iter().map(|step| (*step, Side::default(), Side::default())).collect();
    for round in 0..=rounds {
        let (there, here) = (Box::pin(base.round()).await?, Box::pin(grown.round()).await?);
        for ((_, base, grown), (there, here)) in sides.iter_mut().zip(there.iter().zip(&here)) {
            let (there, here) = (sound(there)?, sound(here)?);
            if round > 0 {
                base.add(there);
                grown.add(here);
            }
        }
    }
    Ok(sides)
}

/// A part that may be believed: it has messages, and nothing went wrong.
fn sound(part: &Part) -> Result<&Part> {
    let clean = part.errors.as_object().is_none_or(serde_json::Map::is_empty);
    anyhow::ensure!(
        part.messages > 0 && clean,
        "{}: {} messages, {}",
        part.step.name(),
        part.messages,
        part.errors
    );
    Ok(part)
}

fn rows(axis: Axis, base: &Station, grown: &Station, sides: Vec<(Step, Side, Side)>) -> Vec<Row> {
    let row = |(step, base_side, grown_side): (Step, Side, Side)| Row {
        engine: base.engine(),
        axis,
        base_point: base.shape.label.clone(),
        point: grown.shape.label.clone(),
        verb: step.name(),
        is_time: step == Step::Wake,
        base: base_side.with_memory(base.rss_kib()),
        grown: grown_side.with_memory(grown.rss_kib()),
        remark: String::new(),
    };
    sides.into_iter().map(row).collect()
}

/// What belongs beside the figures of a row.
async fn remark(axis: Axis, row: &Row, base: &Station, grown: &Station) -> String {
    let mut remark = match axis {
        Axis::Payload => payload::remark(row, &base.shape, &grown.shape),
        Axis::Lanes => lanes::memory(grown)
            .map_or_else(String::new, |bytes| format!("{bytes:.0} bytes per lane at rest")),
        Axis::Retention => match (base.kept().await, grown.kept().await) {
            (Some(base), Some(grown)) => format!("keeps {base} → {grown} messages"),
            _ => String::new(),
        },
        _ => String::new(),
    };
    for (side, undelivered) in [("base", row.base.undelivered), ("point", row.grown.undelivered)] {
        if undelivered > 0 {
            remark.push_str(&format!(
                " {undelivered} messages of the {side} did not come before its pops were cut."
            ));
        }
    }
    remark
}
