//! Looking a schema over without using it. Everything is read, in one snapshot, and nothing is written, so servers may run.

mod lanes;
mod tables;

use std::collections::BTreeSet;
use std::time::Duration;

use bugle_pg::{Begin, Config, Conn, Listener, PgError, Pool, PoolOptions, Row, Schema, Statement, Type};
use bugle_store::Examination;
use uuid::Uuid;

use crate::migrations::known_version;
use crate::options::{OpenError, PostgresOptions};
use crate::row::get;

use lanes::lanes;
use tables::{durability, missing_objects};

/// Columns, functions and indexes of a schema of this version.
const OBJECTS: &str = include_str!("../sql/objects.txt");
/// A question about a name.
const NAME: &[Type] = &[Type::TEXT];
/// Longest time for one question: some read all segments.
const PATIENCE: Duration = Duration::from_secs(3600);
/// What is in the inbox for longer, in seconds, should have been moved.
const INBOX_AGE: i64 = 60;
/// Longest time for a notification to come back.
const ECHO: Duration = Duration::from_secs(5);

/// Look over the schema that `options` name. `listen` is where servers listen, if that is elsewhere.
pub async fn examine(options: PostgresOptions, listen: Option<&str>) -> Examination {
    let mut found = Examination::default();
    found.fact("schema", &options.schema);
    if let Err(error) = look(options, listen, &mut found).await {
        found.unknown("database", error.to_string());
    }
    found
}

async fn look(
    options: PostgresOptions,
    listen: Option<&str>,
    found: &mut Examination,
) -> Result<(), OpenError> {
    let config = Config::parse(&options.dsn)?;
    let listening = listen.map(Config::parse).transpose()?.unwrap_or_else(|| config.clone());
    let schema = Schema::new(&options.schema)?;
    let mut pool = PoolOptions { max: 2, statement_timeout: PATIENCE, ..options.pool };
    pool.application_name = "bugle doctor".to_owned();
    pool.settings.push(("default_transaction_read_only", "on"));
    let pool = Pool::new(config, pool);
    let mut looking = Looking { conn: pool.get().await?, schema };
    looking.conn.begin(Begin::Snapshot, &[]).await?;
    let examined = looking.all(found).await;
    drop(looking);
    examined?;
    if let Err(reason) = echo(&pool, &listening).await {
        let what = format!(
            "{reason}: servers find what others wrote by looking, not by being told (--listen-store)"
        );
        found.warn("LISTEN", what);
    }
    Ok(())
}

/// A snapshot of the database and where the tables are.
struct Looking {
    conn: Conn,
    schema: Schema,
}

impl Looking {
    async fn ask(
        &mut self,
        sql: &str,
        types: &'static [Type],
        params: &[&(dyn bugle_pg::ToSql + Sync)],
    ) -> Result<Vec<Row>, PgError> {
        self.conn.query(&Statement::new(&self.schema, sql, types), params).await
    }

    /// Ask about the schema by its name.
    async fn ask_of_schema(&mut self, sql: &str) -> Result<Vec<Row>, PgError> {
        let name = self.schema.name().to_owned();
        self.ask(sql, NAME, &[&name]).await
    }

    async fn all(&mut self, found: &mut Examination) -> Result<(), PgError> {
        let Some(version) = self.server(found).await? else { return Ok(()) };
        let known = known_version();
        found.fact("schema version", format!("{version} (this version knows up to {known})"));
        if version > known {
            let what =
                format!("version {version}, this program knows only up to {known}: use a newer program");
            found.unknown(self.schema.to_string(), what);
            return Ok(());
        }
        if version < known {
            found.warn(
                self.schema.to_string(),
                format!("version {version}: the next start brings it to {known}"),
            );
        } else if !self.objects(found).await? {
            return Ok(());
        } else {
            self.inbox(found).await?;
        }
        self.upkeep(found).await?;
        lanes(self, found).await
    }

    /// The server and its settings; answers the schema's version, if there is one.
    async fn server(&mut self, found: &mut Examination) -> Result<Option<i32>, PgError> {
        let rows = self.ask_of_schema(include_str!("../sql/doctor/server.sql")).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let text = |at| get::<&str>(row, at);
        found.fact("PostgreSQL", text(0)?);
        found.fact("standby", get::<bool>(row, 2)?);
        if text(1)? != "UTF8" {
            found.damage("database", format!("its encoding is {}, it must be UTF8", text(1)?));
        }
        let settings = [
            ("fsync", text(3)?),
            ("full_page_writes", text(4)?),
            ("synchronous_commit", text(5)?),
            ("autovacuum", text(6)?),
        ];
        for (name, value) in settings {
            if let Some(what) = durability(name, value) {
                found.warn(format!("{name} = {value}"), what);
            }
        }
        if !get::<bool>(row, 7)? || !get::<bool>(row, 8)? {
            found.unknown(self.schema.to_string(), "there is no such schema of ours in this database");
            return Ok(None);
        }
        let rows = self.ask("SELECT coalesce(max(version), 0) FROM {schema}.migrations", &[], &[]).await?;
        rows.first().map(|row| get::<i32>(row, 0)).transpose()
    }

    /// Whether all tables, columns, functions and indexes are there.
    async fn objects(&mut self, found: &mut Examination) -> Result<bool, PgError> {
        let rows = self.ask_of_schema(include_str!("../sql/doctor/objects.sql")).await?;
        let there = rows.iter().map(|row| get::<&str>(row, 0)).collect::<Result<BTreeSet<_>, _>>()?;
        let (missing, usable) = missing_objects(OBJECTS, &there);
        for object in missing {
            found.damage(self.schema.to_string(), format!("{object} is missing"));
        }
        if !usable {
            found.unknown(self.schema.to_string(), "lanes cannot be looked at without these columns");
        }
        Ok(usable)
    }

    /// What applications have committed and no server has moved yet.
    async fn inbox(&mut self, found: &mut Examination) -> Result<(), PgError> {
        for row in self.ask(include_str!("../sql/doctor/inbox.sql"), &[], &[]).await? {
            let (rows, age) = (get::<i64>(&row, 0)?, get::<i64>(&row, 1)?);
            found.fact("messages in the inbox", rows);
            if age > INBOX_AGE {
                let what = format!(
                    "{rows} messages wait, the oldest for {age} s: no server runs, or their queues are full or have no key"
                );
                found.warn("inbox", what);
            }
        }
        Ok(())
    }

    /// What keeps the database from tidying up, and how much there is.
    async fn upkeep(&mut self, found: &mut Examination) -> Result<(), PgError> {
        for row in self.ask_of_schema(include_str!("../sql/doctor/tables_without_vacuum.sql")).await? {
            found.warn(format!("table {}", get::<&str>(&row, 0)?), "autovacuum is switched off for it");
        }
        for row in self.ask(include_str!("../sql/doctor/held.sql"), &[], &[]).await? {
            let since = get::<Option<i64>>(&row, 1)?;
            let since = since.map_or_else(String::new, |seconds| format!(", open for {seconds} s"));
            found.warn(get::<&str>(&row, 0)?, format!("keeps dead rows from being removed{since}"));
        }
        let rows = self.ask_of_schema(include_str!("../sql/doctor/counts.sql")).await?;
        for row in rows {
            for (at, name) in
                ["queues", "groups", "dead letters", "traces", "bytes of tables"].iter().enumerate()
            {
                found.fact(*name, get::<i64>(&row, at)?);
            }
        }
        Ok(())
    }
}

/// Whether a notification comes back.
async fn echo(pool: &Pool, listening: &Config) -> Result<(), String> {
    let channel = format!("bugle_doctor_{}", Uuid::new_v4().simple());
    let listener = Listener::connect(listening, &channel, "bugle doctor", ECHO).await;
    let mut listener = listener.map_err(|e| e.to_string())?;
    let none = Schema::new("unused").map_err(|e| e.to_string())?;
    let notify = Statement::new(&none, "SELECT pg_notify($1, 'echo')", NAME);
    let mut conn = pool.get().await.map_err(|e| e.to_string())?;
    conn.query(&notify, &[&channel]).await.map_err(|e| e.to_string())?;
    match tokio::time::timeout(ECHO, listener.recv()).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("no notification came back".to_owned()),
    }
}
