//! The history of the schema, and how it is brought up to date by hand.

use bugle_pg::{Change, Effect, Migration, Pool, Schema, migrate, plan, presence};

use crate::options::{OpenError, PostgresOptions};

/// Files of functions after those of tables: one has its present definition in one file, and a migration that changes it
/// creates it anew from there.
macro_rules! whole {
    ($version:literal, $name:literal, $effect:ident, $($file:literal),+) => {
        Migration {
            version: $version,
            name: $name,
            effect: Effect::$effect,
            change: Change::Whole(concat!($(include_str!(concat!("../sql/", $file))),+)),
        }
    };
}

/// Never changed once released; CONTRIBUTING.md says how to add one.
pub(crate) const MIGRATIONS: &[Migration] = &[
    whole!(1, "tables", Breaking, "migrations/0001_tables.sql"),
    whole!(2, "survey", Breaking, "migrations/0002_survey.sql"),
    whole!(3, "tallies", Breaking, "migrations/0003_tallies.sql"),
    whole!(4, "switches", Breaking, "migrations/0004_switches.sql"),
    whole!(5, "tally versions", Breaking, "migrations/0005_tally_versions.sql"),
    whole!(6, "leases without an index", Expand, "migrations/0006_leases_without_index.sql"),
    whole!(
        7,
        "inbox",
        Expand,
        "migrations/0007_inbox.sql",
        "functions/push.sql",
        "functions/push_json.sql",
        "functions/push_jsonb.sql"
    ),
    whole!(8, "small bodies in line", Expand, "migrations/0008_small_bodies_in_line.sql"),
];

/// All migrations this program knows.
pub(crate) fn migrations() -> Vec<Migration> {
    #[cfg_attr(not(feature = "planted-migrations"), allow(unused_mut))]
    let mut all = MIGRATIONS.to_vec();
    #[cfg(feature = "planted-migrations")]
    all.extend(planted::chosen());
    all
}

/// The latest version of the schema that this program knows.
pub(crate) fn known_version() -> i32 {
    migrations().last().map_or(0, |migration| migration.version)
}

/// Migrations of a version that does not exist, for tests: see the feature.
#[cfg(feature = "planted-migrations")]
mod planted {
    use super::*;

    /// Follow the last real one.
    const NEXT: i32 = MIGRATIONS.len() as i32 + 1;

    const EXPAND: [Migration; 2] = [
        Migration {
            version: NEXT,
            name: "planted columns and a table",
            effect: Effect::Expand,
            change: Change::Whole(include_str!("../sql/planted/expand.sql")),
        },
        Migration {
            version: NEXT + 1,
            name: "planted index",
            effect: Effect::Expand,
            change: Change::Online(&[
                "DROP INDEX CONCURRENTLY IF EXISTS {schema}.planted_lanes_created",
                "CREATE INDEX CONCURRENTLY planted_lanes_created ON {schema}.lanes (bucket, created_at)",
            ]),
        },
    ];

    const BREAKING: [Migration; 1] = [Migration {
        version: NEXT,
        name: "planted rename",
        effect: Effect::Breaking,
        change: Change::Whole("ALTER TABLE {schema}.traces RENAME COLUMN worker TO planted_worker"),
    }];

    pub(super) fn chosen() -> &'static [Migration] {
        match std::env::var("BUGLE_PLANTED_MIGRATION").as_deref() {
            Ok("expand") => &EXPAND,
            Ok("breaking") => &BREAKING,
            _ => &[],
        }
    }
}

/// A migration that is to be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Its version.
    pub version: i32,
    /// Its name.
    pub name: &'static str,
    /// Servers that do not know it go on working.
    pub expands: bool,
}

/// The tables of an installation and what this program would do to them, without a server.
pub struct Upgrade {
    pool: Pool,
    schema: Schema,
    migrations: Vec<Migration>,
    /// Version of the tables; 0 = there are none.
    pub found: i32,
    /// Latest version this program knows.
    pub known: i32,
    /// What is to be applied, in order.
    pub pending: Vec<Pending>,
}

impl Upgrade {
    /// Look; nothing is changed.
    pub async fn look(options: PostgresOptions) -> Result<Self, OpenError> {
        let schema = Schema::new(&options.schema)?;
        let migrations = migrations();
        let mut pool_options = options.pool;
        pool_options.application_name = presence(&pool_options.application_name, &schema, &migrations);
        let pool = Pool::new(bugle_pg::Config::parse(&options.dsn)?, pool_options);
        let plan = plan(&pool, &schema, &migrations).await?;
        let (found, known) = (plan.found, plan.known);
        let pending = plan.pending.iter().map(|m| Pending {
            version: m.version,
            name: m.name,
            expands: m.effect == Effect::Expand,
        });
        let pending = pending.collect();
        Ok(Self { pool, schema, migrations, found, known, pending })
    }

    /// Apply what is pending; how many were.
    pub async fn apply(&self) -> Result<usize, OpenError> {
        Ok(migrate(&self.pool, &self.schema, &self.migrations).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_count_from_one_without_gaps() {
        assert!(MIGRATIONS.iter().zip(1..).all(|(migration, version)| migration.version == version));
        let files = concat!(env!("CARGO_MANIFEST_DIR"), "/sql/migrations");
        assert_eq!(std::fs::read_dir(files).unwrap().count(), MIGRATIONS.len());
    }
}
