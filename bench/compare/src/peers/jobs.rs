//! The table that people write themselves: `FOR UPDATE SKIP LOCKED`, in both of its usual forms.

use anyhow::{Result, ensure};
use async_trait::async_trait;
use tokio_postgres::{Client, Statement};

use crate::lab::Lab;
use crate::peer::{Clients, Consumer, Driver, Facts, Producer, Running};
use crate::postgres::{self, connect};

/// How a job belongs to a worker until it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holding {
    /// A time in the row: claim and ack are a commit each, and the worker holds no transaction while it works.
    Lease,
    /// The row lock: one transaction from claim to deletion, open while the worker works.
    Transaction,
}

const TABLE: &str = "DROP TABLE IF EXISTS jobs; CREATE TABLE jobs (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, \
     payload jsonb NOT NULL, attempts int NOT NULL DEFAULT 0, created_at timestamptz NOT NULL DEFAULT now(), \
     visible_at timestamptz NOT NULL DEFAULT now()); \
     CREATE INDEX jobs_visible ON jobs (visible_at, id)";
const INSERT_ONE: &str = "INSERT INTO jobs (payload) VALUES ($1::text::jsonb)";
const INSERT: &str = "INSERT INTO jobs (payload) SELECT p::jsonb FROM unnest($1::text[]) p";
const LEASE: &str = "UPDATE jobs SET visible_at = now() + interval '60 s', attempts = attempts + 1 WHERE id IN \
     (SELECT id FROM jobs WHERE visible_at <= now() ORDER BY visible_at, id LIMIT $1 FOR UPDATE SKIP LOCKED) \
     RETURNING id, payload::text";
const HOLD: &str = "SELECT id, payload::text FROM jobs WHERE visible_at <= now() ORDER BY visible_at, id LIMIT $1 FOR UPDATE SKIP LOCKED";
const DELETE: &str = "DELETE FROM jobs WHERE id = ANY($1)";

pub(crate) fn start(lab: &Lab, holding: Holding) -> Running {
    let calls = match holding {
        Holding::Lease => {
            "multi-row INSERT; UPDATE … SKIP LOCKED RETURNING (lease of 60 s), then DELETE by id: two commits"
        }
        Holding::Transaction => {
            "multi-row INSERT; BEGIN, SELECT … SKIP LOCKED, DELETE by id, COMMIT: one commit"
        }
    };
    Running {
        facts: Facts {
            version: format!("PostgreSQL {}", lab.postgres_version),
            settings: format!("{}; prepared statements; {calls}", postgres::TOLD),
        },
        pids: vec![lab.postgres],
        driver: Driver::Clients(Box::new(Jobs { dsn: lab.dsn.clone(), holding })),
        processes: Vec::new(),
    }
}

struct Jobs {
    dsn: String,
    holding: Holding,
}

#[async_trait(?Send)]
impl Clients for Jobs {
    async fn fresh(&mut self) -> Result<()> {
        Ok(connect(&self.dsn).await?.batch_execute(TABLE).await?)
    }

    async fn producer(&self) -> Result<Box<dyn Producer>> {
        let client = connect(&self.dsn).await?;
        let (one, many) = (client.prepare(INSERT_ONE).await?, client.prepare(INSERT).await?);
        Ok(Box::new(Inserter { client, one, many }))
    }

    async fn consumer(&self) -> Result<Box<dyn Consumer>> {
        let client = connect(&self.dsn).await?;
        let claim = client.prepare(if self.holding == Holding::Lease { LEASE } else { HOLD }).await?;
        let delete = client.prepare(DELETE).await?;
        Ok(Box::new(Worker { client, claim, delete, holding: self.holding }))
    }
}

/// Inserts payloads by two prepared statements, one for a single payload and one for an array of them.
pub(crate) struct Inserter {
    pub(crate) client: Client,
    pub(crate) one: Statement,
    pub(crate) many: Statement,
}

#[async_trait(?Send)]
impl Producer for Inserter {
    async fn push(&mut self, payloads: &[Vec<u8>]) -> Result<()> {
        let texts = payloads.iter().map(|p| std::str::from_utf8(p)).collect::<Result<Vec<_>, _>>()?;
        match texts[..] {
            [one] => self.client.execute(&self.one, &[&one]).await?,
            _ => self.client.execute(&self.many, &[&texts]).await?,
        };
        Ok(())
    }
}

struct Worker {
    client: Client,
    claim: Statement,
    delete: Statement,
    holding: Holding,
}

#[async_trait(?Send)]
impl Consumer for Worker {
    async fn take(&mut self, batch: usize, show: &mut dyn for<'p> FnMut(&'p [u8])) -> Result<usize> {
        let held = self.holding == Holding::Transaction;
        if held {
            self.client.batch_execute("BEGIN").await?;
        }
        let rows = self.client.query(&self.claim, &[&(batch as i64)]).await?;
        rows.iter().for_each(|row| show(row.get::<_, &str>(1).as_bytes()));
        let ids: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
        if !ids.is_empty() {
            let deleted = self.client.execute(&self.delete, &[&ids]).await?;
            ensure!(deleted == ids.len() as u64, "{} jobs claimed, {deleted} deleted", ids.len());
        }
        if held {
            self.client.batch_execute("COMMIT").await?;
        }
        Ok(ids.len())
    }
}
