//! What server, database and generator do during a window: CPU as a share of one core, and the database's statements.

use std::time::Instant;

use anyhow::Result;
use serde_json::{Map, Value, json};

use crate::cli_wait::Watch;
use crate::postgres::{Counts, Postgres};
use crate::probe::{self, CpuSnapshot};
use crate::stats::round;

/// The things observed.
pub(crate) struct Observer {
    processes: Vec<(&'static str, u32)>,
    postgres: Option<Postgres>,
}

/// Their state at one moment.
pub(crate) struct Moment {
    at: Instant,
    cpu: CpuSnapshot,
    counts: Option<Counts>,
}

impl Observer {
    pub(crate) async fn new(watch: &Watch) -> Result<Self> {
        let named =
            [("server", watch.pid), ("database", watch.pg_pid), ("generator", Some(std::process::id()))];
        let processes: Vec<_> = named.into_iter().filter_map(|(name, pid)| Some((name, pid?))).collect();
        let postgres = match (&watch.pg, &watch.pg_role) {
            (Some(dsn), Some(role)) => Some(Postgres::connect(dsn, role).await?),
            _ => None,
        };
        let observer = Self { processes, postgres };
        // A wrong process id must end the run before it begins.
        observer.cpu()?;
        Ok(observer)
    }

    /// Opens a window. The database is asked first, so that the asking is not inside.
    pub(crate) async fn begin(&self) -> Result<Moment> {
        let counts = self.counts().await?;
        Ok(Moment { at: Instant::now(), cpu: self.cpu()?, counts })
    }

    /// Closes a window and reports what happened in it.
    pub(crate) async fn end(&self, begin: &Moment) -> Result<Map<String, Value>> {
        let cpu = self.cpu()?;
        let time = begin.at.elapsed();
        let counts = self.counts().await?;
        let mut report = Map::new();
        report.insert("window_seconds".to_owned(), json!(round(time.as_secs_f64())));
        for ((name, _), micros) in self.processes.iter().zip(cpu.since(&begin.cpu)) {
            report.insert(format!("{name}_cpu_percent_of_core"), json!(percent(micros, time.as_secs_f64())));
        }
        if let (Some(postgres), Some(before), Some(after)) = (&self.postgres, &begin.counts, &counts) {
            report.insert("postgres".to_owned(), postgres.json(before, after, time));
        }
        Ok(report)
    }

    async fn counts(&self) -> Result<Option<Counts>> {
        match &self.postgres {
            Some(postgres) => postgres.counts().await.map(Some),
            None => Ok(None),
        }
    }

    fn cpu(&self) -> Result<CpuSnapshot> {
        probe::cpu(&self.processes.iter().map(|(_, pid)| *pid).collect::<Vec<_>>())
    }
}

fn percent(micros: u64, seconds: f64) -> f64 {
    round(micros as f64 / 1e4 / seconds.max(1e-9))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_of_cpu_in_two_seconds_is_half_a_core() {
        assert_eq!(percent(1_000_000, 2.0), 50.0);
        assert_eq!(percent(0, 2.0), 0.0);
    }
}
