//! What groups that began later never get: messages stamped up to their start, on lanes they have no cursor on.
//!
//! Tallies know nothing of starts, so such lanes are looked at. What was found is remembered: it depends only on which
//! lanes there are, where they begin, and which of them the group has a cursor on, and, if there are lanes of which the
//! group gets nothing at all, on pushes, which may change that. The tallies tell when any of it changes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use bugle_store::{Group, GroupRecord, LaneCursor, Offset, Position, QueueId, Timestamp};

use crate::api::Refused;
use crate::inner::Inner;
use crate::semantics::backlog::{self, Backlog};
use crate::semantics::subscribe;

use super::count::{Counted, Reader};

/// Lanes of queues looked at for one request.
pub(super) const MAX_LANES: u64 = 50_000;
/// Groups remembered.
const MAX_REMEMBERED: usize = 20_000;
/// A message may be stored this long after it was stamped: until then it may still come in before a start.
const LATE: Duration = Duration::from_secs(60);
/// Lanes asked about by one call.
const AT_ONCE: usize = 1000;

/// What was found, and what it depends on.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Basis {
    record: Timestamp,
    began: Timestamp,
    lanes: u64,
    cursors: u64,
    trimmed: u64,
    appended: u64,
}

impl Basis {
    /// Whether what was found on this basis is true on that of `now`.
    fn holds(self, now: Self, found: Backlog) -> bool {
        let grown = self.appended != now.appended && found.lanes > 0;
        !grown && Self { appended: now.appended, ..self } == now
    }
}

/// See the module.
#[derive(Default)]
pub(super) struct Remembered(Mutex<HashMap<(QueueId, Group), (Basis, Backlog)>>);

impl Remembered {
    fn get(&self, queue: QueueId, group: &Group, basis: Basis) -> Option<Backlog> {
        let remembered = self.0.lock();
        let (then, found) = *remembered.get(&(queue, group.clone()))?;
        then.holds(basis, found).then_some(found)
    }

    fn put(&self, queue: QueueId, group: &Group, basis: Basis, found: Backlog) {
        let mut remembered = self.0.lock();
        if remembered.len() >= MAX_REMEMBERED {
            remembered.clear();
        }
        remembered.insert((queue, group.clone()), (basis, found));
    }

    pub(super) fn forget(&self, queue: QueueId) {
        self.0.lock().retain(|(of, _), _| *of != queue);
    }
}

/// A group that may have skipped something.
struct Late {
    queue: usize,
    reader: usize,
    basis: Basis,
}

impl Inner {
    /// Take out of every backlog what the group never gets.
    pub(super) async fn leave_out_skipped(&self, counted: &mut [Counted]) -> Result<(), Refused> {
        let mut room = MAX_LANES;
        let mut open = Vec::new();
        for late in late(counted) {
            let (queue, lanes) = (counted[late.queue].queue.id, counted[late.queue].tally.lanes);
            let reader = &mut counted[late.queue].readers[late.reader];
            if let Some(found) = self.stats.skipped.get(queue, &reader.group, late.basis) {
                reader.backlog = reader.backlog.without(found);
            } else if lanes <= room {
                room -= lanes;
                open.push(late);
            } else {
                reader.at_most = true;
            }
        }
        if open.is_empty() {
            return Ok(());
        }
        let wanted: Vec<_> = open
            .iter()
            .map(|late| counted[late.queue].wanted(&counted[late.queue].readers[late.reader]))
            .collect();
        let lanes = self.lanes_with_messages(&wanted).await?;
        let settled = self.engine.now().earliest.minus(LATE);
        for (late, lanes) in open.into_iter().zip(lanes) {
            let queue = counted[late.queue].queue.id;
            let reader = &mut counted[late.queue].readers[late.reader];
            let found = self.skipped_of(reader, lanes).await?;
            if late.basis.began < settled {
                self.stats.skipped.put(queue, &reader.group, late.basis, found);
            }
            reader.backlog = reader.backlog.without(found);
        }
        Ok(())
    }

    /// What a group skips of lanes with messages for it.
    async fn skipped_of(&self, reader: &Reader, lanes: Vec<LaneCursor>) -> Result<Backlog, Refused> {
        let mut skipped = Backlog::default();
        let mut ask = Vec::new();
        for found in lanes.into_iter().filter(|found| found.cursor.is_none()) {
            let Some(at) = subscribe::begins_after(reader.start(), &found.lane) else { continue };
            if found.lane.written_at <= at {
                skipped.add(backlog::skipped(&found.lane, found.lane.head));
            } else {
                ask.push((Position { lane: found.lane.id, at }, found.lane));
            }
        }
        for some in ask.chunks(AT_ONCE) {
            let positions = some.iter().map(|(position, _)| *position).collect();
            let first: Vec<Offset> = self.watch(self.engine.position(positions).await)?;
            for ((_, lane), first) in some.iter().zip(first) {
                skipped.add(backlog::skipped(lane, first));
            }
        }
        Ok(skipped)
    }
}

fn late(counted: &[Counted]) -> Vec<Late> {
    let mut late = Vec::new();
    for (q, queue) in counted.iter().enumerate() {
        for (r, reader) in queue.readers.iter().enumerate() {
            let created_at = queue.queue.created_at;
            let began = backlog::began(reader.start(), &queue.tally, &reader.tally, created_at);
            if let (Some(began), Some(record)) = (began, &reader.record) {
                late.push(Late { queue: q, reader: r, basis: basis(queue, reader, record, began) });
            }
        }
    }
    late
}

fn basis(queue: &Counted, reader: &Reader, record: &Arc<GroupRecord>, began: Timestamp) -> Basis {
    Basis {
        record: record.created_at,
        began,
        lanes: queue.tally.lanes,
        cursors: reader.tally.cursors,
        // The sum of all tails.
        trimmed: queue.tally.appended.saturating_sub(queue.tally.kept),
        appended: queue.tally.appended,
    }
}
