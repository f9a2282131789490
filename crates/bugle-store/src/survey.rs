//! The survey: what moved anywhere, asked once for everybody who waits.
//!
//! A server that is told of changes only by hints must look for itself now and then. It asks one question for all its
//! consumers together, so that the cost of looking does not depend on how many queues, groups and consumers there are.

use crate::lane::LaneCursor;
use crate::name::{Group, LaneId, QueueId};
use crate::segment::Offset;
use crate::time::Timestamp;

/// What moved anywhere?
#[derive(Clone, Debug)]
pub struct Survey {
    /// Lanes written at or after this time. A change is seen only once it is committed, which may be later than its
    /// stamp: who asks repeatedly looks back past the longest change.
    pub since: Timestamp,
    /// (lane, group) pairs to look at again, whenever they were written: lanes known to be held or hidden.
    pub recheck: Vec<(LaneId, Group)>,
    /// Most written lanes to report.
    pub limit: usize,
    /// Text to announce, along with the question, to whoever listens to this database; engines without listeners
    /// ignore it, as they may ignore one longer than [`Survey::ANNOUNCE_MAX`].
    pub announce: Option<String>,
}

impl Survey {
    /// Longest announcement that is certain to be carried, in bytes.
    pub const ANNOUNCE_MAX: usize = 7_900;
}

/// Answer to a [`Survey`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surveyed {
    /// Written lanes, in lane id order. Lanes that never had a message are not among them.
    pub written: Vec<WrittenLane>,
    /// There were more than `limit`; reported are those written first.
    pub more: bool,
    /// One per recheck item whose lane exists, in the order asked.
    pub rechecked: Vec<LaneCursor>,
    /// Version of the catalog, as in [`crate::Snapshot::version`].
    pub catalog: u64,
    /// Something is in the inbox, if there is one.
    pub inbox: bool,
}

/// A lane that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrittenLane {
    /// The lane.
    pub id: LaneId,
    /// Its queue.
    pub queue: QueueId,
    /// The next offset to assign.
    pub head: Offset,
    /// Stamp of its newest segment.
    pub written_at: Timestamp,
}

impl WrittenLane {
    /// The `limit` lanes that were written first, in lane id order, and whether there were more: what a survey answers.
    pub fn first(mut lanes: Vec<Self>, limit: usize) -> (Vec<Self>, bool) {
        let more = lanes.len() > limit;
        if more {
            lanes.sort_unstable_by_key(|lane| (lane.written_at, lane.id));
            lanes.truncate(limit);
        }
        lanes.sort_unstable_by_key(|lane| lane.id);
        (lanes, more)
    }
}
