//! `bugle migrate`: the tables in PostgreSQL are brought up to date, or it is told what would be done.

use std::fmt::Write as _;

use anyhow::{Context, Result, bail};
use bugle_store_postgres::Upgrade;

use crate::settings::{ServeArgs, Settings, Sources, StoreSettings};
use crate::{engine, logs, serve};

/// What was asked for.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct MigrateArgs {
    /// Tell what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    serve: ServeArgs,
}

/// `bugle migrate`.
pub(crate) fn run(args: MigrateArgs) -> Result<()> {
    let settings = Settings::check(Sources::gather(args.serve)?.raw)?;
    logs::start(settings.log_format, &settings.log_level)?;
    let StoreSettings::Postgres(postgres) = &settings.store else {
        bail!("the embedded store has no migrations: a server reads what is in its directory, or refuses it");
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("runtime")?;
    runtime.block_on(async {
        let upgrade =
            engine::upgrade(postgres).await.with_context(|| format!("store {:?}", settings.store))?;
        serve::say(&told(&postgres.schema, &upgrade));
        if !args.dry_run && !upgrade.pending.is_empty() {
            let applied = upgrade.apply().await?;
            serve::say(&format!("{applied} applied\n"));
        }
        Ok(())
    })
}

/// The state and the plan, for people.
fn told(schema: &str, upgrade: &Upgrade) -> String {
    let Upgrade { found, known, pending, .. } = upgrade;
    let mut text = format!("schema {schema} is at version {found}, this program knows {known}\n");
    if found > known {
        text.push_str("the schema is newer, and this program may work with it\n");
    } else if pending.is_empty() {
        text.push_str("nothing to do\n");
    }
    for migration in pending {
        let others =
            if migration.expands { "older servers go on" } else { "older servers must be stopped before" };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "migration {}: {} ({others})", migration.version, migration.name);
    }
    text
}
