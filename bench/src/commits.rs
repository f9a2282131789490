//! The yardstick for a push on PostgreSQL: a commit of one row, at the same rate of requests.

use anyhow::{Context, Result};
use tokio_postgres::{Client, NoTls, Statement};

use crate::offer::{Fate, Offered, Sender, offer};

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

/// Commits `rate` rows per second.
pub(crate) async fn commits(dsn: &str, rate: f64, warmup_seconds: f64, seconds: f64) -> Result<Offered> {
    let table = format!("bench_commits_{:08x}", fastrand::u32(..));
    let owner = connect(dsn).await?;
    owner.batch_execute(&format!("CREATE TABLE {table} (id bigint NOT NULL)")).await?;
    let measured = async {
        let mut senders = Vec::new();
        for _ in 0..CONNECTIONS {
            let client = connect(dsn).await?;
            let insert = client.prepare(&format!("INSERT INTO {table} VALUES (1)")).await?;
            senders.push(Commit { client, insert });
        }
        offer(senders, rate, warmup_seconds, seconds).await
    };
    let measured = measured.await;
    owner.batch_execute(&format!("DROP TABLE {table}")).await?;
    measured
}

async fn connect(dsn: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(dsn, NoTls).await.context("--pg: connect")?;
    // Ends by itself when the client is dropped; a broken connection shows in the next statement.
    tokio::spawn(async move { drop(connection.await) });
    Ok(client)
}
