//! Names and ids of queues, lanes, groups and leases.
//!
//! A lane id is derived from its queue's id and its own name, so every server computes the same id without
//! asking the store, and it doubles as the protocol's `partitionId`. Queue ids are random: a queue that is
//! deleted and created again has new lanes.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// Longest queue, partition, group or transaction name, in bytes.
pub const NAME_MAX: usize = 255;

/// The group that anonymous consumers share.
pub const QUEUE_MODE: &str = "__QUEUE_MODE__";

/// The partition used when a push names none.
pub const DEFAULT_PARTITION: &str = "Default";

/// Name of a consumer group; cheap to clone, since it travels with every claim and ack.
pub type Group = Arc<str>;

/// Identity of one incarnation of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct QueueId(pub Uuid);

/// Identity of a lane, see [`LaneId::derive`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LaneId(pub Uuid);

/// Identity of one lease; shared by all lanes that one pop claimed.
pub type LeaseId = Uuid;

impl QueueId {
    /// A fresh random id.
    pub fn random() -> Self {
        Self(Uuid::new_v4())
    }
}

impl LaneId {
    /// The first 128 bits of SHA-256 over the queue id and the partition name.
    pub fn derive(queue: QueueId, name: &str) -> Self {
        let mut hash = Sha256::new();
        hash.update(queue.0.as_bytes());
        hash.update(name.as_bytes());
        let digest = hash.finalize();
        let mut id = [0u8; 16];
        id.copy_from_slice(&digest[..16]);
        Self(Uuid::from_bytes(id))
    }

    /// The bucket this lane belongs to when a store is divided into `buckets`.
    pub fn bucket(self, buckets: u32) -> u32 {
        (self.0.as_u128() % u128::from(buckets.max(1))) as u32
    }
}

macro_rules! show_as_uuid {
    ($($t:ty),*) => {$(
        impl fmt::Display for $t {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { self.0.fmt(f) }
        }
        impl fmt::Debug for $t {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { self.0.fmt(f) }
        }
    )*};
}
show_as_uuid!(QueueId, LaneId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lane_ids_depend_on_queue_and_name() {
        let (a, b) = (QueueId::random(), QueueId::random());
        assert_eq!(LaneId::derive(a, "x"), LaneId::derive(a, "x"));
        assert_ne!(LaneId::derive(a, "x"), LaneId::derive(a, "y"));
        assert_ne!(LaneId::derive(a, "x"), LaneId::derive(b, "x"));
    }

    #[test]
    fn buckets_cover_their_range() {
        let queue = QueueId::random();
        let seen: std::collections::HashSet<u32> =
            (0..200).map(|i| LaneId::derive(queue, &i.to_string()).bucket(4)).collect();
        assert_eq!(seen.len(), 4);
        assert_eq!(LaneId::derive(queue, "x").bucket(1), 0);
    }
}
