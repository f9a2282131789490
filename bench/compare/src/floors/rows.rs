//! The floor of anything on PostgreSQL: the same bytes into a bare table, one durable commit per batch.

use anyhow::{Result, bail};
use async_trait::async_trait;
use tokio_postgres::{Client, Statement};

use crate::lab::Lab;
use crate::peer::{Clients, Consumer, Driver, Facts, Producer, Running};
use crate::peers::jobs::Inserter;
use crate::postgres::{self, connect};

/// What becomes a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece {
    Message,
    Batch,
}

pub(crate) fn start(lab: &Lab, piece: Piece) -> Running {
    let table = match piece {
        Piece::Message => "table of text, one row per message",
        Piece::Batch => "table of bytea (uncompressed), one row per batch",
    };
    Running {
        facts: Facts {
            version: format!("PostgreSQL {}", lab.postgres_version),
            settings: format!("{}; {table}, no index, prepared statement", postgres::TOLD),
        },
        pids: vec![lab.postgres],
        driver: Driver::Clients(Box::new(Rows { dsn: lab.dsn.clone(), piece })),
        processes: Vec::new(),
    }
}

struct Rows {
    dsn: String,
    piece: Piece,
}

#[async_trait(?Send)]
impl Clients for Rows {
    async fn fresh(&mut self) -> Result<()> {
        let kind = if self.piece == Piece::Message { "text" } else { "bytea" };
        let table = format!(
            "DROP TABLE IF EXISTS raw; CREATE TABLE raw (payload {kind} NOT NULL); \
             ALTER TABLE raw ALTER payload SET STORAGE EXTERNAL"
        );
        Ok(connect(&self.dsn).await?.batch_execute(&table).await?)
    }

    async fn producer(&self) -> Result<Box<dyn Producer>> {
        let client = connect(&self.dsn).await?;
        if self.piece == Piece::Batch {
            let insert = client.prepare("INSERT INTO raw VALUES ($1)").await?;
            return Ok(Box::new(Blobs { client, insert, bytes: Vec::new() }));
        }
        let one = client.prepare("INSERT INTO raw VALUES ($1::text)").await?;
        let many = client.prepare("INSERT INTO raw SELECT unnest($1::text[])").await?;
        Ok(Box::new(Inserter { client, one, many }))
    }

    async fn consumer(&self) -> Result<Box<dyn Consumer>> {
        bail!("a floor only takes in")
    }

    fn consumes(&self) -> bool {
        false
    }
}

struct Blobs {
    client: Client,
    insert: Statement,
    bytes: Vec<u8>,
}

#[async_trait(?Send)]
impl Producer for Blobs {
    async fn push(&mut self, payloads: &[Vec<u8>]) -> Result<()> {
        self.bytes.clear();
        payloads.iter().for_each(|payload| self.bytes.extend_from_slice(payload));
        self.client.execute(&self.insert, &[&self.bytes]).await?;
        Ok(())
    }
}
