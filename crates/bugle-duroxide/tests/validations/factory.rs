//! A provider in a schema of its own for each validation.

use std::sync::Arc;
use std::time::Duration;

use bugle_duroxide::{Options, PostgresProvider};
use bugle_pg::testdb::{fresh_schema, server};
use bugle_pg::{Config, Pool, PoolOptions, Schema, Statement, Type};
use duroxide::provider_validations::{ProviderFactory, race_replay};
use duroxide::providers::Provider;
use parking_lot::Mutex;

pub(crate) struct Factory {
    long_poll: bool,
    /// Of the provider made last.
    schema: Mutex<String>,
}

impl Factory {
    pub(crate) fn new(long_poll: bool) -> Self {
        Self { long_poll, schema: Mutex::default() }
    }

    fn schema(&self) -> Schema {
        Schema::new(&self.schema.lock()).unwrap()
    }

    async fn database(&self) -> Pool {
        Pool::new(Config::parse(&server().await).unwrap(), PoolOptions::default())
    }
}

#[async_trait::async_trait]
impl ProviderFactory for Factory {
    async fn create_provider(&self) -> Arc<dyn Provider> {
        let schema = fresh_schema();
        self.schema.lock().clone_from(&schema);
        let options = Options::new(server().await).schema(schema).pool_size(6).long_poll(self.long_poll);
        Arc::new(PostgresProvider::connect(options).await.unwrap())
    }

    fn lock_timeout(&self) -> Duration {
        Duration::from_millis(1500)
    }

    fn short_poll_threshold(&self) -> Duration {
        Duration::from_millis(500)
    }

    async fn corrupt_instance_history(&self, instance: &str) {
        let sql = "UPDATE {schema}.history SET event = 'not an event' WHERE instance_id = $1";
        let statement = Statement::new(&self.schema(), sql, &[Type::TEXT]);
        self.database().await.get().await.unwrap().query(&statement, &[&instance]).await.unwrap();
    }

    async fn get_max_attempt_count(&self, instance: &str) -> u32 {
        // Attempts that ended, and the one under way.
        let sql = "SELECT max(m.attempts + (m.id = ANY (coalesce(i.taken, '{}')))::integer)
                   FROM {schema}.messages m JOIN {schema}.instances i USING (instance_id)
                   WHERE i.instance_id = $1";
        let statement = Statement::new(&self.schema(), sql, &[Type::TEXT]);
        let rows = self.database().await.get().await.unwrap().query(&statement, &[&instance]).await.unwrap();
        rows[0].get::<_, i32>(0).cast_unsigned()
    }
}

pub(crate) async fn transition_delivery(long_poll: bool, stamp: &str) {
    race_replay::test_continue_as_new_transition_delivery(&Factory::new(long_poll), stamp).await;
}
