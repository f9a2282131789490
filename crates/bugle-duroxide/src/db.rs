//! The database, as the rest of the crate sees it: named statements, and calls that are repeated where that is safe.

use std::time::{Duration, Instant};

use bugle_pg::{PgError, PgErrorKind, Pool, Row, Schema, Statement, Step, ToSql, Type};
use duroxide::providers::ProviderError;

use crate::error::{failed, unexpected};

/// How often a call is made before its error is passed on.
const ATTEMPTS: u32 = 4;
/// Wait before the second attempt; doubles.
const WAIT: Duration = Duration::from_millis(20);

/// When a call may be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// If it is certain that nothing was changed.
    Unharmed,
    /// In any case: a second time does no harm.
    Always,
    /// In any case, and for this long: giving up early does harm.
    For(Duration),
}

impl Repeat {
    /// Whether to try again after so many attempts in so much time.
    fn again(self, error: &PgError, attempts: u32, elapsed: Duration) -> bool {
        let passing = error.is_retryable() || error.kind() == PgErrorKind::Timeout;
        match self {
            Self::Unharmed => error.is_retryable() && error.not_applied() && attempts < ATTEMPTS,
            Self::Always => error.is_retryable() && attempts < ATTEMPTS,
            Self::For(time) => passing && elapsed < time,
        }
    }
}

macro_rules! statements {
    ($($(#[$doc:meta])* $name:ident: [$($type:ident),*] = $sql:expr;)*) => {
        /// Every statement, ready for the schema.
        pub(crate) struct Statements { $($(#[$doc])* pub(crate) $name: Statement),* }

        impl Statements {
            fn new(schema: &Schema) -> Self {
                Self { $($name: Statement::new(schema, $sql, &[$(Type::$type),*])),* }
            }
        }
    };
}

macro_rules! query {
    ($name:literal) => {
        include_str!(concat!("../sql/queries/", $name, ".sql"))
    };
}

statements! {
    fetch_orchestration: [UUID, FLOAT8, INT8, INT8] =
        "SELECT * FROM {schema}.fetch_orchestration($1, make_interval(secs => $2), $3, $4)";
    ack_orchestration: [
        TEXT, UUID, INT8, INT8_ARRAY, TEXT_ARRAY, TEXT, TEXT, TEXT, INT8, TEXT, TEXT, BOOL, TEXT,
        BOOL, TEXT_ARRAY, TEXT_ARRAY, INT8_ARRAY,
        TEXT_ARRAY, INT8_ARRAY, INT8_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY,
        TEXT_ARRAY, INT8_ARRAY, INT8_ARRAY,
        TEXT_ARRAY, TEXT_ARRAY, TIMESTAMPTZ_ARRAY, BOOL_ARRAY
    ] = "SELECT * FROM {schema}.ack_orchestration($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, \
         $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30)";
    abandon_orchestration: [TEXT, UUID, FLOAT8, BOOL] =
        "SELECT * FROM {schema}.abandon_orchestration($1, $2, make_interval(secs => $3), $4)";
    renew_orchestration: [TEXT, UUID, FLOAT8] =
        "SELECT {schema}.renew_orchestration($1, $2, make_interval(secs => $3))";
    enqueue_message: [TEXT, TEXT, FLOAT8, FLOAT8, BOOL] = query!("enqueue_message");
    enqueue_activity: [TEXT, INT8, INT8, TEXT, TEXT, TEXT] =
        "SELECT FROM {schema}.enqueue_activity($1, $2, $3, $4, $5, $6)";
    fetch_activity: [UUID, FLOAT8, BOOL, TEXT_ARRAY, TEXT, FLOAT8] =
        "SELECT * FROM {schema}.fetch_activity($1, make_interval(secs => $2), $3, $4, $5, make_interval(secs => $6))";
    ack_activity: [INT8, UUID, TEXT, TEXT, TIMESTAMPTZ] =
        "SELECT * FROM {schema}.ack_activity($1, $2, $3, $4, $5)";
    abandon_activity: [INT8, UUID, FLOAT8, BOOL] =
        "SELECT * FROM {schema}.abandon_activity($1, $2, make_interval(secs => $3), $4)";
    renew_activity: [INT8, UUID, FLOAT8] = "SELECT {schema}.renew_activity($1, $2, make_interval(secs => $3))";
    renew_sessions: [TEXT_ARRAY, FLOAT8, FLOAT8] =
        "SELECT {schema}.renew_sessions($1, make_interval(secs => $2), make_interval(secs => $3))";
    drop_sessions: [] = "SELECT {schema}.drop_sessions()";
    look: [TEXT, TEXT] =
        "SELECT l.*, CASE WHEN $2 IS NOT NULL THEN pg_notify($1, $2) END FROM {schema}.look() AS l";
    publish: [TEXT, TEXT] = "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)";
    read_latest: [TEXT] = query!("read_latest");
    read_execution: [TEXT, INT8] = query!("read_execution");
    append_history: [TEXT, INT8, INT8_ARRAY, TEXT_ARRAY] = query!("append_history");
    custom_status: [TEXT, INT8] = query!("custom_status");
    kv_value: [TEXT, TEXT] = query!("kv_value");
    kv_values: [TEXT] = query!("kv_values");
    instance_stats: [TEXT] = query!("instance_stats");
    list_instances: [] = query!("list_instances");
    list_instances_by_status: [TEXT] = query!("list_instances_by_status");
    list_executions: [TEXT] = query!("list_executions");
    instance_info: [TEXT] = query!("instance_info");
    execution_info: [TEXT, INT8] = query!("execution_info");
    system_metrics: [] = query!("system_metrics");
    queue_depths: [] = query!("queue_depths");
    list_children: [TEXT] = query!("list_children");
    parent: [TEXT] = query!("parent");
    roots_ended: [TEXT_ARRAY, INT8, INT8] = query!("roots_ended");
    instances_to_prune: [TEXT_ARRAY, INT8, INT8] = query!("instances_to_prune");
    delete_instances: [TEXT_ARRAY, BOOL] = "SELECT * FROM {schema}.delete_instances($1, $2)";
    prune_executions: [TEXT, INT8, INT8] = "SELECT * FROM {schema}.prune_executions($1, $2, $3)";
}

/// What the fallback found.
pub(crate) struct Looked {
    pub(crate) adopted: u64,
    pub(crate) orchestrations: Option<i64>,
    pub(crate) activities: Option<i64>,
}

/// The pool and the statements of one schema.
pub(crate) struct Db {
    pub(crate) pool: Pool,
    pub(crate) schema: Schema,
    pub(crate) sql: Statements,
    pub(crate) channel: String,
}

impl Db {
    pub(crate) fn new(pool: Pool, schema: &Schema, channel: String) -> Self {
        Self { pool, schema: schema.clone(), sql: Statements::new(schema), channel }
    }

    /// Run one statement.
    pub(crate) async fn call(
        &self,
        operation: &'static str,
        repeat: Repeat,
        statement: &Statement,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, ProviderError> {
        self.steps(operation, repeat, &[Step::new(statement, params)]).await
    }

    /// Run one statement and, behind it in the same round trip, publish a hint. It is no part of the statement's
    /// transaction: a NOTIFY there would make all commits of the database wait for each other.
    pub(crate) async fn call_and_publish(
        &self,
        operation: &'static str,
        statement: &Statement,
        params: &[&(dyn ToSql + Sync)],
        hint: Option<String>,
    ) -> Result<Vec<Row>, ProviderError> {
        match hint {
            None => self.call(operation, Repeat::Unharmed, statement, params).await,
            Some(hint) => {
                let publish = Step::new(&self.sql.publish, &[&self.channel, &hint]);
                self.steps(operation, Repeat::Unharmed, &[Step::new(statement, params), publish]).await
            }
        }
    }

    /// The rows of the first step.
    async fn steps(
        &self,
        operation: &'static str,
        repeat: Repeat,
        steps: &[Step<'_>],
    ) -> Result<Vec<Row>, ProviderError> {
        let (begun, mut attempt) = (Instant::now(), 1);
        loop {
            let error = match self.attempt(steps).await {
                Ok(rows) => return Ok(rows),
                Err(error) => error,
            };
            if !repeat.again(&error, attempt, begun.elapsed()) {
                return Err(failed(operation, &error));
            }
            tracing::debug!(operation, %error, attempt, "the database did not take a call; calling again");
            tokio::time::sleep(WAIT * (1 << (attempt - 1).min(4))).await;
            attempt += 1;
        }
    }

    async fn attempt(&self, steps: &[Step<'_>]) -> Result<Vec<Row>, PgError> {
        let mut conn = self.pool.get().await?;
        Ok(conn.pipeline(steps).await?.into_iter().next().unwrap_or_default())
    }

    /// Run a statement that answers exactly one row.
    pub(crate) async fn one(
        &self,
        operation: &'static str,
        repeat: Repeat,
        statement: &Statement,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Row, ProviderError> {
        single(operation, self.call(operation, repeat, statement, params).await?)
    }

    /// The same, for an answer that tells the database's time in its column `now`.
    pub(crate) async fn timed(
        &self,
        operation: &'static str,
        repeat: Repeat,
        statement: &Statement,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Row, ProviderError> {
        let sent = Instant::now();
        let row = self.one(operation, repeat, statement, params).await?;
        let now: i64 = row.try_get("now").map_err(|e| unexpected(operation, e))?;
        self.pool.clock().learn(sent, now, Instant::now());
        Ok(row)
    }

    /// The fallback's look; `ping` rides along.
    pub(crate) async fn look(&self, ping: Option<String>) -> Result<Looked, ProviderError> {
        let params: [&(dyn ToSql + Sync); 2] = [&self.channel, &ping];
        let row = self.timed("look", Repeat::Always, &self.sql.look, &params).await?;
        let get = |column| row.try_get(column).map_err(|e| unexpected("look", e));
        let adopted: i64 = row.try_get("adopted").map_err(|e| unexpected("look", e))?;
        Ok(Looked {
            adopted: adopted.cast_unsigned(),
            orchestrations: get("orchestrations")?,
            activities: get("activities")?,
        })
    }
}

/// The only row.
pub(crate) fn single(operation: &str, rows: Vec<Row>) -> Result<Row, ProviderError> {
    rows.into_iter().next().ok_or_else(|| unexpected(operation, "no row"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_repeated_and_for_how_long() {
        let broken = PgError::new(PgErrorKind::Broken, "");
        let late = PgError::new(PgErrorKind::Timeout, "");
        let refused = PgError::new(PgErrorKind::Refused, "");
        let soon = Duration::ZERO;
        assert!(Repeat::Unharmed.again(&broken, 1, soon) && !Repeat::Unharmed.again(&broken, ATTEMPTS, soon));
        assert!(!Repeat::Always.again(&late, 1, soon));
        let while_held = Repeat::For(Duration::from_secs(10));
        assert!(while_held.again(&broken, 50, Duration::from_secs(9)) && while_held.again(&late, 50, soon));
        assert!(!while_held.again(&broken, 2, Duration::from_secs(10)));
        assert!(!while_held.again(&refused, 1, soon));
    }
}
