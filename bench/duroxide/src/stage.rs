//! What a measurement has at hand: the database of its own, nodes of its contender, and what PostgreSQL says of them.

use std::ops::Sub;

use anyhow::{Context, Result, ensure};
use tokio_postgres::Client;
use tokio_postgres::types::ToSql;

use crate::contender::{Contender, Node};
use crate::lab;

pub(crate) struct Stage {
    pub(crate) contender: Contender,
    pub(crate) url: String,
    database: String,
    watch_url: String,
}

/// Statements so far, as `pg_stat_statements` counts them: what a client sent, not what functions did inside.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Statements {
    pub(crate) all: i64,
    pub(crate) orchestration_fetches: i64,
    pub(crate) work_fetches: i64,
    /// Entries that the view has thrown out for lack of room, in all databases.
    thrown_out: i64,
}

impl Sub for Statements {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            all: self.all - earlier.all,
            orchestration_fetches: self.orchestration_fetches - earlier.orchestration_fetches,
            work_fetches: self.work_fetches - earlier.work_fetches,
            thrown_out: self.thrown_out - earlier.thrown_out,
        }
    }
}

impl Statements {
    /// Refuses a difference that may be too small.
    pub(crate) fn complete(self) -> Result<Self> {
        ensure!(
            self.thrown_out == 0,
            "pg_stat_statements.max is too small: some statements were not counted"
        );
        Ok(self)
    }
}

impl Stage {
    /// The schema that all nodes of a measurement share.
    pub(crate) const SCHEMA: &str = "bench";

    pub(crate) fn new(contender: Contender, url: String, database: String, watch_url: String) -> Self {
        Self { contender, url, database, watch_url }
    }

    /// A new node.
    pub(crate) async fn node(&self) -> Result<Node> {
        self.contender.node(&self.url, Self::SCHEMA).await.context("connect the provider")
    }

    /// Statements sent to this measurement's database so far.
    pub(crate) async fn statements(&self) -> Result<Statements> {
        let query = "SELECT coalesce(sum(s.calls), 0)::bigint, \
                       coalesce(sum(s.calls) FILTER (WHERE s.query LIKE $2), 0)::bigint, \
                       coalesce(sum(s.calls) FILTER (WHERE s.query LIKE $3), 0)::bigint, \
                       (SELECT dealloc FROM pg_stat_statements_info) \
                     FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid WHERE d.datname = $1";
        let fetches = self.contender.fetches();
        let parameters: [&(dyn ToSql + Sync); 3] = [&self.database, &fetches.orchestration, &fetches.work];
        let row = self.watch().await?.query_one(query, &parameters).await.context("count statements")?;
        Ok(Statements {
            all: row.try_get(0)?,
            orchestration_fetches: row.try_get(1)?,
            work_fetches: row.try_get(2)?,
            thrown_out: row.try_get(3)?,
        })
    }

    /// Connections that are open to this measurement's database.
    pub(crate) async fn connections(&self) -> Result<u64> {
        let query = "SELECT count(*) FROM pg_stat_activity WHERE datname = $1";
        let count: i64 = self.watch().await?.query_one(query, &[&self.database]).await?.try_get(0)?;
        Ok(count.unsigned_abs())
    }

    /// A connection from which listeners can be cut.
    pub(crate) async fn knife(&self) -> Result<Knife> {
        Ok(Knife { client: self.watch().await?, database: self.database.clone() })
    }

    /// Made anew each time, as PostgreSQL may have been restarted.
    async fn watch(&self) -> Result<Client> {
        lab::connect(&self.watch_url).await
    }
}

/// Cuts the connections on which nodes listen.
pub(crate) struct Knife {
    client: Client,
    database: String,
}

impl Knife {
    /// How many were cut: those whose last statement was a LISTEN or whose name says that they listen.
    pub(crate) async fn cut(&self) -> Result<usize> {
        let query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 \
                     AND (query ~* '^\\s*listen\\M' OR application_name ~* '\\mlisten')";
        Ok(self.client.query(query, &[&self.database]).await.context("cut listeners")?.len())
    }
}
