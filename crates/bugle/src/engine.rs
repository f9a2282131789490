//! The only place that names a storage engine, and with it the carriers that its servers tell each other by.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use bugle_disk::{Disk, OsDisk};
use bugle_pg::{Config, PoolOptions};
use bugle_spool::{FileSpool, SpoolOptions};
use bugle_store::{Catalog, Engine, Recode, Recoded, Spool};
use bugle_store_embedded::{EmbeddedOptions, EmbeddedStore};
use bugle_store_postgres::{PostgresOptions, PostgresStore, Upgrade};
use bugle_wake::{Carrier, NotifyOptions, UdpOptions};

use crate::settings::{PostgresSettings, StoreSettings, WakingSettings};

/// Open the engine that the settings name.
pub(crate) async fn open(
    settings: &StoreSettings,
    waking: &WakingSettings,
) -> Result<(Arc<dyn Engine>, Vec<Carrier>)> {
    match settings {
        StoreSettings::Embedded { dir } => {
            let (disk, options) = (disk(dir), EmbeddedOptions::new(dir));
            // Recovery reads files for a while; it must not hold up a thread that serves others.
            let opening = tokio::task::spawn_blocking(|| EmbeddedStore::open_on(disk, options));
            let store = opening.await.context("opening")??;
            Ok((store, Vec::new()))
        }
        StoreSettings::Postgres(postgres) => {
            let store = PostgresStore::open(options(postgres)).await?;
            let carriers = carriers(&store, &postgres.address, waking)?;
            Ok((store, carriers))
        }
    }
}

/// How to open the engine on PostgreSQL.
fn options(settings: &PostgresSettings) -> PostgresOptions {
    let (min, max) = settings.connections;
    let pool = PoolOptions { min, max, pooled: settings.pooler, ..PoolOptions::default() };
    let (schema, buckets) = (settings.schema.clone(), settings.buckets);
    let early_release = settings.early_release;
    PostgresOptions { pool, schema, buckets, early_release, ..PostgresOptions::new(&settings.address) }
}

/// Look at the tables in PostgreSQL and at what is to be done to them.
pub(crate) async fn upgrade(settings: &PostgresSettings) -> Result<Upgrade> {
    Ok(Upgrade::look(options(settings)).await?)
}

/// Write the messages in a directory anew.
pub(crate) async fn recode_embedded(
    dir: &Path,
    recode: Recode<'_>,
    write: bool,
    progress: &mut (dyn FnMut(Recoded) + Send),
) -> Result<Recoded> {
    let options = EmbeddedOptions::new(dir);
    Ok(bugle_store_embedded::recode(options, recode, write, progress).await?)
}

/// Write the messages in a database anew.
pub(crate) async fn recode_postgres(
    settings: &PostgresSettings,
    recode: Recode<'_>,
    write: bool,
    progress: &mut (dyn FnMut(Recoded) + Send),
) -> Result<Recoded> {
    let store = PostgresStore::open(options(settings)).await?;
    let maintenance = store.snapshot(None).await?.is_some_and(|all| all.switches.push_maintenance);
    ensure!(
        !maintenance,
        "pushes are kept in the servers' spools: switch maintenance off, and wait until they are stored"
    );
    Ok(store.recode(recode, write, progress).await?)
}

/// Open the spool, if there is one already; otherwise it is made when it is needed.
pub(crate) async fn open_spool(options: SpoolOptions) -> Result<Arc<dyn Spool>> {
    let disk = disk(&options.dir);
    let opening = tokio::task::spawn_blocking(|| FileSpool::open_on(disk, options));
    let spool = opening.await.context("opening")?;
    Ok(spool.context("spool")?)
}

/// The files in a directory. In builds with planted bugs they may fail on command.
fn disk(dir: &Path) -> Arc<dyn Disk> {
    let disk = Arc::new(OsDisk::new(dir));
    #[cfg(feature = "planted-bugs")]
    let disk = bugle_disk::PlantedDisk::around(disk);
    disk
}

fn carriers(store: &PostgresStore, address: &str, waking: &WakingSettings) -> Result<Vec<Carrier>> {
    let mut carriers = Vec::new();
    if waking.notify {
        let listen =
            Config::parse(waking.listen_store.as_deref().unwrap_or(address)).context("listen-store")?;
        carriers.push(Carrier::notify(NotifyOptions::new(listen, store.pool().clone(), store.channel())));
    }
    if let Some(udp) = &waking.udp {
        let options = UdpOptions { bind: udp.bind, peers: udp.peers.clone(), secret: udp.secret.clone() };
        carriers.push(Carrier::udp(options).context("udp")?);
    }
    Ok(carriers)
}
