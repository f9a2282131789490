//! pgmq: the SQL its crate ships, installed as it is into the run's PostgreSQL.

use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use tokio_postgres::{Client, Statement};

use crate::lab::Lab;
use crate::peer::{Clients, Consumer, Driver, Facts, Producer, Running};
use crate::peers::jobs::Inserter;
use crate::postgres::{self, connect};

const SQL: &str = include_str!(env!("PGMQ_SQL"));
const VERSION: &str = env!("PGMQ_VERSION");
/// Seconds a message that was read stays hidden.
const HIDDEN: i32 = 60;

pub(crate) async fn start(lab: &Lab) -> Result<Running> {
    let client = connect(&lab.dsn).await?;
    client.batch_execute("DROP SCHEMA IF EXISTS pgmq CASCADE").await?;
    client.batch_execute(SQL).await.context("install the SQL of pgmq")?;
    let calls =
        "one queue by pgmq.create; pgmq.send or send_batch, pgmq.read, pgmq.delete; prepared statements";
    Ok(Running {
        facts: Facts {
            version: format!("crate {VERSION}, PostgreSQL {}", lab.postgres_version),
            settings: format!("{}; {calls}", postgres::TOLD),
        },
        pids: vec![lab.postgres],
        driver: Driver::Clients(Box::new(Pgmq { dsn: lab.dsn.clone(), queue: String::new(), count: 0 })),
        processes: Vec::new(),
    })
}

struct Pgmq {
    dsn: String,
    queue: String,
    count: u64,
}

#[async_trait(?Send)]
impl Clients for Pgmq {
    async fn fresh(&mut self) -> Result<()> {
        let client = connect(&self.dsn).await?;
        if !self.queue.is_empty() {
            client.execute("SELECT pgmq.drop_queue($1::text)", &[&self.queue]).await?;
        }
        self.count += 1;
        self.queue = format!("q{}", self.count);
        client.execute("SELECT pgmq.create($1::text)", &[&self.queue]).await?;
        Ok(())
    }

    async fn producer(&self) -> Result<Box<dyn Producer>> {
        let client = connect(&self.dsn).await?;
        let one = format!("SELECT pgmq.send('{}', $1::text::jsonb)", self.queue);
        let many = format!("SELECT pgmq.send_batch('{}', $1::text[]::jsonb[])", self.queue);
        let (one, many) = (client.prepare(&one).await?, client.prepare(&many).await?);
        Ok(Box::new(Inserter { client, one, many }))
    }

    async fn consumer(&self) -> Result<Box<dyn Consumer>> {
        let client = connect(&self.dsn).await?;
        let read = format!("SELECT msg_id, message::text FROM pgmq.read('{}', {HIDDEN}, $1)", self.queue);
        let delete = format!("SELECT pgmq.delete('{}', $1::bigint[])", self.queue);
        let (read, delete) = (client.prepare(&read).await?, client.prepare(&delete).await?);
        Ok(Box::new(Reader { client, read, delete }))
    }
}

struct Reader {
    client: Client,
    read: Statement,
    delete: Statement,
}

#[async_trait(?Send)]
impl Consumer for Reader {
    async fn take(&mut self, batch: usize, show: &mut dyn for<'p> FnMut(&'p [u8])) -> Result<usize> {
        let rows = self.client.query(&self.read, &[&i32::try_from(batch)?]).await?;
        rows.iter().for_each(|row| show(row.get::<_, &str>(1).as_bytes()));
        let ids: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
        if !ids.is_empty() {
            let deleted = self.client.query(&self.delete, &[&ids]).await?.len();
            ensure!(deleted == ids.len(), "{} messages read, {deleted} deleted", ids.len());
        }
        Ok(ids.len())
    }
}
