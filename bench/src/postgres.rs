//! What the server asks its PostgreSQL meanwhile, counted by the database itself.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::task::AbortHandle;
use tokio_postgres::{Client, NoTls};

use crate::stats::round;

/// How many of the most frequent statements are named in the report.
const TOP: usize = 12;

/// A connection to the server's database.
pub(crate) struct Postgres {
    client: Client,
    driver: AbortHandle,
    role: String,
    /// Why statements cannot be counted, if they cannot.
    uncounted: Option<String>,
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// Counters at one moment.
#[derive(Debug)]
pub(crate) enum Counts {
    /// Calls by statement id, with the statement's text, and how many statements the view has thrown out so far.
    Statements {
        calls: HashMap<i64, (String, i64)>,
        thrown_out: i64,
    },
    Commits(i64),
}

impl Postgres {
    pub(crate) async fn connect(dsn: &str, role: &str) -> Result<Self> {
        let (client, connection) = tokio_postgres::connect(dsn, NoTls).await.context("--pg: connect")?;
        let driver = tokio::spawn(async move {
            // A broken connection shows in the next query.
            let _ = connection.await;
        });
        let mut postgres =
            Self { client, driver: driver.abort_handle(), role: role.to_owned(), uncounted: None };
        let known = postgres.client.query_opt("SELECT 1 FROM pg_roles WHERE rolname = $1", &[&role]).await?;
        ensure!(known.is_some(), "--pg-role: the database has no role {role:?}");
        if let Err(error) = postgres.statements().await {
            postgres.uncounted = Some(format!("pg_stat_statements cannot be read: {error:#}"));
        }
        Ok(postgres)
    }

    pub(crate) async fn counts(&self) -> Result<Counts> {
        if self.uncounted.is_none() {
            return self.statements().await;
        }
        let query = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()";
        let row = self.client.query_one(query, &[]).await.context("--pg: pg_stat_database")?;
        Ok(Counts::Commits(row.try_get(0)?))
    }

    async fn statements(&self) -> Result<Counts> {
        let query = "SELECT s.queryid, min(left(regexp_replace(s.query, '\\s+', ' ', 'g'), 100)), sum(s.calls)::bigint \
                     FROM pg_stat_statements s JOIN pg_roles r ON r.oid = s.userid \
                     WHERE r.rolname = $1 AND s.queryid IS NOT NULL GROUP BY s.queryid";
        let rows = self.client.query(query, &[&self.role]).await.map_err(plain)?;
        let calls = rows
            .iter()
            .map(|row| Ok((row.try_get(0)?, (row.try_get(1)?, row.try_get(2)?))))
            .collect::<Result<_>>()?;
        let row =
            self.client.query_one("SELECT dealloc FROM pg_stat_statements_info", &[]).await.map_err(plain)?;
        Ok(Counts::Statements { calls, thrown_out: row.try_get(0)? })
    }

    /// What happened between two moments.
    pub(crate) fn json(&self, before: &Counts, after: &Counts, time: Duration) -> Value {
        difference(before, after, time, &self.role, self.uncounted.as_deref())
    }
}

/// The server's own words, not the client library's.
fn plain(error: tokio_postgres::Error) -> anyhow::Error {
    match error.as_db_error() {
        Some(db) => anyhow::anyhow!("{}", db.message()),
        None => error.into(),
    }
}

fn difference(before: &Counts, after: &Counts, time: Duration, role: &str, uncounted: Option<&str>) -> Value {
    let per_second = |count: i64| round(count as f64 / time.as_secs_f64().max(1e-9));
    match (before, after) {
        (
            Counts::Statements { calls: old, thrown_out: old_out },
            Counts::Statements { calls, thrown_out },
        ) => {
            let mut grown: Vec<(i64, &str)> = calls
                .iter()
                .map(|(id, (text, count))| (count - old.get(id).map_or(0, |(_, c)| *c), text.as_str()))
                .filter(|(count, _)| *count > 0)
                .collect();
            grown.sort_unstable_by(|a, b| b.cmp(a));
            let total: i64 = grown.iter().map(|(count, _)| count).sum();
            let top: Vec<Value> =
                grown.iter().take(TOP).map(|(count, text)| json!({"calls": count, "query": text})).collect();
            json!({
                "source": "pg_stat_statements", "role": role, "statements": total,
                "statements_per_s": per_second(total), "top": top,
                // Anything but 0 means that some calls were not counted.
                "statements_thrown_out": thrown_out - old_out,
            })
        }
        (Counts::Commits(old), Counts::Commits(new)) => json!({
            "source": "pg_stat_database.xact_commit, all roles of the database",
            "statements_not_counted_because": uncounted,
            "commits": new - old, "commits_per_s": per_second(new - old),
        }),
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statements(calls: &[(i64, &str, i64)]) -> Counts {
        let calls = calls.iter().map(|(id, text, count)| (*id, ((*text).to_owned(), *count))).collect();
        Counts::Statements { calls, thrown_out: 0 }
    }

    #[test]
    fn only_what_was_called_in_between_counts_and_the_most_frequent_comes_first() {
        let before = statements(&[(1, "a", 10), (2, "b", 5)]);
        let after = statements(&[(1, "a", 11), (2, "b", 5), (3, "c", 9)]);
        let json = difference(&before, &after, Duration::from_secs(2), "r", None);
        assert_eq!((&json["statements"], &json["statements_per_s"]), (&json!(10), &json!(5.0)));
        assert_eq!(json["top"], json!([{"calls": 9, "query": "c"}, {"calls": 1, "query": "a"}]));
    }

    #[test]
    fn commits_are_labelled_as_such_and_say_why() {
        let (before, after) = (Counts::Commits(5), Counts::Commits(25));
        let json = difference(&before, &after, Duration::from_secs(10), "r", Some("missing"));
        assert_eq!(json["commits_per_s"], 2.0);
        assert_eq!(json["statements_not_counted_because"], "missing");
        assert_eq!(json.get("statements_per_s"), None);
    }
}
