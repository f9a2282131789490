//! `bugle rekey`: everything that is stored under other encryption keys is encrypted anew with the first, so that the others can be
//! thrown away. Beside servers, on PostgreSQL, it looks a second time: what came under another key meanwhile tells of a server that still
//! encrypts with it.

use anyhow::{Context, Result, bail, ensure};
use bugle_broker::Rekey;
use bugle_store::{LaneId, Recoded};
use bytes::Bytes;

use crate::settings::{ServeArgs, Settings, Sources, StoreSettings};
use crate::{engine, logs, serve};

/// Segments and dead letters between two lines about the progress.
const TELL_EVERY: u64 = 10_000;

/// What was asked for.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RekeyArgs {
    /// Count what would be done, and leave it as it is
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    serve: ServeArgs,
}

/// `bugle rekey`.
pub(crate) fn run(args: RekeyArgs) -> Result<()> {
    let settings = Settings::check(Sources::gather(args.serve)?.raw)?;
    logs::start(settings.log_format, &settings.log_level)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("runtime")?;
    runtime.block_on(rekey(settings, args.dry_run))
}

async fn rekey(settings: Settings, dry_run: bool) -> Result<()> {
    let keys = &settings.broker.encryption_keys;
    let Some(first) = keys.first() else {
        bail!("there is no encryption-key: give the new key and all old ones")
    };
    let first = first.id.clone();
    let Recoded { seen, changed } = pass(&settings, dry_run).await?;
    let what = if dry_run { "are to be" } else { "were" };
    serve::say(&format!(
        "{changed} of {seen} segments and dead letters {what} written anew for key {first:?}\n"
    ));
    if dry_run && changed > 0 {
        return Ok(());
    }
    if changed > 0 && matches!(settings.store, StoreSettings::Postgres(_)) {
        let late = pass(&settings, false).await?.changed;
        ensure!(
            late == 0,
            "{late} more came under another key meanwhile, and were written anew as well: a server still encrypts with another key. \
             Give all servers {first:?} as their first key, restart them, and run this again"
        );
    }
    serve::say("everything is under this key: the others are not needed by what is stored\n");
    Ok(())
}

/// Go over everything once.
async fn pass(settings: &Settings, dry_run: bool) -> Result<Recoded> {
    let rekey = Rekey::new(&settings.broker.encryption_keys);
    let messages = |lane: LaneId, stored: &Bytes| rekey.messages(lane, stored);
    let mut told = 0;
    let mut progress = |so_far: Recoded| {
        if so_far.seen - told >= TELL_EVERY {
            told = so_far.seen;
            serve::say(&format!(
                "{} segments and dead letters, {} of them changed\n",
                so_far.seen, so_far.changed
            ));
        }
    };
    let store = match &settings.store {
        StoreSettings::Embedded { dir } => {
            drained(settings).await?;
            engine::recode_embedded(dir, &messages, !dry_run, &mut progress).await
        }
        StoreSettings::Postgres(postgres) => {
            engine::recode_postgres(postgres, &messages, !dry_run, &mut progress).await
        }
    };
    let total = store.with_context(|| format!("store {:?}", settings.store))?;
    tracing::debug!(encrypted = rekey.encrypted(), old = rekey.old(), "payloads looked at");
    Ok(total)
}

/// The spool has payloads under the key of its time, and is read by a server only.
async fn drained(settings: &Settings) -> Result<()> {
    let spool = engine::open_spool(settings.spool.clone()).await?;
    let left = spool.state().records;
    ensure!(
        left == 0,
        "the spool in {} holds {left} messages: start the server with all keys, switch maintenance off, and wait until they are stored",
        settings.spool.dir.display()
    );
    Ok(())
}
