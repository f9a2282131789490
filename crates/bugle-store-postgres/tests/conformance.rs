//! The contract's suite on PostgreSQL, in every variant of the engine.

use bugle_pg::PoolOptions;
use bugle_pg::testdb;
use bugle_store::conformance::Subject;
use bugle_store_postgres::{Extras, PostgresOptions, PostgresStore};

async fn open(dsn: String, change: impl FnOnce(&mut PostgresOptions)) -> Subject {
    let mut options = PostgresOptions {
        schema: testdb::fresh_schema(),
        pool: PoolOptions { max: 8, ..PoolOptions::default() },
        ..PostgresOptions::new(dsn)
    };
    change(&mut options);
    let store = PostgresStore::open(options).await.expect("open the store");
    (store, Box::new(()))
}

mod one_bucket {
    async fn subject() -> super::Subject {
        super::open(super::testdb::server().await, |_| ()).await
    }
    bugle_store::conformance!(subject);
}

mod four_buckets {
    async fn subject() -> super::Subject {
        super::open(super::testdb::server().await, |options| options.buckets = 4).await
    }
    bugle_store::conformance!(subject);
}

mod without_extras {
    async fn subject() -> super::Subject {
        super::open(super::testdb::server().await, |options| options.extras = super::Extras::NONE).await
    }
    bugle_store::conformance!(subject);
}

mod early_release {
    async fn subject() -> super::Subject {
        super::open(super::testdb::server().await, |options| options.early_release = true).await
    }
    bugle_store::conformance!(subject);
}

mod early_release_by_several_statements {
    async fn subject() -> super::Subject {
        let change = |options: &mut super::PostgresOptions| {
            options.early_release = true;
            options.buckets = 4;
            options.extras = super::Extras { log: true, ..super::Extras::NONE };
        };
        super::open(super::testdb::server().await, change).await
    }
    bugle_store::conformance!(subject);
}

mod behind_a_pooler {
    async fn subject() -> super::Subject {
        super::open(super::testdb::pgbouncer().await, |options| options.pool.pooled = true).await
    }
    bugle_store::conformance!(subject);
}
