//! The waiting room, as operators see it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use bugle_store::{Group, Timestamp};

use super::PopTarget;
use crate::meters::WakeSource;

/// Who pops, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consumer {
    /// Where its requests come from.
    pub peer: SocketAddr,
    /// Who it is, where callers are known.
    pub subject: Option<Bytes>,
}

/// Everybody who waits on this server, and those who were served while somebody looked.
#[derive(Clone, Debug, Default)]
pub struct WaitingRoom {
    /// What is waited for, the most wanted first.
    pub keys: Vec<WaitingKey>,
    /// Of those there are so many.
    pub keys_total: usize,
    /// Who waits, the longest wait first.
    pub waiters: Vec<Waiter>,
    /// Of those there are so many.
    pub waiters_total: usize,
    /// Who was served, the latest first.
    pub served: Vec<Served>,
}

/// Something that is waited for.
#[derive(Clone, Debug)]
pub struct WaitingKey {
    /// What.
    pub target: PopTarget,
    /// Whose cursor.
    pub group: Group,
    /// How many wait.
    pub waiters: usize,
    /// Since when the first of them does.
    pub since: Timestamp,
    /// Looks of the floor in a row that found nothing.
    pub empty_checks: u32,
    /// So many that it looks less often.
    pub backed_off: bool,
    /// A claim is running.
    pub claiming: bool,
    /// Partitions that are believed to have something for them.
    pub ready: usize,
}

/// Somebody who waits.
#[derive(Clone, Debug)]
pub struct Waiter {
    /// For what.
    pub target: PopTarget,
    /// Whose cursor.
    pub group: Group,
    /// Since when.
    pub since: Timestamp,
    /// Until the wait ends.
    pub left: Duration,
    /// It has something and lets its batch grow.
    pub holding: bool,
    /// Who.
    pub consumer: Option<Consumer>,
}

/// Somebody who waited and got messages.
#[derive(Clone, Debug)]
pub struct Served {
    /// When.
    pub at: Timestamp,
    /// From which queue.
    pub queue: Arc<str>,
    /// From which partition, the first if there were several.
    pub partition: Arc<str>,
    /// Whose cursor.
    pub group: Group,
    /// What woke it last; `None` = it found messages as it came.
    pub source: Option<WakeSource>,
    /// How long it had waited.
    pub waited: Duration,
    /// Of that: since it was woken.
    pub woken: Option<Duration>,
    /// Messages it got.
    pub messages: usize,
    /// Who.
    pub consumer: Option<Consumer>,
}
