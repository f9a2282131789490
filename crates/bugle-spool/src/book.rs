//! What is in a spool, counted in memory: records, bytes, and how many of each lane.

use std::collections::HashMap;

use bugle_store::Spooled;

use crate::format::size_of;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    lanes: HashMap<u64, u32, foldhash::fast::RandomState>,
    pub(crate) records: u64,
    pub(crate) bytes: u64,
}

impl Counts {
    /// These came.
    pub(crate) fn add(&mut self, records: &[Spooled]) {
        self.records += records.len() as u64;
        self.bytes += size_of(records);
        for record in records {
            *self.lanes.entry(record.lane).or_default() += 1;
        }
    }

    /// These are gone.
    pub(crate) fn take(&mut self, records: &[Spooled]) {
        self.records = self.records.saturating_sub(records.len() as u64);
        self.bytes = self.bytes.saturating_sub(size_of(records));
        for record in records {
            if let Some(count) = self.lanes.get_mut(&record.lane) {
                *count = count.saturating_sub(1);
                if *count == 0 {
                    self.lanes.remove(&record.lane);
                }
            }
        }
    }

    /// All that others have counted.
    pub(crate) fn join(&mut self, other: Self) {
        self.records += other.records;
        self.bytes += other.bytes;
        for (lane, count) in other.lanes {
            *self.lanes.entry(lane).or_default() += count;
        }
    }

    /// Whether there are records of this lane.
    pub(crate) fn holds(&self, lane: u64) -> bool {
        self.lanes.contains_key(&lane)
    }
}

/// The changing part of a spool that is not on disk.
#[derive(Debug, Default)]
pub(crate) struct Book {
    pub(crate) counts: Counts,
    /// Why the last call failed.
    pub(crate) failed: Option<String>,
    /// A sync failed: what the disk holds is not known, so nothing more is confirmed.
    pub(crate) poisoned: Option<String>,
}
