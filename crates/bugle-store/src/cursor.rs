//! Cursors: how far a group has come in a lane, and who holds it.
//!
//! A cursor is one small row that the broker computes and the store exchanges by compare-and-set on `epoch`. Claiming,
//! acknowledging, renewing, releasing and seeking are all such exchanges; the store knows none of their rules.

use crate::name::LeaseId;
use crate::segment::Offset;
use crate::time::Timestamp;

/// State of one (lane, group).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The compare-and-set version: one more with every change. 0 means "no row yet". Where it begins is the caller's
    /// choice: a row that was deleted and made again must not come to an epoch that somebody remembers.
    pub epoch: u64,
    /// The next offset to deliver: everything below is done for this group.
    pub committed: Offset,
    /// Who holds the lane now (or held it, if `until` has passed).
    pub lease: Option<Lease>,
    /// Failed deliveries charged against the retry budget of what lies at `committed`.
    pub attempts: u32,
    /// Deliveries of what lies at `committed`, expired ones included; reported as `deliveryAttempt`.
    pub deliveries: u32,
    /// Nothing is delivered before this time (retry delay). [`Timestamp::ZERO`] = no limit.
    pub not_before: Timestamp,
    /// When the group was last given messages of this lane; orders lanes fairly.
    pub served_at: Timestamp,
    /// Messages consumed so far, for statistics.
    pub consumed: u64,
}

/// A lease on a lane for one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Shared by all lanes that one pop claimed.
    pub id: LeaseId,
    /// When it ends.
    pub until: Timestamp,
    /// The delivered range is `committed..end`.
    pub end: Offset,
}

impl Cursor {
    /// A cursor that was never stored, at `committed`.
    pub fn fresh(committed: Offset) -> Self {
        Self {
            epoch: 0,
            committed,
            lease: None,
            attempts: 0,
            deliveries: 0,
            not_before: Timestamp::ZERO,
            served_at: Timestamp::ZERO,
            consumed: 0,
        }
    }
}
