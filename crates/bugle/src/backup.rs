//! `bugle backup`: take a backup from a running server and put it where it opens by itself.
//!
//! It is written under a name that ends in `.partial` and gets its own name when it is whole, on disk, and found without damage.

mod unpack;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bugle_client::Backup;
use bugle_store::Severity;
use clap::Args;

use crate::connection::ConnectionArgs;
use crate::doctor;
use unpack::Unpack;

/// Longest pause between two pieces.
const PATIENCE: Duration = Duration::from_secs(60);

/// Arguments of `bugle backup`.
#[derive(Clone, Debug, Args)]
pub(crate) struct BackupArgs {
    /// Where the backup goes: a directory that does not exist yet, or a file whose name ends in .tar
    #[arg(long, value_name = "DIR|FILE.tar")]
    to: PathBuf,
    /// Copy the server's spool and nothing else: what there is in files where messages are kept in PostgreSQL
    #[arg(long)]
    spool_only: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// `bugle backup`.
pub(crate) fn run(args: &BackupArgs) -> Result<ExitCode> {
    ensure!(!args.to.exists(), "{} exists already", args.to.display());
    let client = args.connection.builder()?.timeout(PATIENCE).build()?;
    let partial = partial(&args.to)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("runtime")?;
    let tar = args.to.extension().is_some_and(|extension| extension == "tar");
    let bytes = runtime.block_on(async {
        let backup = client.backup(args.spool_only).await?;
        if tar { keep(backup, &partial).await } else { unpack(backup, &partial).await }
    })?;
    if !tar {
        let found = doctor::examine_files(&partial, &partial.join("spool"), args.spool_only);
        doctor::say(&found);
        if found.worst() > Some(Severity::Warning) {
            bail!("the backup is not whole; it stays at {}", partial.display());
        }
    }
    fs::rename(&partial, &args.to).with_context(|| args.to.display().to_string())?;
    sync_parent(&args.to)?;
    crate::serve::say(&format!(
        "backup of {} in {}: {bytes} bytes\n",
        args.connection.server,
        args.to.display()
    ));
    Ok(ExitCode::SUCCESS)
}

/// The name while it is not whole.
fn partial(to: &Path) -> Result<PathBuf> {
    let mut name = to.file_name().with_context(|| format!("{} has no name", to.display()))?.to_owned();
    name.push(".partial");
    let partial = to.with_file_name(name);
    let shown = partial.display();
    ensure!(
        !partial.exists(),
        "{shown} is left of an earlier backup that did not come to its end; remove it"
    );
    Ok(partial)
}

/// Keep the archive as it comes.
async fn keep(mut backup: Backup, to: &Path) -> Result<u64> {
    let shown = || to.display().to_string();
    let mut file = private_file(to).with_context(shown)?;
    let mut bytes = 0;
    while let Some(piece) = backup.next().await? {
        file.write_all(&piece).with_context(shown)?;
        bytes += piece.len() as u64;
    }
    file.sync_all().with_context(shown)?;
    Ok(bytes)
}

/// Take the archive apart as it comes.
async fn unpack(mut backup: Backup, to: &Path) -> Result<u64> {
    let shown = || to.display().to_string();
    let mut unpack = Unpack::into(to).with_context(shown)?;
    let mut bytes = 0;
    while let Some(piece) = backup.next().await? {
        unpack.take(&piece).with_context(shown)?;
        bytes += piece.len() as u64;
    }
    unpack.end().with_context(shown)?;
    Ok(bytes)
}

/// A new file that nobody else can read: there are messages in it.
fn private_file(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

fn sync_parent(path: &Path) -> Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent).and_then(|dir| dir.sync_all()).with_context(|| parent.display().to_string())
}
