//! The only place that names a storage engine.

use std::sync::Arc;

use anyhow::{Context, Result};
use bugle_pg::PoolOptions;
use bugle_store::Engine;
use bugle_store_embedded::{EmbeddedOptions, EmbeddedStore};
use bugle_store_postgres::{PostgresOptions, PostgresStore};

use crate::settings::StoreSettings;

/// Open the engine that the settings name.
pub(crate) async fn open(settings: &StoreSettings) -> Result<Arc<dyn Engine>> {
    match settings {
        StoreSettings::Embedded { dir } => {
            let options = EmbeddedOptions::new(dir);
            // Recovery reads files for a while; it must not hold up a thread that serves others.
            let store =
                tokio::task::spawn_blocking(|| EmbeddedStore::open(options)).await.context("opening")??;
            Ok(store)
        }
        StoreSettings::Postgres { address, schema, buckets, pooler, connections: (min, max) } => {
            let pool = PoolOptions { min: *min, max: *max, pooled: *pooler, ..PoolOptions::default() };
            let options = PostgresOptions {
                pool,
                schema: schema.clone(),
                buckets: *buckets,
                ..PostgresOptions::new(address)
            };
            Ok(PostgresStore::open(options).await?)
        }
    }
}
