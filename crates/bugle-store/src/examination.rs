//! What somebody found who looked a store over without using it, and the rules that all stores are held to.
//!
//! The rules are pure functions over what was read, so that both engines are judged alike.

use serde::Serialize;

use crate::cursor::Cursor;
use crate::segment::Offset;

/// Findings that are listed; of more only the number is kept.
const MOST: usize = 200;

/// How bad something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Nothing is lost, but somebody should know.
    Warning,
    /// It could not be looked at, so nothing is known of it.
    Unknown,
    /// Something is not what was written, or not what it must be.
    Damage,
}

/// Something found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The file and the offset in it, the lane, the table.
    pub place: String,
    /// What is wrong.
    pub what: String,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Examination {
    /// What there is: names and numbers, in the order they were found.
    pub facts: Vec<(String, String)>,
    /// What is wrong, in the order it was found.
    pub findings: Vec<Finding>,
    /// Further findings that are not listed.
    pub more: u64,
    worst: Option<Severity>,
}

impl Examination {
    /// Tell a fact.
    pub fn fact(&mut self, name: impl Into<String>, value: impl ToString) {
        self.facts.push((name.into(), value.to_string()));
    }

    /// Tell a finding.
    pub fn find(&mut self, severity: Severity, place: impl Into<String>, what: impl Into<String>) {
        self.worst = self.worst.max(Some(severity));
        if self.findings.len() < MOST {
            self.findings.push(Finding { severity, place: place.into(), what: what.into() });
        } else {
            self.more += 1;
        }
    }

    /// Something is damaged.
    pub fn damage(&mut self, place: impl Into<String>, what: impl Into<String>) {
        self.find(Severity::Damage, place, what);
    }

    /// Somebody should know.
    pub fn warn(&mut self, place: impl Into<String>, what: impl Into<String>) {
        self.find(Severity::Warning, place, what);
    }

    /// Something could not be looked at.
    pub fn unknown(&mut self, place: impl Into<String>, what: impl Into<String>) {
        self.find(Severity::Unknown, place, what);
    }

    /// The worst that was found.
    pub fn worst(&self) -> Option<Severity> {
        self.worst
    }

    /// Take over what was found elsewhere.
    pub fn join(&mut self, other: Self) {
        self.worst = self.worst.max(other.worst);
        self.facts.extend(other.facts);
        self.findings.extend(other.findings);
        self.more += other.more;
    }
}

/// The first offset of `tail..head` that no segment holds. Segments are (base, count), in any order; of copies one suffices.
pub fn first_gap(tail: Offset, head: Offset, segments: &mut [(Offset, u32)]) -> Option<Offset> {
    segments.sort_unstable();
    let mut next = tail;
    for (base, count) in segments.iter() {
        if *base > next {
            break;
        }
        next = next.max(base.saturating_add(Offset::from(*count)));
    }
    (next < head).then_some(next)
}

/// What is wrong with a cursor of a lane with this head. One below the tail is right: it stands at the tail.
pub fn cursor_fault(head: Offset, cursor: &Cursor) -> Option<String> {
    if cursor.committed > head {
        return Some(format!("committed up to {}, but the lane ends at {head}", cursor.committed));
    }
    let lease = cursor.lease.as_ref()?;
    if lease.end > head {
        return Some(format!("leased up to {}, but the lane ends at {head}", lease.end));
    }
    (lease.end < cursor.committed)
        .then(|| format!("leased up to {}, but committed up to {}", lease.end, cursor.committed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cursor::Lease;
    use crate::time::Timestamp;
    use uuid::Uuid;

    #[test]
    fn a_lane_is_covered_from_tail_to_head() {
        for (tail, head, segments, gap) in [
            (0, 0, vec![], None),
            (5, 5, vec![], None),
            (0, 3, vec![], Some(0)),
            (0, 3, vec![(0, 3)], None),
            (2, 6, vec![(4, 2), (0, 4)], None),
            (2, 6, vec![(4, 2), (0, 3)], Some(3)),
            (2, 6, vec![(3, 3)], Some(2)),
            (0, 4, vec![(0, 2), (0, 2), (2, 2)], None),
            (0, 9, vec![(0, 2), (2, 2)], Some(4)),
        ] {
            assert_eq!(first_gap(tail, head, &mut segments.clone()), gap, "{tail}..{head} {segments:?}");
        }
    }

    #[test]
    fn cursors_stay_inside_their_lane() {
        let lease = |end| Some(Lease { id: Uuid::nil(), until: Timestamp::ZERO, end });
        let at = |committed, lease| Cursor { lease, ..Cursor::fresh(committed) };
        for (cursor, wrong) in [
            (at(0, None), false),
            (at(7, None), false),
            (at(8, None), true),
            (at(3, lease(7)), false),
            (at(3, lease(3)), false),
            (at(3, lease(8)), true),
            (at(3, lease(2)), true),
        ] {
            assert_eq!(cursor_fault(7, &cursor).is_some(), wrong, "{cursor:?}");
        }
    }

    #[test]
    fn the_worst_counts_however_much_is_found() {
        let mut found = Examination::default();
        (0..MOST + 5).for_each(|_| found.warn("x", "y"));
        assert_eq!((found.findings.len(), found.more, found.worst()), (MOST, 5, Some(Severity::Warning)));
        let mut other = Examination::default();
        other.damage("x", "y");
        found.join(other);
        found.unknown("x", "y");
        assert_eq!(found.worst(), Some(Severity::Damage));
    }
}
