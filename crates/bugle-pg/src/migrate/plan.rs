//! What a program must do with a schema as it finds it: nothing, migrate it, or leave it alone.

use crate::error::PgError;
use crate::pool::Pool;
use crate::statement::Schema;

use super::runner::Runner;
use super::{Effect, MigrateError, Migration};

/// What [`super::migrate`] would do.
#[derive(Clone, Debug)]
pub struct Plan<'a> {
    /// Version of the schema; 0 = it is not there.
    pub found: i32,
    /// Latest version the program knows.
    pub known: i32,
    /// Migrations to be applied, in order.
    pub pending: &'a [Migration],
}

/// What the list of applied migrations says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Applied {
    /// The last of them.
    pub(super) version: i32,
    /// The lowest version a program must know.
    pub(super) needs: i32,
}

impl<'a> Plan<'a> {
    /// The plan for a schema in this state.
    pub(super) fn new(
        schema: &Schema,
        migrations: &'a [Migration],
        applied: Applied,
    ) -> Result<Self, MigrateError> {
        let known = migrations.last().map_or(0, |m| m.version);
        let Applied { version: found, needs } = applied;
        if found > known && needs > known {
            return Err(MigrateError::Newer { schema: schema.to_string(), found, needs, known });
        }
        let done = migrations.iter().take_while(|m| m.version <= found).count();
        Ok(Self { found, known, pending: &migrations[done..] })
    }
}

impl Applied {
    /// The lowest version a program must know once `migration` is applied too.
    pub(super) fn needs_after(self, migration: &Migration) -> i32 {
        match migration.effect {
            Effect::Breaking => migration.version,
            Effect::Expand => self.needs,
        }
    }
}

/// Look at `schema` and change nothing.
pub async fn plan<'a>(
    pool: &Pool,
    schema: &Schema,
    migrations: &'a [Migration],
) -> Result<Plan<'a>, MigrateError> {
    let failed = |error: PgError| MigrateError::Database { schema: schema.to_string(), error };
    let runner = Runner::new(pool, schema, migrations);
    let mut conn = pool.get().await.map_err(failed)?;
    let applied = runner.look(&mut conn).await.map_err(failed)?;
    Plan::new(schema, migrations, applied)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::migrate::Change;

    fn migration(version: i32, effect: Effect) -> Migration {
        Migration { version, name: "x", effect, change: Change::Whole("") }
    }

    fn list() -> Vec<Migration> {
        vec![
            migration(1, Effect::Breaking),
            migration(2, Effect::Expand),
            migration(3, Effect::Breaking),
            migration(4, Effect::Expand),
        ]
    }

    /// Apply everything in memory.
    fn applied(migrations: &[Migration]) -> Applied {
        migrations.iter().fold(Applied::default(), |applied, m| Applied {
            version: m.version,
            needs: applied.needs_after(m),
        })
    }

    #[test]
    fn what_a_program_must_know_is_the_last_that_broke_older_ones() {
        let list = list();
        assert_eq!(applied(&list[..2]), Applied { version: 2, needs: 1 });
        assert_eq!(applied(&list), Applied { version: 4, needs: 3 });
    }

    #[test]
    fn a_newer_schema_is_taken_if_it_allows_it_and_refused_with_all_versions_otherwise() {
        let (schema, list) = (Schema::new("s").unwrap(), list());
        let taken = Plan::new(&schema, &list[..3], applied(&list)).unwrap();
        assert_eq!((taken.found, taken.known, taken.pending.len()), (4, 3, 0));
        let refused = Plan::new(&schema, &list[..2], applied(&list)).unwrap_err().to_string();
        for part in ["at version 4", "at least version 3", "up to 2"] {
            assert!(refused.contains(part), "{refused}");
        }
    }

    #[test]
    fn what_is_not_applied_is_pending_in_order() {
        let (schema, list) = (Schema::new("s").unwrap(), list());
        let pending = |applied| {
            let plan = Plan::new(&schema, &list, applied).unwrap();
            plan.pending.iter().map(|m| m.version).collect::<Vec<_>>()
        };
        assert_eq!(pending(Applied::default()), [1, 2, 3, 4]);
        assert_eq!(pending(applied(&list[..3])), [4]);
        assert_eq!(pending(applied(&list)), [] as [i32; 0]);
    }
}
