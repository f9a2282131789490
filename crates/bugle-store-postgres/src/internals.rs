//! What the database tells of itself, for operators.

use bugle_pg::PgError;
use bugle_store::Unavailable;

use crate::row::get;
use crate::store::{PostgresStore, Tries, retry, unavailable};

impl PostgresStore {
    pub(crate) async fn internals_now(&self) -> Result<Vec<(String, String)>, Unavailable> {
        retry!(Tries::question(), self.internals_once()).map_err(unavailable)
    }

    async fn internals_once(&self) -> Result<Vec<(String, String)>, PgError> {
        let rows = self.pool.get().await?.query(&self.sql.internals, &[]).await?;
        rows.iter()
            .map(|row| Ok((get::<&str>(row, 0)?.to_owned(), get::<&str>(row, 1)?.to_owned())))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use bugle_store::Engine;

    use crate::fixture::fixture;

    #[tokio::test(flavor = "multi_thread")]
    async fn every_section_is_json_and_tells_of_our_tables_alone() {
        let f = fixture().await;
        let sections = f.store.internals().await.unwrap();
        let section = |name: &str| -> serde_json::Value {
            let (_, text) = sections.iter().find(|(found, _)| found == name).expect(name);
            serde_json::from_str(text).expect(name)
        };
        assert_eq!(sections.len(), 11);
        let sizes = section("tableSizes");
        let tables: Vec<&str> =
            sizes.as_array().unwrap().iter().map(|t| t["table"].as_str().unwrap()).collect();
        for table in ["lanes", "segments", "cursors", "queues"] {
            assert_eq!(tables.iter().filter(|found| **found == table).count(), 1, "{table} in {tables:?}");
        }
        assert!(section("database")["sizeBytes"].as_u64().unwrap() > 0);
        assert!(section("bufferConfig")["shared_buffers"].is_string());
        assert!(section("indexCache").as_array().unwrap().iter().any(|index| index["index"] == "lanes_walk"));
    }
}
