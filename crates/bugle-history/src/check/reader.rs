//! One group in one lane: the two bounds of what is committed, and the lease that is live.

use std::ops::Range;

use uuid::Uuid;

/// See the module.
#[derive(Default)]
pub(super) struct Reader {
    /// Everything below may be committed.
    possibly: u64,
    /// Deliveries on their way that commit what they bring: beginning of the request, first, end.
    on_their_way: Vec<(u64, u64, u64)>,
    /// Everything below a position is committed, from a moment on; both grow.
    certainly: Vec<Certain>,
    pub(super) live: Option<Live>,
}

/// What is committed for certain.
#[derive(Clone, Copy)]
pub(super) struct Certain {
    /// From this moment on.
    since: u64,
    /// Everything below.
    pub(super) position: u64,
    /// It was a transaction that told so.
    pub(super) transacted: bool,
}

/// A lease that a client holds.
pub(super) struct Live {
    pub(super) lease: Uuid,
    /// It was asked for at this moment.
    pub(super) asked: u64,
    /// The client had it from this moment on.
    pub(super) received: u64,
    /// It does not end before this time.
    pub(super) until: u64,
    /// Something was sent that may have ended it.
    pub(super) released: bool,
}

impl Reader {
    /// Everything below `position` may be committed.
    pub(super) fn allow(&mut self, position: u64) {
        self.possibly = self.possibly.max(position);
    }

    /// A request has begun that will be given `first..end` and commits it by that, at some moment until it ends.
    pub(super) fn expect(&mut self, began: u64, first: u64, end: u64) {
        self.on_their_way.push((began, first, end));
    }

    /// It has ended.
    pub(super) fn arrived(&mut self, began: u64) {
        self.on_their_way.retain(|(other, ..)| *other != began);
    }

    /// Everything below may be committed.
    pub(super) fn possibly(&self) -> u64 {
        self.possibly
    }

    /// What a delivery that starts at `first`, to a request that began at this moment, leads past: what lies before it, is not
    /// committed in any case, and is not on its way to somebody else.
    pub(super) fn led_past(&self, began: u64, first: u64) -> Vec<Range<u64>> {
        let others = self.on_their_way.iter().filter(|(other, ..)| *other != began);
        let mut others: Vec<Range<u64>> = others.map(|(_, first, end)| *first..*end).collect();
        others.sort_unstable_by_key(|range| range.start);
        let (mut at, mut past) = (self.possibly, Vec::new());
        for other in others.into_iter().chain(std::iter::once(first..first)) {
            let until = other.start.min(first);
            if at < until {
                past.push(at..until);
            }
            at = at.max(other.end);
        }
        past
    }

    /// Everything below `position` is committed from this moment on.
    pub(super) fn confirm(&mut self, since: u64, position: u64, transacted: bool) {
        if self.certainly.last().is_none_or(|last| last.position < position) {
            self.certainly.push(Certain { since, position, transacted });
        }
    }

    /// What was committed for certain at a moment. Looks back over what was confirmed since, which is little: it happened
    /// during one request.
    pub(super) fn certain(&self, at: u64) -> Option<Certain> {
        self.certainly.iter().rev().find(|certain| certain.since < at).copied()
    }
}
