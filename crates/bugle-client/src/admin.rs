//! Everything that is not about single messages: queues, groups, dead letters, health.
//!
//! Answers are read leniently: what this version does not know is ignored, what an older server does not tell is zero
//! or absent.

mod group;
mod letter;
mod options;
mod queue;

use serde::Deserialize;

use crate::client::Client;
use crate::error::Error;

pub use group::{Group, GroupPartition, GroupQueue, SeekTo};
pub use letter::{DeadLetter, DeadLetterFilter, DeadLetters, Redrive, Redriven, Replayed};
pub use options::{Enforced, QueueOptions};
pub use queue::{Cleared, Configured, Counts, Depth, PartitionDepth, Queue, QueueDetail, QueuePartition};

/// Administration, by [`Client::admin`].
#[derive(Clone, Debug)]
pub struct Admin {
    client: Client,
}

impl Client {
    /// Administration.
    pub fn admin(&self) -> Admin {
        Admin { client: self.clone() }
    }

    /// How the server is. One attempt; a server that is not well is an answer, one that does not answer is an error.
    pub async fn health(&self) -> Result<Health, Error> {
        let (status, body) = self.transport.look("/health").await?;
        let health: Health = serde_json::from_slice(&body).map_err(|e| Error::Answer(e.into()))?;
        Ok(Health { healthy: status == 200, ..health })
    }
}

/// How a server is.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct Health {
    /// It lives and reaches its store.
    #[serde(skip)]
    pub healthy: bool,
    /// Its version.
    #[serde(default)]
    pub version: String,
    /// Its kind.
    #[serde(default)]
    pub server: String,
    /// Pops that wait.
    #[serde(default)]
    pub waiting: u64,
}
