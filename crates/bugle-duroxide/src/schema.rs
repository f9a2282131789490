//! The tables and functions in the database, and how they come there.

use bugle_pg::{Change, Effect, Migration};

/// Every function as it is now, one file each. A migration that changes one creates it anew from the same file.
macro_rules! functions {
    ($($name:literal),* $(,)?) => {
        /// Name and definition of every function.
        #[cfg(test)]
        pub(crate) const FUNCTIONS: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../sql/functions/", $name, ".sql")))),*];

        const CREATE: &str = concat!(
            include_str!("../sql/tables.sql"),
            $(include_str!(concat!("../sql/functions/", $name, ".sql"))),*
        );
    };
}

functions![
    "micros",
    "stored",
    "release",
    "deliver",
    "change_kv",
    "fetch_orchestration",
    "ack_orchestration",
    "abandon_orchestration",
    "renew_orchestration",
    "tags_in_use",
    "hold_session",
    "touch_session",
    "enqueue_activity",
    "fetch_activity",
    "ack_activity",
    "abandon_activity",
    "renew_activity",
    "renew_sessions",
    "drop_sessions",
    "look",
    "delete_instances",
    "prune_executions",
];

/// The history of the schema.
pub(crate) const MIGRATIONS: &[Migration] = &[Migration {
    version: 1,
    name: "tables and functions",
    effect: Effect::Breaking,
    change: Change::Whole(CREATE),
}];

#[cfg(test)]
mod tests {
    use bugle_pg::testdb::{fresh_schema, server};
    use bugle_pg::{Config, Pool, PoolOptions, Schema, Statement, Type, migrate};

    use super::*;

    /// What stands between the dollar quotes.
    fn body(definition: &str) -> &str {
        definition.split("$$").nth(1).unwrap()
    }

    #[tokio::test]
    async fn the_functions_in_the_database_are_those_in_the_files() {
        let pool = Pool::new(Config::parse(&server().await).unwrap(), PoolOptions::default());
        let schema = Schema::new(&fresh_schema()).unwrap();
        migrate(&pool, &schema, MIGRATIONS).await.unwrap();
        let sql = "SELECT proname::text, prosrc FROM pg_catalog.pg_proc
                   WHERE pronamespace = (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = $1)";
        let statement = Statement::new(&schema, sql, &[Type::TEXT]);
        let rows = pool.get().await.unwrap().query(&statement, &[&schema.name()]).await.unwrap();
        assert_eq!(rows.len(), FUNCTIONS.len());
        for row in &rows {
            let (name, source): (&str, &str) = (row.get(0), row.get(1));
            let (_, definition) = FUNCTIONS.iter().find(|(known, _)| *known == name).unwrap();
            assert_eq!(source, body(&schema.fill(definition)), "{name}");
        }
    }

    #[test]
    fn every_file_is_in_the_list_and_defines_what_its_name_says() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/sql/functions");
        let files = std::fs::read_dir(folder).unwrap().count();
        assert_eq!(files, FUNCTIONS.len());
        for (name, definition) in FUNCTIONS {
            assert!(definition.contains(&format!("CREATE OR REPLACE FUNCTION {{schema}}.{name}(")), "{name}");
            assert_eq!(definition.matches("CREATE OR REPLACE").count(), 1, "{name}");
        }
    }
}
