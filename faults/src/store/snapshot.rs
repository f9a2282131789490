//! Somebody holds a snapshot of the database (an idle REPEATABLE READ transaction, a forgotten session or a long report) while
//! traffic runs: nothing that is updated or deleted meanwhile can be cleaned away.
//!
//! The same load runs before, while and after it is held. Reported are the 99th percentile of pushes, deliveries and
//! acknowledgements in each of these times, the size of all tables with their indexes at the end of each and what they grew by with
//! every request, and for the two tables whose rows change: how many changes stayed in their page, without an entry more in any index,
//! and how many pages were visited for a change.

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
    requests: usize,
    before: Tables,
    after: Tables,
}

impl Phase {
    async fn measure(name: &'static str, time: Duration, trial: &Trial, sampler: &Client) -> Result<Self> {
        let (from, first, before) = (trial.elapsed(), trial.requests(), Tables::read(sampler).await?);
        tokio::time::sleep(time).await;
        let after = Tables::read(sampler).await?;
        Ok(Self { name, from, to: trial.elapsed(), requests: trial.requests() - first, before, after })
    }

    /// In words. Of a long time the last half counts: that is where growth would show.
    fn told(&self, history: &History) -> String {
        let middle = self.from + (self.to - self.from) / 2;
        let p99 = |fits| percentile(history, fits, middle, self.to).as_secs_f64() * 1e3;
        let [push, ack, delivery] = KINDS.map(p99);
        let (name, seconds) = (self.name, (self.to - self.from).as_secs());
        let size = self.after.bytes as f64 / 1048576.0;
        let grown = (self.after.bytes - self.before.bytes) / self.requests.max(1) as i64;
        let changes: Vec<String> =
            self.after.changed.iter().zip(&self.before.changed).map(Changes::told).collect();
        format!(
            "{name} ({seconds} s, {} requests): p99 push {push:.1} ms, ack {ack:.1} ms, delivery {delivery:.1} ms, tables {size:.1} MiB at its end, {grown} bytes more with each request; {}",
            self.requests,
            changes.join(", ")
        )
    }
}

/// All tables at one moment.
struct Tables {
    /// With their indexes.
    bytes: i64,
    changed: Vec<Changes>,
}

/// Changes of one table's rows so far.
struct Changes {
    table: String,
    rows: i64,
    in_page: i64,
    pages: i64,
}

impl Tables {
    async fn read(client: &Client) -> Result<Self> {
        let sql = format!("SELECT sum(pg_total_relation_size(relid))::bigint {OURS}");
        let bytes = client.query_one(&sql, &[]).await.context("sizes of tables")?.get(0);
        let sql = "SELECT t.relname::text, t.n_tup_upd, t.n_tup_hot_upd, i.heap_blks_hit + i.heap_blks_read + i.idx_blks_hit + i.idx_blks_read
                   FROM pg_stat_user_tables t JOIN pg_statio_user_tables i USING (relid)
                   WHERE t.relname IN ('cursors', 'lanes') ORDER BY 1";
        let rows = client.query(sql, &[]).await.context("changes of tables")?;
        let changes = |row: &tokio_postgres::Row| Changes {
            table: row.get(0),
            rows: row.get(1),
            in_page: row.get(2),
            pages: row.get(3),
        };
        Ok(Self { bytes, changed: rows.iter().map(changes).collect() })
    }
}

impl Changes {
    fn told((now, then): (&Self, &Self)) -> String {
        let rows = now.rows - then.rows;
        let share = |of: i64| of as f64 / rows.max(1) as f64;
        let (in_page, pages) = (share(now.in_page - then.in_page) * 100.0, share(now.pages - then.pages));
        format!(
            "{} changed {rows} times, {in_page:.0} % in their page, {pages:.0} pages visited for each",
            now.table
        )
    }
}

const OURS: &str = "FROM pg_stat_user_tables WHERE schemaname NOT LIKE 'pg_%'";

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
