//! One measurement at a time, each with a fresh database and threads of its own.
//!
//! The database of its own makes the counts exact: PostgreSQL counts statements per database, and nothing but the measured
//! provider connects to it. The threads of its own make sure that nothing of one provider runs on while the next is
//! measured, whatever it leaves behind.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio_postgres::{Client, NoTls};

use crate::cli::Scale;
use crate::contender::Contender;
use crate::stage::Stage;

/// No measurement takes longer; one that does has hung.
const LIMIT: Duration = Duration::from_secs(600);
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// What all measurements of a run share.
pub(crate) struct Lab {
    /// As given; databases are made and removed through it.
    url: String,
    /// Marks the databases of this run.
    run: String,
    pub(crate) scale: Scale,
    /// Why statements cannot be counted, if they cannot.
    pub(crate) uncounted: Option<String>,
    /// Set by a signal: nothing more is begun, and what was made is removed.
    interrupted: AtomicBool,
}

impl Lab {
    /// Connects once and makes the database from which the others are watched.
    pub(crate) fn open(url: &str, scale: Scale) -> Result<Self> {
        let run = format!("duroxide_bench_{:08x}", fastrand::u32(..));
        let mut lab =
            Self { url: url.to_owned(), run, scale, uncounted: None, interrupted: AtomicBool::new(false) };
        with_database(url, "x")?;
        let watch = lab.watch_name();
        lab.create(&watch)?;
        lab.uncounted = alone(async {
            let client = connect(&lab.watch_url()?).await?;
            // In a database of ours, so that nothing is left behind in one of the user's.
            let readable = async {
                client.batch_execute("CREATE EXTENSION pg_stat_statements").await?;
                client.query("SELECT 1 FROM pg_stat_statements LIMIT 1", &[]).await
            };
            Ok(readable.await.err().map(plain))
        })?;
        Ok(lab)
    }

    /// Removes what `open` made.
    pub(crate) fn close(self) -> Result<()> {
        self.drop(&self.watch_name())
    }

    /// Runs one measurement of one contender; `name` tells measurements that run at once apart.
    pub(crate) fn measure<T>(
        &self,
        name: &str,
        contender: Contender,
        work: impl AsyncFnOnce(&Stage) -> Result<T>,
    ) -> Result<T> {
        let database = format!("{}_{name}_{}", self.run, contender as usize);
        ensure!(!self.interrupted(), "interrupted");
        self.create(&database)?;
        let outcome = self.measure_in(&database, contender, work);
        let dropped = self.drop(&database);
        let value = outcome.with_context(|| format!("{name}, {}", contender.name()))?;
        dropped?;
        Ok(value)
    }

    fn measure_in<T>(
        &self,
        database: &str,
        contender: Contender,
        work: impl AsyncFnOnce(&Stage) -> Result<T>,
    ) -> Result<T> {
        let url = with_database(&self.url, database)?;
        let stage = Stage::new(contender, url, database.to_owned(), self.watch_url()?);
        let runtime = Builder::new_multi_thread().enable_all().build().context("threads")?;
        let outcome = runtime.block_on(async {
            tokio::select! {
                outcome = work(&stage) => outcome,
                () = tokio::time::sleep(LIMIT) => bail!("not done after {} s", LIMIT.as_secs()),
                () = told_to_stop() => {
                    self.interrupted.store(true, Ordering::Relaxed);
                    bail!("interrupted")
                }
            }
        });
        runtime.shutdown_timeout(STOP_LIMIT);
        outcome
    }

    pub(crate) fn interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Something about the server, as text.
    pub(crate) fn ask(&self, query: &str) -> Result<String> {
        alone(async {
            Ok(connect(&self.url).await?.query_one(query, &[]).await.map_err(plain_error)?.get(0))
        })
    }

    fn create(&self, database: &str) -> Result<()> {
        self.execute(&format!("CREATE DATABASE {database} TEMPLATE template0"))
    }

    fn drop(&self, database: &str) -> Result<()> {
        self.execute(&format!("DROP DATABASE {database} WITH (FORCE)"))
    }

    fn execute(&self, statement: &str) -> Result<()> {
        let done =
            alone(async { connect(&self.url).await?.batch_execute(statement).await.map_err(plain_error) });
        done.with_context(|| statement.to_owned())
    }

    fn watch_name(&self) -> String {
        format!("{}_watch", self.run)
    }

    fn watch_url(&self) -> Result<String> {
        with_database(&self.url, &self.watch_name())
    }
}

/// Runs a short piece of work that shares nothing with any measurement.
fn alone<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime: Runtime = Builder::new_current_thread().enable_all().build().context("runtime")?;
    runtime.block_on(work)
}

/// Returns at Ctrl-C or a request to terminate.
async fn told_to_stop() {
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        },
        Err(_) => drop(tokio::signal::ctrl_c().await),
    }
}

/// A connection that ends with its runtime.
pub(crate) async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.context("connect to --pg")?;
    tokio::spawn(async move {
        // A broken connection shows in the next query.
        let _ = connection.await;
    });
    Ok(client)
}

/// The server's own words, not the client library's.
fn plain(error: tokio_postgres::Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), |db| db.message().to_owned())
}

fn plain_error(error: tokio_postgres::Error) -> anyhow::Error {
    anyhow::anyhow!("{}", plain(error))
}

/// The same URL for another database.
fn with_database(url: &str, database: &str) -> Result<String> {
    let (scheme, rest) =
        url.split_once("://").context("--pg must be a URL: postgres://user@host:port/database")?;
    let (before, query) = rest.split_once('?').map_or((rest, String::new()), |(b, q)| (b, format!("?{q}")));
    let server = before.split_once('/').map_or(before, |(server, _)| server);
    Ok(format!("{scheme}://{server}/{database}{query}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_name_of_the_database_is_exchanged() {
        let changed = |url: &str| with_database(url, "new").unwrap();
        assert_eq!(changed("postgres://a:b@h:1/old?x=/y"), "postgres://a:b@h:1/new?x=/y");
        assert_eq!(changed("postgres://h"), "postgres://h/new");
        assert!(with_database("host=h dbname=old", "new").is_err());
    }
}
