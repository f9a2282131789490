//! `bugle rekey`: everything that is stored under other encryption keys is encrypted anew with the first, so that the others can be
//! thrown away.

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
    let rekey = Rekey::new(keys);
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
            drained(&settings).await?;
            engine::recode_embedded(dir, &messages, !dry_run, &mut progress).await
        }
        StoreSettings::Postgres(postgres) => {
            engine::recode_postgres(postgres, &messages, !dry_run, &mut progress).await
        }
    };
    let total = store.with_context(|| format!("store {:?}", settings.store))?;
    let (encrypted, old) = (rekey.encrypted(), rekey.old());
    let Recoded { seen, changed } = total;
    let what = if dry_run { "are to be" } else { "were" };
    serve::say(&format!(
        "{changed} of {seen} segments and dead letters {what} written anew for key {:?}\n",
        first.id
    ));
    tracing::debug!(encrypted, old, "payloads looked at");
    if changed == 0 {
        serve::say("everything is under this key: the others are not needed by what is stored\n");
    }
    Ok(())
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
