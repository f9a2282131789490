//! A copy of what an engine or a spool keeps in files, taken while it serves.
//!
//! The copy is a stream of files that is pulled, so that whoever takes it sets the pace and nothing piles up. What it holds is
//! decided when it is begun: everything that was answered before, and nothing that came later than that moment.

use std::future::Future;
use std::io;
use std::pin::Pin;

use bytes::Bytes;

/// Files come one after the other, each announced and then in pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackupPiece {
    /// A file begins.
    File {
        /// Its name in the directory.
        name: String,
        /// Bytes that follow.
        size: u64,
    },
    /// The next bytes of the file that has begun.
    Bytes(Bytes),
}

/// A backup being taken. Dropped early, it is given up.
pub trait Backup: Send {
    /// The next piece; `None` = that was all. Reads files, so it may block. An error ends it: it is of no use then.
    fn next(&mut self) -> io::Result<Option<BackupPiece>>;
}

/// Why there is no backup.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BackupError {
    /// One at a time.
    #[error("another backup is being taken")]
    Running,
    /// What is stored is not in files of this process; the text says what to use.
    #[error("{0}")]
    Elsewhere(&'static str),
    /// The store is away.
    #[error("{0}")]
    Failed(String),
}

/// The answer to the wish for a backup.
pub type BackupAnswer<'a> = Pin<Box<dyn Future<Output = Result<Box<dyn Backup>, BackupError>> + Send + 'a>>;

/// Of what has no files: nothing.
pub struct NoFiles;

impl Backup for NoFiles {
    fn next(&mut self) -> io::Result<Option<BackupPiece>> {
        Ok(None)
    }
}
