//! The yardstick for a push on PostgreSQL: a commit of one row, at the same rate of requests.

use std::cell::Cell;
use std::rc::Rc;

use anyhow::{Context, Result};
use tokio::task::JoinHandle;
use tokio_postgres::{Client, NoTls, Statement};

use crate::fsyncs::EVERY;
use crate::offer::{Fate, Offered, Sender, offer};
use crate::schedule::Beat;
use crate::stats::Latency;

/// Connections of the yardstick: as many as a usual pool has, and never more than a default server lets in.
const CONNECTIONS: usize = 32;

struct Commit {
    client: Client,
    insert: Statement,
}

impl Sender for Commit {
    async fn send(&mut self) -> Fate {
        match self.client.execute(&self.insert, &[]).await {
            Ok(_) => Fate::Done(1),
            Err(error) => Fate::Failed(error.to_string()),
        }
    }
}

impl Commit {
    async fn new(dsn: &str, table: &str) -> Result<Self> {
        let client = connect(dsn).await?;
        let insert = client.prepare(&format!("INSERT INTO {table} VALUES (1)")).await?;
        Ok(Self { client, insert })
    }
}

/// A table of its own, and who can drop it.
async fn table(dsn: &str) -> Result<(Client, String)> {
    let table = format!("bench_commits_{:08x}", fastrand::u32(..));
    let owner = connect(dsn).await?;
    owner.batch_execute(&format!("CREATE TABLE {table} (id bigint NOT NULL)")).await?;
    Ok((owner, table))
}

/// Commits `rate` rows per second.
pub(crate) async fn commits(dsn: &str, rate: f64, warmup_seconds: f64, seconds: f64) -> Result<Offered> {
    let (owner, table) = table(dsn).await?;
    let measured = async {
        let mut senders = Vec::new();
        for _ in 0..CONNECTIONS {
            senders.push(Commit::new(dsn, &table).await?);
        }
        offer(senders, rate, warmup_seconds, seconds).await
    };
    let measured = measured.await;
    owner.batch_execute(&format!("DROP TABLE {table}")).await?;
    measured
}

/// Commits of one row now and then, beside a load.
pub(crate) struct Seldom {
    owner: Client,
    table: String,
    stop: Rc<Cell<bool>>,
    task: JoinHandle<Result<Latency>>,
}

impl Seldom {
    pub(crate) async fn start(dsn: &str) -> Result<Self> {
        let (owner, table) = table(dsn).await?;
        let (commit, stop) = (Commit::new(dsn, &table).await?, Rc::new(Cell::new(false)));
        let task = tokio::task::spawn_local(now_and_then(commit, Rc::clone(&stop)));
        Ok(Self { owner, table, stop, task })
    }

    /// Ends it and returns what was measured.
    pub(crate) async fn finish(self) -> Result<Latency> {
        self.stop.set(true);
        let latency = self.task.await?;
        self.owner.batch_execute(&format!("DROP TABLE {}", self.table)).await?;
        latency
    }
}

async fn now_and_then(commit: Commit, stop: Rc<Cell<bool>>) -> Result<Latency> {
    let mut latency = Latency::new()?;
    let mut beat = Beat::new(EVERY);
    while !stop.get() {
        tokio::time::sleep(beat.wait()).await;
        let start = beat.start();
        commit.client.execute(&commit.insert, &[]).await.context("commit of a row")?;
        latency.record(start.elapsed());
    }
    Ok(latency)
}

async fn connect(dsn: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(dsn, NoTls).await.context("--pg: connect")?;
    // Ends by itself when the client is dropped; a broken connection shows in the next statement.
    tokio::spawn(async move { drop(connection.await) });
    Ok(client)
}
