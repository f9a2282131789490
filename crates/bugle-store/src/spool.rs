//! A spool: messages kept in order on a server's own disk while they must not, or may not yet, go to the store.
//!
//! It knows nothing of messages: a record is bytes, with the number of the lane that they will go to. What is taken out is
//! gone only when the caller says so, and comes again after a crash: to store it once is the caller's business.

use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;

use crate::backup::{BackupAnswer, NoFiles};

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spooled {
    /// Number of the lane, the same for all records of one lane. Two lanes may share one.
    pub lane: u64,
    /// What is kept.
    pub body: Bytes,
}

/// The oldest records, to be handed back by [`Spool::done`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpoolBatch {
    /// In the order they were put.
    pub records: Vec<Spooled>,
    /// Nothing lies behind them, and nothing is being put.
    pub last: bool,
    /// Where it ends; the spool's own.
    pub end: u64,
}

/// How a spool is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpoolState {
    /// Records in it, those included that are being put.
    pub records: u64,
    /// Bytes they take.
    pub bytes: u64,
    /// Most bytes there may be.
    pub max_bytes: u64,
    /// Why it takes nothing, or cannot be read; `None` = all is well.
    pub failed: Option<String>,
}

/// Why a spool refuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpoolError {
    /// There is no room; nothing was kept.
    #[error("the spool is full: {bytes} of {max} bytes")]
    Full {
        /// Bytes in it.
        bytes: u64,
        /// Most there may be.
        max: u64,
    },
    /// The disk failed, or what is on it is damaged. Whether records were kept is not known.
    #[error("spool: {0}")]
    Failed(String),
}

/// A spool's answer.
pub type SpoolAnswer<'a, T> = Pin<Box<dyn Future<Output = Result<T, SpoolError>> + Send + 'a>>;

/// See the module.
pub trait Spool: Send + Sync {
    /// Keep records, behind all others. Answered when they are durable. Counted in [`Spool::holds`] and [`Spool::state`] from
    /// the call on, not from the answer.
    fn put(&self, records: Vec<Spooled>) -> SpoolAnswer<'_, ()>;

    /// The oldest records: whole puts, at least one if there is any, and no more once `max_bytes` are reached.
    fn front(&self, max_bytes: usize) -> SpoolAnswer<'_, SpoolBatch>;

    /// The batch taken last by [`Spool::front`] is done with. Answered when that is durable.
    fn done(&self, batch: SpoolBatch) -> SpoolAnswer<'_, ()>;

    /// Whether there may be records of this lane.
    fn holds(&self, lane: u64) -> bool;

    /// How it is.
    fn state(&self) -> SpoolState;

    /// Begin a copy of its files, with everything that was answered before and is not done with.
    fn backup(&self) -> BackupAnswer<'_> {
        Box::pin(async { Ok(Box::new(NoFiles) as _) })
    }
}
