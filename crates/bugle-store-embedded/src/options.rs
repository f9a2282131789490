//! What can be set on the engine, and why opening can fail.

use std::io;
use std::path::PathBuf;

/// Settings of the embedded engine. The defaults suit a server.
#[derive(Clone, Debug)]
pub struct EmbeddedOptions {
    /// Data directory; created if it does not exist (its parent must).
    pub dir: PathBuf,
    /// Size of a log file in bytes.
    pub file_size: u64,
    /// Log bytes between two checkpoints.
    pub checkpoint_every: u64,
    /// Bodies of recent segments kept in memory, in bytes.
    pub cache_bytes: usize,
    /// Most bytes that one group commit gathers (a single larger call still goes through).
    pub commit_bytes: usize,
    /// Most calls that wait for the writer; callers beyond that wait for room.
    pub pending_calls: usize,
    /// Most segments of one log file; a file that reaches it is sealed early, since its index is in memory until then.
    pub file_segments: usize,
    /// Most fingerprints of one log file; see `file_segments`.
    pub file_fingerprints: usize,
    /// Filters of fingerprints kept in memory, in bytes; those of the oldest files are read when they are needed.
    pub filter_bytes: usize,
    /// Emptied log files kept for reuse, so that they need not be zeroed again.
    pub recycle: usize,
    /// Whether files are prepared, sealed, checkpointed and reclaimed by threads of their own. Without, the writer does
    /// it between commits, which makes the order of disk operations a function of the calls: for tests.
    pub background: bool,
}

impl EmbeddedOptions {
    /// Default settings in this directory.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            file_size: 128 << 20,
            checkpoint_every: 256 << 20,
            cache_bytes: 64 << 20,
            commit_bytes: 4 << 20,
            pending_calls: 1024,
            file_segments: 512 << 10,
            file_fingerprints: 512 << 10,
            filter_bytes: 48 << 20,
            recycle: 4,
            background: true,
        }
    }
}

/// Why a data directory cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process owns the directory.
    #[error("data directory {0} is in use by another process")]
    Locked(String),
    /// It was written by a newer version.
    #[error("data directory has format {found}, this version reads up to {supported}: use a newer version")]
    NewerFormat {
        /// Format of the directory.
        found: u32,
        /// Newest format understood.
        supported: u32,
    },
    /// Something in it is not what was written.
    #[error("damaged: {file} at {offset}: {what}")]
    Damaged {
        /// The file.
        file: String,
        /// Byte position in it.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// An option is out of range.
    #[error("option {0}")]
    Option(String),
    /// The operating system refused.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl OpenError {
    pub(crate) fn damaged(file: &str, offset: u64, what: impl Into<String>) -> Self {
        Self::Damaged { file: file.to_owned(), offset, what: what.into() }
    }
}
