//! Floors: what the parts a queue is made of can do at best on this machine, measured in the same run.

pub(crate) mod constant;
mod disk;
mod rows;

use anyhow::Result;

use crate::lab::Lab;
use crate::peer::Running;

/// A floor. Each only takes in; there is nothing to take out of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Floor {
    /// One row per message.
    Rows,
    /// One row per batch, holding the bytes of all its messages.
    Blob,
    /// Appending to a file and syncing it after each batch.
    Append,
    /// The same, with the batches of all connections in one sync.
    AppendTogether,
    /// HTTP requests answered by a constant.
    Constant,
}

impl Floor {
    pub(crate) const ALL: [Self; 5] =
        [Self::Rows, Self::Blob, Self::Append, Self::AppendTogether, Self::Constant];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rows => "PostgreSQL: INSERT of a row per message, a commit per batch",
            Self::Blob => "PostgreSQL: INSERT of a row per batch with the same bytes, a commit per batch",
            Self::Append => "file: append and fdatasync per batch, one after the other",
            Self::AppendTogether => "file: append, one fdatasync for the batches of all connections",
            Self::Constant => "HTTP: hyper answers a constant",
        }
    }

    pub(crate) async fn start(self, lab: &Lab) -> Result<Running> {
        match self {
            Self::Rows => Ok(rows::start(lab, rows::Piece::Message)),
            Self::Blob => Ok(rows::start(lab, rows::Piece::Batch)),
            Self::Append => Ok(disk::start(lab, disk::Sync::EachBatch)),
            Self::AppendTogether => Ok(disk::start(lab, disk::Sync::Together)),
            Self::Constant => constant::start(lab).await,
        }
    }
}
