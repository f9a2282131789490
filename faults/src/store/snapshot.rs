//! Somebody holds a snapshot of the database (an idle REPEATABLE READ transaction, a forgotten session or a long report) while
//! traffic runs: nothing that is updated or deleted meanwhile can be cleaned away.
//!
//! The same load runs before, while and after it is held. Reported are the 99th percentile of pushes, deliveries and
//! acknowledgements in each of these times, and the size of all tables with their indexes at the end of each.

use std::time::Duration;

use anyhow::{Context, Result};
use async_trait::async_trait;
use bugle_history::{History, Load, Op, Outcome as Answer, Terms};
use tokio_postgres::Client;

use crate::scenario::{Engine, Outcome, Scenario};
use crate::stage::{Stage, Trial, gap, judged, sharing};

/// See the module.
pub(crate) struct Snapshot;

#[async_trait]
impl Scenario for Snapshot {
    fn name(&self) -> &'static str {
        "held-snapshot"
    }

    fn about(&self) -> &'static str {
        "an idle REPEATABLE READ transaction for minutes: 99th percentiles and table sizes"
    }

    fn engine(&self) -> Engine {
        Engine::Postgres
    }

    fn measures(&self) -> bool {
        true
    }

    async fn run(&self, stage: &mut Stage) -> Result<Outcome> {
        let database = stage.database().await?;
        let mut manner = sharing(&database.address());
        // What all groups have read goes soon, so that sizes could stay flat.
        let flags = ["--retention-interval=2s", "--completed-retention=5s"];
        manner.flags.extend(flags.map(str::to_owned));
        let servers =
            [stage.server("server0", manner.clone()).await?, stage.server("server1", manner).await?];
        let load = stage.load(servers.iter().map(|server| server.url()));
        // The same load all the time, well below what the servers can do: otherwise its own growth would be measured.
        let load = Load { pause: Duration::from_millis(20), ..load };
        let trial = stage.begin(&load)?;
        trial.traffic(500).await?;
        let (holder, sampler) = (database.connect().await?, database.connect().await?);
        let mut phases = vec![Phase::measure("before it", stage.time / 4, &trial, &sampler).await?];
        holder.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await.context("hold a snapshot")?;
        holder.query_one("SELECT count(*) FROM pg_class", &[]).await.context("hold a snapshot")?;
        phases.push(Phase::measure("while it was held", stage.time / 2, &trial, &sampler).await?);
        let largest = largest(&sampler).await?;
        holder.batch_execute("COMMIT").await.context("let the snapshot go")?;
        phases.push(Phase::measure("after it", stage.time / 4, &trial, &sampler).await?);
        let history = trial.end(stage).await?;
        let report = judged(stage, &history, &Terms::default()).await?;
        let mut figures: Vec<String> = phases.iter().map(|phase| phase.told(&history)).collect();
        figures.push(format!("largest when it was let go: {largest}"));
        Ok(Outcome { report, injected: 1, gap: gap(&history), figures })
    }
}

/// A time of the run.
struct Phase {
    name: &'static str,
    from: Duration,
    to: Duration,
    /// Bytes of all tables at its end.
    size: i64,
}

impl Phase {
    async fn measure(name: &'static str, time: Duration, trial: &Trial, sampler: &Client) -> Result<Self> {
        let from = trial.elapsed();
        tokio::time::sleep(time).await;
        Ok(Self { name, from, to: trial.elapsed(), size: size(sampler).await? })
    }

    /// In words. Of a long time the last half counts: that is where growth would show.
    fn told(&self, history: &History) -> String {
        let middle = self.from + (self.to - self.from) / 2;
        let p99 = |fits| percentile(history, fits, middle, self.to).as_secs_f64() * 1e3;
        let [push, ack, delivery] = KINDS.map(p99);
        let (seconds, size) = ((self.to - self.from).as_secs(), self.size as f64 / 1048576.0);
        let name = self.name;
        format!(
            "{name} ({seconds} s): p99 push {push:.0} ms, ack {ack:.0} ms, delivery {delivery:.0} ms, tables {size:.1} MiB at its end"
        )
    }
}

const OURS: &str = "FROM pg_stat_user_tables WHERE schemaname NOT LIKE 'pg_%'";

/// Bytes of all tables with their indexes.
async fn size(client: &Client) -> Result<i64> {
    let sql = format!("SELECT sum(pg_total_relation_size(relid))::bigint {OURS}");
    Ok(client.query_one(&sql, &[]).await.context("sizes of tables")?.get(0))
}

/// The three largest tables, in words.
async fn largest(client: &Client) -> Result<String> {
    let sql = format!(
        "SELECT relname || ' ' || pg_size_pretty(pg_total_relation_size(relid)) || ', ' || n_dead_tup || ' dead rows' {OURS} ORDER BY pg_total_relation_size(relid) DESC LIMIT 3"
    );
    let rows = client.query(&sql, &[]).await.context("sizes of tables")?;
    Ok(rows.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>().join(", "))
}

/// Whether a request is of a kind.
type Kind = fn(&Op) -> bool;

/// Pushes, acknowledgements and deliveries that were answered.
const KINDS: [Kind; 3] = [
    |op| matches!(op, Op::Push { outcome: Answer::Done(()), .. }),
    |op| matches!(op, Op::Ack { outcome: Answer::Done(_), .. }),
    |op| matches!(op, Op::Pop { outcome: Answer::Done((_, m)), .. } if !m.is_empty()),
];

fn percentile(history: &History, fits: Kind, from: Duration, to: Duration) -> Duration {
    let span = from.as_micros() as u64..to.as_micros() as u64;
    let records = history.records.iter().filter(|r| span.contains(&r.began_at) && fits(&r.op));
    let mut times: Vec<u64> = records.map(|record| record.ended_at - record.began_at).collect();
    times.sort_unstable();
    Duration::from_micros(times.get(times.len() * 99 / 100).copied().unwrap_or_default())
}
