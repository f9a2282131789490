//! A backup of what this server keeps in files, taken while it serves: the spool, then the store.
//!
//! The spool's moment comes before the store's. Messages move from the one to the other, so each that was answered before is
//! in at least one of them; one that is in both is found again by the drain, which stores it once.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bugle_store::{Backup, BackupError, BackupPiece};
use tokio::sync::mpsc;

use crate::api::Refused;
use crate::inner::Inner;

/// Pieces that wait to be taken.
const AHEAD: usize = 4;
/// Longest time for who takes it to take the next piece: files that are emptied meanwhile are not given back.
const STALLED: Duration = Duration::from_secs(60);
/// When to try again while another is taken.
const RETRY: Duration = Duration::from_secs(10);
/// Directory of the spool's files in a backup.
const SPOOL: &str = "spool/";

/// Pieces of a backup. `None` is the end of it; a channel that closes without that was given up.
pub type BackupPieces = mpsc::Receiver<io::Result<Option<BackupPiece>>>;

/// What is copied one after the other, and what its names begin with.
type Parts = Vec<(&'static str, Box<dyn Backup>)>;

impl Inner {
    /// Begin a backup; of the spool alone if so.
    pub(crate) async fn backup(self: &Arc<Self>, spool_only: bool) -> Result<BackupPieces, Refused> {
        let permit = self.backups.clone().try_acquire_owned().map_err(|_| refused(BackupError::Running))?;
        let mut parts = Parts::new();
        if let Some(spool) = &self.spooling.spool {
            parts.push((SPOOL, spool.backup().await.map_err(refused)?));
        }
        if !spool_only {
            parts.push(("", self.engine.backup().await.map_err(refused)?));
        }
        let (to, pieces) = mpsc::channel(AHEAD);
        let inner = self.clone();
        tokio::spawn(async move {
            tracing::info!(spool_only, "a backup is being taken");
            let taken = tokio::select! {
                taken = copy(parts, &to) => taken,
                () = inner.stop.cancelled() => Err(io::Error::other("the server stops")),
            };
            match taken {
                Ok(bytes) => tracing::info!(bytes, "a backup was taken"),
                Err(error) => {
                    tracing::warn!(%error, "a backup was given up");
                    let _ = to.try_send(Err(error));
                }
            }
            drop(permit);
        });
        Ok(pieces)
    }
}

fn refused(error: BackupError) -> Refused {
    let reason = error.to_string();
    match error {
        BackupError::Running => Refused::Busy { reason, retry_after: RETRY },
        BackupError::Elsewhere(_) => Refused::Conflict(reason),
        BackupError::Failed(_) => Refused::Unavailable(reason),
    }
}

/// Hand over all pieces, as fast as they are taken. Answers the bytes of all files.
async fn copy(parts: Parts, to: &mpsc::Sender<io::Result<Option<BackupPiece>>>) -> io::Result<u64> {
    let mut bytes = 0;
    for (prefix, mut part) in parts {
        loop {
            let read = tokio::task::spawn_blocking(move || {
                let piece = part.next();
                (part, piece)
            });
            let (again, piece) = read.await.map_err(io::Error::other)?;
            part = again;
            let Some(piece) = piece? else { break };
            let piece = match piece {
                BackupPiece::File { name, size } => {
                    bytes += size;
                    BackupPiece::File { name: format!("{prefix}{name}"), size }
                }
                piece => piece,
            };
            send(to, Some(piece)).await?;
        }
    }
    send(to, None).await?;
    Ok(bytes)
}

async fn send(
    to: &mpsc::Sender<io::Result<Option<BackupPiece>>>,
    piece: Option<BackupPiece>,
) -> io::Result<()> {
    match tokio::time::timeout(STALLED, to.send(Ok(piece))).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(io::Error::new(io::ErrorKind::BrokenPipe, "who takes it has gone")),
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "nobody takes it")),
    }
}
