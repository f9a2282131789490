//! Sums as this server last read them, so that a question for all queues reads only those that changed since.
//!
//! Whoever changes sums holds the bucket's state row until the commit, and gives what it changes a new version. So
//! versions are committed in their order, and who has read a version needs only rows with a later one. That holds as long
//! as no row was deleted and the version read was not lost with a crash or a failover: the state row names the versions
//! of which it is so (`recent`). From any other everything is read anew.

use std::collections::{HashMap, HashSet};

use bugle_pg::{PgError, Row};
use bugle_store::{Group, GroupTally, QueueId, QueueTally, Timestamp};
use uuid::Uuid;

use crate::row::{from_text, get};

/// Rows of sums that are kept, queues and groups together, at most 250 bytes each. Of more than that none is kept, and each
/// question reads them all.
const MOST_KEPT: usize = 200_000;

/// What a server knows from one question to the next.
#[derive(Default)]
pub(crate) struct Counting {
    /// Buckets it has counted in. What it finds there about transactions was then written in this database, and not in
    /// another one that this one is a copy of.
    pub(crate) counted: HashSet<i32>,
    pub(crate) kept: Option<Kept>,
}

/// The sums of all queues.
pub(crate) struct Kept {
    /// Version of the catalog with these queues.
    pub(crate) catalog: i64,
    /// By id.
    queues: Vec<Uuid>,
    buckets: Vec<Bucket>,
}

struct Bucket {
    version: i64,
    sums: HashMap<Uuid, QueueTally>,
}

impl Kept {
    pub(crate) fn new(buckets: usize) -> Self {
        let bucket = || Bucket { version: -1, sums: HashMap::new() };
        Self { catalog: -1, queues: Vec::new(), buckets: (0..buckets).map(|_| bucket()).collect() }
    }

    /// The version of each bucket's sums.
    pub(crate) fn versions(&self) -> Vec<i64> {
        self.buckets.iter().map(|bucket| bucket.version).collect()
    }

    /// Whether there is room for so much.
    pub(crate) fn fits(&self) -> bool {
        let rows = |bucket: &Bucket| bucket.sums.values().map(|tally| 1 + tally.groups.len()).sum::<usize>();
        self.buckets.iter().map(rows).sum::<usize>() <= MOST_KEPT
    }

    /// See `tally_queues_since.sql`.
    pub(crate) fn take_queues(&mut self, row: &Row) -> Result<(), PgError> {
        let (version, queues): (i64, Option<Vec<Uuid>>) = (get(row, 0)?, get(row, 1)?);
        if version != self.catalog {
            (self.catalog, self.queues) = (version, queues.unwrap_or_default());
        }
        Ok(())
    }

    /// See `tally_lane_sums_since.sql`; of the same moment.
    pub(crate) fn take_sums(&mut self, bucket: usize, lanes: &Row, groups: &Row) -> Result<(), PgError> {
        let bucket = &mut self.buckets[bucket];
        let (version, base): (i64, i64) = (get(lanes, 0)?, get(lanes, 1)?);
        if base != bucket.version {
            bucket.sums.clear();
        }
        // Taken twice it is the same: the version moves when all was taken.
        each_lane_sum(lanes, 2, |queue, sum| {
            let tally = bucket.sums.entry(queue).or_insert_with(|| QueueTally::empty(QueueId(queue)));
            let groups = std::mem::take(&mut tally.groups);
            *tally = QueueTally { groups, ..sum };
        })?;
        each_group_sum(groups, 2, |queue, sum| {
            let tally = bucket.sums.entry(queue).or_insert_with(|| QueueTally::empty(QueueId(queue)));
            if sum.cursors > 0 {
                let group = sum.group.clone();
                *tally.group(&group) = sum;
            } else {
                tally.groups.retain(|group| group.group != sum.group);
            }
        })?;
        bucket.version = version;
        Ok(())
    }

    /// The sums over all buckets, by queue id.
    pub(crate) fn tallies(&self) -> Vec<QueueTally> {
        let tally = |id: &Uuid| {
            let mut parts = self.buckets.iter().filter_map(|bucket| bucket.sums.get(id));
            let first = parts.next().cloned().unwrap_or_else(|| QueueTally::empty(QueueId(*id)));
            parts.fold(first, |mut tally, part| {
                add(&mut tally, part);
                tally
            })
        };
        self.queues.iter().map(tally).collect()
    }
}

/// Add what another bucket has of the queue.
pub(crate) fn add(tally: &mut QueueTally, part: &QueueTally) {
    tally.lanes += part.lanes;
    tally.filled += part.filled;
    tally.kept += part.kept;
    tally.appended += part.appended;
    tally.dead += part.dead;
    part.groups.iter().for_each(|part| add_group(tally, part));
}

/// The same of a group.
pub(crate) fn add_group(tally: &mut QueueTally, part: &GroupTally) {
    let sum = tally.group(&part.group);
    sum.cursors += part.cursors;
    sum.passed += part.passed;
    sum.finished += part.finished;
    sum.consumed = sum.consumed.wrapping_add(part.consumed);
    sum.served_at = sum.served_at.max(part.served_at);
}

/// Sums of queues in the columns of a row, see `parts/lane_sums.sql`.
pub(crate) fn each_lane_sum(
    row: &Row,
    from: usize,
    mut take: impl FnMut(Uuid, QueueTally),
) -> Result<(), PgError> {
    let queues: Vec<Uuid> = get(row, from)?;
    let sums: Vec<Vec<i64>> = (1..6).map(|column| get(row, from + column)).collect::<Result<_, _>>()?;
    for (n, queue) in queues.into_iter().enumerate() {
        let sum = |column: usize| sums[column][n] as u64;
        let empty = QueueTally::empty(QueueId(queue));
        let (lanes, filled, kept, appended, dead) = (sum(0), sum(1), sum(2), sum(3), sum(4));
        take(queue, QueueTally { lanes, filled, kept, appended, dead, ..empty });
    }
    Ok(())
}

/// Sums of groups in the columns of a row, see `parts/group_sums.sql`.
pub(crate) fn each_group_sum(
    row: &Row,
    from: usize,
    mut take: impl FnMut(Uuid, GroupTally),
) -> Result<(), PgError> {
    let (queues, groups): (Vec<Uuid>, Vec<&str>) = (get(row, from)?, get(row, from + 1)?);
    let sums: Vec<Vec<i64>> = (2..7).map(|column| get(row, from + column)).collect::<Result<_, _>>()?;
    // Most rows name the group of the row before.
    let mut name: Group = "".into();
    for (n, (queue, group)) in queues.into_iter().zip(groups).enumerate() {
        let group = from_text(group);
        if *group != *name {
            name = group.into();
        }
        let sum = |column: usize| sums[column][n];
        let tally = GroupTally {
            cursors: sum(0) as u64,
            passed: sum(1) as u64,
            finished: sum(2) as u64,
            consumed: sum(3) as u64,
            served_at: Timestamp(sum(4)),
            ..GroupTally::empty(name.clone())
        };
        take(queue, tally);
    }
    Ok(())
}
