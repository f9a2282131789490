//! Somebody holds a snapshot of the database (an idle REPEATABLE READ transaction, a forgotten session or a long report) while
//! traffic runs: nothing that is updated or deleted meanwhile can be cleaned away.
//!
//! Reported are the 99th percentile of pushes, deliveries and acknowledgements, and the size of all tables with their indexes, in
//! the first and in the last third of that time.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use async_trait::async_trait;
use bugle_history::{History, Load, Op, Outcome as Answer, Terms};
use tokio_postgres::Client;

use crate::scenario::{Engine, Outcome, Scenario};
use crate::stage::{Stage, gap, judged, sharing};

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
        let holder = database.connect().await?;
        holder.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await.context("hold a snapshot")?;
        let sampler = database.connect().await?;
        holder.query_one("SELECT count(*) FROM pg_class", &[]).await.context("hold a snapshot")?;
        let (began, from) = (Instant::now(), trial.elapsed());
        let mut sizes = vec![size(&sampler).await?];
        while began.elapsed() < stage.time {
            tokio::time::sleep(stage.time / 12).await;
            sizes.push(size(&sampler).await?);
        }
        let to = trial.elapsed();
        let largest = largest(&sampler).await?;
        holder.batch_execute("COMMIT").await.context("let the snapshot go")?;
        let history = trial.end(stage).await?;
        let report = judged(stage, &history, &Terms::default()).await?;
        let mut figures = percentiles(&history, from, to);
        let third = sizes.len().div_ceil(3);
        let mean = |part: &[i64]| part.iter().sum::<i64>() as f64 / part.len() as f64 / 1048576.0;
        figures.push(format!(
            "tables {:.1} MiB in the first third, {:.1} MiB in the last of {:.0} s; largest at the end: {largest}",
            mean(&sizes[..third]),
            mean(&sizes[sizes.len() - third..]),
            (to - from).as_secs_f64(),
        ));
        Ok(Outcome { report, injected: 1, gap: gap(&history), figures })
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

/// 99th percentiles in the first and in the last third.
fn percentiles(history: &History, from: Duration, to: Duration) -> Vec<String> {
    let third = (to - from) / 3;
    let kinds: [(&str, Kind); 3] = [
        ("push", |op| matches!(op, Op::Push { outcome: Answer::Done(()), .. })),
        ("ack", |op| matches!(op, Op::Ack { outcome: Answer::Done(_), .. })),
        ("delivery", |op| matches!(op, Op::Pop { outcome: Answer::Done((_, m)), .. } if !m.is_empty())),
    ];
    let text = |(name, fits): (&str, Kind)| {
        let of = |from: Duration| percentile(history, fits, from, from + third).as_secs_f64() * 1e3;
        format!("p99 of {name} {:.1} ms in the first third, {:.1} ms in the last", of(from), of(to - third))
    };
    kinds.into_iter().map(text).collect()
}

fn percentile(history: &History, fits: Kind, from: Duration, to: Duration) -> Duration {
    let span = from.as_micros() as u64..to.as_micros() as u64;
    let records = history.records.iter().filter(|r| span.contains(&r.began_at) && fits(&r.op));
    let mut times: Vec<u64> = records.map(|record| record.ended_at - record.began_at).collect();
    times.sort_unstable();
    Duration::from_micros(times.get(times.len() * 99 / 100).copied().unwrap_or_default())
}
