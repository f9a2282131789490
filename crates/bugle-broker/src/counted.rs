//! The hot rules with an input each, for `bench/instructions`, which counts what they cost. The rules themselves are nobody's
//! business outside of this crate.

use bugle_store::{Cursor, Lane, LaneId, Lease, LeaseId, Now, Offset, QueueId, QueueOptions, Timestamp};

use crate::api::{AckStatus, LeaseToken};
use crate::semantics::settle::{AckIn, settle};
use crate::semantics::visible::{Visible, visible};

const HOLDER: LeaseId = LeaseId::from_u128(7);
const NOW: Now = Now { earliest: Timestamp(1_000_000_000), latest: Timestamp(1_000_005_000) };

/// A whole delivery that is acknowledged under its lease.
pub struct Settling {
    cursor: Cursor,
    acks: Vec<AckIn<'static>>,
    options: QueueOptions,
}

impl Settling {
    /// So many messages, each completed.
    pub fn new(messages: u64) -> Self {
        let first: Offset = 1000;
        let lease = Lease { id: HOLDER, until: Timestamp(NOW.latest.0 + 60_000_000), end: first + messages };
        let ack = |offset| AckIn { offset: Some(offset), status: AckStatus::Completed, error: None };
        Self {
            cursor: Cursor { epoch: 5, deliveries: 1, lease: Some(lease), ..Cursor::fresh(first) },
            acks: (first..first + messages).map(ack).collect(),
            options: QueueOptions::default(),
        }
    }

    /// Settles it; true if the lane is free then.
    pub fn settle(&self) -> bool {
        let head = self.cursor.committed + self.acks.len() as u64 + 100;
        let lease = Some(LeaseToken::Id(HOLDER));
        settle(&self.cursor, lease, &self.acks, head, &self.options, NOW).released
    }
}

/// A lane of a queue with a delay, of which part may be delivered.
pub struct Looking {
    lane: Lane,
    pending: Vec<(Offset, u32, Timestamp)>,
    options: QueueOptions,
}

impl Looking {
    /// Sixteen segments of ten messages, a second apart.
    #[expect(clippy::new_without_default, reason = "an input, not a value")]
    pub fn new() -> Self {
        let at = |second: u64| Timestamp(NOW.earliest.0 + second as i64 * 1_000_000);
        let queue = QueueId(uuid::Uuid::from_u128(1));
        let lane = Lane {
            id: LaneId::derive(queue, "p7"),
            queue,
            name: "p7".into(),
            head: 160,
            tail: 0,
            created_at: at(0),
            written_at: at(15),
            greatest: None,
        };
        let options = QueueOptions { delayed_processing: 5, ..QueueOptions::default() };
        Self { lane, pending: (0..16).map(|n| (n * 10, 10, at(n))).collect(), options }
    }

    /// Looks at the lane; true if half of it may be delivered.
    pub fn visible(&self) -> bool {
        let now = Timestamp(NOW.earliest.0 + 12_500_000);
        visible(&self.options, &self.lane, 0, &self.pending, now) == Visible::Until(80)
    }
}
